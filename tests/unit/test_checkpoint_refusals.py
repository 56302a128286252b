"""Files that are no whole checkpoint, or of another model: refused in one line, and nothing in them is executed."""

import pickle

import pytest
import torch

from bert_pytorch import BERT, BERTTrainer
from bert_pytorch.errors import InputError
from bert_pytorch.trainer import load_checkpoint, load_model

from .examples import D, N, V, assert_one_line, make_batches, make_trainer, same_tensors, weights

READERS = {
    "load_checkpoint": load_checkpoint,
    "load_model": load_model,
    "resume": lambda path: make_trainer().resume(path),
}
each_reader = pytest.mark.parametrize("read", READERS.values(), ids=READERS)


class Hostile:
    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return open, (self.marker, "w")


@each_reader
@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.9, 0.99, 0.9999])
def test_a_truncated_file_is_refused(saved, read, share):
    with open(saved, "rb") as file:
        content = file.read()
    with open(saved, "wb") as file:
        file.write(content[: int(len(content) * share)])
    with pytest.raises(ValueError) as caught:
        read(saved)
    assert_one_line(caught.value, saved, "E-CHECKPOINT-DAMAGED")


@each_reader
@pytest.mark.parametrize("share", [0.0, 0.02, 0.05, 0.3, 0.5, 0.7, 0.9, 0.99])
def test_a_file_with_damaged_bytes_is_refused(saved, read, share):
    """Wherever they are: a checkpoint that loads with wrong weights is worse than one that does not load."""
    with open(saved, "rb") as file:
        content = bytearray(file.read())
    start = int(len(content) * share)
    content[start : start + 64] = bytes(byte ^ 0x55 for byte in content[start : start + 64])
    with open(saved, "wb") as file:
        file.write(content)
    with pytest.raises(ValueError, match=r"^[^\n]*model\.ep0: [^\n]*\[E-CHECKPOINT-[A-Z]+\]$"):
        read(saved)


@each_reader
@pytest.mark.parametrize("form", ["pickle 2", "pickle 4", "torch", "old torch"])
@pytest.mark.parametrize("place", ["whole", "within"])
def test_a_hostile_file_is_refused_and_not_executed(saved, tmp_path, read, form, place):
    marker = tmp_path / "executed"
    payload = Hostile(marker) if place == "whole" else {**torch.load(saved), "payload": Hostile(marker)}
    path = str(tmp_path / "hostile.ep0")
    if form.startswith("pickle"):
        with open(path, "wb") as file:
            pickle.dump(payload, file, int(form[-1]))
    else:
        torch.save(payload, path, _use_new_zipfile_serialization=form == "torch")
    with pytest.raises(ValueError) as caught:
        read(path)
    assert_one_line(caught.value, path, "E-CHECKPOINT-PICKLE")
    assert not marker.exists()


@each_reader
def test_a_whole_model_of_the_ancestor_is_refused_with_what_to_do(trained, tmp_path, read):
    path = str(tmp_path / "old.ep0")
    torch.save(trained.bert, path)
    with pytest.raises(ValueError) as caught:
        read(path)
    assert_one_line(caught.value, path, "E-CHECKPOINT-PICKLE")
    assert "0.0.1a4" in str(caught.value)


@each_reader
@pytest.mark.parametrize("content", [b"", b"hello world\n", b'{"a": 1}\n', b"PK\x03\x04", b"\x00" * 5000, b"\x80\x02}."])
def test_a_file_of_another_kind_is_refused(tmp_path, read, content):
    path = tmp_path / "other.ep0"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"^[^\n]*other\.ep0: [^\n]*\[E-CHECKPOINT-[A-Z]+\]$"):
        read(str(path))


@each_reader
@pytest.mark.parametrize("content", [[1], torch.ones(3), {}, {"model": {}}, {"format": "another"}])
def test_a_torch_file_of_another_kind_is_refused(tmp_path, read, content):
    path = str(tmp_path / "other.ep0")
    torch.save(content, path)
    with pytest.raises(ValueError) as caught:
        read(path)
    assert_one_line(caught.value, path, "E-CHECKPOINT-FORMAT")


@each_reader
def test_a_file_of_a_later_version_is_refused(saved, read):
    torch.save({**torch.load(saved), "version": 99}, saved)
    with pytest.raises(ValueError, match="99") as caught:
        read(saved)
    assert_one_line(caught.value, saved, "E-CHECKPOINT-FORMAT")


@pytest.mark.parametrize("key", ["model_config", "model", "optimizer", "schedule", "random", "position"])
def test_a_file_without_a_part_is_refused_by_name_of_the_file(saved, key):
    state = torch.load(saved)
    del state[key]
    torch.save(state, saved)
    trainer = make_trainer()
    before = weights(trainer)
    with pytest.raises(ValueError, match=r"^[^\n]*model\.ep0: [^\n]*\[E-CHECKPOINT-[A-Z]+\]$"):
        trainer.resume(saved)
    assert same_tensors(weights(trainer), before)


def test_a_file_whose_weights_do_not_fit_its_sizes_is_refused(saved):
    state = torch.load(saved)
    state["model"] = {name: value for name, value in state["model"].items() if name != "mask_lm.decoder.bias"}
    torch.save(state, saved)
    for read in (load_model, make_trainer().resume):
        with pytest.raises(ValueError, match=r"^[^\n]*model\.ep0: [^\n]*\[E-CHECKPOINT-[A-Z]+\]$"):
            read(saved)


@each_reader
@pytest.mark.parametrize("name", ["missing.ep0", "folder"])
def test_a_file_that_cannot_be_read_is_named(tmp_path, read, name):
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError) as caught:
        read(str(tmp_path / name))
    assert_one_line(caught.value, tmp_path / name, "E-CHECKPOINT-READ")


@pytest.mark.parametrize(
    ("sizes", "named"),
    [
        ({"hidden": 2 * D}, [f"hidden {D}", str(2 * D)]),
        ({"n_layers": 3}, ["n_layers 1", "3"]),
        ({"attn_heads": 1}, [f"attn_heads {N}", "1"]),
        ({"vocab_size": V + 1}, [f"vocab_size {V}", str(V + 1)]),
    ],
)
def test_a_checkpoint_of_another_model_is_refused_with_both_sizes(saved, sizes, named):
    wanted = {**make_trainer().bert.config, **sizes}
    other = BERTTrainer(BERT(**wanted), wanted["vocab_size"], make_batches(), with_cuda=False)
    before = weights(other)
    with pytest.raises(ValueError) as caught:
        other.resume(saved)
    assert_one_line(caught.value, saved, "E-RESUME-MODEL")
    assert [text for text in named if text not in str(caught.value)] == []
    assert same_tensors(weights(other), before)


@each_reader
def test_a_file_in_the_old_format_of_torch_is_refused(saved, read):
    """It has no checksums, and this library never wrote it."""
    torch.save(torch.load(saved), saved, _use_new_zipfile_serialization=False)
    with pytest.raises(ValueError, match=r"^[^\n]*model\.ep0: [^\n]*\[E-CHECKPOINT-[A-Z]+\]$"):
        read(saved)


def test_a_damaged_byte_of_the_files_own_tables_is_refused_or_harmless(saved):
    """The headers of the parts, wherever they stand: none may end in a traceback or in other weights."""
    with open(saved, "rb") as file:
        content = file.read()
    expected = load_checkpoint(saved)
    starts = [i for i in range(len(content)) if content[i : i + 2] == b"PK"]
    refused = 0
    for start in starts[:: len(starts) // 20]:
        for offset in (0, 8, 14, 20, 28, 31, 40, 47):
            damaged = bytearray(content)
            damaged[min(start + offset, len(content) - 1)] ^= 0xFF
            with open(saved, "wb") as file:
                file.write(damaged)
            try:
                state = load_checkpoint(saved)
            except InputError as error:
                assert_one_line(error, saved, error.code)
                refused += 1
            else:
                assert same_tensors(dict(state["model"]), dict(expected["model"]))
                assert same_tensors(state["optimizer"], expected["optimizer"])
    assert refused > 20
