"""The commands `bert` (pretrain) and `bert-vocab` (build a vocabulary). Torch is imported when a run begins, not before."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import fields

from .assembly import SIZES
from .command import Parser, at_least, between, boolean, json_object, run
from .dataset.corpus import OBJECTIVES
from .launch import n_processes
from .pipeline import build_vocabulary, pretrain
from .trainer.arguments import ABOVE_0, FROM_0, FROM_1, SHARE, WHOLE, TrainingArguments

INFINITY = float("inf")


def parse_args(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line of `bert`; `sys.argv` by default."""
    return bert_parser().parse(argv)


def train(argv: Sequence[str] | None = None) -> int:
    """Run the command `bert`; returns its exit status."""
    status = run(bert_parser(), pretrain, argv)
    if status == 0 and n_processes() > 1:
        from .trainer.distributed import stop

        stop()
    return status


def build_vocab(argv: Sequence[str] | None = None) -> int:
    """Run the command `bert-vocab`; returns its exit status."""
    return run(vocab_parser(), build_vocabulary, argv)


def bert_parser() -> Parser:
    """The flags of `bert`."""
    parser = Parser(prog="bert", description="Pretrain a BERT on pairs of texts. Ends with one JSON line on stdout.")
    add = parser.add_argument
    add("--config", metavar="FILE", help="YAML of flags by name; those of the command line win")
    add(
        "-c", "--train_dataset", required=True, metavar="FILE", help="corpus: two texts and a tab a line, or encoded; s3:// too"
    )
    add("-t", "--test_dataset", metavar="FILE", help="held-out corpus, evaluated after each epoch")
    add("-v", "--vocab_path", required=True, metavar="FILE", help="vocabulary made by bert-vocab")
    add("-o", "--output_path", metavar="PATH", help="checkpoints of whole passes are PATH.ep0, PATH.ep1, ...")
    _add_older_flags(parser)
    _add_flags_of_data_and_steps(parser)
    start = "begin with these weights and sizes: a checkpoint, or a folder in Transformers' form"
    add("--model_name_or_path", metavar="PATH", help=start)
    resume = "go on from the last checkpoint of --output_dir or PATH, or from this one"
    add("--resume_from_checkpoint", "--resume", metavar="last|PATH", help=resume)
    add_settings(parser)
    return parser


def _add_older_flags(parser: Parser) -> None:
    """Those of bert-pytorch, and what decides a run beside them."""
    add, positive, whole = parser.add_argument, at_least(1), at_least(0)
    add("-hs", "--hidden", type=positive, default=SIZES["hidden"][1], metavar="N", help="hidden size (256)")
    add("-l", "--layers", type=positive, default=SIZES["layers"][1], metavar="N", help="transformer layers (8)")
    add(
        "-a",
        "--attn_heads",
        type=positive,
        default=SIZES["attn_heads"][1],
        metavar="N",
        help="attention heads; divides --hidden (8)",
    )
    add("-s", "--seq_len", type=at_least(5), default=20, metavar="N", help="tokens a pair (3 are markers) or text (2 are) (20)")
    add("-b", "--batch_size", "--per_device_train_batch_size", type=positive, default=64, metavar="N", help="pairs a step (64)")
    add(
        "-e",
        "--epochs",
        "--num_train_epochs",
        type=positive,
        default=10,
        metavar="N",
        help="passes over the corpus, the plan (10)",
    )
    add("-w", "--num_workers", type=whole, metavar="N", help="data processes (CPU: 0; GPU: cores - 1, at most 5)")
    add("--with_cuda", type=boolean, default=True, metavar="BOOL", help="use CUDA where there is one (true)")
    add("--log_freq", "--logging_steps", type=positive, default=10, metavar="N", help="steps between two logs (10)")
    add("--corpus_lines", type=positive, metavar="N", help="use the first N lines of the train corpus (all)")
    add("--cuda_devices", type=whole, nargs="+", metavar="ID", help="GPU numbers (all)")
    add("--on_memory", type=boolean, default=True, metavar="BOOL", help="encode once; false: read texts at each use (true)")
    rate = between(0, INFINITY, above=True)
    add("--lr", "--learning_rate", type=rate, default=1e-3, metavar="X", help="peak learning rate (0.001)")
    decay = between(0, INFINITY)
    add("--adam_weight_decay", "--weight_decay", type=decay, default=0.01, metavar="X", help="decoupled weight decay (0.01)")
    add("--adam_beta1", type=between(0, 1), default=0.9, metavar="X", help="AdamW's first decay rate (0.9)")
    add("--adam_beta2", type=between(0, 1), default=0.999, metavar="X", help="AdamW's second decay rate (0.999)")
    add("--max_steps", type=positive, metavar="N", help="steps of the whole run, in place of --epochs")
    add("--warmup_steps", type=whole, metavar="N", help="steps up to the peak rate (10 %% of the run)")
    add("--max_grad_norm", type=between(0, INFINITY), default=1.0, metavar="X", help="clip gradient norm; 0: never (1.0)")
    add("--dropout", type=between(0, 1), default=0.1, metavar="X", help="dropout probability (0.1)")
    add("--architecture", choices=("bert", "modernbert"), default=SIZES["architecture"][1], help="the encoder's kind (bert)")
    add("--seed", type=whole, default=42, metavar="N", help="same seed, same run (42)")
    add("--device", choices=("cpu", "cuda", "auto"), default="auto", help="cuda: fail without one (auto)")
    add("--encoding", default="utf-8", metavar="NAME", help="encoding of the corpora (utf-8)")
    add("--skip_bad_lines", action="store_true", help="leave bad lines out and count them")


def _add_flags_of_data_and_steps(parser: Parser) -> None:
    """How examples and batches are made, and how a step is computed."""
    add, positive = parser.add_argument, at_least(1)
    add("--objective", choices=OBJECTIVES, default="mlm+nsp", help="masked words, next sentence, sentence order (mlm+nsp)")
    share = between(0, 1, above=True)
    add("--mlm_probability", type=share, default=0.15, metavar="X", help="share of words that are hidden (0.15)")
    add("--whole_word_masking", action="store_true", help="hide all pieces of a word together")
    add("--span_masking", action="store_true", help="hide runs of words, 3.8 long on average")
    add("--tokens_per_batch", type=positive, metavar="N", help="tokens a step, padding included, in place of -b")
    add("--group_by_length", action="store_true", help="pairs of like length share a step: less padding")
    add("--packing", action="store_true", help="several pairs share a row: nearly no padding; -b counts rows")
    add("--pad_to_multiple_of", type=positive, default=1, metavar="N", help="pad rows to multiples of N: fewer shapes (1)")
    add("--gradient_accumulation_steps", type=positive, default=1, metavar="N", help="batches a step (1)")
    add("--bf16", action="store_true", help="multiply in bfloat16: for GPUs, and CPUs with AMX")
    add("--fp16", action="store_true", help="multiply in float16, losses scaled: for GPUs without bfloat16")
    precision = "products of float32 in fewer bits: high on GPUs (TF32), medium on CPUs with AMX too (torch's, highest)"
    add("--float32_matmul_precision", choices=("highest", "high", "medium"), help=precision)
    add("--gradient_checkpointing", action="store_true", help="a fraction of the memory for a third more work")
    add("--torch_compile", action="store_true", help="compile the blocks; plan_run.py tells whether it pays")
    add("--torch_compile_backend", metavar="NAME", help="torch.compile's backend (inductor)")
    add("--cache_dir", metavar="DIR", help="folder for encoded corpora, and for copies of remote files (that of -o)")
    above_0 = between(0, INFINITY, above=True)
    add("--cache_limit", type=above_0, metavar="GIB", help="most that copies of remote shards take there (50)")


def add_settings(parser: Parser) -> None:
    """Add the settings of `TrainingArguments` that are no flags yet."""
    readers = {
        **{ABOVE_0: between(0, INFINITY, above=True), FROM_0: between(0, INFINITY), SHARE: between(0, 1)},
        **{FROM_1: at_least(1), WHOLE: at_least(0)},
    }
    for each in fields(TrainingArguments):
        flag, expected, what = f"--{each.name}", each.metadata["expected"], each.metadata["help"]
        if flag in parser.flags:
            continue
        shown = "" if each.default is None or each.default is False else f" ({each.default})"
        if each.default is False:
            parser.add_argument(flag, action="store_true", help=what)
        elif isinstance(expected, tuple):
            parser.add_argument(flag, choices=expected, default=each.default, help=what + shown)
        elif str(each.type).startswith("Mapping"):
            parser.add_argument(flag, type=json_object, metavar="JSON", help=what)
        elif str(each.type).startswith("bool"):
            parser.add_argument(flag, type=boolean, metavar="BOOL", help=what)
        else:
            reader, metavar = readers.get(expected, str), "X" if expected in (ABOVE_0, FROM_0, SHARE) else "N"
            parser.add_argument(
                flag, type=reader, default=each.default, metavar=metavar if expected else "NAME", help=what + shown
            )


def vocab_parser() -> Parser:
    """The flags of `bert-vocab`."""
    parser = Parser(prog="bert-vocab", description="Build a vocabulary. Ends with one JSON line on stdout.")
    add = parser.add_argument
    add("-c", "--corpus_path", required=True, nargs="+", action="extend", metavar="FILE", help="text files of words")
    add("-o", "--output_path", required=True, metavar="FILE", help="where the vocabulary is written")
    add("-s", "--vocab_size", type=at_least(1), metavar="N", help="most entries, 5 specials aside (word: all; else by text)")
    add("-e", "--encoding", default="utf-8", metavar="NAME", help="encoding of the corpora (utf-8)")
    add("-m", "--min_freq", type=at_least(1), default=1, metavar="N", help="least occurrences of a word or a new piece (1)")
    add("--model", choices=("word", "wordpiece", "bpe"), default="word", help="whole words, or pieces of them (word)")
    add("--lowercase", action="store_true", help="lower-case this text and all that is encoded later")
    add("--normalize", action="store_true", help="Unicode NFKC for this text and all that is encoded later")
    return parser
