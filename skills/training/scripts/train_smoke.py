#!/usr/bin/env python3
"""Prove that training works here: vocabulary, training, evaluation, saving, reloading and resuming on a small corpus."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(next(p / "src" for p in Path(__file__).resolve().parents if (p / "src" / "bert_pytorch").is_dir())))

from bert_pytorch.assembly import check_device
from bert_pytorch.command import Parser, at_least, between, run, say
from bert_pytorch.dataset.corpus import PairCorpus
from bert_pytorch.dataset.lines import read_text
from bert_pytorch.dataset.vocab import WordVocab
from bert_pytorch.errors import InputError
from bert_pytorch.files import atomic_write, check_writable

if TYPE_CHECKING:
    from bert_pytorch import BERTTrainer

LEAST_KNOWN = 0.8
"""Share of the corpus' words that a vocabulary found in the work folder must know."""
DEFAULT_CORPUS = "bert-smoke/corpus.txt"
N_EVALUATION_DRAWS = 4
"""How many times the held-out pairs are evaluated, each time with other masks and partners."""


def split_corpus(args: argparse.Namespace, workdir: Path) -> tuple[Path, Path, int]:
    """Write the first 5/6 of the pairs and, as held-out, those of the rest that are not among them."""
    if not Path(args.corpus).is_file():
        maker = Path(__file__).resolve().parents[3] / "scripts" / "make_tiny_corpus.py"
        raise InputError(f"{args.corpus}: no such file; run: python {maker} --output {args.corpus} [E-FILE-READ]")
    pairs = list(PairCorpus(args.corpus))
    n_train = len(pairs) * 5 // 6
    seen = set(pairs[:n_train])
    parts = pairs[:n_train], [pair for pair in pairs[n_train:] if pair not in seen]
    if min(map(len, parts)) < 20:
        raise InputError(f"{args.corpus}: too few different pairs to hold 20 out for the proof; give more [E-SMOKE-SIZE]")
    paths = workdir / "train.txt", workdir / "held_out.txt"
    for path, part in zip(paths, parts, strict=True):
        with atomic_write(path) as file:
            file.write("".join(f"{first}\t{second}\n" for first, second in part).encode("utf-8"))
    return *paths, len(parts[1])


def open_vocab(train_path: Path, path: Path) -> WordVocab:
    """Load the vocabulary, or build it from the training pairs when there is none."""
    if not path.exists():
        WordVocab(read_text(str(train_path))).save_vocab(path)
    vocab = WordVocab.load_vocab(path)
    words = [word for line in read_text(str(train_path)) for word in line.split()]
    known = sum(word in vocab.stoi for word in words) / len(words)
    if known < LEAST_KNOWN:
        message = f"knows {known:.0%} of the corpus' words, so it is of another one; delete it or give another --workdir"
        raise InputError(f"{path}: {message} [E-SMOKE-VOCAB]")
    return vocab


def make_repeatable() -> None:
    """Have CUDA add in a fixed order: its fast attention and some of its sums do not, and runs could not be compared."""
    import torch

    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    for switch in (torch.backends.cuda.enable_flash_sdp, torch.backends.cuda.enable_mem_efficient_sdp):
        switch(False)


def make_trainer(args: argparse.Namespace, vocab: WordVocab, paths: tuple[Path, Path], with_cuda: bool) -> BERTTrainer:
    """A trainer with new weights; everything follows from the flags and the seed."""
    import torch

    from bert_pytorch import BERT, BERTDataset, BERTTrainer
    from bert_pytorch.dataset.loader import BatchLoader

    # Matrices this small gain nothing from a second thread, and on a busy machine threads wait for each other: 34 s with one
    # thread beside another job, 80 to 120 s with two.
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    train_data, test_data = (BERTDataset(path, vocab, args.seq_len, seed=args.seed) for path in paths)
    loader = BatchLoader(train_data, args.batch_size, shuffle=True)
    bert = BERT(len(vocab), hidden=args.hidden, n_layers=args.layers, attn_heads=args.attn_heads)
    max_steps = args.epochs * len(loader)
    return BERTTrainer(
        bert,
        len(vocab),
        loader,
        BatchLoader(test_data, args.batch_size, shuffle=False),
        lr=args.lr,
        with_cuda=with_cuda,
        cuda_devices=[0] if with_cuda else None,
        log_freq=max_steps,
        max_steps=max_steps,
        word_counts=train_data.word_counts,
    )


def evaluate(trainer: BERTTrainer) -> dict[str, float]:
    """Held-out figures, averaged over several draws of masks and partners of equal size."""
    reports = []
    for draw in range(N_EVALUATION_DRAWS):
        trainer.test_data.dataset.set_epoch(draw)
        reports.append(trainer.test(draw))
    return {name: sum(report[name] for report in reports) / len(reports) for name in reports[0]}


def prove_reload(trainer: BERTTrainer, checkpoint: str) -> bool:
    """Whether the checkpoint's model gives the trained model's outputs, to the bit."""
    import torch

    from bert_pytorch.trainer import load_model

    reloaded = load_model(checkpoint).to(trainer.device)
    batch = next(iter(trainer.test_data))
    inputs, segments = batch["bert_input"].to(trainer.device), batch["segment_label"].to(trainer.device)
    trainer.language_model.eval()
    with torch.no_grad():
        outputs = zip(trainer.language_model(inputs, segments), reloaded(inputs, segments), strict=True)
        return all(torch.equal(ours, theirs) for ours, theirs in outputs)


def prove_resume(trainer: BERTTrainer, resumed: BERTTrainer, checkpoint: str, n_epochs: int) -> bool:
    """Whether a new trainer that goes on from `checkpoint` ends with the weights, moments and rate of the unbroken one."""
    import torch

    for epoch in range(resumed.resume(checkpoint), n_epochs):
        resumed.train(epoch)
    ours, theirs = trainer.language_model.state_dict(), resumed.language_model.state_dict()
    moments = [each.optim.state_dict()["state"] for each in (trainer, resumed)]
    return (
        all(torch.equal(ours[name], theirs[name]) for name in ours)
        and all(torch.equal(moments[0][i][name], moments[1][i][name]) for i in moments[0] for name in moments[0][i])
        and trainer.optim_schedule.state_dict() == resumed.optim_schedule.state_dict()
    )


def work(args: argparse.Namespace) -> dict[str, object]:
    """Train and check every claim; `ok` is true only when all of them hold."""
    with_cuda = check_device(args.device)
    began = time.perf_counter()
    if with_cuda:
        make_repeatable()
    workdir = Path(args.workdir)
    check_writable(workdir / "bert.model")
    train_path, test_path, n_held_out = split_corpus(args, workdir)
    vocab = open_vocab(train_path, workdir / "vocab.json")
    trainer, resumed = (make_trainer(args, vocab, (train_path, test_path), with_cuda) for _ in range(2))
    before = evaluate(trainer)
    partway, checkpoint = "", ""
    for epoch in range(args.epochs):
        report = trainer.train(epoch)
        if epoch == (args.epochs - 1) * 3 // 4:
            partway = trainer.save(epoch, str(workdir / "bert.model"))
        print(f"epoch {epoch} train loss {report['loss']:.3f} next sentence {report['nsp_accuracy']:.1%}", file=sys.stderr)
    checkpoint = trainer.save(args.epochs - 1, str(workdir / "bert.model"))
    after = evaluate(trainer)
    chance = 0.5 + 3 * 0.5 / (n_held_out * N_EVALUATION_DRAWS) ** 0.5
    proofs = {
        "loss_fell": after["loss"] < 0.9 * before["loss"],
        "masked_words_beat_commonest": after["mlm_accuracy"] > after["unigram_accuracy"],
        "next_sentence_beats_chance": after["nsp_accuracy"] > chance,
        "reload_is_identical": prove_reload(trainer, checkpoint),
        "resume_is_identical": prove_resume(trainer, resumed, partway, args.epochs),
    }
    for name, holds in proofs.items():
        say(args, f"{'yes' if holds else 'NO ':3} {name}")
    return {
        "ok": all(proofs.values()),
        **proofs,
        "loss_before": before["loss"],
        "loss_after": after["loss"],
        "mlm_accuracy": after["mlm_accuracy"],
        "commonest_word_accuracy": after["unigram_accuracy"],
        "nsp_accuracy": after["nsp_accuracy"],
        "nsp_accuracy_needed": chance,
        "steps": trainer.optim_schedule.n_current_steps,
        "held_out_pairs": n_held_out,
        "vocab_size": len(vocab),
        "device": str(trainer.device),
        "checkpoint": checkpoint,
        "elapsed_seconds": time.perf_counter() - began,
    }


def main() -> int:
    """Parse the flags and run the proof."""
    parser = Parser(description=__doc__)
    add, positive = parser.add_argument, at_least(1)
    add("--corpus", default=DEFAULT_CORPUS, metavar="FILE", help=f"pairs, two texts and a tab a line ({DEFAULT_CORPUS})")
    add("--workdir", default="bert-smoke", metavar="DIR", help="vocabulary, split and checkpoints go here (bert-smoke)")
    add("--device", choices=("cpu", "cuda", "auto"), default="auto", help="cuda: fail without one (auto)")
    add("--epochs", type=at_least(2), default=26, metavar="N", help="passes over the training pairs (26)")
    add("--seed", type=at_least(0), default=0, metavar="N", help="same seed, same run (0)")
    add("--hidden", type=positive, default=64, metavar="N", help="hidden size (64)")
    add("--layers", type=positive, default=2, metavar="N", help="transformer layers (2)")
    add("--attn_heads", type=positive, default=4, metavar="N", help="attention heads; divides --hidden (4)")
    add("--seq_len", type=at_least(5), default=32, metavar="N", help="tokens a pair, 3 markers included (32)")
    add("--batch_size", type=positive, default=32, metavar="N", help="pairs a step (32)")
    add("--lr", type=between(0, float("inf"), above=True), default=5e-3, metavar="X", help="peak learning rate (0.005)")
    add("--json", action="store_true", help="print the closing JSON line only")
    return run(parser, work)


if __name__ == "__main__":
    sys.exit(main())
