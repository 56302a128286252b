#!/usr/bin/env python3
"""Two processes of one thread each beside one process of two: real tokens a second under torchrun, ours and the Trainer's.

The batch of all processes together is the same on every side, and so are corpus and model (as `compare.py` makes them).
Sides run in turn, round by round; figures are medians, and only the ratios count. `ours-silent` is `ours` in processes that do
not exchange gradients: what `ours` lacks to its speed is what communication takes. Its losses mean nothing.

    python benchmarks/compare_processes.py --corpus PAIRS [--size small] [--batch_size N] [--sides ours ours-silent]
        [--processes 2] [--rounds 5] [--output PREFIX]

The last line is JSON; `--output PREFIX` writes it to PREFIX.json, and a table to PREFIX.md.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import compare
from compare import SIZES, SOURCE, is_there, write_vocabulary

SIDES = ("ours", "ours-silent", "trainer")


def train_ours(folder: Path, size: compare.Size, seconds: float, is_silent: bool) -> float:
    """The command `bert` in this process of several; tokens a second of all of them."""
    sys.path.insert(0, str(SOURCE))
    from torch import nn

    from bert_pytorch import cli
    from bert_pytorch.launch import n_processes
    from bert_pytorch.trainer import parallel, update

    if is_silent:

        @contextlib.contextmanager
        def keep_apart(module: nn.Module, *, is_last: bool) -> Iterator[None]:
            with parallel.exchanging(module, is_last=False):
                yield

        update.exchanging = keep_apart
    sizes = f"-hs {size.hidden} -l {size.layers} -a {size.heads} -s {size.seq_len} -b {size.batch_size // n_processes()}"
    words = f"-c {folder}/corpus.txt -v {folder}/vocab.txt -o {folder}/ours.model {sizes} --group_by_length --device cpu"
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = cli.train([*words.split(), "--log_freq", "1000000", "--max_minutes", str(seconds / 60)])
    if status:
        raise SystemExit(out.getvalue())
    lines = out.getvalue().splitlines()
    return json.loads(lines[-1])["real_tokens_per_second"] if lines else 0.0


def train_trainer(folder: Path, size: compare.Size, seconds: float) -> float:
    """The Trainer at its best in this process; tokens a second of this process alone."""
    per_process = size._replace(batch_size=size.batch_size // int(os.environ.get("WORLD_SIZE", "1")))
    with contextlib.redirect_stdout(io.StringIO()):
        return compare.train_transformers(folder, per_process, seconds, best=True).report(size)["tokens_per_second"]


def measure(side: str, folder: Path, size: compare.Size, seconds: float, output: Path) -> None:
    """One side in this process, which writes its part of the tokens a second."""
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    if side == "trainer":
        speed = train_trainer(folder, size, seconds)
    else:
        speed = train_ours(folder, size, seconds, side == "ours-silent")
    (output / os.environ.get("RANK", "0")).write_text(str(speed))


def size_of(name: str, batch_size: int) -> compare.Size:
    """A size of `compare.py`, with another batch of all processes together where one is given."""
    return SIZES[name]._replace(batch_size=batch_size) if batch_size else SIZES[name]


def run_apart(side: str, n_processes: int, n_threads: int, folder: Path, args: argparse.Namespace) -> float:
    """Tokens a second of a side in processes of its own."""
    output = Path(tempfile.mkdtemp(dir=folder))
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={n_processes}"] if n_processes > 1 else []
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": str(n_threads), "ACCELERATE_USE_CPU": "true"}
    words = [__file__, "--measure", side, str(folder), args.size, str(args.batch_size), str(args.seconds), str(output)]
    done = subprocess.run([sys.executable, *launcher, *words], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{side}: {done.stderr[-2000:]}")
    return sum(float(path.read_text()) for path in output.iterdir())


def run_rounds(args: argparse.Namespace, folder: Path) -> dict[str, object]:
    """All sides in turn, alone and together."""
    (folder / "corpus.txt").write_bytes(Path(args.corpus).read_bytes())
    write_vocabulary(folder / "corpus.txt", folder / "vocab.txt", SIZES[args.size].words)
    n = args.processes
    ways = [(side, n, 1) for side in args.sides if is_there(side, None)]
    ways += [(side, 1, n) for side, _, _ in ways if side != "ours-silent"]
    runs: dict[str, list[float]] = {f"{side} {each}x{threads}": [] for side, each, threads in ways}
    for number in range(args.rounds):
        for (side, each, threads), speeds in zip(ways, runs.values(), strict=True):
            speeds.append(run_apart(side, each, threads, folder, args))
        said = ", ".join(f"{name} {speeds[-1]:.0f}" for name, speeds in runs.items())
        print(f"round {number}: {said} tokens/s", file=sys.stderr, flush=True)
    speed = {name: statistics.median(speeds) for name, speeds in runs.items()}
    together, apart = f"ours {n}x1", f"ours 1x{n}"

    def ratio(over: str, under: str) -> float | None:
        if over not in runs or under not in runs:
            return None
        return statistics.median(one / other for one, other in zip(runs[over], runs[under], strict=True))

    silent = ratio(together, f"ours-silent {n}x1")
    return {
        "ok": True,
        "size": size_of(args.size, args.batch_size)._asdict(),
        "tokens_per_second": speed,
        "together_over_alone": ratio(together, apart),
        "communication_share": None if silent is None else 1 - silent,
        "over_trainer": ratio(together, f"trainer {n}x1"),
        "trainer_together_over_alone": ratio(f"trainer {n}x1", f"trainer 1x{n}"),
        "rounds": args.rounds,
        "runs": runs,
    }


def table_of(report: dict[str, object]) -> str:
    """The speeds as Markdown."""
    speeds = report["tokens_per_second"]
    assert isinstance(speeds, dict)
    rows = [f"| {name} | {value:,.0f} |" for name, value in speeds.items()]
    return "\n".join(["| processes x threads | real tokens a second |", "|---|---|", *rows]) + "\n"


def main() -> int:
    """Compare, or in a process of its own measure one side."""
    if sys.argv[1:2] == ["--measure"]:
        side, folder, size, batch_size, seconds, output = sys.argv[2:]
        measure(side, Path(folder), size_of(size, int(batch_size)), float(seconds), Path(output))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--corpus", required=True, metavar="FILE", help="pairs, two texts and a tab a line")
    add("--size", choices=SIZES, default="small", help="as of compare.py (small)")
    add("--batch_size", type=int, default=256, help="examples a step of all processes together; 0: the size's own (256)")
    add("--sides", nargs="+", choices=SIDES, default=list(SIDES), help="what is measured (all)")
    add("--processes", type=int, default=2, help="processes together, and threads of the one alone (2)")
    add("--rounds", type=int, default=5, help="rounds (5)")
    add("--seconds", type=float, default=20, help="seconds a measurement (20)")
    add("--output", metavar="PREFIX", help="write PREFIX.json, PREFIX.md")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = run_rounds(args, Path(folder))
    if args.output:
        Path(f"{args.output}.json").write_text(json.dumps(report, indent=1) + "\n")
        Path(f"{args.output}.md").write_text(table_of(report))
    print(json.dumps({name: value for name, value in report.items() if name != "runs"}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
