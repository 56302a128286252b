"""A corpus of 2 GB trains in an address space of 1 GB beyond what importing torch takes, and so does the next run on it."""

import json
import math
import random
import subprocess
import sys

import pytest

from ..unit.examples import SOURCE

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc and caps the address space")]
N_BYTES = 2 * 10**9
CHILD = """
import resource, sys
import torch
from bert_pytorch.cli import train
import bert_pytorch.pipeline, bert_pytorch.trainer, bert_pytorch.dataset.cache, bert_pytorch.dataset.loader
torch.ones(3, 3).exp().sum()
size = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmSize")) << 10
resource.setrlimit(resource.RLIMIT_AS, (size + (1 << 30),) * 2)
status = train(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10, "MB at most", file=sys.stderr)
sys.exit(status)
"""


def write_large(path):
    """Pairs of about 130 bytes from 20,000 words, whose second texts end in two words that number them; how many there are."""
    draws = random.Random(0)
    words = [f"{rank:x}w" for rank in range(20_000)]
    weights = [1 / (rank + 1) for rank in range(20_000)]
    texts = [" ".join(draws.choices(words, weights, k=draws.randint(8, 22))) for _ in range(20_000)]
    begins = [f"{draws.choice(texts)}\t{draws.choice(texts)} {word} " for word in words]
    n_pairs = 0
    with open(path, "w", encoding="ascii", newline="\n") as file:
        while file.tell() < N_BYTES:
            ending = words[n_pairs // len(words)] + "\n"
            file.writelines([begin + ending for begin in begins])
            n_pairs += len(words)
    (path.parent / "vocab.txt").write_text("\n".join(["<pad>", "<unk>", "<eos>", "<sos>", "<mask>", *words]) + "\n")
    return n_pairs


def test_two_gigabytes_train_in_one(tmp_path):
    n_pairs = write_large(tmp_path / "corpus.txt")
    flags = "-c corpus.txt -v vocab.txt -o run/model -hs 16 -l 1 -a 2 -s 32 -b 64 --max_steps 20 --device cpu".split()
    environment = {"PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "2", "PATH": "/usr/bin:/bin"}
    try:
        for _ in range(2):
            command = [sys.executable, "-c", CHILD, *flags]
            done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=1800)
            assert done.returncode == 0, done.stderr[-2000:]
            report = json.loads(done.stdout.splitlines()[-1])
            assert (report["ok"], report["pairs"], report["steps"]) == (True, n_pairs, 20)
            assert math.isfinite(report["train_loss"])
            print(done.stderr.splitlines()[-1], report["elapsed_seconds"])
        assert "encoded before" in done.stderr
    finally:
        for path in (tmp_path / "corpus.txt", *(tmp_path / "run").glob("*.tokens")):
            path.unlink(missing_ok=True)
