"""Old pickles, read by an allow-list: models and vocabularies come over whole; what is hostile is refused and never run."""

import json
import pickle
import subprocess
import sys
import types
from collections import Counter

import pytest
import torch

from bert_pytorch import BERTLM
from bert_pytorch.allow_list import unpickle
from bert_pytorch.dataset.vocab import Vocab
from bert_pytorch.errors import InputError
from bert_pytorch.interop.as_checkpoint import write_as_checkpoint
from bert_pytorch.interop.huggingface import load_pretrained
from bert_pytorch.interop.inspecting import inspect, names_in
from bert_pytorch.interop.legacy import load_old_model, load_old_vocab
from bert_pytorch.interop.weights import write_safetensors
from bert_pytorch.trainer import load_checkpoint, load_model

from .examples import SOURCE, assert_one_line, load_script, make_vocab, story_pairs
from .hub_folders import make_lm
from .lookalikes import doubled, hostile, write_files, write_hostile

WORDS = ["<pad>", "<unk>", "<eos>", "<sos>", "<mask>", *(f"w{i}" for i in range(18))]


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    folder = tmp_path_factory.mktemp("old")
    write_files(folder)
    return folder


@pytest.fixture(scope="module")
def weights(old):
    return torch.load(old / "weights.pt", weights_only=True)


def expected_state(weights):
    """The weights of the old package under our names, one by one."""
    state = {f"bert.embedding.{name}.weight": weights[f"bert.embedding.{name}.weight"] for name in ("token", "segment")}
    for i in range(2):
        ours = theirs = f"bert.transformer_blocks.{i}."
        for kind in ("weight", "bias"):
            parts = [weights[f"{theirs}attention.linear_layers.{part}.{kind}"] for part in range(3)]
            state[f"{ours}attention.qkv_linear.{kind}"] = torch.cat(parts)
            for name in ("attention.output_linear", "feed_forward.w_1", "feed_forward.w_2"):
                state[f"{ours}{name}.{kind}"] = weights[f"{theirs}{name}.{kind}"]
        for name, norm in {"attention_norm": "input_sublayer", "feed_forward_norm": "output_sublayer"}.items():
            state[f"{ours}{name}.weight"] = weights[f"{theirs}{norm}.norm.a_2"]
            state[f"{ours}{name}.bias"] = weights[f"{theirs}{norm}.norm.b_2"]
    return state


@pytest.mark.parametrize("name", ["bert.model.ep0", "early.ep0", "parallel.ep0", "lm.ep0"])
def test_every_form_of_an_old_model_comes_over(name, old, weights):
    model, new = load_old_model(old / name)
    sizes = {"vocab_size": 23, "hidden": 15, "n_layers": 2, "attn_heads": 3, "dropout": 0.2, "max_len": 31}
    assert model.bert.config == {**sizes, "architecture": "bert-pytorch"}
    assert not model.training
    state, expected = model.state_dict(), expected_state(weights)
    assert [key for key, value in expected.items() if not torch.equal(state[key], value)] == []
    assert {key for key in state if key.startswith("bert.")} == expected.keys()
    heads = {"next_sentence.linear": "next_sentence.linear", "mask_lm.decoder": "mask_lm.linear"}
    if name == "lm.ep0":
        assert new == []
        for ours, theirs in heads.items():
            assert torch.equal(state[f"{ours}.weight"], weights[f"{theirs}.weight"])
    else:
        assert {key.rpartition(".")[0] for key in new} == heads.keys()


def test_an_old_model_becomes_a_checkpoint_with_its_vocabulary(old, tmp_path, capsys):
    main = load_script("inference-and-export", "convert_legacy").main
    output, vocab = tmp_path / "m.ep0", tmp_path / "vocab.json"
    flags = ["--model", old / "lm.ep0", "--vocab", old / "vocab.pkl", "--output", output, "--output_vocab", vocab]
    assert main(list(map(str, flags))) == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (report["begins_anew"], report["vocab_size"], report["sizes"]["architecture"]) == ([], 23, "bert-pytorch")
    loaded = Vocab.load_vocab(vocab)
    assert (loaded.itos, loaded.freqs["w3"]) == (WORDS, 47)
    assert load_checkpoint(output)["settings"]["vocab_sha256"] == loaded.fingerprint
    one, other = load_model(output).state_dict(), load_old_model(old / "lm.ep0")[0].state_dict()
    assert all(torch.equal(one[name], other[name]) for name in other)
    assert torch.equal(BERTLM.from_pretrained(output).bert.embedding.token.weight, one["bert.embedding.token.weight"])
    assert main(["--vocab", str(old / "vocab.pkl"), "--output_vocab", str(tmp_path / "again.json"), "--json"]) == 0


def test_what_a_head_without_learning_says_is_no_answer(old, tmp_path, capsys):
    main = load_script("inference-and-export", "convert_legacy").main
    model, vocab = str(tmp_path / "m.ep0"), str(tmp_path / "vocab.json")
    flags = ["--vocab", str(old / "vocab.pkl"), "--output", model, "--output_vocab", vocab]
    for name, status in (("bert.model.ep0", 1), ("lm.ep0", 0)):
        assert main(["--model", str(old / name), *flags]) == 0
        fill = load_script("inference-and-export", "fill_mask").main
        assert fill(["--model", model, "--vocab_path", vocab, "--text", "w1 <mask> w2"]) == status
        report = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert report.get("code") == ("E-INFER-HEAD" if status else None)


def test_heads_that_begin_anew_repeat_with_the_seed(old, tmp_path, capsys):
    main = load_script("inference-and-export", "convert_legacy").main
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        assert main(["--model", str(old / "early.ep0"), "--output", str(tmp_path / name), "--seed", seed]) == 0
    a, b, c = (load_model(tmp_path / name).state_dict()["mask_lm.decoder.weight"] for name in "abc")
    assert torch.equal(a, b)
    assert not torch.equal(a, c)
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert report["begins_anew"] == ["mask_lm", "next_sentence"]


@pytest.mark.parametrize("module", ["vocab", "palmtree.vocab", "logbert.dataset.vocab", "src.palmtree.vocab"])
@pytest.mark.parametrize("name", ["WordVocab", "Vocab", "TorchVocab"])
def test_vocabularies_of_forks_differ_in_the_name_of_the_module_alone(module, name, tmp_path, monkeypatch):
    fork = types.ModuleType(module)
    kind = type(name, (), {"__module__": module})
    setattr(fork, name, kind)
    parts = module.split(".")
    for i in range(1, len(parts)):
        monkeypatch.setitem(sys.modules, ".".join(parts[:i]), types.ModuleType(".".join(parts[:i])))
    monkeypatch.setitem(sys.modules, module, fork)
    vocab = kind()
    vocab.itos, vocab.freqs = list(WORDS), Counter({"w1": 3})
    vocab.stoi = {word: i for i, word in enumerate(WORDS)}
    (tmp_path / "vocab.pkl").write_bytes(pickle.dumps(vocab))
    loaded = load_old_vocab(tmp_path / "vocab.pkl")
    assert (loaded.itos, loaded.freqs, loaded.to_seq("w1 x")) == (WORDS, Counter({"w1": 3}), [6, 1])
    assert inspect(tmp_path / "vocab.pkl")["kind"] == "old-vocabulary"


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ({"itos": WORDS[1:], "freqs": Counter()}, "its first words are not"),
        ({"itos": [*WORDS, "w1"], "freqs": Counter()}, "a word stands in it twice"),
        ({"itos": WORDS}, "its counts are missing"),
        ({"itos": [*WORDS[:5], 7], "freqs": Counter()}, "its first words are not"),
    ],
)
def test_a_pickle_that_is_no_vocabulary_is_refused(state, says, tmp_path, monkeypatch):
    fork = types.ModuleType("forked.vocab")
    fork.WordVocab = type("WordVocab", (), {"__module__": "forked.vocab"})
    monkeypatch.setitem(sys.modules, "forked", types.ModuleType("forked"))
    monkeypatch.setitem(sys.modules, "forked.vocab", fork)
    vocab = fork.WordVocab()
    vars(vocab).update(state)
    (tmp_path / "vocab.pkl").write_bytes(pickle.dumps(vocab))
    with pytest.raises(InputError, match=says) as caught:
        load_old_vocab(tmp_path / "vocab.pkl")
    assert_one_line(caught.value, tmp_path, "E-VOCAB-FILE")


def test_what_an_old_file_lacks_or_contradicts_is_said(old, tmp_path):
    content = (old / "bert.model.ep0").read_bytes()
    for size in (3, 100, len(content) // 2, len(content) - 1):
        (tmp_path / "cut.ep0").write_bytes(content[:size])
        with pytest.raises(InputError) as caught:
            load_old_model(tmp_path / "cut.ep0")
        assert_one_line(caught.value, tmp_path, "E-LEGACY-FILE")
    early = (old / "early.ep0").read_bytes()
    for size in range(1, len(early), len(early) // 23):
        (tmp_path / "cut.ep0").write_bytes(early[:size])
        with pytest.raises(InputError):
            load_old_model(tmp_path / "cut.ep0")
    torch.save({"a": torch.ones(2)}, tmp_path / "dict.ep0")
    with pytest.raises(InputError, match="holds no model of bert-pytorch"):
        load_old_model(tmp_path / "dict.ep0")
    with pytest.raises(InputError, match="cannot be read"):
        load_old_model(tmp_path / "missing.ep0")


def test_a_vocabulary_of_another_length_is_refused(old, tmp_path, capsys):
    make_vocab(story_pairs()).save_vocab(tmp_path / "other.json")
    flags = ["--model", old / "lm.ep0", "--vocab", tmp_path / "other.json", "--output", tmp_path / "m"]
    main = load_script("inference-and-export", "convert_legacy").main
    assert main([*map(str, flags), "--output_vocab", str(tmp_path / "v.json")]) == 1
    assert json.loads(capsys.readouterr().out)["code"] == "E-EXPORT-VOCAB"
    assert not (tmp_path / "m").exists()


def test_doubled_tuples_are_refused_and_plain_ones_are_not():
    value = {"a": ((1, 2), (1, 2)), "b": [((i,), (i,)) for i in range(99)]}
    shared = (1, 2)
    for protocol in range(2, 6):
        assert unpickle(pickle.dumps(value, protocol), lambda *_: None) == value
        assert unpickle(pickle.dumps([(shared, shared)] * 50, protocol), lambda *_: None) == [(shared, shared)] * 50
    with pytest.raises(pickle.UnpicklingError, match="too many times over"):
        unpickle(doubled(), lambda *_: None)
    with pytest.raises(pickle.UnpicklingError, match="doubles an object"):
        unpickle(b"\x80\x02K\x012\x86.", lambda *_: None)


PROGRAM = """
import json, os, resource, sys, time, warnings
from pathlib import Path
warnings.simplefilter("ignore")
import torch
from bert_pytorch.dataset.vocab import Vocab
from bert_pytorch.errors import UserError
from bert_pytorch.interop.huggingface import load_pretrained
from bert_pytorch.interop.inspecting import inspect
from bert_pytorch.interop.legacy import load_old_model, load_old_vocab
from bert_pytorch.interop.weights import read_tensors
hub, paths = Path(sys.argv[1]), [Path(each) for each in sys.argv[2:]]
def as_hub(path):
    (hub / "pytorch_model.bin").write_bytes(path.read_bytes())
    load_pretrained(hub)
pages = int(Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + (256 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
found = {}
for path in paths:
    for read in (load_old_model, load_old_vocab, Vocab.load_vocab, read_tensors, as_hub, inspect):
        began = time.perf_counter()
        try:
            result = read(path)
            said = result["kind"] if read is inspect else "taken"
        except UserError as error:
            said = str(error)
        found[f"{path.name} {read.__name__}"] = [said, time.perf_counter() - began]
print(json.dumps(found))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits memory as Linux does")
def test_hostile_files_are_refused_in_bounded_memory_and_time_and_nothing_runs(tmp_path):
    from bert_pytorch.interop.huggingface import export_model

    export_model(make_lm(23), None, tmp_path / "hub")
    (tmp_path / "hub" / "model.safetensors").unlink()
    paths = write_hostile(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path / "hub", *paths],
        capture_output=True,
        text=True,
        timeout=120,
        env={"PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert len(found) == 6 * len(hostile(tmp_path))
    assert {name: said for name, (said, _) in found.items() if said == "taken"} == {}
    assert {name: seconds for name, (_, seconds) in found.items() if seconds > 10} == {}
    refused = {name: said for name, (said, _) in found.items() if not name.endswith("inspect")}
    codes = {said.rpartition("[")[2].rstrip("]") for said in refused.values()}
    assert codes == {"E-LEGACY-FILE", "E-VOCAB-FILE", "E-HUB-WEIGHTS"}
    assert all("\n" not in said for said in refused.values())
    assert not (tmp_path / "ran").exists()
    for name, words in {
        "command.bin load_old_model": "refers to posix.system",
        "zips.bin load_old_model": "is an archive within the archive",
        "path.bin load_old_model": "leads out of the archive",
        "packed.bin load_old_model": "is packed",
        "doubled.bin load_old_model": "too many times over",
        "doubled.bin load_vocab": "too many times over",
    }.items():
        assert words in found[name][0], found[name]
    assert found["command.bin inspect"][0] == "objects"


def test_names_that_read_as_paths_are_refused(tmp_path):
    from bert_pytorch.interop.huggingface import export_model

    export_model(make_lm(23), None, tmp_path / "hub")
    for name in ("../../w", "/w", "a/b", "a b", ""):
        write_safetensors(tmp_path / "hub" / "model.safetensors", {name: torch.ones(2)})
        with pytest.raises(InputError, match=r"is no name of a tensor; do not trust this file") as caught:
            load_pretrained(tmp_path / "hub")
        assert_one_line(caught.value, tmp_path, "E-HUB-WEIGHTS")


def test_what_is_in_a_file_is_told(old, tmp_path):
    facts = inspect(old / "bert.model.ep0")
    assert (facts["kind"], facts["sizes"]["hidden"]) == ("old-model", 15)
    assert inspect(old / "early.ep0")["kind"] == "old-model"
    assert inspect(old / "vocab.pkl")["vocab_size"] == 23
    assert inspect(old / "weights.pt")["kind"] == "tensors"
    vocab = make_vocab(story_pairs())
    model = make_lm(len(vocab))
    with torch.no_grad():
        model.mask_lm.norm.bias[0] = float("nan")
    write_as_checkpoint(tmp_path / "m.ep0", model, vocab)
    facts = inspect(tmp_path / "m.ep0")
    assert (facts["kind"], facts["steps"], facts["not_finite"]) == ("checkpoint", 0, ["mask_lm.norm.bias"])
    assert facts["parameters"] == sum(each.numel() for each in model.parameters())
    assert facts["tensors"]["bert.embedding.token.weight"] == [len(vocab), 20]
    vocab.save_vocab(tmp_path / "vocab.json")
    assert inspect(tmp_path / "vocab.json")["vocab_sha256"] == vocab.fingerprint == facts["settings"]["vocab_sha256"]


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_names_in_a_pickle_are_found_in_every_protocol(protocol, tmp_path):
    (tmp_path / "p").write_bytes(pickle.dumps([Counter(a=1), print, Counter(b=2), types.SimpleNamespace], protocol))
    builtin = "__builtin__" if protocol < 3 else "builtins"
    assert {"collections.Counter", f"{builtin}.print", "types.SimpleNamespace"} <= set(names_in(tmp_path / "p"))
