#!/usr/bin/env python3
"""Prepare the folder of a task for any agent, and grade what the agent left in it.

    run.py list
    run.py prepare --task NAME --folder FOLDER [--with_skill] [--skill_folder .agents/skills]
    run.py grade --task NAME --folder FOLDER

`prepare` prints the prompt; `--with_skill` puts a copy of the bundle into the folder. `grade` looks at files only: exit 0 where
every assertion holds.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(next(p / "src" for p in Path(__file__).resolve().parents if (p / "src" / "bert_pytorch").is_dir())))

from fixtures import FIXTURES, ROOT, tasks

from bert_pytorch.command import Parser, run, say
from bert_pytorch.errors import UsageError, UserError

SHIPPED = ("SKILL.md", "README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", "src", "skills", "scripts", "references")


def build_parser() -> Parser:
    """The flags."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("action", choices=("list", "prepare", "grade"), help="what to do")
    add("--task", choices=tuple(FIXTURES), metavar="NAME", help="a task of evals.json")
    add("--folder", metavar="FOLDER", help="prepare: made, must not be there; grade: what the agent worked in")
    add("--with_skill", action="store_true", help="put a copy of the bundle into the folder")
    add("--skill_folder", default=".agents/skills", metavar="PATH", help="where in the folder (.agents/skills)")
    add("--json", action="store_true", help="print the closing JSON line only")
    return parser


def prepare(task: str, folder: Path, skill_folder: str | None) -> None:
    """Make a task's folder.

    Args:
        task: Its name.
        folder: Where; must not be there.
        skill_folder: Where in it the bundle is put; None: not at all.
    """
    folder.mkdir(parents=True)
    FIXTURES[task](folder)
    if skill_folder is None:
        return
    bundle = folder / skill_folder / "bert-pytorch"
    bundle.mkdir(parents=True)
    for name in SHIPPED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, bundle / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(ROOT / name, bundle / name)


def grade(task: str, folder: Path) -> list[dict[str, object]]:
    """Each assertion of a task, whether it holds, and what was seen."""
    from checks import CHECKS

    assertions = next(each["assertions"] for each in tasks() if each["name"] == task)
    assert isinstance(assertions, list)
    results: list[dict[str, object]] = []
    seen = CHECKS[task](folder)
    why = ""
    for text in assertions:
        passed = False
        if not why:
            try:
                passed, why_not = next(seen)
                results.append({"assertion": text, "passed": bool(passed), "seen": why_not})
                continue
            except (OSError, KeyError, ValueError, IndexError, TypeError, UserError, RuntimeError) as error:
                why = f"{type(error).__name__}: {error}"
        results.append({"assertion": text, "passed": False, "seen": why})
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
        prepare(args.task, folder, args.skill_folder if args.with_skill else None)
        prompt = next(str(each["prompt"]) for each in tasks() if each["name"] == args.task)
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
