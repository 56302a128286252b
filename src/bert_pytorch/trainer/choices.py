"""Names that a user chooses from, and the settings that belong to each: checked, and brought to their types."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..errors import InputError

Value = float | int | str | bool | Sequence[float] | None


@dataclass(frozen=True)
class Setting:
    """One setting: its default, what it is, and its range.

    Attributes:
        default: Where the user gives none. Only a setting whose default is None can be given as None.
        kind: `count` is a whole number; `numbers` are as many as `n_numbers`.
        low: Least value of a number.
        below: Numbers stay below it.
        words: The words allowed; empty: any.
        n_numbers: Length of `numbers`.
    """

    default: Value
    kind: Literal["number", "count", "switch", "word", "numbers"] = "number"
    low: float = -math.inf
    below: float = math.inf
    words: tuple[str, ...] = ()
    n_numbers: int = 0

    @property
    def expected(self) -> str:
        """What a message says is expected."""
        if self.kind == "switch":
            return "true or false"
        if self.kind == "word":
            return f"one of: {', '.join(self.words)}" if self.words else "a word"
        if self.kind == "numbers":
            return f"{self.n_numbers} numbers"
        text = "a whole number" if self.kind == "count" else "a number"
        limits = [f"of at least {self.low:g}"] * (self.low > -math.inf) + [f"below {self.below:g}"] * (self.below < math.inf)
        return " ".join([text, " and ".join(limits)]).strip()


def check_name(what: str, name: str, known: Collection[str], code: str) -> None:
    """Refuse a name that there is not.

    Args:
        what: What is named, such as `schedule`.
        name: The user's word.
        known: The names there are.
        code: Code of the error, in brackets.

    Raises:
        InputError: The name is unknown; the message has the nearest, or all.
    """
    if name not in known:
        raise InputError(f"{what} {name!r} is unknown; {_nearest(name, known)} {code}")


def read_settings(
    where: str, given: Mapping[str, Value] | None, known: Mapping[str, Setting], name_code: str, value_code: str
) -> dict[str, Value]:
    """Every setting there is with the user's value or the default; numbers and switches may come as text.

    Args:
        where: What the settings belong to, such as `schedule cosine`.
        given: The user's.
        known: Those there are.
        name_code: Code of the error for a setting that there is not, in brackets.
        value_code: Code of the error for a value out of its range.

    Raises:
        InputError: As above; the message names the nearest setting, or what is expected.
    """
    values = {name: setting.default for name, setting in known.items()}
    for name, value in (given or {}).items():
        if name not in known:
            raise InputError(f"{where} has no setting {name!r}; {_nearest(name, known)} {name_code}")
        if value is None and known[name].default is None:
            continue
        converted = _convert(value, known[name])
        if converted is None:
            raise InputError(f"{where}: {name} is {value!r}, expected {known[name].expected} {value_code}")
        values[name] = converted
    return values


def number_of(values: Mapping[str, Value], name: str) -> float:
    """The value of a setting that is a number."""
    value = values[name]
    if not isinstance(value, int | float):
        raise TypeError(f"{name} is {value!r}, no number")
    return value


def _nearest(name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(str(name), known, n=1)
    if near:
        return f"did you mean {near[0]}?"
    return f"expected one of: {', '.join(known)}" if known else "leave it out, there are no settings"


def _convert(value: object, setting: Setting) -> Value:
    """The value in its type; None where it is not of the kind or out of the range."""
    if setting.kind == "switch":
        return value if isinstance(value, bool) else {"true": True, "false": False}.get(str(value).lower())
    if setting.kind == "word":
        return value if isinstance(value, str) and (value in setting.words or not setting.words) else None
    if setting.kind == "numbers":
        if not isinstance(value, list | tuple) or len(value) != setting.n_numbers:
            return None
        numbers = [_number(each) for each in value]
        return None if any(number is None for number in numbers) else tuple(number for number in numbers if number is not None)
    number = _number(value)
    if number is None or not setting.low <= number < setting.below:
        return None
    if setting.kind == "number":
        return number
    return int(number) if number.is_integer() else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
