"""How every command and script of the bundle reads its flags, reports, and ends.

The last line of stdout is one JSON object with `ok`. Exit 0: done; 1: the work failed; 2: wrong usage; 3: a package or a device
is missing. Progress goes to stderr.
"""

from __future__ import annotations

import argparse
import difflib
import json
import math
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import NoReturn

from .errors import UnavailableError, UserError, is_out_of_memory
from .launch import n_processes, rank

INSTALL_HINT = "python -m pip install torch tqdm pyyaml"


class Parser(argparse.ArgumentParser):
    """An argument parser that also takes `--a-b` for `--a_b` and suggests the nearest flag for an unknown one.

    Attributes:
        reads_config: Whether a flag `--config` names a file with values of the other flags, which is read.
    """

    reads_config = True

    def parse(self, argv: Sequence[str] | None = None) -> argparse.Namespace:
        """Parse a command line, `sys.argv` by default; exits with status 2 on wrong usage."""
        words = [_with_underscores(word) for word in (sys.argv[1:] if argv is None else argv)]
        if self.reads_config and "--config" in self.flags:
            words = self._with_config(words)
        parsed, unknown = self.parse_known_args(words)
        if unknown:
            near = difflib.get_close_matches(unknown[0].partition("=")[0], self.flags, n=1)
            self.error(f"unknown argument {unknown[0]}" + (f"; did you mean {near[0]}?" if near else "; see --help"))
        return parsed

    @property
    def flags(self) -> dict[str, argparse.Action]:
        """Every flag, short forms too."""
        return self._option_string_actions

    def _with_config(self, words: list[str]) -> list[str]:
        """A command line with the flags of its configuration file before its own."""
        # A beginning of the flag that no other has stands for it, as for any.
        others = [flag for flag in self.flags if flag != "--config"]
        names = [word.partition("=") for word in words]
        places = [
            i
            for i, (name, _, _) in enumerate(names)
            if name == "--config"
            or (name.startswith("--c") and "--config".startswith(name) and not any(flag.startswith(name) for flag in others))
        ]
        if not places:
            return words
        _, equals, path = names[places[-1]]
        if not equals:
            path = words[places[-1] + 1] if places[-1] + 1 < len(words) else ""
        from .config import flags_of

        try:
            return [*flags_of(path, self.flags), *words]
        except UserError as error:
            _print_failure(self.prog, str(error))
            self.exit(2)

    def error(self, message: str) -> NoReturn:
        """Print the fault on stderr and the closing JSON on stdout, and exit with status 2."""
        print(f"{self.prog}: error: {message} [E-USAGE]", file=sys.stderr)
        print_json({"ok": False, "error": message, "code": "E-USAGE"})
        self.exit(2)


def wide_help(prog: str) -> argparse.HelpFormatter:
    """The `formatter_class` of a parser whose description keeps its lines, with room for long flags."""
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=34, width=128)


def run(parser: Parser, work: Callable[[argparse.Namespace], dict[str, object]], argv: Sequence[str] | None = None) -> int:
    """Parse, work, print the closing JSON line, and return the exit status.

    Args:
        parser: The command's flags.
        work: Does the command's work and returns what to report; its `ok` decides between status 0 and 1.
        argv: The command line without the program's name; None: `sys.argv`.
    """
    arguments = parser.parse(argv)
    failure: str | None = "unexpected error; see the traceback on stderr [E-UNEXPECTED]"
    status = UserError.exit_code
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            # Torch says so when numpy is absent, which nothing here needs.
            warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
            report = work(arguments)
        failure, status = None, 0 if report["ok"] else 1
        print_json(report)
    except UserError as error:
        failure, status = str(error), error.exit_code
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        failure = f"the package {package!r} is not installed; {INSTALL_HINT} [E-DEPENDENCY]"
        status = UnavailableError.exit_code
    except KeyboardInterrupt:
        failure, status = "interrupted; a bert run goes on with --resume last [E-INTERRUPTED]", 130
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        failure = "out of memory; lower --tokens_per_part, then --seq_len, then --hidden [E-MEMORY]"
    finally:
        # Stdout ends with JSON whatever happens; an error nobody foresaw keeps its traceback besides.
        if failure is not None:
            _print_failure(parser.prog, failure)
    return status


def say(args: argparse.Namespace, line: str) -> None:
    """Print a line for a human reader on stdout, unless the script was asked for its JSON only."""
    if not args.json:
        _write(line)


def print_json(report: dict[str, object]) -> None:
    """Print one line of JSON on stdout, in ASCII, with null for numbers that are not finite; one process of several does."""
    if rank() == 0:
        _write(json.dumps({key: _plain(value) for key, value in report.items()}, allow_nan=False))


def _write(line: str) -> None:
    """Print a line; where the reader has gone, as `head` does, the work goes on without one."""
    try:
        print(line, flush=True)
    except BrokenPipeError:
        # The stream itself is led elsewhere, or the interpreter would complain once more at its end.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def boolean(text: str) -> bool:
    """Read a flag's value: true/false, yes/no, 1/0."""
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if text.lower() not in words:
        raise argparse.ArgumentTypeError(f"expected true or false, got {text!r}")
    return words[text.lower()]


def json_object(text: str) -> dict[str, object]:
    """Read a flag's value that names values, as `{"power": 2}` does."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f'expected names and values such as {{"power": 2}}, got {text!r}')
    return value


def at_least(minimum: int, most: int = 2**63 - 1) -> Callable[[str], int]:
    """A reader of whole numbers from `minimum` to `most`."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected a whole number, got {text!r}") from None
        if number < minimum:
            raise argparse.ArgumentTypeError(f"expected at least {minimum}, got {number}")
        if number > most:
            raise argparse.ArgumentTypeError(f"expected at most {most}, got {number}")
        return number

    return read


def between(low: float, high: float, *, above: bool = False) -> Callable[[str], float]:
    """A reader of numbers in [low, high), or in (low, high) when `above`."""

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected a number, got {text!r}") from None
        if not (low < number if above else low <= number) or not number < high:
            start = "above" if above else "at least"
            end = "" if math.isinf(high) else f" and below {high:g}"
            raise argparse.ArgumentTypeError(f"expected {start} {low:g}{end}, got {text}")
        return number

    return read


def _with_underscores(word: str) -> str:
    if not word.startswith("--"):
        return word
    flag, equals, value = word.partition("=")
    return "--" + flag[2:].replace("-", "_") + equals + value


def _plain(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _print_failure(prog: str, message: str) -> None:
    where = f"rank {rank()}: " if n_processes() > 1 else ""
    print(f"{prog}: {where}{message}", file=sys.stderr, flush=True)
    print_json({"ok": False, "error": message, "code": UserError(message).code})


def _show_warning(message: Warning | str, *_: object) -> None:
    if rank() == 0:
        print(f"warning: {message}", file=sys.stderr)
