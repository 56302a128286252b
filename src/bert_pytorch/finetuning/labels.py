"""Labels and their ids."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..errors import InputError


@dataclass(frozen=True)
class LabelMap:
    """All labels, in the order of their ids.

    Attributes:
        names: The labels.
    """

    names: Sequence[str]

    @property
    def id2label(self) -> dict[int, str]:
        """As the configuration of a Transformers model has it."""
        return dict(enumerate(self.names))

    @property
    def label2id(self) -> dict[str, int]:
        """The other way round."""
        return {name: i for i, name in enumerate(self.names)}

    def name(self, i: int) -> str:
        """The label of an id."""
        return self.names[i]

    def __len__(self) -> int:
        """Count the labels."""
        return len(self.names)


def text_of(label: object) -> str:
    """A label as text: 1, 1.0 and "1" are the same."""
    if isinstance(label, bool):
        return str(label).lower()
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    return str(label).strip()


def map_labels(found: Iterable[str], source: str, named: Sequence[str] | None = None, *, least: int = 2) -> LabelMap:
    """Number the labels that occur, whole numbers in their order, other words by alphabet.

    Args:
        found: The label of each training row.
        source: The file, for messages.
        named: All labels in order, where the user names them.
        least: Fewest different labels that can be learned.

    Raises:
        InputError: There are fewer; numbers have a gap; or one occurs that is not named.
    """
    counts = Counter(found)
    if named is not None:
        strange = sorted(set(counts) - set(named))
        if strange:
            raise InputError(f"{source}: label {strange[0]!r} is not in label_names {list(named)} [E-FINETUNE-LABEL]")
        if len(set(named)) < len(named):
            raise InputError(f"label_names {list(named)} has one twice [E-FINETUNE-LABEL]")
    if len(counts) < least:
        only = ", ".join(map(repr, counts)) or "none"
        message = f"expected at least {least} different labels, got {only}; there is nothing to tell apart"
        raise InputError(f"{source}: {message} [E-FINETUNE-ONE-CLASS]")
    names = list(named) if named is not None else _ordered(counts)
    if named is None and all(re.fullmatch(r"\d+", name) for name in names):
        numbers = [int(name) for name in names]
        missing = sorted(set(range(numbers[-1] + 1)) - set(numbers)) if numbers[0] <= 1 else []
        if missing and missing != [0]:
            gap = ", ".join(map(str, missing[:5]))
            message = f"labels run from {numbers[0]} to {numbers[-1]} without {gap}; check the data, or set label_names"
            raise InputError(f"{source}: {message} [E-FINETUNE-LABEL-GAP]")
    return LabelMap(names)


def tag_map(found: Iterable[str], source: str, named: Sequence[str] | None = None) -> LabelMap:
    """Number the tags of tokens: `O` first where there is one, and of each entity both `B-` and `I-`.

    An entity type of which training has `B-` alone may still have longer ones.
    """
    tags = set(found)
    types = {tag[2:] for tag in tags if re.match(r"[BI]-.", tag)}
    if named is not None or not types or not all(tag == "O" or re.match(r"[BI]-.", tag) for tag in tags):
        return map_labels(tags, source, named)
    full = [f"{mark}-{each}" for each in sorted(types) for mark in "BI"]
    return map_labels(tags, source, ["O", *full])


def _ordered(counts: Counter[str]) -> list[str]:
    if all(re.fullmatch(r"-?\d+", name) for name in counts):
        return sorted(counts, key=int)
    return sorted(counts)
