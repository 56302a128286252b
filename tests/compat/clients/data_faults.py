"""Corpora and examples where 0.0.1a4 is wrong or crashes, each fault by itself."""

import random

import torch
from corpus import write_pairs
from observe import attempt
from torch.utils.data import DataLoader

from bert_pytorch.dataset import BERTDataset, WordVocab

VOCAB = WordVocab(["the fox sees a dog", "blue"])


def open_bytes(content, seq_len=17, **options):
    with open("bytes.txt", "wb") as file:
        file.write(content)
    return BERTDataset("bytes.txt", VOCAB, seq_len, **options)


def when_found(content, index=1):
    """Whether a bad line is found when the corpus is opened or when its example is asked for, or never."""

    def work():
        dataset = open_bytes(content)
        outcome = attempt(lambda: list(dataset.get_corpus_line(index)))
        return {"late": outcome} if isinstance(outcome, dict) else outcome

    return attempt(work)


def bad_lines():
    good = b"the fox\ta dog\n"
    return {
        "third column": when_found(good + b"the fox\ta dog\tblue\n"),
        "blank": when_found(good + b"\n" + good),
        "no tab": when_found(good + b"the fox a dog\n"),
        "backslash t": when_found(good + b"the fox \\t a dog\n"),
        "empty second": when_found(good + b"the fox\t\n"),
        "not utf-8": when_found(good + b"the \xe9\ta dog\n"),
        "empty file": when_found(b"", 0),
        "missing file": attempt(lambda: BERTDataset("missing.txt", VOCAB, 17)),
        "two at once": when_found(good + b"no tab\n" + good + b"\n"),
    }


def read_whole():
    return {
        "no final newline": list(open_bytes(b"the fox\ta dog").get_corpus_line(0)),
        "byte-order mark": list(open_bytes(b"\xef\xbb\xbfthe fox\ta dog\n").get_corpus_line(0)),
        "lone CR": attempt(lambda: len(open_bytes(b"the fox\ta dog\rthe dog\ta fox\r"))),
        "corpus_lines": attempt(lambda: len(open_bytes(b"the fox\ta dog\n" * 7, corpus_lines=3))),
        "too many corpus_lines": attempt(lambda: len(open_bytes(b"the fox\ta dog\n" * 7, corpus_lines=11))),
    }


def from_file():
    """Examples of a corpus that is not kept in memory."""
    pairs = [("the fox", "a dog"), ("the dog", "a fox"), ("blue fox", "the dog")]
    write_pairs("file.txt", pairs)
    in_memory = BERTDataset("file.txt", VOCAB, 17)

    def items(dataset, order):
        return [{key: value.tolist() for key, value in dataset[index].items()} for index in order]

    def work(**options):
        dataset = BERTDataset("file.txt", VOCAB, 17, on_memory=False, **options)
        return {
            "line": list(dataset.get_corpus_line(2)),
            "as in memory": items(dataset, (2, 0, 1)) == items(in_memory, (2, 0, 1)),
            "len": len(dataset),
        }

    return {"counted": attempt(work), "told": attempt(lambda: work(corpus_lines=3))}


def targets():
    """What is chosen for prediction, and what it is replaced by."""
    dataset = open_bytes(b"the fox sees\ta blue dog\n" * 97)
    sentence = " ".join(["the fox sees a dog"] * 401)
    truth = VOCAB.to_seq(sentence)
    ids, label = dataset.random_word(sentence)
    swaps = [new for new, old, target in zip(ids, truth, label, strict=True) if target and new not in (old, VOCAB.mask_index)]
    unknown_label = dataset.random_word("unheard " * 997)[1]
    return {
        "swapped for specials": sum(new < 5 for new in swaps),
        "swapped for words": sum(new >= 5 for new in swaps),
        "unknown words taught": sum(value == VOCAB.unk_index for value in unknown_label),
        "nothing to predict": sum(not dataset[index]["bert_label"].any() for index in range(97)),
    }


def negatives():
    """Partners that are called wrong though they are the true ones."""
    two_texts = open_bytes(b"the fox\ta dog\nthe dog\tblue fox\n" * 97)
    one_text = open_bytes(b"the fox\ta dog\nthe dog\ta dog\n" * 97)
    wrong = {}
    for name, dataset in {"two texts": two_texts, "one text": one_text}.items():
        draws = [(dataset.get_corpus_line(index)[1], *dataset.random_sent(index)[1:]) for index in range(len(dataset))]
        wrong[name] = sum(is_next == 0 and drawn == true for true, drawn, is_next in draws)
        wrong[f"{name}, others"] = sum(is_next == 0 and drawn != true for true, drawn, is_next in draws)
    return wrong


class OwnLines(BERTDataset):
    """A user's own source of wrong partners."""

    def get_random_line(self):
        return "blue blue"


def own_partners():
    write_pairs("own.txt", [("the fox", "a dog"), ("the dog", "a fox")] * 47)
    dataset = OwnLines("own.txt", VOCAB, 17)
    drawn = {dataset.random_sent(index)[1:] for index in range(len(dataset))}
    return sorted(second for second, is_next in drawn if is_next == 0)


def cut():
    long_first = open_bytes(b"the fox sees a dog the fox sees a dog the\ta blue dog\n", seq_len=7)[0]
    return {"eos": long_first["bert_input"].tolist().count(2), "segments": long_first["segment_label"].tolist()}


def repeated():
    """Whether an example is the same when it is asked for again, and with other workers."""
    dataset = open_bytes(b"the fox sees a dog\ta blue dog sees the fox\nthe fox\ta dog\n" * 5)
    again = {tuple(dataset[0]["bert_input"].tolist()) for _ in range(31)}
    passes = []
    for n_workers in (0, 2):
        torch.manual_seed(13)
        random.seed(13)
        loader = DataLoader(dataset, batch_size=5, num_workers=n_workers)
        passes.append([batch["bert_input"].tolist() for batch in loader])
    return {"several": len(again) > 1, "same with workers": passes[0] == passes[1], "set_epoch": hasattr(dataset, "set_epoch")}


def see():
    random.seed(13)
    return {
        "bad lines": bad_lines(),
        "read whole": read_whole(),
        "from file": from_file(),
        "targets": targets(),
        "negatives": negatives(),
        "own partners": own_partners(),
        "cut": cut(),
        "repeated": repeated(),
        "seq_len=3": attempt(lambda: open_bytes(b"the fox\ta dog\n", seq_len=3)[0]["bert_input"].tolist()[0]),
        "foreign words": attempt(lambda: len(open_bytes(b"nothing\tknown\n"))),
    }
