"""Models as graphs of other programs, which give what the models give; and weights alone."""

import json
import subprocess
import sys

import pytest
import torch

from bert_pytorch import BERT, BERTLM
from bert_pytorch.errors import InputError
from bert_pytorch.interop import graphs
from bert_pytorch.interop.as_checkpoint import write_as_checkpoint
from bert_pytorch.interop.weights import read_tensors

from .examples import load_script, make_vocab, story_pairs
from .hub_folders import make_lm

VOCAB = make_vocab(story_pairs())
ARCHITECTURES = ["bert", "modernbert", "bert-pytorch"]


def model_of(architecture, max_len=97):
    if architecture != "bert-pytorch":
        return make_lm(len(VOCAB), architecture, max_len=max_len)
    torch.manual_seed(3)
    return BERTLM(BERT(len(VOCAB), 20, 2, 4, max_len=max_len, architecture=architecture), len(VOCAB)).eval()


def batch_of(n_sequences, n_tokens):
    ids = torch.randint(5, len(VOCAB), (n_sequences, n_tokens), generator=torch.Generator().manual_seed(5))
    ids[0, n_tokens - 3 :] = 0
    segments = (ids != 0).long()
    segments[:, n_tokens // 2 :] *= 2
    return ids, segments


def assert_same(model, outputs, ids, segments, tolerance=1e-5):
    with torch.no_grad():
        hidden = model.bert(ids, segments)
        next_sentence, words = model(ids, segments)
    real = ids != 0
    for ours, theirs in zip((hidden, next_sentence, words), outputs, strict=True):
        difference = (ours - torch.as_tensor(theirs)).abs()
        assert (difference[real] if ours.dim() == 3 else difference).max() < tolerance


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_torchscript_takes_batches_of_any_shape(architecture, tmp_path):
    model = model_of(architecture)
    assert graphs.export_torchscript(model, tmp_path / "m.pt") < 1e-5
    loaded = torch.jit.load(tmp_path / "m.pt")
    for shape in ((1, 7), (3, 20), (2, 91)):
        ids, segments = batch_of(*shape)
        with torch.no_grad():
            assert_same(model, loaded(ids, segments), ids, segments)
    assert graphs.export_torchscript(model, tmp_path / "m.pt", with_heads=False) < 1e-5
    assert len(torch.jit.load(tmp_path / "m.pt")(*batch_of(1, 5))) == 1


def test_torchscript_runs_where_this_library_is_not(tmp_path):
    graphs.export_torchscript(model_of("bert"), tmp_path / "m.pt")
    program = (
        "import sys, torch; model = torch.jit.load('m.pt'); x = torch.tensor([[3, 7, 2]]);"
        "print([list(each.shape) for each in model(x, torch.ones_like(x))], 'bert_pytorch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], cwd=tmp_path, capture_output=True, text=True, env={})
    assert done.stdout.strip() == f"[[1, 3, 20], [1, 2], [1, 3, {len(VOCAB)}]] False", done.stderr


@pytest.mark.parametrize("architecture", ["bert", pytest.param("modernbert", marks=pytest.mark.slow)])
def test_onnx_gives_the_outputs_of_the_model_in_onnxruntime(architecture, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    model = model_of(architecture)
    assert graphs.export_onnx(model, tmp_path / "m.onnx") <= 1e-4
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    assert [each.name for each in session.get_inputs()] == list(graphs.INPUTS)
    assert [each.name for each in session.get_outputs()] == list(graphs.OUTPUTS)
    for shape in ((1, 7), (3, 20), (2, 91)):
        ids, segments = batch_of(*shape)
        outputs = session.run(None, {"input_ids": ids.numpy(), "segment_ids": segments.numpy()})
        assert_same(model, outputs, ids, segments, 1e-4)


def test_a_graph_that_differs_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(graphs, "_FARTHEST", 1e-12)
    with pytest.raises(InputError, match=r"its outputs differ by .*, expected at most 1e-12; nothing was written"):
        graphs.export_torchscript(model_of("bert"), tmp_path / "m.pt")
    assert list(tmp_path.iterdir()) == []


def test_onnx_without_its_packages_names_them(tmp_path, monkeypatch, capsys):
    write_as_checkpoint(tmp_path / "m", model_of("bert"), VOCAB)
    VOCAB.save_vocab(tmp_path / "vocab.json")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    flags = ["--model", str(tmp_path / "m"), "--vocab_path", str(tmp_path / "vocab.json"), "--to", "onnx"]
    assert load_script("inference-and-export", "export").main([*flags, "--output", str(tmp_path / "m.onnx")]) == 3
    assert "python -m pip install onnxscript [E-DEPENDENCY]" in json.loads(capsys.readouterr().out)["error"]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_weights_alone_have_our_names_and_come_back(architecture, tmp_path):
    model = model_of(architecture)
    graphs.export_tensors(model, tmp_path / "m.safetensors")
    found = read_tensors(tmp_path / "m.safetensors")
    other = BERT(**json.loads((tmp_path / "m.safetensors.json").read_text()))
    again = BERTLM(other, other.vocab_size)
    missing, unexpected = again.load_state_dict(found, strict=False)
    assert (set(missing) <= {"mask_lm.decoder.weight"}, unexpected) == (True, [])
    state, theirs = model.state_dict(), again.state_dict()
    assert [name for name in state if not torch.equal(state[name], theirs[name])] == []


@pytest.mark.parametrize("kind", ["huggingface", "safetensors", "torchscript"])
@pytest.mark.parametrize("form", ["file", "folder"])
def test_export_takes_checkpoints_and_folders(kind, form, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_as_checkpoint("m.ep0", model_of("bert"), VOCAB)
    VOCAB.save_vocab("vocab.json")
    main = load_script("inference-and-export", "export").main
    flags = ["--model", "m.ep0", "--vocab_path", "vocab.json"]
    if form == "folder":
        assert main([*flags, "--to", "huggingface", "--output", "first", "--json"]) == 0
        flags = ["--model", "first"]
    capsys.readouterr()
    assert main([*flags, "--to", kind, "--output", f"{kind}.out"]) == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (report["ok"], report["to"], (tmp_path / f"{kind}.out").exists()) == (True, kind, True)
    if kind == "huggingface":
        same = BERTLM.from_pretrained("huggingface.out").state_dict()
        assert all(torch.equal(value, same[name]) for name, value in model_of("bert").state_dict().items())
