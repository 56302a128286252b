"""From lines of a corpus to training examples, many at once: partners drawn, texts trimmed, words hidden.

Shapes: n examples, c texts a line (1 or 2), t texts, T words of all texts, M targets.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from .masking import Masking
from .negatives import PartnerDraws
from .ragged import ramps
from .tensor_draws import draw, example_keys, is_below, text_hashes

_N_TRIES = 64
"""Partners drawn for a "not next" example; a further one is drawn when trimming makes one look like the true one."""


class Texts(NamedTuple):
    """Texts of some lines within a tensor of ids."""

    ids: Tensor
    """Ids of these texts, and maybe of others; 16-bit ids count from -32,768 up, as torch has no unsigned ones to speak of."""
    starts: Tensor
    """Where each text begins in `ids`, `[n, c]` int64."""
    lengths: Tensor
    """How many ids each text has, `[n, c]` int64."""

    def flat(self, starts_t: Tensor, lengths_t: Tensor) -> Tensor:
        """The ids of texts, one after the other, `[T]` int32."""
        ids_T = self.ids.index_select(0, ramps(starts_t, lengths_t)).int()
        return ids_T.bitwise_and_(0xFFFF) if self.ids.dtype == torch.int16 else ids_T


class Corpus(Protocol):
    """What a corpus of ids offers, wherever it lies."""

    n_columns: int

    def __len__(self) -> int:
        """Count the lines."""
        ...

    def fetch(self, lines: Tensor) -> Texts:
        """The texts of some lines."""
        ...


class Examples(NamedTuple):
    """Examples before they are laid out in rows: their words only, one example after the other."""

    words: Tensor
    """Ids before any is hidden, `[T]` int32."""
    targets: Tensor
    """Places of the hidden ones among them, `[M]`."""
    hidden: Tensor
    """The ids that stand there instead, `[M]`."""
    lengths: Tensor
    """Words of each text, `[n, c]`."""
    is_next: Tensor | None
    """The answers `[n]`; None where there is no second task."""

    @property
    def sizes(self) -> Tensor:
        """Tokens of each example, markers included, `[n]`."""
        return self.lengths.sum(1) + self.lengths.size(1) + 1


class Chosen(Protocol):
    """Examples whose texts are chosen, and in which no word is hidden yet."""

    @property
    def sizes(self) -> Tensor:
        """Tokens of each example, markers included, `[n]`."""
        ...

    def examples(self, places: Tensor) -> Examples:
        """Some of the examples."""
        ...


class Choice(NamedTuple):
    """Which texts examples are made of."""

    masking: Masking
    texts: Texts
    starts: Tensor
    """Where in `texts.ids` each text begins, `[n, c]`."""
    lengths: Tensor
    """How many words of it are left, `[n, c]`."""
    is_next: Tensor | None
    """The answers `[n]`; None where there is no second task."""
    partners: Tensor
    """The line of each second text, `[n]`."""
    keys: Tensor
    """The keys of the draws that hide words, `[n]`."""

    @property
    def sizes(self) -> Tensor:
        """Tokens of each example, markers included, `[n]`."""
        return self.lengths.sum(1) + self.lengths.size(1) + 1

    def examples(self, places: Tensor) -> Examples:
        """Some of the examples, `[k]`, each one alike whatever the others are."""
        starts_kc, lengths_kc = self.starts.index_select(0, places), self.lengths.index_select(0, places)
        words_T = self.texts.flat(starts_kc.view(-1), lengths_kc.view(-1))
        keys_k = self.keys.index_select(0, places)
        targets_M, hidden_M = self.masking(words_T, lengths_kc.view(-1), keys_k, lengths_kc.sum(1))
        is_next_k = None if self.is_next is None else self.is_next.index_select(0, places)
        return Examples(words_T, targets_M, hidden_M, lengths_kc, is_next_k)


class ExampleMaker:
    """Makes the examples of a corpus; each is a function of `(seed, epoch, index)`."""

    def __init__(
        self, corpus: Corpus, partners: PartnerDraws | None, masking: Masking, seq_len: int, seed: int, objective: str
    ) -> None:
        """Put the parts together.

        Args:
            corpus: The ids.
            partners: Draws second texts; needed for `mlm+nsp` only.
            masking: Hides words.
            seq_len: Most tokens of an example, markers included.
            seed: Decides every draw.
            objective: One of `corpus.OBJECTIVES`.
        """
        self.corpus = corpus
        self.partners = partners
        self.masking = masking
        self.room = seq_len - corpus.n_columns - 1
        self.seed = seed
        self.objective = objective

    def choose(self, epoch: int, lines_n: Tensor) -> Choice:
        """The texts of the examples of some lines in one pass."""
        keys_n = example_keys(self.seed, epoch, lines_n)
        texts, partners_n = self.corpus.fetch(lines_n), lines_n
        starts_nc, lengths_nc, is_next_n = texts.starts, texts.lengths, None
        if self.objective == "mlm+nsp":
            partners_n = self._draw_partners(lines_n, keys_n, texts)
            is_next_n = (partners_n == lines_n).long()
            texts, starts_nc, lengths_nc = self._with_second_texts_of(partners_n, texts)
        elif self.objective == "mlm+sop":
            starts_nc, lengths_nc, is_next_n = self._swap_some(keys_n, texts)
        lengths_nc = share_room(lengths_nc, self.room)
        return Choice(self.masking, texts, starts_nc, lengths_nc, is_next_n, partners_n, draw(keys_n, 0))

    def _draw_partners(self, lines_n: Tensor, keys_n: Tensor, texts: Texts) -> Tensor:
        """The line that gives each example its second text, `[n]`: its own, or by an even chance another one.

        The other text is never equal to the true one, nor are the ids that are left of both after trimming; where no other can
        be found, it is the true one.
        """
        partners_n = lines_n.clone()
        if self.partners is None:
            return partners_n
        open_k = is_below(draw(keys_n, 1), 0.5).nonzero()[:, 0]
        for number in range(2, _N_TRIES + 2):
            keys_k = keys_n.index_select(0, open_k)
            others_k, has_any_k = self.partners.draw(lines_n.index_select(0, open_k), draw(keys_k, number))
            if number == 2:
                open_k, others_k = open_k[has_any_k], others_k[has_any_k]
            looks_alike_k = self._look_alike(texts, open_k, others_k)
            partners_n[open_k[~looks_alike_k]] = others_k[~looks_alike_k]
            open_k = open_k[looks_alike_k]
            if not open_k.numel():
                break
        return partners_n

    def _look_alike(self, texts: Texts, places_k: Tensor, others_k: Tensor) -> Tensor:
        """Whether trimming leaves the same of an example with its true text and with another one, `[k]`."""
        starts_k2, others = texts.starts.index_select(0, places_k), self.corpus.fetch(others_k)
        true_k2 = texts.lengths.index_select(0, places_k)
        pairs_k2 = torch.stack([true_k2[:, 0], others.lengths[:, 1]], 1)
        looks_alike_k = torch.zeros_like(places_k, dtype=torch.bool)
        # Of those that are not cut the texts are not equal: partners are drawn so.
        cut = (torch.maximum(true_k2[:, 1], pairs_k2[:, 1]) + true_k2[:, 0] > self.room).nonzero()[:, 0]
        left, true_left = share_room(pairs_k2[cut], self.room), share_room(true_k2[cut], self.room)
        begins, true_begins = others.ids[others.starts[cut, 1]], texts.ids[starts_k2[cut, 1]]
        is_open = (left == true_left).all(1).logical_and_(begins == true_begins)
        maybe, lengths = cut[is_open], left[is_open, 1]
        if not maybe.numel():
            return looks_alike_k
        true_hashes = text_hashes(texts.flat(starts_k2[maybe, 1], lengths), lengths)
        looks_alike_k[maybe] = true_hashes == text_hashes(others.flat(others.starts[maybe, 1], lengths), lengths)
        return looks_alike_k

    def _with_second_texts_of(self, partners_n: Tensor, texts: Texts) -> tuple[Texts, Tensor, Tensor]:
        others = self.corpus.fetch(partners_n)
        if others.ids is not texts.ids:
            # Each has ids of its own: they are put one behind the other.
            ids = torch.cat([texts.ids, others.ids])
            others = Texts(ids, others.starts + texts.ids.numel(), others.lengths)
        starts_n2 = torch.stack([texts.starts[:, 0], others.starts[:, 1]], 1)
        return others, starts_n2, torch.stack([texts.lengths[:, 0], others.lengths[:, 1]], 1)

    def _swap_some(self, keys_n: Tensor, texts: Texts) -> tuple[Tensor, Tensor, Tensor]:
        """Change the order of the two texts by an even chance; of two texts that look alike there is only one order.

        Source: Lan et al. 2019 (arXiv 1909.11942), section 3.1, sentence-order prediction.
        """
        orders = []
        for starts_n2, lengths_n2 in ((texts.starts, texts.lengths), (texts.starts.flip(1), texts.lengths.flip(1))):
            left_t = share_room(lengths_n2, self.room).flatten()
            orders.append(text_hashes(texts.flat(starts_n2.flatten(), left_t), left_t).view(-1, 2))
        is_swapped_n = is_below(draw(keys_n, 1), 0.5) & (orders[0] != orders[1]).any(1)
        starts_n2 = torch.where(is_swapped_n[:, None], texts.starts.flip(1), texts.starts)
        return starts_n2, torch.where(is_swapped_n[:, None], texts.lengths.flip(1), texts.lengths), (~is_swapped_n).long()


def share_room(lengths_nc: Tensor, room: int) -> Tensor:
    """How many words each text keeps, `[n, c]`: the longer one loses words until a pair fits; two long ones keep half the room.

    Args:
        lengths_nc: Words of the texts of each line.
        room: Most words of a line.
    """
    if lengths_nc.size(1) == 1:
        return lengths_nc.clamp(max=room)
    first_n, second_n = lengths_nc.unbind(1)
    left_n = torch.minimum(second_n, (room - first_n).clamp_(min=room // 2))
    return torch.stack([torch.minimum(first_n, room - left_n), left_n], 1)
