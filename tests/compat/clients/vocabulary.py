"""Vocabularies from texts on which 0.0.1a4 is right: white space stands around each tab, each line ends."""

import copy
import pickle
from collections import Counter

import torch
import vocabulary_faults
from observe import attempt, finish

from bert_pytorch.dataset import WordVocab
from bert_pytorch.dataset.vocab import TorchVocab, Vocab

CORPUS = """the fox runs \t the fox sleeps
a dog sees the fox \t it runs to a river
the dog barks \t <mask> a fox answers
"""


class LetterVocab(Vocab):
    """A user's own kind of vocabulary."""

    def __init__(self, texts, max_size=None, min_freq=1):
        super().__init__(Counter(letter for text in texts for letter in text), max_size=max_size, min_freq=min_freq)

    def to_seq(self, sentence, seq_len=None):
        return [self.stoi.get(letter, self.unk_index) for letter in sentence][:seq_len]


def describe(vocab):
    return {"itos": vocab.itos, "stoi": vocab.stoi, "freqs": vocab.freqs, "len": len(vocab)}


def from_corpus():
    with open("corpus.txt", "w", encoding="utf-8") as file:
        file.write(CORPUS)
    with open("corpus.txt", encoding="utf-8") as file:
        return WordVocab(file)


def specials(vocab):
    return [vocab.pad_index, vocab.unk_index, vocab.eos_index, vocab.sos_index, vocab.mask_index]


def limits():
    lines = CORPUS.splitlines(keepends=True)
    return {
        "max_size": WordVocab(lines, max_size=3).itos,
        "max_size=0": WordVocab(lines, max_size=0).itos,
        "max_size above": len(WordVocab(lines, max_size=1009)),
        "min_freq": WordVocab(lines, min_freq=3).itos,
        "positional": WordVocab(lines, 5, 2).itos,
        "both": WordVocab(lines, max_size=2, min_freq=2).itos,
        "min_freq=0": WordVocab(lines, min_freq=0).itos == WordVocab(lines).itos,
    }


def to_seq(vocab):
    text = "the fox eats a dog"
    return {
        "text": vocab.to_seq(text),
        "words": vocab.to_seq(["the", "fox", "eats", "a", "dog"]),
        "empty": vocab.to_seq(""),
        "eos": vocab.to_seq(text, with_eos=True),
        "sos": vocab.to_seq(text, with_sos=True),
        "both": vocab.to_seq(text, with_eos=True, with_sos=True),
        "len": vocab.to_seq(text, with_len=True),
        "padded": vocab.to_seq(text, 11, with_eos=True, with_sos=True),
        "exact": vocab.to_seq(text, 7, with_eos=True, with_sos=True),
        "cut": vocab.to_seq(text, 3),
        "cut sos": vocab.to_seq(text, seq_len=3, with_sos=True),
        "cut len": vocab.to_seq(text, seq_len=3, with_sos=True, with_len=True),
        "positional": vocab.to_seq(text, 11, True, True, True),
    }


def from_seq(vocab):
    return {
        "words": vocab.from_seq([3, 6, 5, 2]),
        "joined": vocab.from_seq([3, 6, 5, 2], join=True),
        "outside": vocab.from_seq([6, 1009]),
        "tensor": vocab.from_seq(torch.tensor([6, 7]), join=True),
        "numpy": vocab.from_seq(torch.tensor([6, 7]).numpy(), join=True),
        "empty": vocab.from_seq([]),
        "there and back": vocab.from_seq(vocab.to_seq("a fox runs to the river"), join=True),
    }


def kept(vocab):
    """The vocabulary after each of the ways users keep one."""
    vocab.save_vocab("word.vocab")
    return {
        "load_vocab": describe(WordVocab.load_vocab("word.vocab")),
        "pickle": describe(pickle.loads(pickle.dumps(vocab))),
        "deepcopy": describe(copy.deepcopy(vocab)),
        "equal": WordVocab.load_vocab("word.vocab") == vocab,
        "same class": type(WordVocab.load_vocab("word.vocab")) is WordVocab,
    }


def equality():
    return {
        "same": WordVocab(["a b"]) == WordVocab(["b a"]),
        "other counts": WordVocab(["a b"]) == WordVocab(["a b b a"]),
        "other words": WordVocab(["a b"]) == WordVocab(["a c"]),
        "not equal": WordVocab(["a b"]) != WordVocab(["a c"]),
    }


def grown():
    vocab, sorted_vocab = WordVocab(["a b b"]), WordVocab(["a b b"])
    other = WordVocab(["z z c b"])
    vocab.extend(other)
    sorted_vocab.extend(other, sort=True)
    reranked = WordVocab(["a b b"])
    reranked.itos = [*reranked.itos[:5], "a", "b", "q"]
    reranked.vocab_rerank()
    return {"extend": describe(vocab), "sort": sorted_vocab.itos, "rerank": reranked.stoi}


def torch_vocab():
    counter = Counter({"x": 3, "y": 5, "w": 3, "<s>": 7, "z": 1, "never": 0})
    return {
        "default": describe(TorchVocab(counter)),
        "specials": describe(TorchVocab(counter, max_size=2, min_freq=2, specials=["<s>", "</s>", "<unk>"])),
        "positional": TorchVocab(counter, 1, 1, ["<s>"]).itos,
        "no specials": TorchVocab(counter, specials=[]).itos,
        "min_freq=0": TorchVocab(counter, min_freq=0).itos,
        "counter kept": counter,
        "equal": TorchVocab(counter) == TorchVocab(counter),
    }


def main():
    vocab = from_corpus()
    letters = LetterVocab(["abba", "cab"], max_size=2)
    finish(
        {
            "corpus": describe(vocab),
            "specials": specials(vocab),
            "lists": describe(WordVocab([["a b", "c"], ["c"]])),
            "generator": describe(WordVocab(line for line in ["a b\n", "b"])),
            "limits": limits(),
            "to_seq": to_seq(vocab),
            "from_seq": from_seq(vocab),
            "kept": kept(vocab),
            "equality": equality(),
            "unhashable": attempt(lambda: hash(WordVocab(["a b"]))),
            "grown": grown(),
            "torch_vocab": torch_vocab(),
            "letters": [letters.itos, letters.to_seq("cab", 2), specials(letters)],
            "Vocab.load_vocab": attempt(lambda: describe(Vocab.load_vocab("word.vocab"))),
            "faults": vocabulary_faults.see(),
        }
    )


if __name__ == "__main__":
    main()
