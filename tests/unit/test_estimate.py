"""The formulas of `estimate.py` against what torch holds and computes, and `plan_run.py --gpus`, which uses them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from bert_pytorch.estimate import (
    GIB,
    LATENCY_SECONDS,
    MOMENTS,
    OVERLAP,
    RUNTIME_BYTES,
    Cluster,
    Sizes,
    Work,
    activation_bytes,
    exchange,
    flops_of_step,
    largest_batch,
    memory,
    seconds_of_step,
)
from bert_pytorch.model import BERT, BERTLM
from bert_pytorch.trainer.arguments import TrainingArguments
from bert_pytorch.trainer.objective import PretrainingObjective
from bert_pytorch.trainer.optimizers import OPTIMIZERS, make_optimizer

from .examples import SOURCE, load_script, write_pairs

V, L = 211, 256
BASE = Sizes(hidden=768, feed_forward=3072, layers=12, heads=12, vocab=30_522, in_blocks=85_054_464, outside=25_000_000)
A100 = Cluster(nodes=1, gpus=8, memory_bytes=80 * GIB, flops=312e12, efficiency=0.3, link_bytes=300e9)


def sizes_of(model):
    total = sum(each.numel() for each in model.parameters())
    in_blocks = sum(each.numel() for each in model.bert.transformer_blocks.parameters())
    bert = model.bert
    return Sizes(
        bert.hidden,
        bert.feed_forward_hidden,
        bert.n_layers,
        bert.attn_heads,
        bert.vocab_size,
        in_blocks,
        total - in_blocks,
        bert.architecture == "modernbert",
    )


def one_batch(n_rows):
    """Rows without padding, every seventh word hidden."""
    draws = torch.Generator().manual_seed(0)
    ids = torch.randint(5, V, (n_rows, L), generator=draws)
    labels = ids * (torch.arange(n_rows * L).view(n_rows, L) % 7 == 3)
    return ids, torch.ones_like(ids), labels


@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
def test_activations_are_what_torch_keeps(architecture):
    """Without dropout, where a CPU takes the fused attention that GPUs take."""
    model = BERTLM(BERT(V, hidden=60, n_layers=5, attn_heads=2, dropout=0.0, max_len=L, architecture=architecture), V)
    kept = {}

    def keep(value):
        storage = value.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return value

    ids, segments, labels = one_batch(3)
    with saved_tensors_hooks(keep, lambda value: value):
        sums = PretrainingObjective(model)(ids, segments, labels, None, None, None, False)
    weights = {each.untyped_storage().data_ptr() for each in model.parameters()}
    measured = sum(size for place, size in kept.items() if place not in weights)
    # The head's gradients are taken on the way forth; `memory` counts them apart.
    measured -= 4 * V * model.bert.hidden
    expected = 3 * activation_bytes(sizes_of(model), Work(3, L, 1 / 7, dropout=False))
    assert sums.requires_grad
    # The last layer computes little but what is asked for.
    assert 0.8 * expected < measured < 1.05 * expected


@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_operations_are_those_that_torch_counts(architecture, checkpointing):
    """With dropout, where a CPU multiplies plainly: the counter does not know its fused attention."""
    model = BERTLM(BERT(V, hidden=60, n_layers=5, attn_heads=2, dropout=0.1, max_len=L, architecture=architecture), V)
    model.bert.gradient_checkpointing = checkpointing
    with FlopCounterMode(display=False) as counter:
        PretrainingObjective(model.train())(*one_batch(2))[0, 0].backward()
    # Embeddings are looked up, not multiplied: they are no part of blocks.
    expected = flops_of_step(sizes_of(model), Work(2, L, 1 / 7, checkpointing=checkpointing))
    assert counter.get_total_flops() == pytest.approx(expected, rel=0.2)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_moments_are_those_of_the_optimiser(name):
    if name == "muon" and not hasattr(torch.optim, "Muon"):
        pytest.skip("this torch has no Muon")
    weight, table = (torch.nn.Parameter(torch.ones(31, 37)) for _ in range(2))
    marks = [{"use_muon": True}, {"use_muon": False}] if name == "muon" else [{}, {}]
    groups = [{"params": [each], **mark} for each, mark in zip((weight, table), marks, strict=True)]
    optimizer = make_optimizer(name, groups, lr=0.1)
    weight.grad = table.grad = torch.ones_like(weight)
    optimizer.step()
    kept = [sum(value.numel() for value in optimizer.state[each].values() if value.dim()) for each in (weight, table)]
    # Muon's matrices have one; its tables are AdamW's.
    assert max(kept) / weight.numel() == pytest.approx(MOMENTS[name], abs=0.1)


def test_memory_is_shared_out_as_the_formula_says():
    work = Work(32, 512, 0.15, number_bytes=2)
    ddp, grad, full = (memory(BASE, work, 8, way) for way in ("ddp", "grad", "full"))
    p = BASE.parameters
    assert [ddp[name] for name in ("weights", "gradients", "moments", "gathered")] == [4 * p, 4 * p, 8 * p, 0]
    assert [full[name] for name in ("weights", "gradients", "moments")] == [p / 2, p / 2, p]
    blocks = 4 * (BASE.outside + 2 * BASE.in_blocks // 12)
    assert (grad["gathered"], full["gathered"]) == (4 * p + blocks, 2 * blocks)
    assert ddp["copies"] == 2 * p
    assert ddp["runtime"] == RUNTIME_BYTES
    # 34 bytes a token, layer and unit of width, as the paper counts, and four more for norms that keep 32 bits.
    a_row = 512 * 12 * 768 * (34 + 4)
    assert ddp["activations"] / 32 == pytest.approx(a_row, rel=0.02)
    assert sum(full.values()) < sum(grad.values()) < sum(ddp.values()) + 4 * p
    alone = [sum(memory(BASE, work, 1, way).values()) for way in ("ddp", "grad", "full")]
    assert len(set(alone)) == 1
    assert memory(BASE, work._replace(batches=2), 8, "full")["gathered"] == 4 * p + blocks


def test_time_adds_what_cannot_hide():
    work = Work(32, 512, 0.15, number_bytes=2)
    slow = A100._replace(nodes=4, link_bytes=1e9)
    seconds = seconds_of_step(BASE, work, slow, "ddp")
    n_bytes, moving = exchange(BASE, work, slow, "ddp")
    assert n_bytes == pytest.approx(2 * 4 * BASE.parameters * 31 / 32)
    assert moving == pytest.approx(n_bytes / 1e9 + 17 * LATENCY_SECONDS * 5)
    assert seconds["compute"] == pytest.approx(flops_of_step(BASE, work) / (312e12 * 0.3))
    assert seconds["step"] == pytest.approx(seconds["compute"] + moving - OVERLAP * seconds["compute"])
    assert exchange(BASE, work, slow, "full")[0] == pytest.approx(1.5 * n_bytes)
    assert exchange(BASE, work._replace(batches=4), slow, "ddp")[0] == pytest.approx(n_bytes)
    fast = seconds_of_step(BASE, work, A100, "ddp")
    assert fast["step"] == fast["compute"]
    assert seconds_of_step(BASE, work, A100._replace(gpus=1), "full")["exchange"] == 0


def test_the_largest_batch_fits_and_one_more_does_not():
    work = Work(1, 512, 0.15)
    rows = largest_batch(BASE, work, A100, "ddp")
    for n, fits in ((rows, True), (rows + 1, False)):
        assert (sum(memory(BASE, work._replace(rows=n), 8, "ddp").values()) <= 0.9 * 80 * GIB) is fits
    assert largest_batch(BASE, work, A100._replace(memory_bytes=GIB), "ddp") == 0


@pytest.mark.parametrize("way", ["ddp", "full"])
def test_two_processes_hold_what_is_foreseen(way):
    from . import share_of_a_rank as there

    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "-m"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        [*command, there.__name__, way],
        cwd=Path(__file__).resolve().parents[2],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    model = BERTLM(BERT(there.V, hidden=there.HIDDEN, n_layers=there.LAYERS, attn_heads=4, max_len=16), there.V)
    assert told["parameters"] == sizes_of(model).parameters
    expected = memory(sizes_of(model), Work(2, 16, 1.0), 2, way)
    for share in told["shares"]:
        for name, n_bytes in share.items():
            # Rows that cannot be parted evenly make one part a little larger.
            assert n_bytes == pytest.approx(expected[name], rel=0.02), (way, name)


@pytest.fixture(scope="module")
def script():
    return load_script("training", "plan_run")


@pytest.fixture
def plan(script, tmp_path, monkeypatch, capsys):
    from bert_pytorch.cli import build_vocab

    monkeypatch.chdir(tmp_path)
    words = [f"w{i}" for i in range(97)]
    write_pairs("corpus.txt", [(" ".join(words[i : i + 9]), " ".join(words[i + 40 : i + 51])) for i in range(40)])
    assert build_vocab(["-c", "corpus.txt", "-o", "vocab.json"]) == 0

    def call(*flags):
        capsys.readouterr()
        status = script.main(["-c", "corpus.txt", "-v", "vocab.json", *flags])
        out = capsys.readouterr().out
        return status, json.loads(out.splitlines()[-1]), out

    return call


LARGE = "-hs 1024 -l 24 -a 16 -s 512 -b 64 --bf16 --max_steps 1000000".split()


def test_eight_gpus_and_a_thousand_are_planned_without_one(plan, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: pytest.fail("nothing is measured"))
    status, eight, out = plan(*LARGE, "--gpus", "8", "--token_budget", "1000000000")
    assert status == 0
    # The sizes of BERT-large but for its vocabulary.
    assert 300e6 < eight["parameters"] < 310e6
    assert eight["processes"] == 8
    assert eight["peak_memory_bytes"] == sum(eight["memory"].values()) < 0.9 * eight["free_memory_bytes"]
    assert eight["planned_seconds"] == pytest.approx(1_000_000 * eight["seconds_per_step"])
    assert eight["budget_steps"] == pytest.approx(1e9 / (8 * 64 * 23), rel=0.01)
    assert "on paper" in eight["device"]
    assert "GiB" in out
    hour = plan(*LARGE, "--gpus", "8", "--max_minutes", "60")[1]
    assert hour["budget_steps"] == int(0.7 * 3600 / hour["seconds_per_step"])
    assert hour["budget_seconds"] == pytest.approx(0.7 * 3600, rel=0.01)
    thousand = plan(*LARGE, "--gpus", "8", "--nodes", "125")[1]
    assert thousand["processes"] == 1000
    assert thousand["real_tokens_per_second"] <= 125 * eight["real_tokens_per_second"] * 1.0001
    slow = plan(*LARGE, "--gpus", "8", "--nodes", "125", "--interconnect", "1")[1]
    assert slow["real_tokens_per_second"] < 0.9 * thousand["real_tokens_per_second"]
    assert "waits for the network" in slow["advice"][-1]
    assert thousand["exchanged_bytes_per_step"] > eight["exchanged_bytes_per_step"]


def test_a_model_too_large_for_a_gpu_is_told_to_share(plan):
    huge = "-hs 4096 -l 48 -a 32 -s 128 -b 8 --bf16 --max_steps 10 --gpus 8 --nodes 8".split()
    status, report, _ = plan(*huge)
    assert status == 1
    assert report["ok"] is False
    assert report["advice"][0].startswith("--sharding grad")
    status, report, _ = plan(*huge, "--sharding", "full")
    assert status == 0
    assert report["peak_memory_bytes"] == report["peak_memory_bytes_by_way"]["full"]


def test_hardware_is_what_the_flags_say(plan):
    small = "-hs 64 -l 2 -a 4 -s 32 -b 4 --gpus 2".split()
    report = plan(*small, "--gpu_memory", "16", "--gpu_tflops", "50", "--efficiency", "0.5", "--interconnect", "10")[1]
    assert report["assumed"] == {
        "nodes": 1,
        "gpus": 2,
        "memory_bytes": 16 * GIB,
        "flops": 5e13,
        "efficiency": 0.5,
        "link_bytes": 1e10,
    }
    assert report["steps_per_epoch"] == 5
    assert report["planned_steps"] == 50


@pytest.mark.parametrize(
    "flags",
    [
        ["--nodes", "2"],
        ["--interconnect", "5"],
        ["--gpus", "2", "--compare"],
        ["--gpus", "2", "--memory_limit", "3"],
        ["--gpus", "2", "--deepspeed", "ds.json"],
        ["--gpus", "2", "--sharding", "full", "--fp16"],
        ["--gpus", "0"],
    ],
)
def test_flags_without_effect_are_refused(plan, flags):
    try:
        status, report, _ = plan(*"-hs 64 -l 2 -a 4".split(), *flags)
    except SystemExit as end:
        assert end.code == 2
        return
    assert status in (1, 2)
    assert report["code"] == "E-SETTING-CONFLICT"


def test_every_optimiser_has_its_moments():
    assert MOMENTS.keys() == OPTIMIZERS.keys()
    assert TrainingArguments().optim in MOMENTS


def test_the_table_of_the_page_is_that_of_the_formula():
    page = Path(__file__).resolve().parents[2] / "skills" / "training" / "references" / "distributed.md"
    rows = re.findall(r"^\| [\w. ]+ \| `(\d+) (\d+) (\d+)` \| ([\d,]+) M \|(.*)\|$", page.read_text(encoding="utf-8"), re.M)
    assert len(rows) == 6
    for hidden, layers, heads, millions, shown in rows:
        with torch.device("meta"):
            sizes = sizes_of(BERTLM(BERT(30_522, hidden=int(hidden), n_layers=int(layers), attn_heads=int(heads)), 30_522))
        work = Work(16, 512, 0.15, number_bytes=2)
        ways = [(work, "ddp"), (work, "grad"), (work, "full"), (work._replace(checkpointing=True), "full")]
        gib = [sum(memory(sizes, each, 8, way).values()) / GIB for each, way in ways]
        assert f"{sizes.parameters / 1e6:,.0f}" == millions
        assert shown.replace(" ", "").split("|") == [f"{each:.0f}" if each <= 72 else "-" for each in gib]
