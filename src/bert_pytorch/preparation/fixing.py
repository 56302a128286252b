"""A clean corpus out of a faulty one: what can be mended is mended, the rest left out, and each such line listed."""

from __future__ import annotations

import codecs
import os
from collections.abc import Sequence
from typing import BinaryIO

from ..errors import InputError, UsageError
from ..files import atomic_write, check_writable
from .duplicates import LineMarks, Sightings
from .faults import Finding, Rules, excerpt

CHANGES = ".changes.tsv"
"""What the list of changes is called, after the name of the clean corpus."""


class Fixer:
    """Sees each line of a corpus once, and writes the clean corpus in a second pass.

    Repeats, and pairs of a held-out file, are told by the lines as they would be written: two lines may be the same only then.
    """

    def __init__(self, path: str, rules: Rules, encoding: str, output: str, others: Sequence[str] = ()) -> None:
        """Make sure that the clean corpus can be written.

        Args:
            path: The corpus.
            rules: What is a fault in it.
            encoding: Its encoding; the clean corpus is UTF-8.
            output: Where the clean corpus goes; the list of changes goes beside it.
            others: Further files that must not be replaced.

        Raises:
            UsageError: The clean corpus or the list would replace one of the files.
            SaveError: Nothing can be written there.
        """
        for target in (output, output + CHANGES):
            for source in (path, *others):
                if _is_same(target, source):
                    raise UsageError(f"--fix {output}: would replace {source}; name another file [E-SETTING-CONFLICT]")
            check_writable(target)
        self._path, self._rules, self._encoding, self._output = path, rules, encoding, output
        self._stamp = _stamp(path)
        self._n_lines = self._n_kept = 0
        self._repeats, self._shared = LineMarks(), LineMarks()
        self._kept = Sightings(self._repeats.add, _nothing)
        self._held = Sightings(_nothing, self._shared.add)

    def hold_out(self, other: str) -> None:
        """Leave the pairs of this file out of the clean corpus; to be called before `see`."""
        if "overlap" in self._rules.allowed:
            return
        for line, finding in self._rules.examine_file(other, self._encoding):
            if finding.words:
                self._held.add(finding.key, line.number)

    def see(self, number: int, finding: Finding, key: bytes) -> None:
        """Take note of a line of the corpus."""
        self._n_lines = number
        if finding.places:
            fixed = self._rules.fix(finding)
            if fixed is None:
                return
            key = self._rules.examine(fixed.encode("utf-8"), "utf-8").key
        self._n_kept += 1
        if "duplicate" not in self._rules.allowed:
            self._kept.add(key, number)
        self._held.find(key, number)

    def write(self, *, keeps_mark: bool) -> dict[str, object]:
        """Write the clean corpus and the list of changes, both whole or not at all.

        Args:
            keeps_mark: Begin with the byte-order mark that the corpus begins with.

        Returns:
            Where they are and what was done; no file is written when no pair would be left.

        Raises:
            InputError: The corpus has changed since the first pass.
            SaveError: The disk is full.
        """
        self._kept.resolve()
        self._held.resolve()
        if self._n_kept == self._shared.n_marked:
            return {"output": None, "changes": None, "pairs": 0, "changed": 0, "left_out": self._n_lines}
        changes = self._output + CHANGES
        with atomic_write(changes) as listed, atomic_write(self._output) as file:
            if keeps_mark:
                file.write(codecs.BOM_UTF8)
            n_pairs, n_changed = self._write_lines(file, listed)
            # The corpus is renamed first: a disk too full for the list must be known by then.
            listed.flush()
            os.fsync(listed.fileno())
            if _stamp(self._path) != self._stamp:
                raise InputError(f"{self._path}: has changed while it was read; start again [E-CORPUS-CHANGED]")
        counted = {"pairs": n_pairs, "changed": n_changed, "left_out": self._n_lines - n_pairs}
        return {"output": self._output, "changes": changes, **counted}

    def _write_lines(self, file: BinaryIO, listed: BinaryIO) -> tuple[int, int]:
        """Write each line that stays, and list each that is not what it was; how many stay, and how many of them changed."""
        n_pairs = n_changed = 0
        listed.write(b"line\tkinds\taction\toriginal\n")
        for line, finding in self._rules.examine_file(self._path, self._encoding):
            number, kinds = line.number, self._marked_kinds(line.number)
            fixed = None if kinds else self._rules.fix(finding)
            if fixed is not None:
                file.write(fixed.encode("utf-8") + b"\n")
                n_pairs += 1
            if fixed != finding.text or kinds:
                n_changed += fixed is not None
                kinds = [kind for kind in finding.places if kind not in self._rules.allowed] + kinds
                original = excerpt(finding.text or line.content)
                action = "left out" if fixed is None else "changed"
                listed.write(f"{number}\t{','.join(kinds)}\t{action}\t{original}\n".encode("ascii"))
        return n_pairs, n_changed

    def _marked_kinds(self, number: int) -> list[str]:
        """For which kinds a line is left out that has no fault in itself, or none that cannot be mended."""
        return [kind for kind, marks in (("duplicate", self._repeats), ("overlap", self._shared)) if number in marks]


def _is_same(target: str, source: str) -> bool:
    if os.path.exists(target) and os.path.exists(source):
        return os.path.samefile(target, source)
    return os.path.realpath(target) == os.path.realpath(source)


def _stamp(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


def _nothing(number: int) -> None:
    """Take no note of a line."""
