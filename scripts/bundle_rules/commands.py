"""Rules of the commands: each answers `--help` without torch, and a text names only flags that exist."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .bundle import Bundle, Fault

HELP_LINES = 45
PROBE = """
import argparse, json, os, runpy, sys
target = sys.argv[2]
sys.path.insert(0, sys.argv[1])
flags = []
parse = argparse.ArgumentParser.parse_known_args
def parse_and_tell(self, *arguments):
    flags.extend(self._option_string_actions)
    return parse(self, *arguments)
argparse.ArgumentParser.parse_known_args = parse_and_tell
def call(*arguments):
    sys.argv = [target, *arguments]
    if target in ("bert", "bert-vocab"):
        from bert_pytorch import cli
        raise SystemExit(cli.train() if target == "bert" else cli.build_vocab())
    # As Python does for a script, not for run_path.
    sys.path.insert(1, os.path.dirname(target))
    runpy.run_path(target, run_name="__main__")
try:
    call("--help")
except SystemExit as end:
    if end.code:
        raise
if not flags:
    try:
        call("--no_such_flag")
    except SystemExit:
        pass
print(json.dumps(flags))
"""
"""Runs a command's `--help` and prints, last of all, the flags of its parser; one that answers without it is asked again."""
COMMANDS = ("bert", "bert-vocab")
SECONDS = 60
WORKERS = 2
FOREIGN = {
    "pip": {"--no_deps"},
    "grep": {"--include"},
    "pytest": {"--dist"},
    "claude": {"--output_format", "--verbose"},
    "torchrun": {
        *{"--standalone", "--nnodes", "--nproc_per_node", "--max_restarts", "--shutdown_timeout"},
        *{"--rdzv_backend", "--rdzv_id", "--rdzv_endpoint"},
    },
    "accelerate": {"--multi_gpu", "--num_processes", "--num_machines", "--mixed_precision", "--dynamo_backend", "--cpu"},
    "uvicorn": {"--host", "--port"},
    "infinity_emb": {"--model_id", "--port"},
    "py-spy": {"--pid"},
    "bert-pytorch 0.0.1a4": {"--e", "--s", "--se", "--w"},
    "any, as an example": {"--a_b"},
}
"""Flags that a text may name, of commands that are not ours."""
FLAG = re.compile(r"(?<![\w-])(--[A-Za-z][\w-]*)")
WORDS = re.compile(r"(?:[^\s'\"]|'[^']*'|\"[^\"]*\")+")
SPAN = re.compile(r"`([^`]+)`")
ENDS = ("&&", "|", ";", "||", "&", ">", "2>")


@dataclass(frozen=True)
class Answer:
    """How a command answered `--help`: its status, the lines of the text, the last line of stderr, its flags."""

    status: int
    lines: list[str]
    error: str
    flags: frozenset[str]


@cache
def answers(bundle: Bundle) -> dict[str, Answer]:
    """The answer of each command and script, by its file's name; asked once a bundle, in an interpreter without packages."""
    targets = {name: name for name in COMMANDS} | {path.name: str(bundle.root / path) for path in bundle.programs}
    with ThreadPoolExecutor(WORKERS) as pool:
        return dict(zip(targets, pool.map(lambda target: _ask(bundle, target), targets.values()), strict=True))


def _ask(bundle: Bundle, target: str) -> Answer:
    # -I and -S: neither packages nor variables of the environment, so no torch.
    command = [sys.executable, "-I", "-S", "-c", PROBE, str(bundle.root / "src"), target]
    try:
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return Answer(1, [], f"no answer in {SECONDS} seconds", frozenset())
    lines = done.stdout.splitlines()
    errors = done.stderr.splitlines()
    flags = frozenset(json.loads(lines.pop())) if lines and lines[-1].startswith("[") else frozenset()
    return Answer(done.returncode, lines, errors[-1] if errors else "", flags)


def helps(bundle: Bundle) -> Iterator[Fault]:
    """Every script answers `--help` without torch, in few lines."""
    given = answers(bundle)
    for path in bundle.scripts:
        answer = given[path.name]
        if answer.status != 0:
            what = f"--help without torch ends with status {answer.status}: {answer.error[:80]}"
            yield Fault(f"{path}:1", what, "import packages where they are used")
        elif not answer.lines or not answer.lines[0].startswith("usage: "):
            yield Fault(f"{path}:1", "--help does not begin with 'usage: '", "take Parser and run of bert_pytorch.command")
        elif len(answer.lines) > HELP_LINES:
            yield Fault(f"{path}:1", f"--help has {len(answer.lines)} lines, at most {HELP_LINES}", "shorten it")


def flags(bundle: Bundle) -> Iterator[Fault]:
    """A flag in a command line is one of that command; any other is one of some command."""
    given = answers(bundle)
    any_flag = frozenset().union(*(answer.flags for answer in given.values()), *FOREIGN.values())
    silent = {name for name, answer in given.items() if answer.status != 0}
    for path in bundle.manuals:
        for number, kind, line in commands_joined(bundle, path):
            if kind in ("bash", "sh", "console"):
                pieces = [line]
            elif kind == "text":
                pieces = [line] if line.startswith("    ") else SPAN.findall(line)
                pieces += FLAG.findall(SPAN.sub("", line))
            else:
                continue
            for command, flag in (each for piece in pieces for each in flags_in(piece, given)):
                # What a command that does not answer would take is not known; that it does not is told by another rule.
                if silent if not command else command in silent:
                    continue
                known = given[command].flags if command else any_flag
                if flag not in known:
                    owner = command or "any command"
                    yield Fault(f"{path}:{number}", f"{flag} is no flag of {owner}", "correct it; --help lists the flags")


def commands_joined(bundle: Bundle, path: Path) -> Iterator[tuple[int, str, str]]:
    """The lines of a document as `Bundle.steps` gives them, those that a backslash parts joined."""
    begun: tuple[int, str] | None = None
    for number, kind, line in bundle.steps(path):
        first, text = begun or (number, "")
        text += line
        if kind != "text" and line.endswith("\\"):
            begun = (first, text[:-1])
            continue
        begun = None
        yield first, kind, text


def flags_in(line: str, given: dict[str, Answer]) -> Iterator[tuple[str, str]]:
    """The flags of a command line, with underscores, and the command each belongs to: "" where it is none of ours."""
    command = ""
    previous = ";"
    for word in WORDS.findall(line):
        name = word.rpartition("/")[2]
        # `bert` is a command where one can stand; a script is one anywhere, for it follows `python` or `torchrun`.
        begins = previous in ENDS or re.match(r"[A-Z_]+=", previous) is not None
        if word in ENDS or word.endswith(";"):
            command = ""
        elif previous == "-m" and word == "bert_pytorch":
            command = "bert"
        elif name in given and (name.endswith(".py") or begins) and not command:
            command = name
        elif word.startswith("-") and not re.match(r"-\d", word):
            flag = word.partition("=")[0].rstrip(",.:;)")
            flag = f"--{flag[2:].replace('-', '_')}" if flag.startswith("--") else flag
            if re.fullmatch(r"--?[A-Za-z]\w*" if command else r"--[A-Za-z]\w*", flag):
                yield command, flag
        previous = ";" if word.endswith(";") else word
