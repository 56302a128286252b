"""Small corpora, batches, models and trainers. Sizes are different primes, so that swapped dimensions cannot pass."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import torch

from bert_pytorch import BERT, BERTDataset, BERTTrainer, WordVocab
from bert_pytorch.dataset.corpus import PairCorpus

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
SHARED = ROOT.parent / "shared" / "data"
LIBRARY = SOURCE / "bert_pytorch"
SCRIPTS = sorted([*ROOT.glob("scripts/*.py"), *ROOT.glob("skills/*/scripts/*.py")])

B, L, N, H, V = 2, 7, 3, 5, 23
D = N * H


def write_pairs(path, pairs, line_end="\n"):
    with open(path, "wb") as file:
        file.write("".join(f"{first}\t{second}{line_end}" for first, second in pairs).encode())
    return path


def story_pairs(n_pairs=11):
    """Pairs that differ from one another, of 8 words and 10 tokens with markers less one."""
    return [(f"a{i} b{i % 3} c d", f"e f{i % 5} g{i} h") for i in range(n_pairs)]


def make_vocab(pairs):
    return WordVocab([f"{first}\t{second}\n" for first, second in pairs])


def make_dataset(path, pairs=None, seq_len=13, **options):
    pairs = story_pairs() if pairs is None else pairs
    write_pairs(path, pairs)
    return BERTDataset(path, make_vocab(pairs), seq_len, **options)


def make_batch(seed=0, n_sequences=B, n_tokens=L, n_padding=0, **changed):
    """A batch of random real words, one target a row, padded at the end; `changed` replaces tensors."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randint(5, V, (n_sequences, n_tokens), generator=generator)
    labels = torch.zeros_like(inputs)
    labels[:, 2] = inputs[:, 2]
    inputs[:, 2] = 4
    segments = torch.ones_like(inputs)
    segments[:, 4:] = 2
    is_next = torch.randint(0, 2, (n_sequences,), generator=generator)
    padding = torch.zeros(n_sequences, n_padding, dtype=torch.int64)
    batch = {"bert_input": inputs, "bert_label": labels, "segment_label": segments}
    batch = {key: torch.cat([value, padding], 1) for key, value in batch.items()}
    return {**batch, "is_next": is_next, **changed}


def make_batches(n_batches=3, **options):
    return [make_batch(seed, **options) for seed in range(n_batches)]


def make_bert(vocab_size=V, n_layers=2, dropout=0.1, seed=0, **options):
    torch.manual_seed(seed)
    return BERT(vocab_size, hidden=D, n_layers=n_layers, attn_heads=N, dropout=dropout, **options)


def make_trainer(train_data=None, test_data=None, dropout=0.1, seed=0, vocab_size=V, **options):
    """A trainer with the same new weights and the same random state at each call."""
    bert = make_bert(vocab_size, n_layers=1, dropout=dropout, seed=seed)
    train_data = make_batches() if train_data is None else train_data
    trainer = BERTTrainer(bert, vocab_size, train_data, test_data, with_cuda=False, **options)
    torch.manual_seed(seed + 1)
    return trainer


def load_script(skill, name):
    """A script of a skill as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "skills" / skill / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_root_script(name):
    """A script of the root folder as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def read_part(path, single=False):
    """The pairs that the library reads from a file, without one bad line."""
    if single:
        with open(path, encoding="utf-8", newline="\n") as file:
            return [line.removesuffix("\n") for line in file]
    return list(PairCorpus(path))


def same_tensors(one, other):
    """Whether two nests of dicts, lists and tensors are equal to the bit."""
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_tensors(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same_tensors, one, other))
    return one == other


def assert_one_line(error, path, code):
    """The form of every message to a user: one line that names the file and ends with its code."""
    message = str(error)
    assert "\n" not in message
    assert str(path) in message
    assert message.endswith(f"[{code}]")


def weights(trainer):
    return {name: value.clone() for name, value in trainer.model.state_dict().items()}


def whole_state(trainer):
    return {
        "weights": weights(trainer),
        "optimizer": trainer.optim.state_dict(),
        "schedule": trainer.optim_schedule.state_dict(),
        "random": torch.get_rng_state(),
    }


def start_python(*arguments, folder, **options):
    """A new interpreter on this checkout's library, one thread; returns the running process."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
