"""What each task begins with: files in a clean folder; and what a verifier knows besides, which no folder holds.

Everything is a function of fixed seeds. Folders with a trained model are made by this checkout's own commands.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import texts

ROOT = Path(__file__).resolve().parents[1]
RESUME_FLAGS = (
    "-c train.txt -t held_out.txt -v vocab.json --output_dir run -hs 32 -l 1 -a 2 -s 32 -b 16 --max_steps 120 "
    "--save_strategy steps --save_steps 40 --lr 0.003 --seed 5 --device cpu"
)
N_PLANTED = 12
OLD_WORDS = ["<pad>", "<unk>", "<eos>", "<sos>", "<mask>", *(f"w{i}" for i in range(18))]
FAULTS = {"no tab": 7, "two tabs": 4, "empty text": 5, "not UTF-8": 3}


def write(folder: Path, name: str, lines: list[str]) -> None:
    """A text file of lines."""
    (folder / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def bert(words: str, folder: Path) -> str:
    """`bert` of this checkout, in a folder; the line that it prints last."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-m", "bert_pytorch", *words.split()],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"bert {words}: {done.stderr[-2000:]}")
    return done.stdout.splitlines()[-1]


def story_pairs(seed: int, n: int) -> list[str]:
    """Pairs of consecutive sentences, a tab between them."""
    return [f"{first}\t{second}" for story in texts.stories(seed, n) for first, second in pairwise(story)]


def vocabulary(folder: Path) -> None:
    """All words of train.txt."""
    from bert_pytorch.dataset.vocab import WordVocab

    with open(folder / "train.txt", encoding="utf-8") as lines:
        WordVocab(lines).save_vocab(folder / "vocab.json")


def small_model(folder: Path) -> None:
    """A vocabulary and a checkpoint of a small model of stories."""
    write(folder, "train.txt", story_pairs(11, 300))
    vocabulary(folder)
    bert("-c train.txt -v vocab.json -o model/bert -hs 48 -l 2 -a 4 -s 32 -b 32 -e 4 --lr 0.003 --device cpu", folder)
    (folder / "model" / "bert.ep3").rename(folder / "bert.ckpt")
    shutil.rmtree(folder / "model")


def log_pretraining(folder: Path) -> None:
    """A server's log."""
    write(folder, "server.log", texts.log_lines(21, 4000))


def protein_pretraining(folder: Path) -> None:
    """Sequences as FASTA."""
    lines = [part for name, letters in texts.proteins(22, 500) for part in (f">{name}", letters)]
    write(folder, "proteins.fasta", lines)


def good_pairs() -> list[str]:
    """The pairs of the faulty corpus that are none of its faults."""
    return story_pairs(23, 150)


def faulty_corpus(folder: Path) -> None:
    """A corpus with lines that cannot be trained on, here and there."""
    lines = [line.encode() for line in good_pairs()]
    first = [line.split("\t")[0] for line in story_pairs(24, 30)]
    bad = [
        *(f"{text} and no second text".encode() for text in first[: FAULTS["no tab"]]),
        *(f"{text}\tmiddle\tend".encode() for text in first[10 : 10 + FAULTS["two tabs"]]),
        *(f"{text}\t".encode() for text in first[20 : 20 + FAULTS["empty text"]]),
        *(f"{text} caf".encode() + b"\xe9\tna\xefve" for text in first[30 : 30 + FAULTS["not UTF-8"]]),
    ]
    draws = random.Random(25)
    for line in bad:
        lines.insert(draws.randrange(len(lines)), line)
    (folder / "pairs.txt").write_bytes(b"".join(line + b"\n" for line in lines))


def interrupted_run(folder: Path) -> None:
    """A run that was stopped at a third of its way, and the command that had begun it."""
    pairs = story_pairs(26, 400)
    write(folder, "train.txt", pairs[:-150])
    write(folder, "held_out.txt", pairs[-150:])
    vocabulary(folder)
    bert(RESUME_FLAGS, folder)
    for step in (80, 120):
        shutil.rmtree(folder / "run" / f"checkpoint-{step}")
    for path in (folder / "run").iterdir():
        if path.is_file():
            path.unlink()
    write(folder, "command.txt", [f"bert {RESUME_FLAGS}"])


def planning(folder: Path) -> None:
    """Pairs to plan a run on."""
    write(folder, "train.txt", story_pairs(27, 800))


def tickets() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Tickets and their kinds: those that are given with it, and those to be told."""
    rows = texts.tickets(28, 900)
    return rows[:500], rows[500:700]


def classification(folder: Path) -> None:
    """Tickets with their kind, tickets without, and many that nobody has read."""
    labelled, unlabelled = tickets()
    write(folder, "labelled.tsv", ["text\tlabel", *(f"{text}\t{kind}" for text, kind in labelled)])
    write(folder, "unlabelled.txt", [text for text, _ in unlabelled])
    write(folder, "archive.txt", [text for text, _ in texts.tickets(29, 3000)])


def sentences_to_tag() -> list[list[tuple[str, str]]]:
    """Words and the tags to be found."""
    return texts.tagged(31, 100)


def tagging(folder: Path) -> None:
    """Tagged sentences, and sentences to tag."""
    columns = [f"{word} {tag}" if word else "" for s in texts.tagged(30, 500) for word, tag in [*s, ("", "")]]
    write(folder, "train.conll", columns)
    write(folder, "untagged.txt", [" ".join(word for word, _ in sentence) for sentence in sentences_to_tag()])


def log_to_search() -> tuple[list[str], list[int]]:
    """The lines of the log to be searched, and the numbers, from 1, of those that do not belong."""
    lines = texts.log_lines(33, 1200)
    draws, planted = random.Random(34), texts.odd_lines(35, lines, N_PLANTED)
    places = sorted(draws.sample(range(len(lines)), N_PLANTED))
    for shift, (place, line) in enumerate(zip(places, planted, strict=True)):
        lines.insert(place + shift, line)
    return lines, [place + shift + 1 for shift, place in enumerate(places)]


def odd_lines(folder: Path) -> None:
    """A log of good days and one of a bad day."""
    write(folder, "normal.log", texts.log_lines(32, 4000))
    write(folder, "today.log", log_to_search()[0])


def vectors(folder: Path) -> None:
    """A model, texts, and texts to find neighbours for."""
    small_model(folder)
    write(folder, "texts.txt", sorted({sentence for story in texts.stories(36, 60) for sentence in story}))
    write(folder, "queries.txt", [story[2] for story in texts.stories(37, 5)])


def old_files(folder: Path) -> None:
    """A vocabulary and a model as 0.0.1a4 has written them."""
    sys.path.insert(0, str(ROOT))
    from tests.unit.lookalikes import write_files

    with tempfile.TemporaryDirectory() as place:
        write_files(Path(place))
        shutil.copy(Path(place) / "vocab.pkl", folder / "vocab.pkl")
        shutil.copy(Path(place) / "bert.model.ep0", folder / "bert.model.ep0")


def old_script(folder: Path) -> None:
    """A training script of 0.0.1a4, its data, and what it printed."""
    pairs = story_pairs(38, 1500)
    write(folder, "corpus.train.txt", pairs[:-300])
    write(folder, "corpus.valid.txt", pairs[-300:])
    script = """import pickle
from torch.utils.data import DataLoader
from bert_pytorch.dataset import BERTDataset, WordVocab
from bert_pytorch.model import BERT
from bert_pytorch.trainer import BERTTrainer

with open("corpus.train.txt") as f:
    vocab = WordVocab(f, max_size=None, min_freq=1)
vocab.save_vocab("vocab.pkl")
train = BERTDataset("corpus.train.txt", vocab, seq_len=32)
valid = BERTDataset("corpus.valid.txt", vocab, seq_len=32)
bert = BERT(len(vocab), hidden=64, n_layers=2, attn_heads=4)
trainer = BERTTrainer(bert, len(vocab), DataLoader(train, batch_size=32), DataLoader(valid, batch_size=32), lr=1e-3,
                      with_cuda=False, log_freq=10)
for epoch in range(2):
    trainer.train(epoch)
    trainer.save(epoch, "old/bert.model")
    trainer.test(epoch)
"""
    (folder / "train_bert.py").write_text(script, encoding="utf-8")
    epochs = [f"EP{i}_train, avg_loss= {8.9 - i * 0.4:.4f} total_acc= {50.1 - i * 0.2:.4f}" for i in range(2)]
    write(folder, "train_bert.out", ["Creating BERT Trainer", "Total Parameters: 213893", "Training Start", *epochs])


FIXTURES: dict[str, Callable[[Path], None]] = {
    "log-pretraining": log_pretraining,
    "protein-pretraining": protein_pretraining,
    "faulty-corpus": faulty_corpus,
    "interrupted-run": interrupted_run,
    "planning": planning,
    "classification": classification,
    "tagging": tagging,
    "odd-lines": odd_lines,
    "export": small_model,
    "vectors": vectors,
    "old-files": old_files,
    "old-script": old_script,
}


def task_of(name: str) -> dict[str, object]:
    """A task by its name."""
    return next(each for each in tasks() if each["name"] == name)


def tasks() -> list[dict[str, object]]:
    """The tasks, as `evals.json` has them."""
    return json.loads((Path(__file__).parent / "evals.json").read_text(encoding="utf-8"))["evals"]
