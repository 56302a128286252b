#!/usr/bin/env python3
"""Install this bundle as the skill `bert-pytorch` where coding agents look for skills; update it, link it, remove it."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import posixpath
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(next(p / "src" for p in Path(__file__).resolve().parents if (p / "src" / "bert_pytorch").is_dir())))

import bert_pytorch
from bert_pytorch.command import Parser, run, say
from bert_pytorch.errors import InputError, UsageError
from bert_pytorch.folders import put_folder, recover_folder, workspace_beside, writing

ROOT = Path(__file__).resolve().parents[1]
NAME = "bert-pytorch"
SHIPPED = (
    "SKILL.md",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "pyproject.toml",
    "src",
    "skills",
    "scripts",
    "references",
)
"""What a user needs. Tests, benchmarks, caches and the history stay behind. So do the plugin manifests: in a folder of skills
they make a plugin of the copy, with a second entry for each skill (Claude Code), or another name (Codex)."""
GUIDE = "GUIDE.md"
"""The name of a sub-skill's SKILL.md in a copy. Codex and OpenCode look for SKILL.md at any depth and would list each one
beside the root, as `training` or `fine-tuning`; this way every client lists one skill."""
GENERATED = ("__pycache__", "*.pyc", "*.egg-info", "build", ".*_cache", ".DS_Store")
"""What running or installing the copy leaves in it: no file of the bundle, none of the user's either."""
MANIFEST = ".installed.json"


class Home(NamedTuple):
    """Where a client looks: `rest` below `base` of the home folder, or below what `variable` says; `project` in a project."""

    variable: str | None
    base: str
    rest: str
    project: str


# As each client's documentation says; references/clients.md has what the clients themselves listed, with versions.
CLIENTS = {
    "claude-code": Home("CLAUDE_CONFIG_DIR", ".claude", "skills", ".claude/skills"),
    "codex": Home(None, ".agents", "skills", ".agents/skills"),
    "gemini": Home("GEMINI_CLI_HOME", "", ".gemini/skills", ".gemini/skills"),
    "cursor": Home(None, ".cursor", "skills", ".cursor/skills"),
    "opencode": Home("XDG_CONFIG_HOME", ".config", "opencode/skills", ".opencode/skills"),
    "copilot": Home("COPILOT_HOME", ".copilot", "skills", ".github/skills"),
    "agents": Home(None, ".agents", "skills", ".agents/skills"),
}
ALL = ("claude-code", "agents")
"""All six clients with the fewest copies: Claude Code reads its own folder only, every other one `.agents/skills` too."""


@dataclass
class Place:
    """A folder to install into, and what stands there: `kind` is nothing, copy, link or foreign."""

    folder: Path
    clients: list[str]
    kind: str = "nothing"
    intact: bool = True
    changed: tuple[str, ...] = ()
    action: str = "none"
    backup: Path | None = None


def skills_folder(client: str, project: Path | None) -> Path:
    """Where a client looks for skills: in a project, or, without one, for the user."""
    home = CLIENTS[client]
    if project is not None:
        return project / home.project
    base = os.environ.get(home.variable, "") if home.variable else ""
    return (Path(base) if base else Path.home() / home.base) / home.rest


def is_generated(path: Path) -> bool:
    """Whether a path below the bundle comes from running it."""
    return any(Path(part).match(pattern) for part in path.parts for pattern in GENERATED)


def files_below(folder: Path) -> Iterator[Path]:
    """The files of a folder, relative to it, without generated ones."""
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if not is_generated(relative) and (path.is_file() or path.is_symlink()):
            yield relative


class File(NamedTuple):
    """A file to write."""

    content: bytes
    mode: int


def with_guides(text: str, name: str, sub_skills: set[str]) -> str:
    """A document whose paths to the SKILL.md of sub-skills name their guides, be they relative to it or to the root."""

    def rename(found: re.Match[str]) -> str:
        path = found.group()
        targets = (posixpath.normpath(posixpath.join(posixpath.dirname(name), path)), path)
        return path.removesuffix("SKILL.md") + GUIDE if not sub_skills.isdisjoint(targets) else path

    return re.sub(r"[\w./-]*\bSKILL\.md\b", rename, text)


def contents() -> dict[str, File]:
    """The files to install, by their name below the skill's folder."""
    found: dict[str, Path] = {}
    for name in SHIPPED:
        path = ROOT / name
        below = [f"{name}/{file.as_posix()}" for file in files_below(path)] if path.is_dir() else [name]
        found.update({file: ROOT / file for file in below if (ROOT / file).is_file()})
    sub_skills = {name for name in found if name.endswith("/SKILL.md")}
    files = {}
    for name, path in found.items():
        content = path.read_bytes()
        if path.suffix == ".md":
            content = with_guides(content.decode("utf-8"), name, sub_skills).encode("utf-8")
        final = name.removesuffix("SKILL.md") + GUIDE if name in sub_skills else name
        files[final] = File(content, path.stat().st_mode & 0o777)
    return files


def digest(content: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def digests_below(folder: Path) -> dict[str, str]:
    """The digest of every file of a copy but its record; a link that leads to no file has a name of its own."""
    names = [path for path in files_below(folder) if path.as_posix() != MANIFEST]
    return {n.as_posix(): digest((folder / n).read_bytes()) if (folder / n).is_file() else "link" for n in names}


def look(place: Place, digests: dict[str, str]) -> None:
    """Find out what stands at a place, and whether it is what this script put there."""
    folder = place.folder
    if folder.is_symlink():
        place.kind = "link" if os.path.realpath(folder) == str(ROOT) else "foreign"
        return
    if not folder.exists():
        return
    place.kind = "foreign"
    try:
        files = dict(json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"])
    except (OSError, ValueError, KeyError, TypeError):
        return
    place.kind = "copy"
    there = digests_below(folder)
    place.changed = tuple(name for name, value in there.items() if files.get(name) != value)
    place.intact = there == digests


def decide(place: Place, args: argparse.Namespace) -> None:
    """Choose what to do at a place, or refuse, before anything is written anywhere."""
    wanted = "link" if args.link else "copy"
    is_own = place.folder.resolve() == ROOT and place.kind != "link"
    if args.uninstall:
        place.action = "none" if place.kind == "nothing" else "remove"
    elif is_own or (place.kind == wanted and place.intact):
        place.action = "none"
    else:
        place.action = "install" if place.kind == "nothing" else "update" if place.kind in ("copy", "link") else "replace"
    if place.action == "none":
        return
    advice = "pass --backup to move it aside, out of the clients' sight, first"
    if place.kind == "foreign" and not args.backup:
        raise InputError(f"{place.folder}: not installed by this script, so left as it is; {advice} [E-INSTALL-FOREIGN]")
    if place.changed and not args.backup:
        names = ", ".join(place.changed[:5]) + (f" and {len(place.changed) - 5} more" if len(place.changed) > 5 else "")
        raise InputError(f"{place.folder}: changed or added since the installation: {names}; {advice} [E-INSTALL-CHANGED]")
    if place.kind == "foreign" or place.changed:
        # Beside the folder of skills: a copy in it would be listed as a skill of its own.
        stem = place.folder.parent.parent / f"{NAME}.backup"
        place.backup = next(path for n in range(1, 10**6) if not os.path.lexists(path := Path(f"{stem}-{n}")))


def build(new: Path, files: dict[str, File], digests: dict[str, str]) -> None:
    """Write the copy and check it file by file. What clients search for comes last, so that they find no half copy."""
    new.mkdir()
    for name in sorted(files, key=lambda name: name == "SKILL.md"):
        (new / name).parent.mkdir(parents=True, exist_ok=True)
        (new / name).write_bytes(files[name].content)
        (new / name).chmod(files[name].mode)
    record = {"tool": "install_skill.py", "name": NAME, "version": bert_pytorch.__version__, "files": digests}
    (new / MANIFEST).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if digests_below(new) != digests:
        raise OSError("the copy differs from what was written")


def carry_out(place: Place, args: argparse.Namespace, files: dict[str, File], digests: dict[str, str]) -> None:
    """Do what was decided for a place."""
    folder = place.folder
    with writing(folder), workspace_beside(folder) as workspace:
        new = workspace / NAME
        if args.link:
            new.symlink_to(ROOT, target_is_directory=True)
        elif not args.uninstall:
            build(new, files, digests)
        if place.backup is not None:
            shutil.move(folder, place.backup)
        if not args.uninstall:
            put_folder(new, folder)
        elif os.path.lexists(folder):
            os.rename(folder, new)


def find_places(args: argparse.Namespace) -> list[Place]:
    """The folders that the flags name, each once."""
    if args.scope == "user" and args.project is not None:
        raise UsageError("--project has no effect with --scope user; add --scope project [E-USAGE]")
    project = Path(args.project or ".").absolute() if args.scope == "project" else None
    if project is not None and not project.is_dir():
        raise UsageError(f"--project {project}: expected a folder that exists; make it, or correct the path [E-USAGE]")
    if args.uninstall and args.link:
        raise UsageError("--link has no effect with --uninstall, which removes copies and links; leave one out [E-USAGE]")
    chosen = dict.fromkeys(name for word in args.client for name in (ALL if word == "all" else (word,)))
    places: dict[Path, Place] = {}
    for client in chosen:
        folder = skills_folder(client, project) / NAME
        places.setdefault(folder, Place(folder, [])).clients.append(client)
    if args.link and any(ROOT in place.folder.parents for place in places.values()):
        raise UsageError("--link into the bundle itself would lead in a circle; name another --project [E-USAGE]")
    return list(places.values())


def work(args: argparse.Namespace) -> dict[str, object]:
    """Look at every place, decide, and only then write."""
    places, files = find_places(args), contents()
    digests = {name: digest(file.content) for name, file in files.items()}
    for place in places:
        with writing(place.folder):
            if not args.dry_run:
                recover_folder(place.folder)
            look(place, digests)
        decide(place, args)
    for place in places:
        if place.action != "none" and not args.dry_run:
            carry_out(place, args, files, digests)
        nothing = "nothing to do" if place.kind != "nothing" else "nothing there"
        did = nothing if place.action == "none" else ("would " if args.dry_run else "") + place.action
        say(args, f"{', '.join(place.clients)}: {did}: {place.folder}")
        if place.backup is not None:
            say(args, f"  what stood there {'goes' if args.dry_run else 'is now'} in {place.backup}")
    rows = [
        {"clients": each.clients, "folder": str(each.folder), "action": each.action, "backup": each.backup and str(each.backup)}
        for each in places
    ]
    kind = {"link": args.link, "files": 0 if args.link or args.uninstall else len(files)}
    return {"ok": True, "version": bert_pytorch.__version__, "dry_run": args.dry_run, **kind, "places": rows}


def build_parser() -> Parser:
    """The flags."""
    parser = Parser(description=__doc__)
    parser.add_argument(
        "--client",
        nargs="+",
        required=True,
        choices=[*CLIENTS, "all"],
        metavar="NAME",
        help=f"one or more of {', '.join(CLIENTS)}; all: {' and '.join(ALL)}, which reach every one of them",
    )
    parser.add_argument("--scope", choices=("user", "project"), default="user", help="for all your work, or one project (user)")
    parser.add_argument("--project", metavar="FOLDER", help="the project, with --scope project (the working directory)")
    parser.add_argument("--link", action="store_true", help="a link to this folder; some clients then list its sub-skills too")
    parser.add_argument("--uninstall", action="store_true", help="remove what this script installed there")
    parser.add_argument("--backup", action="store_true", help="move foreign or changed files aside instead of refusing")
    parser.add_argument("--dry_run", action="store_true", help="say what would be done, write nothing")
    parser.add_argument("--json", action="store_true", help="print the closing JSON line only")
    return parser


def main() -> int:
    """Parse the flags and install."""
    return run(build_parser(), work)


if __name__ == "__main__":
    sys.exit(main())
