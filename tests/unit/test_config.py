"""YAML files that stand for flags of `bert`."""

import json

import pytest
import torch

from bert_pytorch import parse_args
from bert_pytorch.cli import bert_parser, train

from .examples import ROOT, make_vocab, story_pairs, write_pairs

REQUIRED = ["-c", "corpus.txt", "-v", "vocab.json", "-o", "out/bert.model"]
SECOND = """
hidden: 24
layers: 3
lr: 2e-3
packing: true
with_cuda: false
group-by-length: false
cuda_devices: [0, 1]
objective: mlm
train_dataset: a b.txt
"""


@pytest.fixture
def config(tmp_path):
    def write(text):
        path = tmp_path / "run.yaml"
        path.write_text(text)
        return str(path)

    return write


def test_a_file_is_the_flags_it_names(config):
    args = parse_args(["--config", config(SECOND), *REQUIRED[2:]])
    flags = "-hs 24 -l 3 --lr 2e-3 --packing --with_cuda false --cuda_devices 0 1 --objective mlm".split()
    expected = parse_args(["-c", "a b.txt", *REQUIRED[2:], *flags])
    assert {**vars(args), "config": None} == vars(expected)


@pytest.mark.parametrize("place", [0, 2, 6])
def test_the_command_line_wins_wherever_the_file_is_named(config, place):
    words = [*REQUIRED, "-hs", "48"]
    words[place:place] = ["--config", config("hidden: 24\nlayers: 3\n")]
    args = parse_args(words)
    assert (args.hidden, args.layers) == (48, 3)


@pytest.mark.parametrize("flag", ["--config", "--conf", "--con"])
@pytest.mark.parametrize("equals", [True, False])
def test_the_flag_is_read_however_it_is_written(config, flag, equals):
    path = config("hidden: 24\n")
    assert parse_args([*REQUIRED, *([f"{flag}={path}"] if equals else [flag, path])]).hidden == 24


def test_an_empty_file_changes_nothing(config):
    args = parse_args(["--config", config("# nothing\n"), *REQUIRED])
    assert {**vars(args), "config": None} == vars(parse_args(REQUIRED))


@pytest.mark.parametrize(
    ("text", "message", "code"),
    [
        ("hiden: 8", "unknown setting hiden; did you mean hidden?", "E-CONFIG-KEY"),
        ("zzzzzz: 8", "unknown setting zzzzzz; bert --help lists the names", "E-CONFIG-KEY"),
        ("config: other.yaml", "unknown setting config", "E-CONFIG-KEY"),
        ("7: 8", "unknown setting 7", "E-CONFIG-KEY"),
        ("packing: 1", "packing is 1, expected true or false", "E-CONFIG-VALUE"),
        ("hidden: [8]", "hidden is [8], expected one value", "E-CONFIG-VALUE"),
        ("hidden:", "hidden is None, expected one value", "E-CONFIG-VALUE"),
        ("hidden: 0", "expected at least 1, got 0", "E-USAGE"),
        ("hidden: many", "expected a whole number, got 'many'", "E-USAGE"),
        ("architecture: gpt", "gpt", "E-USAGE"),
        ("[8]", "expected names and values, got a list", "E-CONFIG-YAML"),
        ("hidden: {", "no YAML", "E-CONFIG-YAML"),
        ("\x00", "no YAML", "E-CONFIG-YAML"),
    ],
)
def test_a_bad_file_is_wrong_usage_in_one_line(config, capsys, text, message, code):
    with pytest.raises(SystemExit) as end:
        parse_args(["--config", config(text), *REQUIRED])
    assert end.value.code == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert message in error
    assert error.endswith(f"[{code}]")


def test_every_flag_can_stand_in_a_file(config):
    values = {}
    for flag, action in bert_parser().flags.items():
        if flag.startswith("--") and flag not in ("--config", "--help", "--resume"):
            values[flag[2:]] = "true" if action.nargs == 0 else repr((action.choices or ["1"])[0]).replace("'1'", "1")
    values |= {
        "seq_len": "5",
        "with_cuda": "true",
        "on_memory": "true",
        "mlm_probability": "0.5",
        "dropout": "0",
        "warmup_ratio": "0.1",
        "label_smoothing_factor": "0.1",
    }
    values |= {"adam_beta1": "0", "adam_beta2": "0", "lr_scheduler_kwargs": "{power: 2}", "optim_args": "{}"}
    values |= {"greater_is_better": "true"}
    args = parse_args(["--config", config("".join(f"{name}: {value}\n" for name, value in values.items()))])
    assert args.layers == 1
    assert args.span_masking is True
    assert args.lr_scheduler_kwargs == {"power": 2}


@pytest.mark.parametrize("path", sorted(ROOT.glob("skills/training/assets/*.yaml")), ids=lambda path: path.name)
def test_every_shipped_file_is_read_and_trains(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_pairs("corpus.txt", story_pairs())
    make_vocab(story_pairs()).save_vocab("vocab.json")
    sizes = "-c corpus.txt -v vocab.json -o out/m -hs 8 -l 1 -a 2 -s 13 -e 1 --device cpu".split()
    assert train(["--config", str(path), *sizes]) == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert report["steps"] == 1
    args = parse_args(["--config", str(path), *sizes])
    assert torch.load("out/m.ep0")["model_config"]["architecture"] == args.architecture == "modernbert"
