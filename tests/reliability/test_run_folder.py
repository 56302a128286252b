"""Checkpoint folders are there whole or not at all: killed, damaged, on a full disk, with two processes at once."""

import errno
import json
import os
import random
import resource
import shutil
import time

import pytest
import torch

from bert_pytorch.errors import InputError, SaveError
from bert_pytorch.trainer.checkpoint_folder import check_checkpoint, read_checkpoint
from bert_pytorch.trainer.run_folder import RunFolder
from bert_pytorch.trainer.state_files import from_files, to_files

from ..unit.examples import assert_one_line, same_tensors, start_python


def contents(step, size=11):
    draws = torch.Generator().manual_seed(step)
    weight = torch.randn(size, 3, generator=draws)
    state = {
        "model": {"a.weight": weight, "tied.weight": weight, "half": weight.bfloat16(), "flag": torch.tensor(True)},
        "model_config": {"hidden": 3},
        "optimizer": {"state": {0: {"step": torch.tensor(float(step)), "exp_avg": weight * 2}}, "param_groups": [{"lr": 0.1}]},
        "random": {"torch": torch.arange(13, dtype=torch.uint8), "empty": torch.zeros(0, 5)},
        "figures": {"loss": float("nan"), "step": step, "none": None, "list": [1, 2.5, "x"]},
    }
    return state, to_files(state)


@pytest.fixture
def open_folder():
    """Makes run folders, and closes them all."""
    opened = []

    def make(path):
        opened.append(RunFolder(path))
        return opened[-1]

    yield make
    for folder in opened:
        folder.close()


class Killed(BaseException):
    """What a kill looks like from inside: nothing is cleared up."""


def kill_at(monkeypatch, n):
    """Be killed right before the n-th call that changes what is on the disk."""
    calls = []

    def counted(work):
        def call(*arguments, **options):
            calls.append(work)
            if len(calls) == n:
                raise Killed
            return work(*arguments, **options)

        return call

    for name in ("fsync", "rename", "mkdir", "rmdir", "unlink"):
        monkeypatch.setattr(os, name, counted(getattr(os, name)))
    return calls


def test_what_is_saved_is_what_is_read(tmp_path, open_folder):
    state, files = contents(7)
    folder = open_folder(tmp_path)
    path = folder.save(7, files)
    read = from_files(read_checkpoint(path))
    assert str(read["figures"].pop("loss")) == str(state["figures"].pop("loss"))
    assert same_tensors(read, state)
    assert read["model"]["a.weight"] is read["model"]["tied.weight"]
    assert (path / "model.safetensors").stat().st_size < 11 * 3 * (4 + 2) + 800


def test_others_read_the_tensors(tmp_path, open_folder):
    safetensors = pytest.importorskip("safetensors.torch")
    state, files = contents(7)
    path = open_folder(tmp_path).save(7, files)
    theirs = safetensors.load_file(path / "model.safetensors")
    assert all(same_tensors(value, state["model"][name]) for name, value in theirs.items())
    assert set(state["model"]) - set(theirs) == {"tied.weight"}


def test_a_kill_at_any_point_leaves_the_earlier_or_the_new_checkpoint_whole(tmp_path, open_folder, monkeypatch):
    """Every call that changes the disk, one after the other, is the last of its process."""
    outcomes = set()
    for n in range(1, 100):
        path = tmp_path / str(n)
        folder = open_folder(path)
        folder.save(1, contents(1)[1])
        folder.save(2, contents(2)[1])
        with monkeypatch.context() as patch:
            calls = kill_at(patch, n)
            try:
                folder.save(3, contents(3)[1], limit=2)
                was_killed = False
            except Killed:
                was_killed = True
        folder.close()
        again = open_folder(path)
        last = again.find_last()
        step = int(last.name.split("-")[1])
        outcomes.add(step)
        assert same_tensors(read_checkpoint(last)["model.safetensors"], dict(contents(step)[0]["model"]))
        assert {entry.name for entry in path.iterdir()} <= {".lock", *(f"checkpoint-{step}" for step in (1, 2, 3))}
        assert len(again.steps()) >= 2
        again.close()
        if not was_killed:
            assert len(calls) < n
            break
    assert n > 10
    assert outcomes == {2, 3}


def test_a_kill_while_a_checkpoint_is_replaced_leaves_one_of_the_two(tmp_path, open_folder, monkeypatch):
    for n in range(1, 100):
        path = tmp_path / str(n)
        folder = open_folder(path)
        folder.save(1, contents(1)[1])
        with monkeypatch.context() as patch:
            kill_at(patch, n)
            try:
                folder.save(1, contents(5)[1])
                was_killed = False
            except Killed:
                was_killed = True
        folder.close()
        again = open_folder(path)
        weights = read_checkpoint(again.find_last())["model.safetensors"]
        assert any(same_tensors(weights, dict(contents(step)[0]["model"])) for step in (1, 5))
        again.close()
        if not was_killed:
            return
    raise AssertionError("it never came to an end")


def damages(path):
    """Ways to damage a file, by name."""
    content = path.read_bytes()
    middle = len(content) // 2
    flipped = bytearray(content)
    flipped[middle] ^= 1
    yield "cut", content[:middle]
    yield "empty", b""
    yield "bit", bytes(flipped)
    yield "zeros", bytes(len(content))
    yield "longer", content + b"\0"


@pytest.mark.parametrize(
    "name",
    ["model.safetensors", "optimizer.safetensors", "random.safetensors", "config.json", "trainer_state.json", "manifest.json"],
)
def test_damage_of_any_file_is_found_named_and_the_checkpoint_before_is_taken(tmp_path, open_folder, name):
    n = 0
    folder = open_folder(tmp_path / "run")
    folder.save(1, contents(1)[1])
    whole = folder.save(2, contents(2)[1])
    shutil.copytree(whole, tmp_path / "whole")
    for _, content in damages(whole / name):
        (whole / name).write_bytes(content)
        with pytest.raises(InputError) as caught:
            read_checkpoint(whole)
        assert_one_line(caught.value, whole / name, "E-CHECKPOINT-DAMAGED")
        with pytest.warns(UserWarning, match=f"left out: .*{name}"):
            assert folder.find_last() == folder.checkpoint(1)
        assert not whole.exists()
        n += 1
        shutil.copytree(tmp_path / "whole", whole)
    (whole / name).unlink()
    with pytest.raises(InputError, match=name):
        check_checkpoint(whole)
    assert n == 5
    assert len(list((tmp_path / "run").glob("checkpoint-2.damaged*"))) == 5


def test_every_flipped_bit_of_a_small_checkpoint_is_found(tmp_path, open_folder):
    path = open_folder(tmp_path).save(1, contents(1, size=1)[1])
    draws = random.Random(3)
    for file in path.iterdir():
        content = file.read_bytes()
        for _ in range(60):
            place = draws.randrange(8 * len(content))
            flipped = bytearray(content)
            flipped[place // 8] ^= 1 << place % 8
            file.write_bytes(flipped)
            with pytest.raises(InputError):
                read_checkpoint(path)
        file.write_bytes(content)
    read_checkpoint(path)


@pytest.mark.parametrize("limit_bytes", [0, 100, 1000, 3000])
def test_a_full_disk_in_a_save_leaves_the_earlier_checkpoint_whole(tmp_path, open_folder, limit_bytes):
    folder = open_folder(tmp_path)
    first = folder.save(1, contents(1)[1])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, hard))
    try:
        with pytest.raises(SaveError) as caught:
            folder.save(2, contents(2, size=200)[1])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert_one_line(caught.value, folder.checkpoint(2), "E-SAVE")
    check_checkpoint(first)
    assert folder.steps() == [1]
    assert {entry.name for entry in tmp_path.iterdir()} == {".lock", "checkpoint-1"}
    folder.save(2, contents(2, size=200)[1])


def test_a_full_disk_is_made_room_on_by_what_would_be_deleted_anyway(tmp_path, open_folder, monkeypatch):
    folder = open_folder(tmp_path)
    for step in (1, 2, 3):
        folder.save(step, contents(step)[1])
    full = shutil.disk_usage(tmp_path)._replace(free=0)
    room = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full if len(folder.steps()) > 2 else room)
    folder.save(4, contents(4)[1], limit=2, protected=[1])
    assert folder.steps() == [1, 3, 4]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    with pytest.raises(SaveError, match=os.strerror(errno.ENOSPC)):
        folder.save(5, contents(5)[1])
    assert folder.steps() == [1, 3, 4]


@pytest.mark.parametrize("seed", range(20))
def test_rotation_keeps_the_newest_and_the_protected(tmp_path, open_folder, seed):
    draws = random.Random(seed)
    folder, saved, step = open_folder(tmp_path), [], 0
    for _ in range(15):
        step += draws.randint(1, 12)
        saved.append(step)
        limit, protected = draws.randint(1, 4), draws.sample(saved, min(len(saved), draws.randint(0, 2)))
        before = folder.steps()
        folder.save(step, {"x.json": {"a": 1}}, limit, protected)
        assert folder.steps() == sorted({*[*before, step][-limit:], *(each for each in protected if each in [*before, step])})


def test_a_second_process_is_refused_until_the_first_has_ended_however(tmp_path, open_folder):
    program = """
import sys, time
from bert_pytorch.trainer.run_folder import RunFolder
folder = RunFolder(sys.argv[1])
print("mine", flush=True)
time.sleep(60)
"""
    first = start_python("-c", program, tmp_path / "run", folder=tmp_path)
    assert first.stdout.readline().strip() == "mine"
    with pytest.raises(InputError) as caught:
        open_folder(tmp_path / "run")
    assert_one_line(caught.value, tmp_path / "run", "E-RUN-LOCKED")
    first.kill()
    first.communicate()
    open_folder(tmp_path / "run").close()


def test_one_process_has_a_folder_once(tmp_path, open_folder):
    folder = open_folder(tmp_path)
    with pytest.raises(InputError, match="E-RUN-LOCKED"):
        open_folder(tmp_path)
    folder.close()
    open_folder(tmp_path).close()


def test_a_folder_that_cannot_be_made_is_said(tmp_path, open_folder):
    (tmp_path / "file").write_text("x")
    with pytest.raises(SaveError) as caught:
        open_folder(tmp_path / "file" / "run")
    assert_one_line(caught.value, tmp_path / "file" / "run", "E-SAVE")


def test_the_manifest_says_what_is_there(tmp_path, open_folder):
    path = open_folder(tmp_path).save(3, contents(3)[1])
    manifest = json.loads((path / "manifest.json").read_text())
    assert manifest["step"] == 3
    assert set(manifest["files"]) == {entry.name for entry in path.iterdir()} - {"manifest.json"}
    assert time.time_ns() >= manifest["saved_at_ns"] > 0
