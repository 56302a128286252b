"""Vocabularies where 0.0.1a4 is wrong or crashes, each fault by itself."""

import contextlib
import io
import os
import pickle

from observe import attempt

from bert_pytorch.dataset import WordVocab
from bert_pytorch.dataset.vocab import TorchVocab, Vocab


def write(name, content):
    with open(name, "wb") as file:
        file.write(content)


def words_of(name, **options):
    with open(name, encoding="utf-8", **options) as file:
        return WordVocab(file).itos[5:]


class Payload:
    """Unpickles to a call, as a hostile file does."""

    def __reduce__(self):
        return os.mkdir, ("executed",)


def load_hostile():
    with open("hostile.vocab", "wb") as file:
        pickle.dump(Payload(), file)
    outcome = attempt(lambda: str(WordVocab.load_vocab("hostile.vocab")))
    return {"outcome": outcome, "executed": os.path.isdir("executed")}


def load_list_of_words():
    write("vocab.txt", b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nfox\nthe\n")
    return WordVocab.load_vocab("vocab.txt").itos


def printed(work):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        work()
    return out.getvalue()


def see():
    write("tab.txt", b"the fox\tblue sky\n")
    write("bom.txt", b"\xef\xbb\xbffox runs\n")
    vocab = WordVocab(["the fox sees a dog"])
    vocab.save_vocab("word.vocab")
    with open("word.vocab", "rb") as file:
        begin = file.read(1)
    return {
        "tab": words_of("tab.txt"),
        "byte-order mark": words_of("bom.txt"),
        "with_pad=False": vocab.from_seq([5, 0, 0]),
        "with_pad=True": vocab.from_seq([5, 0, 0], with_pad=True),
        "default with_pad": vocab.from_seq([5, 0, 0], join=True),
        "negative id": attempt(lambda: vocab.from_seq([-1])),
        "cut before the end": vocab.to_seq("the fox sees a dog", 5, with_eos=True, with_sos=True),
        "cut to no room": attempt(lambda: vocab.to_seq("the fox", 1, with_eos=True, with_sos=True)),
        "other type": attempt(lambda: vocab == "the fox sees a dog"),
        "file starts": begin.hex(),
        "hostile": load_hostile(),
        "vocab.txt": attempt(load_list_of_words),
        "missing file": attempt(lambda: WordVocab.load_vocab("missing.vocab")),
        "folder is made": attempt(lambda: [vocab.save_vocab("deep/word.vocab"), os.path.isfile("deep/word.vocab")]),
        "max_size=-1": attempt(lambda: len(WordVocab(["a b c"], max_size=-1))),
        "vectors": attempt(lambda: TorchVocab(vocab.freqs, vectors=None).vectors),
        "abstract to_seq": attempt(lambda: Vocab(vocab.freqs).to_seq("the fox", 3)),
        "printed": printed(lambda: WordVocab(["a b"])),
    }
