#!/usr/bin/env python3
"""Write a model for other programs: Transformers and sentence-transformers, ONNX, TorchScript, or weights alone.

    export.py --model run/bert.model.ep9 --vocab_path vocab.json --to huggingface --output hub
    export.py --model run/bert.model.ep9 --vocab_path vocab.json --to onnx --output model.onnx

huggingface is a folder, the others are files. Each graph is run once and compared with the model before it gets its name:
ONNX by onnxruntime, to 1e-4. Inputs: input_ids and segment_ids [B, L] int64, segments 1, 2, 0 on padding; outputs: hidden
[B, L, D], next_sentence [B, 2] and words [B, L, V] as log-probabilities.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(next(p / "src" for p in Path(__file__).resolve().parents if (p / "src" / "bert_pytorch").is_dir())))

from bert_pytorch.command import Parser, run, say, wide_help
from bert_pytorch.inference.flags import add_json_flag

KINDS = ("huggingface", "safetensors", "onnx", "torchscript")


def build_parser() -> Parser:
    """The flags."""
    parser = Parser(
        description=__doc__,
        usage="%(prog)s --model PATH --to KIND --output PATH [flags]",
        formatter_class=wide_help,
    )
    add = parser.add_argument
    add("--model", required=True, metavar="PATH", help="checkpoint, or folder in Transformers' form")
    add("--vocab_path", metavar="FILE", help="vocabulary, with a checkpoint (a folder has its own)")
    add("--to", required=True, choices=KINDS, help="for whom")
    add("--output", required=True, metavar="PATH", help="folder (huggingface) or file")
    add("--encoder_only", action="store_true", help="onnx, torchscript: hidden alone, without the heads")
    add_json_flag(parser)
    return parser


def work(args: argparse.Namespace) -> dict[str, object]:
    """Export."""
    from bert_pytorch.errors import UsageError
    from bert_pytorch.files import check_writable
    from bert_pytorch.inference.loading import open_model
    from bert_pytorch.interop.graphs import export_onnx, export_tensors, export_torchscript
    from bert_pytorch.interop.huggingface import export_checkpoint, export_model

    is_graph = args.to in ("onnx", "torchscript")
    if args.encoder_only and not is_graph:
        raise UsageError(f"--encoder_only has no effect with --to {args.to}; leave it out [E-SETTING-CONFLICT]")
    if args.to != "huggingface":
        check_writable(args.output)
    loaded = open_model(args.model, args.vocab_path)
    report: dict[str, object] = {"ok": True, "to": args.to, "output": args.output}
    report["parameters"] = sum(each.numel() for each in loaded.model.parameters())
    if args.to == "huggingface":
        if os.path.isdir(args.model) and (Path(args.model) / "tokenizer.json").is_file():
            files = export_model(loaded.model, loaded.vocab, args.output)
        else:
            files = export_checkpoint(args.model, loaded.vocab, args.output)
        report["files"] = files
    elif is_graph:
        export = export_onnx if args.to == "onnx" else export_torchscript
        report["farthest"] = export(loaded.model, args.output, not args.encoder_only)
        say(args, f"outputs differ from the model's by {report['farthest']:.1e} at most")
    else:
        export_tensors(loaded.model, args.output)
    say(args, f"{args.to}: {args.output}")
    return report


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the flags and export."""
    return run(build_parser(), work, argv)


if __name__ == "__main__":
    sys.exit(main())
