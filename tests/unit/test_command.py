"""How the commands read their flags and how they end."""

import json

import pytest

from bert_pytorch import parse_args
from bert_pytorch.cli import build_vocab, train
from bert_pytorch.command import Parser, run

from .examples import start_python, story_pairs, write_pairs

REQUIRED = ["-c", "corpus.txt", "-v", "vocab.json", "-o", "out/bert.model"]
ANCESTOR_FLAGS = [
    ("-t", "--test_dataset", "held.txt", "held.txt", None),
    ("-hs", "--hidden", "12", 12, 256),
    ("-l", "--layers", "3", 3, 8),
    ("-a", "--attn_heads", "4", 4, 8),
    ("-s", "--seq_len", "30", 30, 20),
    ("-b", "--batch_size", "5", 5, 64),
    ("-e", "--epochs", "7", 7, 10),
    (None, "--with_cuda", "False", False, True),
    (None, "--log_freq", "3", 3, 10),
    (None, "--corpus_lines", "9", 9, None),
    (None, "--on_memory", "False", False, True),
    (None, "--lr", "0.5", 0.5, 1e-3),
    (None, "--adam_weight_decay", "0.25", 0.25, 0.01),
    (None, "--adam_beta1", "0.5", 0.5, 0.9),
    (None, "--adam_beta2", "0.25", 0.25, 0.999),
]
OUT_OF_RANGE = [
    ("--epochs", "0", "-1", "2.5", "many", ""),
    ("--batch_size", "0", "-3", "x"),
    ("--hidden", "0", "-8", "8.0"),
    ("--layers", "0"),
    ("--attn_heads", "0"),
    ("--seq_len", "4", "0", "-20"),
    ("--num_workers", "-1", "two"),
    ("--log_freq", "0"),
    ("--corpus_lines", "0", "-1"),
    ("--cuda_devices", "-1", "x"),
    ("--lr", "0", "-0.1", "nan", "inf", "fast"),
    ("--adam_weight_decay", "-0.1", "nan"),
    ("--adam_beta1", "1", "-0.1", "nan"),
    ("--adam_beta2", "1", "1.5"),
    ("--max_steps", "0", "-1"),
    ("--warmup_steps", "-1", "0.1x"),
    ("--max_grad_norm", "-1", "nan"),
    ("--dropout", "1", "-0.1", "nan"),
    ("--seed", "-1", "x", "99999999999999999999999999"),
    ("--device", "tpu", "CUDA"),
    ("--architecture", "gpt"),
    ("--stop_after_epochs", "0"),
    ("--gradient_accumulation_steps", "0", "x"),
]


@pytest.fixture
def corpus(tmp_path, monkeypatch, capsys):
    """A corpus and its vocabulary in the working directory."""
    monkeypatch.chdir(tmp_path)
    write_pairs("corpus.txt", story_pairs())
    assert build_vocab(["-c", "corpus.txt", "-o", "vocab.json"]) == 0
    capsys.readouterr()


@pytest.fixture
def ending(capsys):
    """Runs a command; its exit status, the closing JSON, and stderr."""

    def call(command, *arguments):
        try:
            status = command(list(arguments))
        except SystemExit as end:
            status = end.code
        out, err = capsys.readouterr()
        lines = out.splitlines()
        assert len(lines) == 1, out
        return status, json.loads(lines[0]), err

    return call


def assert_failed(end, status, code):
    """Exit status and code, and the same one-line message in the JSON and on stderr."""
    assert end[0] == status
    assert end[1]["ok"] is False
    assert end[1]["code"] == code
    assert end[1]["error"] in end[2]
    assert end[2].splitlines()[-1].endswith(f"[{code}]")
    assert "\n" not in end[1]["error"]
    assert "Traceback" not in end[2]


@pytest.mark.parametrize(("short", "long", "text", "value", "default"), ANCESTOR_FLAGS)
def test_every_flag_of_the_ancestor_is_kept_with_its_default(short, long, text, value, default):
    name = long[2:]
    assert getattr(parse_args(REQUIRED), name) == default
    for flag in filter(None, (short, long)):
        found = getattr(parse_args([*REQUIRED, flag, text]), name)
        assert (found, type(found)) == (value, type(value))


def test_required_flags_and_lists_of_the_ancestor():
    parsed = parse_args(["--train_dataset", "c", "--vocab_path", "v", "--output_path", "o", "--cuda_devices", "0", "2"])
    assert (parsed.train_dataset, parsed.vocab_path, parsed.output_path, parsed.cuda_devices) == ("c", "v", "o", [0, 2])
    assert parse_args([*REQUIRED, "-w", "3"]).num_workers == parse_args([*REQUIRED, "--num_workers", "3"]).num_workers == 3


@pytest.mark.parametrize("flag", ["--with_cuda", "--on_memory"])
@pytest.mark.parametrize("text", ["true", "True", "TRUE", "yes", "Yes", "1"])
def test_words_for_true(flag, text):
    assert getattr(parse_args([*REQUIRED, flag, text]), flag[2:]) is True


@pytest.mark.parametrize("flag", ["--with_cuda", "--on_memory"])
@pytest.mark.parametrize("text", ["false", "False", "FALSE", "no", "No", "0"])
def test_words_for_false(flag, text):
    assert getattr(parse_args([*REQUIRED, flag, text]), flag[2:]) is False


@pytest.mark.parametrize("flag", ["--with_cuda", "--on_memory"])
@pytest.mark.parametrize("text", ["maybe", "2", "", "t", "truee", "none", "-1"])
def test_any_other_word_is_wrong_usage(flag, text, ending):
    assert_failed(ending(train, *REQUIRED, f"{flag}={text}"), 2, "E-USAGE")


@pytest.mark.parametrize(("flag", "text"), [(flag, text) for flag, *texts in OUT_OF_RANGE for text in texts])
def test_a_value_out_of_range_is_wrong_usage(flag, text, ending):
    end = ending(train, *REQUIRED, f"{flag}={text}")
    assert_failed(end, 2, "E-USAGE")
    assert flag in end[1]["error"]


@pytest.mark.parametrize(("flag", "text"), [("-s", "0"), ("-s", "-1"), ("-s", "x"), ("-m", "0"), ("-m", "1.5")])
def test_a_value_out_of_range_for_the_vocabulary_is_wrong_usage(flag, text, ending):
    assert_failed(ending(build_vocab, "-c", "corpus.txt", "-o", "vocab.json", flag, text), 2, "E-USAGE")


@pytest.mark.parametrize(("command", "missing"), [(train, "--train_dataset"), (build_vocab, "--corpus_path")])
def test_required_flags_that_are_missing_are_named(command, missing, ending):
    end = ending(command)
    assert_failed(end, 2, "E-USAGE")
    assert missing in end[1]["error"]


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("--epoch_s", "--epochs"),
        ("--hiden", "--hidden"),
        ("--seqlen", "--seq_len"),
        ("--on-memry", "--on_memory"),
        ("--skip-bad-line-s", "--skip_bad_lines"),
        ("--batchsize=7", "--batch_size"),
    ],
)
def test_an_unknown_flag_is_refused_with_the_nearest_one(wrong, near, ending):
    end = ending(train, *REQUIRED, wrong, "1")
    assert_failed(end, 2, "E-USAGE")
    assert f"did you mean {near}?" in end[1]["error"]


@pytest.mark.parametrize("wrong", ["--zzzzzz", "stray", "-q"])
def test_an_unknown_word_with_no_flag_near_is_refused_too(wrong, ending):
    end = ending(train, *REQUIRED, wrong)
    assert_failed(end, 2, "E-USAGE")
    assert "did you mean" not in end[1]["error"]


@pytest.mark.parametrize(
    ("hyphens", "name", "value"),
    [
        (["--batch-size", "7"], "batch_size", 7),
        (["--batch-size=7"], "batch_size", 7),
        (["--adam-weight-decay", "0.5"], "adam_weight_decay", 0.5),
        (["--on-memory=false"], "on_memory", False),
        (["--skip-bad-lines"], "skip_bad_lines", True),
        (["--resume-from-checkpoint", "last"], "resume_from_checkpoint", "last"),
        (["--resume", "x"], "resume_from_checkpoint", "x"),
        (["--output_path=a-b--c_d"], "output_path", "a-b--c_d"),
        (["--test_dataset", "my-file-name.txt"], "test_dataset", "my-file-name.txt"),
    ],
)
def test_hyphens_may_stand_for_underscores_in_flags_and_never_in_values(hyphens, name, value):
    assert getattr(parse_args([*REQUIRED, *hyphens]), name) == value


@pytest.mark.parametrize(
    "flags",
    [
        ["--device", "cuda", "--with_cuda", "false"],
        ["--device", "cpu", "--cuda_devices", "0"],
        ["--with_cuda", "false", "--cuda_devices", "0"],
        ["-e", "2", "--stop_after_epochs", "3"],
    ],
)
def test_flags_that_contradict_or_have_no_effect_are_wrong_usage(corpus, flags, ending):
    assert_failed(ending(train, *REQUIRED, *flags), 2, "E-SETTING-CONFLICT")


def test_a_gpu_that_is_not_there_is_3(corpus, monkeypatch, ending):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    end = ending(train, *REQUIRED, "--device", "cuda")
    assert_failed(end, 3, "E-DEVICE-CUDA")
    assert "--device cpu" in end[1]["error"]


def test_a_package_that_is_not_there_is_3_with_the_install_line(corpus, monkeypatch, ending):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    end = ending(train, *REQUIRED)
    assert_failed(end, 3, "E-DEPENDENCY")
    assert "pip install" in end[1]["error"]


def test_an_interruption_ends_with_json_too(ending):
    def work(_):
        raise KeyboardInterrupt

    end = ending(lambda argv: run(Parser(prog="bert"), work, argv))
    assert_failed(end, 130, "E-INTERRUPTED")


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (["-c", "missing.txt"], "E-FILE-READ"),
        (["-t", "missing.txt"], "E-FILE-READ"),
        (["-v", "missing.json"], "E-FILE-READ"),
        (["-v", "corpus.txt"], "E-VOCAB-FILE"),
        (["-hs", "10", "-a", "3"], "E-MODEL-HEADS"),
        (["--encoding", "klingon"], "E-ENCODING-NAME"),
        (["--encoding", "rot13"], "E-ENCODING-NAME"),
        (["--corpus_lines", "1000"], "E-CORPUS-LINES"),
        (["-e", "2", "-b", "4", "--warmup_steps", "6"], "E-SCHEDULE-WARMUP"),
        (["--resume", "last"], "E-CHECKPOINT-NONE"),
        (["--resume", "missing.ep0"], "E-CHECKPOINT-READ"),
        (["--resume", "corpus.txt"], "E-CHECKPOINT-DAMAGED"),
    ],
)
def test_what_cannot_be_used_is_found_before_the_first_step(corpus, tmp_path, flags, code, ending):
    small = ["-hs", "8", "-l", "1", "-a", "2"]
    assert_failed(ending(train, *REQUIRED, *small, *flags), 1, code)
    assert not list(tmp_path.glob("out/bert.model*"))


@pytest.mark.parametrize("command", ["bert", "bert-vocab"])
@pytest.mark.parametrize("output", ["corpus.txt/model", "folder"])
def test_an_output_that_cannot_be_written_is_named_as_it_was_given(corpus, tmp_path, command, output, ending):
    (tmp_path / "folder").mkdir()
    if command == "bert":
        end = ending(train, *REQUIRED[:4], "-o", output)
    else:
        end = ending(build_vocab, "-c", "corpus.txt", "-o", output)
    assert_failed(end, 1, "E-SAVE")
    assert end[1]["error"].startswith(f"{output}:")


def test_the_module_is_the_command(tmp_path):
    process = start_python("-m", "bert_pytorch", "--epochs", "0", folder=tmp_path)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert json.loads(out.splitlines()[-1])["code"] == "E-USAGE"
    assert "--epochs" in err


def test_the_old_names_are_the_commands(corpus, monkeypatch, ending):
    from bert_pytorch.__main__ import train as old_train
    from bert_pytorch.dataset.vocab import build

    monkeypatch.setattr("sys.argv", ["bert-vocab", "-c", "corpus.txt", "-o", "other.json", "-s", "3", "-m", "2"])
    status, report, _ = ending(lambda _: build())
    assert (status, report["vocab_size"]) == (0, 8)
    monkeypatch.setattr("sys.argv", ["bert", "--epochs", "none"])
    assert_failed(ending(lambda _: old_train()), 2, "E-USAGE")


def test_an_error_nobody_foresaw_keeps_its_traceback_and_ends_with_json(capsys):
    def work(_):
        raise TypeError("a fault of ours")

    with pytest.raises(TypeError, match="a fault of ours"):
        run(Parser(prog="bert"), work, [])
    assert json.loads(capsys.readouterr().out)["code"] == "E-UNEXPECTED"
