"""Which lines were there before: exact, in memory and beyond it."""

import random
import tempfile

import pytest

from bert_pytorch.errors import SaveError
from bert_pytorch.preparation.duplicates import LineMarks, Sightings, key_of


@pytest.mark.parametrize("most_keys", [1, 3, 29, 10_000])
def test_repeats_and_finds_are_exact_however_few_keys_fit_into_memory(most_keys):
    draw = random.Random(most_keys)
    texts = [str(draw.randrange(1999)) for _ in range(4001)]
    sought = [str(draw.randrange(4001)) for _ in range(997)]
    repeats, found = [], []
    sightings = Sightings(repeats.append, found.append, most_keys)
    for number, text in enumerate(texts):
        sightings.add(key_of(text), number)
    for number, text in enumerate(sought):
        sightings.find(key_of(text), number)
    sightings.resolve()
    first = {text: number for number, text in reversed(list(enumerate(texts)))}
    assert sorted(repeats) == [number for number, text in enumerate(texts) if first[text] != number]
    assert sorted(found) == [number for number, text in enumerate(sought) if text in first]


def test_keys_that_differ_in_their_last_byte_only():
    repeats = []
    sightings = Sightings(repeats.append, repeats.append, 1)
    for number, last in enumerate([7, 8, 9, 8, 7, 9 + 32]):
        sightings.add(bytes(15) + bytes([last]), number)
    sightings.resolve()
    assert repeats == [4, 3] or sorted(repeats) == [3, 4]


def test_a_full_disk_is_told_in_one_line(monkeypatch):
    def full():
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    sightings = Sightings(print, print, 1)
    sightings.add(key_of("a"), 1)
    with pytest.raises(SaveError, match=r"No space left on device; .*TMPDIR \[E-SAVE\]$"):
        sightings.add(key_of("b"), 2)


def test_marks():
    marks, numbers = LineMarks(), {1, 7, 8, 64, 1009}
    for number in (*numbers, 8):
        marks.add(number)
    assert {number for number in range(2003) if number in marks} == numbers
    assert marks.n_marked == len(numbers)
