"""Hub-style folders, as Transformers itself saves them, and models of ours that are not new."""

import json

import torch

from bert_pytorch import BERT, BERTLM

HUB_WORDS = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "dog", "##s", "a", "b", "##b", "fox", "."]
SIZES = {"bert": (20, 2, 4), "modernbert": (24, 4, 2)}


def stirred(model, width=0.1):
    """The model with weights that wrong wiring would show with: new ones of 0.02 hide it within a tolerance."""
    torch.manual_seed(7)
    with torch.no_grad():
        for name, value in model.named_parameters():
            value.add_(torch.randn_like(value) * width)
            # Padding stays the zero vector in ours, as in training.
            if name.endswith(("embedding.token.weight", "embedding.segment.weight")):
                value[0] = 0
    return model.eval()


def make_lm(vocab_size, architecture="bert", dropout=0.3, max_len=47):
    torch.manual_seed(3)
    hidden, n_layers, heads = SIZES[architecture]
    bert = BERT(vocab_size, hidden, n_layers, heads, dropout, max_len=max_len, architecture=architecture)
    return stirred(BERTLM(bert, vocab_size))


def write_hub_folder(folder, model, words=HUB_WORDS, safe=True):
    """A folder with a model of Transformers and a `vocab.txt`, ids as on the hub: specials anywhere."""
    folder.mkdir(exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    if safe:
        model.save_pretrained(folder)
    else:
        config = {**model.config.to_dict(), "architectures": [type(model).__name__]}
        (folder / "config.json").write_text(json.dumps(config))
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
    return folder
