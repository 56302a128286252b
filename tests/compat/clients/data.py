"""Training examples of a corpus on which 0.0.1a4 is right: every line is one pair, short enough, and ends."""

import random
from pathlib import Path

import data_faults
import torch
from corpus import PAIRS, write_pairs
from observe import attempt, finish
from torch.utils.data import DataLoader, Dataset

from bert_pytorch.dataset import BERTDataset, WordVocab

KEYS = ["bert_input", "bert_label", "segment_label", "is_next"]


def examples(dataset):
    """Each example once, its ids as they were before masking."""
    items = []
    for index in range(len(dataset)):
        item = dataset[index]
        original = torch.where(item["bert_label"] != 0, item["bert_label"], item["bert_input"])
        items.append(
            {
                "keys": sorted(item),
                "dtypes": [str(item[key].dtype) for key in KEYS],
                "shapes": [list(item[key].shape) for key in KEYS],
                "is_next": int(item["is_next"]),
                "original": original.tolist(),
                "input": item["bert_input"].tolist(),
                "segments": item["segment_label"].tolist(),
            }
        )
    return items


def methods(dataset):
    ids, label = dataset.random_word("the fox runs to the unheard river")
    first, second, is_next = dataset.random_sent(1)
    return {
        "get_corpus_line": [list(dataset.get_corpus_line(index)) for index in (0, 12, -1)],
        "random_word types": [type(ids).__name__, type(label).__name__, {type(value).__name__ for value in ids + label}.pop()],
        "random_word lengths": [len(ids), len(label)],
        "random_word original": [target or word for word, target in zip(ids, label, strict=True)],
        "random_sent first": first,
        "random_sent": [is_next in (0, 1), second in {pair[1] for pair in PAIRS}],
        "get_random_line": dataset.get_random_line() in {pair[1] for pair in PAIRS},
    }


def both_answers(dataset):
    """How many of the pairs of a longer corpus come with their own partner, and whether that is told."""
    draws = [(index, dataset.random_sent(index)) for index in range(len(dataset))]
    truths = [second == dataset.get_corpus_line(index)[1] for index, (_, second, is_next) in draws if is_next == 1]
    return {"is_next": sum(is_next for _, (_, _, is_next) in draws), "n": len(draws), "true partners": all(truths)}


def batches(dataset, **options):
    return [
        {key: [str(value.dtype), *value.shape] for key, value in batch.items()}
        for batch in DataLoader(dataset, batch_size=5, **options)
    ]


def in_latin_1(vocab):
    path = write_pairs("latin.txt", [("the caf\xe9 fox", "a dog")], encoding="latin-1")
    by_position = BERTDataset(path, vocab, 17, "latin-1", None, True)
    options = {"encoding": "latin-1", "corpus_lines": 1, "on_memory": True}
    by_keyword = BERTDataset(corpus_path=Path(path), vocab=vocab, seq_len=17, **options)
    return [list(by_position.get_corpus_line(0)), list(by_keyword.get_corpus_line(0))]


def with_windows_line_ends(vocab):
    with open("windows.txt", "wb") as file:
        file.write(b"the fox\ta dog\r\nthe dog\ta fox\r\n")
    return BERTDataset("windows.txt", vocab, 17).lines


class FirstThree(Dataset):
    """A user's own dataset around this one."""

    def __init__(self, inner):
        self.inner = inner

    def __len__(self):
        return 3

    def __getitem__(self, index):
        return self.inner[index]["segment_label"].sum().item()


class OwnTexts(BERTDataset):
    """A user's kind of dataset: other pairs, other masking."""

    def get_corpus_line(self, item):
        first, second = super().get_corpus_line(item)
        return first.replace("fox", "dog"), second

    def random_sent(self, index):
        return *self.get_corpus_line(index), 1

    def random_word(self, sentence):
        ids = self.vocab.to_seq(sentence)
        return [self.vocab.mask_index] * len(ids), ids


class Letters(BERTDataset):
    """A user's dataset whose tokens are letters, so that a text has more tokens than words."""

    def random_word(self, sentence):
        letters = sentence.replace(" ", "")
        return [5 + ord(letter) % 18 for letter in letters], [0] * len(letters)


def main():
    random.seed(13)
    path = write_pairs("corpus.txt")
    with open(path, encoding="utf-8") as file:
        vocab = WordVocab(file)
    dataset = BERTDataset(path, vocab, seq_len=17)
    long_pairs = [(f"the fox {i}", f"a dog {i}") for i in range(997)]
    long = BERTDataset(write_pairs("long.txt", long_pairs), WordVocab([f"the fox a dog {i}" for i in range(997)]), 17)
    finish(
        {
            "itos": vocab.itos,
            "len": len(dataset),
            "examples": examples(dataset),
            "methods": methods(dataset),
            "both answers": both_answers(long),
            "attributes": [dataset.seq_len, dataset.on_memory, dataset.corpus_lines, dataset.corpus_path, dataset.encoding],
            "vocab is kept": dataset.vocab is vocab,
            "lines": dataset.lines[:2],
            "loader": batches(dataset),
            "shuffled": batches(dataset, shuffle=True, drop_last=True),
            "workers": batches(dataset, num_workers=2),
            "latin-1": in_latin_1(vocab),
            "windows": with_windows_line_ends(vocab),
            "subset": [FirstThree(dataset)[index] > 0 for index in range(3)],
            "is a Dataset": isinstance(dataset, Dataset),
            "for loop": sum(1 for _ in dataset),
            "last by -1": dataset[-1]["bert_input"].shape[0],
            "own texts": {key: value.tolist() for key, value in OwnTexts(path, vocab, 11)[0].items()},
            "letters": {key: list(value.shape) for key, value in Letters(path, vocab, 17)[1].items()},
            "outside": attempt(lambda: dataset[13]["is_next"])["raised"][0],
            "faults": data_faults.see(),
        }
    )


if __name__ == "__main__":
    main()
