"""New words for a model that has learned others: a larger vocabulary, and rows to begin with.

Shapes: V vocabulary size, D hidden size.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch

from ..dataset.pieces import SPECIALS, document_of
from ..dataset.tokenizer import SubwordVocab
from ..dataset.vocab import Vocab, WordVocab
from ..errors import InputError
from ..extras import import_extra
from ..model import BERT, BERTLM

_BY_ID = ("bert.embedding.token.weight", "mask_lm.decoder.weight", "mask_lm.decoder.bias")


class Extended(NamedTuple):
    """A model and a vocabulary that know more words."""

    model: BERTLM
    vocab: Vocab
    added: list[str]
    """The new words, as the vocabulary has them."""


def missing_words(vocab: Vocab, counts: Counter[str], most: int, min_freq: int = 1) -> list[str]:
    """The commonest words of a corpus that a vocabulary does not have whole; equally common ones by alphabet.

    Args:
        vocab: Of words, or WordPiece.
        counts: How often each word occurs, see `counting.count_files`.
        most: At most so many.
        min_freq: Least occurrences.

    Raises:
        InputError: The vocabulary cannot be extended.
    """
    whole: Counter[str] = Counter()
    for word, n in counts.items():
        for part in _Words(vocab).parts(word):
            whole[part] += n
    lacking = [(-n, word) for word, n in whole.items() if n >= min_freq and word not in vocab.stoi]
    return [word for _, word in sorted(lacking)[:most]]


def extend(model: BERTLM, vocab: Vocab, words: Iterable[str]) -> Extended:
    """Give a model rows for new words, behind those it has.

    A row begins as the mean of the rows of the pieces that spelled the word so far, and the mean of all words where there was
    no such piece: the model then expects the new word as often as an average one, where a row drawn at random may take all.
    Source: for the mean of all, Hewitt 2021, "Initializing new word embeddings for pretrained language models".

    Args:
        model: On the CPU; it stays as it is.
        vocab: Its vocabulary, of words or WordPiece.
        words: Those that are there, and those that texts would be parted at, are left out.

    Raises:
        InputError: The vocabulary cannot be extended.
    """
    former, parts_of = _Words(vocab), {}
    for word in words:
        parts = former.parts(word)
        if len(parts) == 1 and parts[0] not in vocab.stoi:
            parts_of.setdefault(parts[0], None)
    added = list(parts_of)
    larger = former.extended(added)
    former_ids = [[i for i in seq if i >= len(SPECIALS)] for seq in vocab.to_seqs(added)]
    config = {**model.bert.config, "vocab_size": len(larger)}
    state = model.state_dict()
    for name in _BY_ID:
        if name in state:
            state[name] = _with_rows(state[name], former_ids)
    with torch.random.fork_rng(devices=[]):
        result = BERTLM(BERT(**config), len(larger))
    result.load_state_dict(state)
    return Extended(result.eval(), larger, added)


def _with_rows(table: torch.Tensor, former_ids: Sequence[Sequence[int]]) -> torch.Tensor:
    """A table `[V, D]`, or a bias `[V]`, with a row for each list of ids behind it."""
    average = table[len(SPECIALS) :].float().mean(0)
    rows = [table[torch.tensor(ids)].float().mean(0) if ids else average for ids in former_ids]
    return torch.cat([table, torch.stack(rows).to(table.dtype)]) if rows else table


class _Words:
    """How a vocabulary forms words of a text, before it parts them into pieces."""

    def __init__(self, vocab: Vocab) -> None:
        if not isinstance(vocab, SubwordVocab):
            self.vocab, self.tokenizer = vocab, None
            return
        if vocab.pieces.model != "WordPiece":
            message = f"vocabulary: {vocab.pieces.model} spells words by its merges, and new words need new ones"
            raise InputError(f"{message}; train one on both corpora: bert-vocab -c A B [E-VOCAB-EXTEND]")
        tokenizers = import_extra("tokenizers", "tokenizers")
        self.vocab = vocab
        self.tokenizer = tokenizers.Tokenizer.from_str(json.dumps(document_of(vocab.pieces, with_specials=False)))

    def parts(self, word: str) -> list[str]:
        if self.tokenizer is None:
            return WordVocab([word], lowercase=self.vocab.lowercase, normalize=self.vocab.normalize).itos[len(SPECIALS) :]
        normalizer = self.tokenizer.normalizer
        normal = word if normalizer is None else normalizer.normalize_str(word)
        return [part for part, _ in self.tokenizer.pre_tokenizer.pre_tokenize_str(normal)]

    def extended(self, added: Sequence[str]) -> Vocab:
        itos = [*self.vocab.itos, *added]
        if isinstance(self.vocab, SubwordVocab):
            return SubwordVocab(self.vocab.pieces._replace(itos=itos))
        larger = WordVocab([], lowercase=self.vocab.lowercase, normalize=self.vocab.normalize)
        larger.itos, larger.freqs = itos, Counter(self.vocab.freqs)
        larger.vocab_rerank()
        return larger
