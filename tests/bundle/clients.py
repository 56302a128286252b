"""What each coding agent's own command lists as skills, asked in an empty home folder without an account.

Each client is found on the path, or by a variable such as `CLAUDE_BIN`. `python -m tests.bundle.clients` installs the bundle
into a temporary home folder and prints what every client answers, as references/clients.md has it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VARIABLES = {
    "claude-code": ("CLAUDE_BIN", "claude"),
    "codex": ("CODEX_BIN", "codex"),
    "gemini": ("GEMINI_BIN", "gemini"),
    "opencode": ("OPENCODE_BIN", "opencode"),
    "copilot": ("COPILOT_BIN", "copilot"),
}
"""A variable with the program's path, and the name it has on the path."""
NOWHERE = "http://127.0.0.1:9"
"""Where nothing listens: no client reaches a service."""


def program(client: str) -> str | None:
    """The client's program, or None."""
    variable, name = VARIABLES[client]
    return os.environ.get(variable) or shutil.which(name)


def environment(home: Path) -> dict[str, str]:
    """Nothing of this user: an empty home folder, no account, no network service."""
    return {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "TERM": "dumb",
        "NO_COLOR": "1",
        "DISABLE_TELEMETRY": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "ANTHROPIC_BASE_URL": NOWHERE,
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
    }


def output(client: str, home: Path, project: Path, *arguments: str) -> str:
    """What a client prints on stdout, with its errors where it has nothing else to say."""
    done = subprocess.run(
        [str(program(client)), *arguments],
        cwd=project,
        env=environment(home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.stdout or done.stderr


def version(client: str, home: Path, project: Path) -> str:
    """The client's version."""
    return re.search(r"\d+\.\d+\.\d+", output(client, home, project, "--version")).group()


def claude_code(home: Path, project: Path) -> list[str]:
    """The event that opens a session lists skills, before anything is sent."""
    lines = output("claude-code", home, project, "-p", "hi", "--output-format", "stream-json", "--verbose").splitlines()
    first = next(event for event in map(json.loads, lines) if event.get("subtype") == "init")
    return first["skills"]


def codex(home: Path, project: Path) -> list[str]:
    """`skills/list` of the app server: what a user can choose."""
    with subprocess.Popen(
        [str(program("codex")), "app-server"],
        cwd=project,
        env=environment(home),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        try:
            ask(server, 0, "initialize", {"clientInfo": {"name": "test", "version": "0"}})
            server.stdin.write(json.dumps({"method": "initialized"}) + "\n")
            answer = ask(server, 1, "skills/list", {"cwds": [str(project)], "forceReload": True})
        finally:
            server.terminate()
    return [skill["name"] for entry in answer["data"] for skill in entry["skills"] if skill["scope"] != "system"]


def ask(server: subprocess.Popen[str], number: int, method: str, parameters: dict[str, object]) -> dict:
    """One JSON-RPC call."""
    server.stdin.write(json.dumps({"id": number, "method": method, "params": parameters}) + "\n")
    server.stdin.flush()
    return next(m for m in map(json.loads, server.stdout) if m.get("id") == number)["result"]


def codex_prompt(home: Path, project: Path) -> list[str]:
    """`codex debug prompt-input`: the skills the model is told of."""
    text = output("codex", home, project, "debug", "prompt-input", "hi")
    return re.findall(
        r"\\n- ([\w:-]+): (?:(?!\\n- ).)*?\(file: r\d+/(?!\.system)[\w./-]*?bert-pytorch[\w./-]*SKILL\.md\)", text
    )


def gemini(home: Path, project: Path) -> list[str]:
    """`gemini skills list`."""
    return re.findall(r"^([\w:-]+) \[(?:Enabled|Disabled)\]", output("gemini", home, project, "skills", "list"), re.M)


def opencode(home: Path, project: Path) -> list[str]:
    """`opencode debug skill`."""
    return [skill["name"] for skill in json.loads(output("opencode", home, project, "debug", "skill"))]


def copilot(home: Path, project: Path) -> list[str]:
    """`copilot skill list`, without the built-in ones."""
    text = output("copilot", home, project, "skill", "list").partition("Builtin skills:")[0]
    return re.findall(r"^  ([\w:-]+) - ", text, re.M)


LISTINGS: dict[str, tuple[str, str, Callable[[Path, Path], list[str]]]] = {
    "claude-code": ("claude-code", "claude -p hi --output-format stream-json --verbose", claude_code),
    "codex": ("codex", "codex app-server: skills/list", codex),
    "codex-model": ("codex", "codex debug prompt-input hi", codex_prompt),
    "gemini": ("gemini", "gemini skills list", gemini),
    "opencode": ("opencode", "opencode debug skill", opencode),
    "copilot": ("copilot", "copilot skill list", copilot),
}
"""Client, command, and what reads the names of skills from its output."""


def install(home: Path, *flags: str) -> None:
    """Run the installer for a home folder."""
    script = ROOT / "scripts" / "install_skill.py"
    subprocess.run([sys.executable, script, "--json", *flags], env=environment(home), check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    """Print a table of what each client lists."""
    for how in (("all",), ("all", "--link"), ("own folder",)):
        for client, command, names in LISTINGS.values():
            if program(client) is None:
                continue
            with tempfile.TemporaryDirectory() as folder:
                home, project = Path(folder) / "home", Path(folder) / "project"
                home.mkdir()
                project.mkdir()
                without = names(home, project)
                install(home, "--client", *(how if how[0] == "all" else (client,)))
                listed = [name for name in names(home, project) if name not in without]
                print(
                    f"| {client} {version(client, home, project)} | {' '.join(how)} | `{command}` | {', '.join(listed)} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
