"""Which words are hidden, and behind what: the masked-word task of one example."""

from __future__ import annotations

from collections.abc import Sequence

from .draws import Draws

MASK_PROBABILITY = 0.15
N_SPECIALS = 5
"""Ids 0-4 are `<pad> <unk> <eos> <sos> <mask>`; the real words follow."""
MASK_INDEX = 4


def mask_words(ids: Sequence[int], n_ids: int, draws: Draws) -> tuple[list[int], list[int]]:
    """Choose each real word with probability 15 % as a target and corrupt it.

    Specials are never chosen, and neither is `<unk>`: to teach it would teach to answer "some word or other".

    Args:
        ids: Token ids of a text.
        n_ids: Vocabulary size, specials included.
        draws: Where randomness comes from.

    Returns:
        The input ids, and the labels: the original id at targets, 0 elsewhere.
    """
    inputs, labels = list(ids), [0] * len(ids)
    for position, word in enumerate(ids):
        if word >= N_SPECIALS and draws.uniform() < MASK_PROBABILITY:
            inputs[position], labels[position] = _corrupt(word, n_ids, draws), word
    return inputs, labels


def mask_one_word(inputs: list[int], labels: list[int], n_ids: int, draws: Draws) -> None:
    """Make one real word a target, in place, so that no example is without; none is when there is no real word."""
    candidates = [position for position, word in enumerate(inputs) if word >= N_SPECIALS]
    if candidates:
        position = candidates[draws.integer(len(candidates))]
        labels[position] = inputs[position]
        inputs[position] = _corrupt(labels[position], n_ids, draws)


def _corrupt(word: int, n_ids: int, draws: Draws) -> int:
    """Hide a target: 80 % mask, 10 % another real word drawn from all of them, 10 % the word itself.

    Source: Devlin et al. 2018 (arXiv 1810.04805v2), section 3.1, task 1.
    """
    choice = draws.uniform()
    if choice < 0.8:
        return MASK_INDEX
    if choice < 0.9:
        return N_SPECIALS + draws.integer(n_ids - N_SPECIALS)
    return word
