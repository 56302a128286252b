"""From files to a vocabulary, and from files to a trained model: the work of `bert-vocab` and `bert`."""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from typing import TYPE_CHECKING

from .assembly import check_device_flags, make_loaders, make_trainer, peak_memory_bytes, plan_steps
from .errors import InputError
from .files import check_writable
from .inputs import check_data_flags, open_datasets

if TYPE_CHECKING:
    from .trainer import BERTTrainer

_LARGE_SHARE_SEEN = 0.2
_LEAST_PIECES_A_WORD = 1.03


def build_vocabulary(args: argparse.Namespace) -> dict[str, object]:
    """Count the words of corpora and write the vocabulary; returns the report of `bert-vocab`."""
    from .dataset.counting import count_files
    from .dataset.vocab import WordVocab

    began = time.perf_counter()
    check_writable(args.output_path)
    counts = count_files(args.corpus_path, args.encoding)
    options = {"min_freq": args.min_freq, "lowercase": args.lowercase, "normalize": args.normalize}
    if args.model == "word":
        vocab = WordVocab.of_counts(counts, args.vocab_size, **options)
    else:
        from .dataset.tokenizer import train_subwords

        model = {"wordpiece": "WordPiece", "bpe": "BPE"}[args.model]
        vocab = train_subwords(counts, model, args.vocab_size, **options)
    n_known, n_tokens, n_words = sum(vocab.counts), sum(vocab.freqs.values()), sum(counts.values())
    if not n_known:
        paths = ", ".join(args.corpus_path)
        raise InputError(f"{paths}: no word occurs {args.min_freq} times; check file and --min_freq [E-VOCAB-EMPTY]")
    if args.model != "word" and n_tokens < _LEAST_PIECES_A_WORD * n_words:
        message = f"{n_tokens / n_words:.3f} pieces a word: nearly all words are whole, and masking whole words changes nothing"
        warnings.warn(f"{args.output_path}: {message}; lower --vocab_size, or take --model word", stacklevel=2)
    vocab.save_vocab(args.output_path)
    return {
        "ok": True,
        "vocab_path": args.output_path,
        "model": args.model,
        "vocab_size": len(vocab),
        "words": n_words,
        "types": len(counts),
        "tokens_per_word": n_tokens / n_words,
        "unk_share": 1 - n_known / n_tokens,
        "elapsed_seconds": time.perf_counter() - began,
    }


def pretrain(args: argparse.Namespace) -> dict[str, object]:
    """Train as the flags of `bert` say; returns its report.

    Everything that can be wrong with files, flags and devices is found before the first step.
    """
    with_cuda = check_device_flags(args)
    check_data_flags(args)
    import torch

    from .dataset.vocab import Vocab
    from .trainer.checkpoint import find_last

    began = time.perf_counter()
    resume_from = args.resume_from_checkpoint
    if resume_from == "last":
        resume_from = find_last(args.output_path)
    check_writable(args.output_path)
    vocab = Vocab.load_vocab(args.vocab_path)
    dataset, test_dataset = open_datasets(args, vocab)
    share_seen = None if test_dataset is None else test_dataset.encoded.share_in(dataset.encoded)
    if share_seen is not None and share_seen > _LARGE_SHARE_SEEN:
        message = f"{share_seen:.0%} of its lines stand in {args.train_dataset} too: the held-out loss measures memory"
        warnings.warn(f"{args.test_dataset}: {message}", stacklevel=2)
    torch.manual_seed(args.seed)
    train_data, test_data = make_loaders(args, dataset, test_dataset, with_cuda)
    max_steps, n_epochs = plan_steps(args, train_data)
    trainer = make_trainer(args, vocab, train_data, test_data, with_cuda, max_steps, dataset)
    first_epoch = _begin(trainer, args.output_path, resume_from)
    outcome = _run_epochs(trainer, args, first_epoch, n_epochs)
    return {
        "ok": True,
        "steps": trainer.optim_schedule.n_current_steps,
        **outcome,
        "planned_steps": trainer.max_steps,
        "warmup_steps": trainer.optim_schedule.n_warmup_steps,
        "parameters": sum(parameter.numel() for parameter in trainer.language_model.parameters()),
        "vocab_size": len(vocab),
        "pairs": len(dataset),
        "skipped_lines": dataset.n_skipped,
        "trimmed_pairs": dataset.n_trimmed,
        "unk_share": dataset.n_unknown / dataset.n_words,
        "eval_seen_share": share_seen,
        "device": str(trainer.device),
        "seed": args.seed,
        "peak_memory_bytes": peak_memory_bytes(trainer),
        "elapsed_seconds": time.perf_counter() - began,
    }


def _begin(trainer: BERTTrainer, output_path: str, resume_from: str | None) -> int:
    """Resume, or say what an earlier run left under the output path; the number of the first pass to train."""
    from .trainer.checkpoint import list_checkpoints

    if resume_from is not None:
        first_epoch = trainer.resume(resume_from)
        steps = f"{trainer.optim_schedule.n_current_steps} of {trainer.max_steps} steps"
        print(f"resumed from {resume_from}: {steps} are done, going on with epoch {first_epoch}", file=sys.stderr)
        return first_epoch
    left = list_checkpoints(output_path)
    if left:
        message = f"{len(left)} checkpoints of an earlier run are there and will be overwritten one by one"
        warnings.warn(f"{output_path}.ep*: {message}; name another --output_path to keep them", stacklevel=2)
    return 0


def _run_epochs(trainer: BERTTrainer, args: argparse.Namespace, first_epoch: int, n_epochs: int) -> dict[str, object]:
    train_report: dict[str, float] = {}
    test_report: dict[str, float] = {}
    checkpoint, real_tokens, seconds = None, 0.0, 0.0
    last_epoch = min(n_epochs, args.stop_after_epochs or n_epochs)
    if first_epoch >= last_epoch or trainer.is_done:
        plan = "--max_steps" if args.max_steps else "--epochs"
        flag = plan if last_epoch == n_epochs else "--stop_after_epochs"
        message = f"the checkpoint has all that {flag} asks for; to train longer raise it"
        raise InputError(f"{message} [E-RESUME-DONE]")
    first_step = trainer.optim_schedule.n_current_steps
    for epoch in range(first_epoch, last_epoch):
        train_report = trainer.train(epoch)
        real_tokens += train_report["real_tokens"]
        seconds += train_report["seconds"]
        checkpoint = trainer.save(epoch, args.output_path)
        if trainer.test_data is not None:
            test_report = trainer.test(epoch)
        _print_epoch(epoch, train_report, test_report)
    return {
        "epochs": last_epoch,
        "real_tokens": int(real_tokens),
        "real_tokens_per_second": real_tokens / seconds,
        "steps_per_second": (trainer.optim_schedule.n_current_steps - first_step) / seconds,
        "train_loss": train_report["loss"],
        "train_mlm_loss": train_report["mlm_loss"],
        "train_nsp_accuracy": train_report["nsp_accuracy"],
        "eval_loss": test_report.get("loss"),
        "eval_mlm_loss": test_report.get("mlm_loss"),
        "eval_mlm_accuracy": test_report.get("mlm_accuracy"),
        "eval_nsp_loss": test_report.get("nsp_loss"),
        "eval_nsp_accuracy": test_report.get("nsp_accuracy"),
        "eval_unigram_loss": test_report.get("unigram_loss"),
        "eval_unigram_accuracy": test_report.get("unigram_accuracy"),
        "eval_targets": test_report.get("n_targets"),
        "eval_pairs": test_report.get("n_items"),
        "checkpoint": checkpoint,
    }


def _print_epoch(epoch: int, train_report: dict[str, float], test_report: dict[str, float]) -> None:
    line = f"epoch {epoch} train loss {train_report['loss']:.4f}"
    if test_report:
        line += (
            f" | held-out loss {test_report['loss']:.4f}, masked words {test_report['mlm_loss']:.4f} nats"
            f" (unigram {test_report['unigram_loss']:.4f})"
        )
        if not math.isnan(test_report["nsp_accuracy"]):
            line += f", next sentence {test_report['nsp_accuracy']:.1%}"
    print(line, file=sys.stderr)
