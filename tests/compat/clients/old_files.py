"""Files that 0.0.1a4 wrote, in the folder named on the command line, read by whichever library runs this."""

import sys
from importlib import import_module
from pathlib import Path

import torch
from observe import attempt, finish

from bert_pytorch.__main__ import train
from bert_pytorch.dataset import WordVocab


def loaded_again(path):
    vocab = WordVocab.load_vocab(path)
    vocab.save_vocab("again.vocab")
    again = WordVocab.load_vocab("again.vocab")
    return {
        "itos": vocab.itos,
        "stoi": vocab.stoi == {word: index for index, word in enumerate(vocab.itos)},
        "freqs": [vocab.freqs["the"], vocab.freqs["cold"], vocab.freqs["unheard"]],
        "again": again == vocab,
        "to_seq": vocab.to_seq("the cold fox", with_sos=True, with_eos=True),
    }


def trained_with(folder):
    flags = f"-c {folder / 'corpus.txt'} -v {folder / 'word.vocab'} -o new.model -hs 6 -l 1 -a 3 -s 17 -b 5 -e 1 -w 0"
    sys.argv = ["bert", *flags.split()]
    return [train() or 0, Path("new.model.ep0").is_file()]


def main():
    folder = Path(sys.argv[1])
    model_file = folder / "short.model.ep0"
    finish(
        {
            "vocabulary": attempt(lambda: loaded_again(folder / "word.vocab")),
            "trained with": attempt(lambda: trained_with(folder)),
            "torch.load": attempt(lambda: torch.load(model_file, weights_only=False).hidden),
            "load_model": attempt(lambda: import_module("bert_pytorch.trainer").load_model(model_file)),
        }
    )


if __name__ == "__main__":
    main()
