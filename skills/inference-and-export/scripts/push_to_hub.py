#!/usr/bin/env python3
"""Put an exported folder on a hub, in one commit.

    push_to_hub.py --folder hub --hub_model_id me/model --dry_run
    push_to_hub.py --folder hub --hub_model_id me/model

The address of the hub is that of huggingface_hub (HF_ENDPOINT), and so is the token (HF_TOKEN, or a login) where --hub_token is
not given. --dry_run reaches for no network and lists what would go. Hidden files and links never go.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(next(p / "src" for p in Path(__file__).resolve().parents if (p / "src" / "bert_pytorch").is_dir())))

from bert_pytorch.command import Parser, run, say, wide_help
from bert_pytorch.inference.flags import add_json_flag

SHOWN = 20


def build_parser() -> Parser:
    """The flags."""
    parser = Parser(
        description=__doc__,
        usage="%(prog)s --folder DIR --hub_model_id NAME [flags]",
        formatter_class=wide_help,
    )
    add = parser.add_argument
    add("--folder", required=True, metavar="DIR", help="what export.py --to huggingface wrote")
    add("--hub_model_id", required=True, metavar="NAME", help="NAME, or USER/NAME; made where it is missing")
    strategies = ("end", "checkpoint", "all_checkpoints")
    add("--hub_strategy", choices=strategies, default="end", help="the model; its last checkpoint too; all of them (end)")
    add("--hub_token", metavar="TOKEN", help="in place of the hub's own settings")
    add("--hub_private_repo", action="store_true", help="a new repository is private")
    add("--commit_message", default="Add model", metavar="TEXT", help="(Add model)")
    add("--dry_run", action="store_true", help="list what would go, and stop")
    add_json_flag(parser)
    return parser


def work(args: argparse.Namespace) -> dict[str, object]:
    """List, and push."""
    from bert_pytorch.interop.pushing import check_id, files_to_push, push

    check_id(args.hub_model_id)
    files = files_to_push(args.folder, args.hub_strategy)
    n_bytes = sum(path.stat().st_size for path in files.values())
    for name, path in list(files.items())[:SHOWN]:
        say(args, f"{name[:80]} {path.stat().st_size}")
    report: dict[str, object] = {"ok": True, "hub_model_id": args.hub_model_id, "files": len(files), "bytes": n_bytes}
    if args.dry_run:
        say(args, f"{len(files)} files, {n_bytes} bytes would go to {args.hub_model_id}")
        return {**report, "dry_run": True, "url": None}
    url = push(
        files,
        args.hub_model_id,
        token=args.hub_token,
        private=args.hub_private_repo,
        message=args.commit_message,
    )
    say(args, url)
    return {**report, "dry_run": False, "url": url}


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the flags and push."""
    return run(build_parser(), work, argv)


if __name__ == "__main__":
    sys.exit(main())
