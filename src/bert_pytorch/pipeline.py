"""From files to a vocabulary, and from files to a trained model: the work of `bert-vocab` and `bert`."""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

from .assembly import check_device_flags, make_loaders, make_trainer, plan_steps
from .errors import InputError, UsageError
from .files import check_writable
from .inputs import check_data_flags, open_datasets, share_of_seen
from .memory import peak_memory_bytes

if TYPE_CHECKING:
    from .trainer.arguments import TrainingArguments
    from .trainer.callbacks import TrainerControl, TrainerState
    from .trainer.pretrain import BERTTrainer

_REPORTED = (
    *(
        "stopped_by",
        "steps",
        "epochs",
        "real_tokens_per_second",
        "steps_per_second",
        "train_loss",
        "train_mlm_loss",
        "train_nsp_accuracy",
    ),
    *("eval_loss", "eval_mlm_loss", "eval_mlm_accuracy", "eval_nsp_loss", "eval_nsp_accuracy", "eval_unigram_loss"),
    *("eval_unigram_accuracy", "checkpoint", "best_metric", "best_model_checkpoint"),
)
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
    from .trainer.distributed import start
    from .trainer.reporting import ReportCallback

    began = time.perf_counter()
    folder, prefix = args.output_dir, args.output_path
    if folder is None and prefix is None:
        raise UsageError("neither --output_dir nor -o is given; name where the run is kept [E-USAGE]")
    if args.resume_from_checkpoint == "last" and folder is None:
        args.resume_from_checkpoint = find_last(str(prefix))
    check_writable(os.path.join(str(folder), "log.jsonl") if prefix is None else prefix)
    vocab = Vocab.load_vocab(args.vocab_path)
    world = start(with_cuda, args.ddp_timeout)
    with world.main_first():
        dataset, test_dataset = open_datasets(args, vocab)
    share_seen = share_of_seen(dataset, test_dataset)
    if share_seen is not None and share_seen > _LARGE_SHARE_SEEN:
        message = f"{share_seen:.0%} of its lines stand in {args.train_dataset} too: the held-out loss measures memory"
        warnings.warn(f"{args.test_dataset}: {message}", stacklevel=2)
    torch.manual_seed(args.seed)
    train_data, test_data = make_loaders(args, dataset, test_dataset, with_cuda)
    max_steps = plan_steps(args, train_data)
    trainer = make_trainer(args, vocab, train_data, test_data, with_cuda, max_steps, dataset)
    _warn_of_earlier(args)
    facts = {
        "vocab_size": len(vocab),
        "pairs": len(dataset),
        "skipped_lines": dataset.n_skipped,
        "trimmed_pairs": dataset.n_trimmed,
        "unk_share": dataset.n_unknown / dataset.n_words,
        "eval_seen_share": share_seen,
    }
    trainer.callbacks = [_Lines(), *([ReportCallback(facts, vocab)] if folder is not None else [])]
    outcome = trainer.fit()
    return {
        "ok": True,
        **{name: outcome.get(name) for name in _REPORTED},
        "real_tokens": int(outcome["real_tokens"]),
        "eval_targets": outcome.get("eval_n_targets"),
        "eval_pairs": outcome.get("eval_n_items"),
        "planned_steps": trainer.max_steps,
        "warmup_steps": trainer.optim_schedule.n_warmup_steps,
        "parameters": sum(parameter.numel() for parameter in trainer.language_model.parameters()),
        **facts,
        "device": str(trainer.device),
        "processes": world.size,
        "seed": args.seed,
        "peak_memory_bytes": peak_memory_bytes(trainer.device),
        "elapsed_seconds": time.perf_counter() - began,
    }


def _warn_of_earlier(args: argparse.Namespace) -> None:
    """Say what an earlier run left under the output path."""
    from .trainer.checkpoint import list_checkpoints

    left = list_checkpoints(args.output_path) if args.output_path and args.resume_from_checkpoint is None else []
    if left:
        message = f"{len(left)} checkpoints of an earlier run are there and will be overwritten one by one"
        warnings.warn(f"{args.output_path}.ep*: {message}; name another --output_path to keep them", stacklevel=2)


class _Lines:
    """Says on stderr where a run begins again, and what each pass and each evaluation came to."""

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, trainer: BERTTrainer
    ) -> None:
        """Name the checkpoint, and how many processes do what."""
        if not state.is_world_process_zero:
            return
        if trainer.world.size > 1:
            how = "weights are copied to each" if args.sharding is None else f"sharding {args.sharding}"
            print(f"{trainer.world.size} processes share each step; {how}", file=sys.stderr)
        if state.global_step:
            steps = f"{state.global_step} of {state.max_steps} steps"
            done = f"{steps} are done, going on with epoch {int(state.epoch)}"
            print(f"resumed from {args.resume_from_checkpoint or 'last'}: {done}", file=sys.stderr)

    def on_epoch_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, trainer: BERTTrainer) -> None:
        """Give the training loss of the pass."""
        if trainer.pass_metrics is not None:
            loss = trainer.pass_metrics.read()["loss"]
            if not state.is_world_process_zero:
                return
            print(f"epoch {round(state.epoch) - 1} train loss {loss:.4f}", file=sys.stderr)

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, metrics: Mapping[str, float]
    ) -> None:
        """Give the held-out losses."""
        if not state.is_world_process_zero:
            return
        line = f"step {state.global_step} held-out loss {metrics['eval_loss']:.4f}"
        line += f", masked words {metrics['eval_mlm_loss']:.4f} nats (unigram {metrics['eval_unigram_loss']:.4f})"
        if not math.isnan(metrics["eval_nsp_accuracy"]):
            line += f", next sentence {metrics['eval_nsp_accuracy']:.1%}"
        print(line, file=sys.stderr)
