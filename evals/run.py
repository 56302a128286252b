#!/usr/bin/env python3
"""Prepare the folder of a task for any agent, and grade what the agent left in it.

    run.py list
    run.py prepare --task NAME --folder FOLDER [--with_skill] [--client agents]
    run.py grade --task NAME --folder FOLDER

`prepare` prints the prompt; `--with_skill` installs the bundle into the folder, where the client looks. `grade` looks at files
only: exit 0 where every assertion holds.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(next(p / "src" for p in Path(__file__).resolve().parents if (p / "src" / "bert_pytorch").is_dir())))

from fixtures import FIXTURES, ROOT, task_of, tasks

from bert_pytorch.command import Parser, run, say
from bert_pytorch.errors import UsageError, UserError


def build_parser() -> Parser:
    """The flags."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("action", choices=("list", "prepare", "grade"), help="what to do")
    add("--task", choices=tuple(FIXTURES), metavar="NAME", help="a task of evals.json")
    add("--folder", metavar="FOLDER", help="prepare: made, must not be there; grade: what the agent worked in")
    add("--with_skill", action="store_true", help="install the bundle into the folder")
    add("--client", default="agents", metavar="NAME", help="as of install_skill.py (agents)")
    add("--json", action="store_true", help="print the closing JSON line only")
    return parser


def prepare(task: str, folder: Path, client: str | None) -> None:
    """Make a task's folder.

    Args:
        task: Its name.
        folder: Where; must not be there.
        client: Where in it the bundle is installed, as `install_skill.py` knows it; None: not at all.
    """
    folder.mkdir(parents=True)
    FIXTURES[task](folder)
    if client is not None:
        words = ["--client", client, "--scope", "project", "--project", str(folder)]
        subprocess.run([sys.executable, ROOT / "scripts" / "install_skill.py", *words], check=True, stdout=subprocess.DEVNULL)


def grade(task: str, folder: Path) -> list[dict[str, object]]:
    """Each assertion of a task, whether it holds, and what was seen."""
    from checks import CHECKS

    assertions = task_of(task)["assertions"]
    assert isinstance(assertions, list)
    results: list[dict[str, object]] = []
    seen = CHECKS[task](folder)
    why = ""
    for text in assertions:
        passed, what = False, why
        if not why:
            try:
                passed, what = next(seen)
            except (OSError, KeyError, ValueError, IndexError, TypeError, UserError, RuntimeError) as error:
                what = why = f"{type(error).__name__}: {error}"
        results.append({"assertion": text, "passed": bool(passed), "seen": what})
    return results


def work(args: argparse.Namespace) -> dict[str, object]:
    """List, prepare or grade."""
    if args.action == "list":
        for each in tasks():
            say(args, f"{each['name']}: {each['expected_output']}")
        return {"ok": True, "tasks": [each["name"] for each in tasks()]}
    if args.task is None or args.folder is None:
        raise UsageError(f"run.py {args.action}: --task and --folder are needed [E-USAGE]")
    folder = Path(args.folder)
    if args.action == "prepare":
        if folder.exists():
            raise UsageError(f"{folder}: is there already; name a new folder [E-USAGE]")
        prepare(args.task, folder, args.client if args.with_skill else None)
        prompt = str(task_of(args.task)["prompt"])
        say(args, prompt)
        return {"ok": True, "task": args.task, "folder": str(folder), "prompt": prompt}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = grade(args.task, folder)
    for each in results:
        say(args, f"{'pass' if each['passed'] else 'FAIL'}  {each['assertion']}: {each['seen']}")
    n_passed = sum(bool(each["passed"]) for each in results)
    return {"ok": n_passed == len(results), "task": args.task, "passed": n_passed, "of": len(results), "assertions": results}


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the flags and work."""
    return run(build_parser(), work, argv)


if __name__ == "__main__":
    sys.exit(main())
