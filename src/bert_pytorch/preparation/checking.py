"""One pass over a corpus: every fault counted, and the facts by which sequence length, vocabulary and batch size are chosen."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from itertools import islice

from ..dataset.lines import Line, codec_and_start, read_lines
from ..dataset.vocab import Vocab
from ..errors import InputError
from .duplicates import Sightings, key_of
from .faults import KINDS, NO_FAULT, Finding, Rules, Tally, excerpt
from .fixing import Fixer
from .guessing import likely_encoding, likely_wide
from .sizing import Facts

_SAMPLE_BYTES = 1 << 16
_GROUP_SIZES = (256, 16)


@dataclass(frozen=True)
class CheckOptions:
    """What to look at besides the corpus, and what to do about its faults."""

    encoding: str = "utf-8"
    """Of the corpus and of `other`."""
    other: str | None = None
    """A file whose pairs must not stand in the corpus, such as the held-out one."""
    vocab: str | None = None
    """A vocabulary whose coverage is reported."""
    seq_len: int | None = None
    """Tokens an example, at which trimming is reported; None: the length proposed."""
    fix: str | None = None
    """Where a clean corpus is written; None: nowhere."""


def check_corpus(path: str, rules: Rules, options: CheckOptions) -> dict[str, object]:
    """Check a corpus of any size in bounded memory, and write a clean one where `options.fix` says.

    Args:
        path: The corpus.
        rules: What is a fault in it.
        options: What else to look at.

    Returns:
        The report for JSON. Its `ok` is true when nothing was found but what `rules` allows.

    Raises:
        InputError: A file cannot be read, or the corpus has no line at all.
        UsageError: The clean corpus would replace a file that is read.
        SaveError: The clean corpus or a temporary file cannot be written.
    """
    vocab = None if options.vocab is None else Vocab.load_vocab(options.vocab)
    others = [file for file in (options.other, options.vocab) if file is not None]
    fixer = None if options.fix is None else Fixer(path, rules, options.encoding, options.fix, others)
    if fixer is not None and options.other is not None:
        fixer.hold_out(options.other)
    done = _Pass(rules, fixer, vocab)
    tally, facts = done.tally, done.facts
    if _has_needless_mark(path, options.encoding):
        tally.add("bom", 1)
        tally.examples["bom"] = "\\ufeff"
    done.read(path, options.encoding)
    if not done.n_lines:
        raise InputError(f"{path}: no pair of texts, got an empty file; one pair a line is needed [E-CORPUS-NO-PAIRS]")
    report: dict[str, object] = {"ok": False, "lines": done.n_lines, "pairs": facts.n_pairs}
    report |= {"words": facts.n_words, "tokens": facts.n_tokens, "types": len(facts.counts)}
    if options.other is not None:
        report["other"] = _look_up(options.other, rules, options.encoding, done.sightings)
    done.sightings.resolve()
    for kind, source in (("duplicate", path), ("overlap", options.other)):
        if source is not None and tally.counts[kind]:
            tally.examples[kind] = excerpt(_text_at(source, options.encoding, tally.first_lines[kind][0]))
    report["faults"] = tally.report(KINDS.keys() - rules.allowed)
    report["allowed"] = tally.report(rules.allowed)
    report["likely_encoding"] = _guess(path, tally, done.suspects)
    report |= facts.report(options.seq_len)
    if fixer is not None:
        report["fixed"] = fixer.write(keeps_mark=bool(tally.counts["bom"] and "bom" in rules.allowed))
    report["ok"] = not report["faults"]
    return report


class _Pass:
    """What the lines of a corpus are brought to, in order."""

    def __init__(self, rules: Rules, fixer: Fixer | None, vocab: Vocab | None) -> None:
        self.rules, self.fixer = rules, fixer
        self.tally, self.facts = Tally(), Facts(rules.columns, vocab)
        self.sightings = Sightings(
            lambda number: self.tally.add("duplicate", number), lambda number: self.tally.add("overlap", number)
        )
        self.n_lines, self.suspects = 0, []
        self._room = _SAMPLE_BYTES

    def read(self, path: str, encoding: str) -> None:
        codec, _ = codec_and_start(path, encoding)
        lines = read_lines(path, encoding)
        while group := list(islice(lines, _GROUP_SIZES[0])):
            self._take(group, codec, _GROUP_SIZES)
            self.n_lines = group[-1].number
        self.facts.settle()

    def _take(self, group: list[Line], codec: str, sizes: tuple[int, ...]) -> None:
        """Take lines together where they are plain; otherwise in smaller groups, in the end one by one."""
        plain = self.rules.examine_together([line.content for line in group], codec)
        if plain is not None:
            self.facts.add(plain.words, plain.lengths)
            for line, text in zip(group, plain.texts, strict=True):
                self._see(line.number, NO_FAULT, key_of(text))
        elif len(sizes) > 1:
            for start in range(0, len(group), sizes[1]):
                self._take(group[start : start + sizes[1]], codec, sizes[1:])
        else:
            for line in group:
                self._take_alone(line, codec)

    def _take_alone(self, line: Line, codec: str) -> None:
        finding = self.rules.examine(line.content, codec)
        if finding.words:
            self.facts.add([word for text in finding.words for word in text], [tuple(map(len, finding.words))])
        if finding.places:
            self.tally.add_all(finding, line.number, line.content)
        if "encoding" in finding.places and self._room > 0:
            self.suspects.append(line.content[: self._room])
            self._room -= len(line.content)
        self._see(line.number, finding, finding.key)

    def _see(self, number: int, finding: Finding, key: bytes) -> None:
        if key:
            self.sightings.add(key, number)
        if self.fixer is not None:
            self.fixer.see(number, finding, key)


def _look_up(other: str, rules: Rules, encoding: str, sightings: Sightings) -> dict[str, object]:
    """Ask for each pair of the other file whether the corpus has it."""
    number = n_pairs = 0
    for line, finding in rules.examine_file(other, encoding):
        number = line.number
        if finding.words:
            n_pairs += 1
            sightings.find(finding.key, number)
    return {"path": other, "lines": number, "pairs": n_pairs}


def _has_needless_mark(path: str, encoding: str) -> bool:
    """Whether a file begins with a byte-order mark that its encoding, as it was named, does not ask for."""
    _, n_bytes = codec_and_start(path, encoding)
    return n_bytes > 0 and codecs.lookup(encoding).name not in ("utf-8-sig", "utf-16", "utf-32")


def _text_at(path: str, encoding: str, number: int) -> str:
    codec, _ = codec_and_start(path, encoding)
    content = b""
    for line in read_lines(path, encoding, number):
        content = line.content
    return content.decode(codec, "replace")


def _guess(path: str, tally: Tally, suspects: list[bytes]) -> str | None:
    """The encoding that the file is likely of, when something in it speaks against the one that was named."""
    if not (tally.counts["encoding"] or tally.counts["nul"]):
        return None
    with open(path, "rb") as file:
        head = file.read(_SAMPLE_BYTES)
    return likely_wide(head) or (likely_encoding(suspects) if suspects else None)
