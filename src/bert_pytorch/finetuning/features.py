"""Examples to the numbers a model is given: word alignment, windows with stride, offsets, targets.

A feature is a dict of lists: `input_ids`, `token_type_ids`, and `labels` or `start_positions` and `end_positions`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import InputError
from .encoders import Cut, Encoder, Window
from .examples import Example
from .settings import Settings
from .tasks import ANSWERS, CAUSAL, MASKED, SEQ2SEQ, TOKENS

IGNORED = -100
"""A target that no loss counts."""
Feature = dict[str, Any]


@dataclass
class Features:
    """What a model is given of a file.

    Attributes:
        items: The features.
        owners: Of each feature the number of its example.
        windows: Of each feature how it was tokenised.
        n_cut: Examples of which not all fits in.
        lost_tags: Tags on words that were cut off.
    """

    items: list[Feature] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    n_cut: int = 0
    lost_tags: int = 0

    def __len__(self) -> int:
        """Count the features."""
        return len(self.items)

    def __getitem__(self, i: int) -> Feature:
        """One of them, as datasets of torch give it."""
        return self.items[i]


def make_features(examples: Sequence[Example], encoder: Encoder, settings: Settings, *, in_blocks: bool = True) -> Features:
    """Encode examples.

    Args:
        examples: Those of one file.
        encoder: Makes the ids.
        settings: Lengths, and how tags spread over pieces.
        in_blocks: For language models: texts are joined and cut into blocks of `max_length`, so that nothing is padding.

    Raises:
        InputError: A question leaves no room for its context; all texts together are shorter than a block; or a text has no
            token that the vocabulary knows.
    """
    task = settings.task_and_kind[0].name
    features = Features()
    if task in (MASKED, CAUSAL) and in_blocks:
        _add_blocks(features, examples, encoder, settings.length)
        return features
    cut = Cut(settings.length, settings.overlap)
    for number, example in enumerate(examples):
        first = list(example.words) if task == TOKENS else settings.source_prefix + example.text
        windows = encoder.encode(first, example.pair, cut)
        features.n_cut += windows[0].is_cut and task != ANSWERS
        for window in windows:
            feature: Feature = {"input_ids": window.ids, "token_type_ids": window.types}
            if task == ANSWERS:
                feature |= _answer_places(window, example)
            elif task == TOKENS and example.label is not None:
                feature["labels"] = align(window, example.label, settings.label_all_tokens)
                seen = {word for word in window.words if word is not None}
                features.lost_tags += len(example.label) - len(seen)
            elif task == SEQ2SEQ and example.label is not None:
                feature["labels"] = encoder.encode(example.label, None, Cut(settings.max_target_length))[0].ids
            elif task in (MASKED, CAUSAL):
                feature["labels"] = list(window.ids)
            elif example.label is not None:
                feature["labels"] = example.label
            features.items.append(feature)
            features.owners.append(number)
            features.windows.append(window)
    return features


def align(window: Window, tags: Sequence[int], all_pieces: bool) -> list[int]:
    """A tag for each piece: that of its word on the first piece, and on the others nothing, or the same.

    Args:
        window: The pieces.
        tags: Ids of the tags by word.
        all_pieces: Whether each piece has its word's tag.
    """
    labels = []
    before: int | None = None
    for word in window.words:
        is_first = word is not None and word != before
        labels.append(tags[word] if word is not None and (is_first or all_pieces) else IGNORED)
        before = word
    return labels


def context_places(window: Window) -> tuple[int, int]:
    """The first and the last token of the second text."""
    places = [i for i, part in enumerate(window.parts) if part == 1]
    if not places:
        raise InputError("a context has no token in its window; raise max_length [E-FINETUNE-LENGTH]")
    return places[0], places[-1]


def _answer_places(window: Window, example: Example) -> Feature:
    """The first and last token of the answer; both 0, the first marker, where it is not whole within this window."""
    if not example.answers:
        return {}
    text, start = example.answers[0]
    end = start + len(text)
    first, last = context_places(window)
    if window.offsets[first][0] > start or window.offsets[last][1] < end:
        return {"start_positions": 0, "end_positions": 0}
    begin = max(i for i in range(first, last + 1) if window.offsets[i][0] <= start)
    close = min(i for i in range(first, last + 1) if window.offsets[i][1] >= end)
    return {"start_positions": begin, "end_positions": max(begin, close)}


def _add_blocks(features: Features, examples: Sequence[Example], encoder: Encoder, length: int) -> None:
    ids = list(_joined(examples, encoder))
    n_blocks = len(ids) // length
    if n_blocks == 0:
        message = f"all texts have {len(ids)} tokens, less than one block of max_length {length}"
        raise InputError(f"{examples[0].where}: {message}; lower max_length or give more text [E-FINETUNE-FEW-ROWS]")
    for start in range(0, n_blocks * length, length):
        block = ids[start : start + length]
        features.items.append({"input_ids": block, "token_type_ids": [0] * length, "labels": list(block)})


def _joined(examples: Sequence[Example], encoder: Encoder) -> Iterator[int]:
    for example in examples:
        ids = encoder.encode(example.text, None, Cut(1 << 30))[0].ids
        yield from ids
        if encoder.end_id is not None and ids[-1:] != [encoder.end_id]:
            yield encoder.end_id
