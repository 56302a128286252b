"""One file with the whole state of a run: written whole or not at all, read without executing anything."""

import os
import resource
import signal
from contextlib import contextmanager

import pytest
import torch

from bert_pytorch import BERT, WordVocab
from bert_pytorch.trainer import load_checkpoint, load_model

from .examples import assert_one_line, make_batch, same_tensors, weights


@contextmanager
def largest_file(n_bytes):
    """Within the block no file of this process can grow beyond this many bytes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("epoch", [0, 7, 10])
def test_the_path_is_the_one_given_with_the_epoch_and_its_folder_is_made(trained, tmp_path, epoch):
    path = str(tmp_path / "new" / "deep" / "bert.model")
    assert trained.save(epoch, path) == f"{path}.ep{epoch}"
    assert os.listdir(tmp_path / "new" / "deep") == [f"bert.model.ep{epoch}"]


def test_the_default_path_is_the_ancestors(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert trained.save(3) == "output/bert_trained.model.ep3"
    assert os.path.isfile("output/bert_trained.model.ep3")


def test_a_file_loads_under_the_defaults_of_torch_and_holds_the_whole_state(trained, saved):
    state = torch.load(saved)
    names = set(state["model"])
    assert {"bert.embedding.token.weight", "next_sentence.linear.weight", "mask_lm.transform.weight"} <= names
    assert same_tensors(dict(state["model"]), dict(trained.model.state_dict()))
    assert same_tensors(state["optimizer"], trained.optim.state_dict())
    assert {"exp_avg", "exp_avg_sq", "step"} <= set(state["optimizer"]["state"][0])


def test_saving_changes_neither_model_nor_device_nor_randomness(trained, tmp_path):
    before = weights(trained), torch.get_rng_state()
    tensors = [id(value) for value in trained.model.parameters()]
    trained.save(0, str(tmp_path / "model"))
    assert same_tensors(weights(trained), before[0])
    assert torch.equal(torch.get_rng_state(), before[1])
    assert [id(value) for value in trained.model.parameters()] == tensors
    assert trained.model.training


def test_a_loaded_model_gives_the_outputs_of_the_trained_one(trained, saved):
    batch = make_batch(9, n_padding=2)
    trained.model.eval()
    with torch.no_grad():
        theirs = trained.model(batch["bert_input"], batch["segment_label"])
        model = load_model(saved)
        assert not model.training
        assert same_tensors(model(batch["bert_input"], batch["segment_label"]), theirs)
    assert isinstance(model.bert, BERT)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.2, 0.5, 0.9, 0.999])
def test_a_full_disk_leaves_the_earlier_file_whole(trained, saved, tmp_path, share):
    with open(saved, "rb") as file:
        before = file.read()
    trained.train(1)
    with largest_file(int(len(before) * share)), pytest.raises(OSError) as caught:
        trained.save(0, str(tmp_path / "model"))
    assert_one_line(caught.value, saved, "E-SAVE")
    with open(saved, "rb") as file:
        assert file.read() == before
    assert os.listdir(tmp_path) == ["model.ep0"]
    trained.save(0, str(tmp_path / "model"))
    assert same_tensors(dict(load_checkpoint(saved)["model"]), dict(trained.model.state_dict()))


def test_a_full_disk_leaves_an_earlier_vocabulary_whole(tmp_path):
    WordVocab(["a b"]).save_vocab(tmp_path / "vocab.json")
    before = (tmp_path / "vocab.json").read_bytes()
    with largest_file(100), pytest.raises(OSError) as caught:
        WordVocab([" ".join(f"w{i}" for i in range(1000))]).save_vocab(tmp_path / "vocab.json")
    assert_one_line(caught.value, tmp_path / "vocab.json", "E-SAVE")
    assert (tmp_path / "vocab.json").read_bytes() == before
    assert os.listdir(tmp_path) == ["vocab.json"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failure_after_the_last_byte_leaves_the_earlier_file_whole(trained, saved, tmp_path, monkeypatch, call):
    def fail(*_):
        raise OSError(5, "Input/output error")

    with open(saved, "rb") as file:
        before = file.read()
    trained.train(1)
    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError) as caught:
        trained.save(0, str(tmp_path / "model"))
    assert_one_line(caught.value, saved, "E-SAVE")
    with open(saved, "rb") as file:
        assert file.read() == before
    assert os.listdir(tmp_path) == ["model.ep0"]


def test_an_interruption_while_writing_leaves_the_earlier_file_whole(trained, saved, tmp_path, monkeypatch):
    def interrupted(state, file):
        file.write(b"half of it")
        raise KeyboardInterrupt

    with open(saved, "rb") as file:
        before = file.read()
    monkeypatch.setattr(torch, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trained.save(0, str(tmp_path / "model"))
    with open(saved, "rb") as file:
        assert file.read() == before
    assert os.listdir(tmp_path) == ["model.ep0"]


def test_a_path_below_a_file_is_a_save_error(trained, saved):
    with pytest.raises(OSError) as caught:
        trained.save(0, f"{saved}/model")
    assert_one_line(caught.value, f"{saved}/model.ep0", "E-SAVE")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_what_is_no_regular_file_is_never_replaced_by_one(trained, tmp_path):
    """As root, a rename over `/dev/null` would replace the device."""
    pipe = tmp_path / "model.ep0"
    os.mkfifo(pipe)
    with pytest.raises(OSError) as caught:
        trained.save(0, str(tmp_path / "model"))
    assert_one_line(caught.value, pipe, "E-SAVE")
    assert pipe.is_fifo()
    assert os.listdir(tmp_path) == ["model.ep0"]


def test_a_private_file_stays_private_when_it_is_written_again(trained, saved):
    os.chmod(saved, 0o600)
    trained.save(0, saved.removesuffix(".ep0"))
    assert os.stat(saved).st_mode & 0o777 == 0o600
