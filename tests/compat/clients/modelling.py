"""The encoder and the language model, as 0.0.1a4 has them: B = 5, L = 7, N = 3 heads of H = 2, V = 23."""

import copy

import modelling_faults
import signatures
import torch
from observe import attempt, finish
from torch import nn

from bert_pytorch import BERT
from bert_pytorch.model import BERTLM

X = torch.tensor([[3, 5, 11, 2, 7, 2, 0]] * 4 + [[3, 9, 2, 22, 2, 0, 0]])
SEGMENTS = torch.tensor([[1, 1, 1, 1, 2, 2, 0]] * 4 + [[1, 1, 1, 2, 2, 0, 0]])


class Classifier(nn.Module):
    """A user's own head on the encoder."""

    def __init__(self, bert):
        super().__init__()
        self.bert = bert
        self.linear = nn.Linear(bert.hidden, 11)

    def forward(self, x, segment_info):
        return self.linear(self.bert(x, segment_info)[:, 0])


def sizes(bert):
    return [bert.hidden, bert.n_layers, bert.attn_heads, len(bert.transformer_blocks), bert.feed_forward_hidden]


def encoder(bert):
    hidden = bert(X, SEGMENTS)
    bert.eval()
    once, again = bert(X, SEGMENTS), bert.forward(X, segment_info=SEGMENTS)
    longer = bert(torch.nn.functional.pad(X, (0, 4)), torch.nn.functional.pad(SEGMENTS, (0, 4)))
    alone = bert(X[:1], SEGMENTS[:1])
    nothing = bert(torch.zeros_like(X), torch.zeros_like(X))
    return {
        "shape": list(hidden.shape),
        "dtype": str(hidden.dtype),
        "has gradient": hidden.requires_grad,
        "eval repeats": torch.equal(once, again),
        # A position of the text must not see how much padding follows, nor which other texts are in the batch.
        "padding unseen": torch.allclose(longer[:4, :6], once[:4, :6], atol=1e-5),
        "batch unseen": torch.allclose(alone[0, :6], once[0, :6], atol=1e-5),
        "texts seen": not torch.allclose(once[4, :5], once[0, :5], atol=1e-2),
        "only padding": bool(nothing.isfinite().all()),
    }


def parts(bert):
    """The encoder's parts, called one by one."""
    x = bert.embedding(X, SEGMENTS)
    mask = (X > 0).unsqueeze(1).repeat(1, X.size(1), 1).unsqueeze(1)
    for transformer in bert.transformer_blocks:
        x = transformer.forward(x, mask)
    return {
        "embedding": list(bert.embedding(X, SEGMENTS).shape),
        "blocks": list(x.shape),
        "same as whole": torch.allclose(x[:4, :6], bert.eval()(X, SEGMENTS)[:4, :6], atol=1e-5),
        "token": list(bert.embedding.token.weight.shape),
        "segment": list(bert.embedding.segment.weight.shape),
        "padding row": float(bert.embedding.token.weight[0].abs().sum()),
        "padding_idx": bert.embedding.token.padding_idx,
    }


def language_model(bert):
    model = BERTLM(bert, 23).eval()
    next_sentence, words = model(X, SEGMENTS)
    by_name = model.forward(x=X, segment_label=SEGMENTS)
    return {
        "shapes": [list(next_sentence.shape), list(words.shape)],
        "sums": [float((output.exp().sum(-1) - 1).abs().max()) < 1e-5 for output in (next_sentence, words)],
        "negative": [bool((output <= 0).all()) for output in (next_sentence, words)],
        "by name": [torch.equal(next_sentence, by_name[0]), torch.equal(words, by_name[1])],
        "bert": model.bert is bert,
        "heads": [list(model.next_sentence(bert(X, SEGMENTS)).shape), list(model.mask_lm(bert(X, SEGMENTS)).shape)],
        "keywords": list(BERTLM(bert=bert, vocab_size=23)(X, SEGMENTS)[1].shape),
        "bert first in state": all(f"bert.{key}" in model.state_dict() for key in bert.state_dict()),
    }


def fine_tuned(bert):
    model = Classifier(bert).train()
    before = copy.deepcopy(model.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    nn.functional.cross_entropy(model(X, SEGMENTS), torch.tensor([0, 3, 5, 7, 10])).backward()
    optimizer.step()
    after = model.state_dict()
    return {
        "output": list(model(X, SEGMENTS).shape),
        "embedding learns": not torch.equal(after["bert.embedding.token.weight"], before["bert.embedding.token.weight"]),
        "padding row": float(after["bert.embedding.token.weight"][0].abs().sum()),
        "head learns": not torch.equal(after["linear.weight"], before["linear.weight"]),
    }


def kept(bert):
    """Outputs after each of the ways users keep a model."""
    bert.eval()
    expected = bert(X, SEGMENTS)
    torch.save(bert.state_dict(), "state.pt")
    other = BERT(23, hidden=6, n_layers=2, attn_heads=3)
    other.load_state_dict(torch.load("state.pt"))
    torch.save(bert, "whole.pt")
    copies = {
        "state dict": other.eval(),
        "whole": torch.load("whole.pt", weights_only=False),
        "deepcopy": copy.deepcopy(bert),
    }
    return {name: torch.equal(model(X, SEGMENTS), expected) for name, model in copies.items()}


def main():
    torch.manual_seed(13)
    bert = BERT(23, 6, 2, 3, 0.1)
    finish(
        {
            "positional": sizes(bert),
            "keywords": sizes(BERT(vocab_size=23, hidden=10, n_layers=3, attn_heads=5, dropout=0.2)),
            "is a module": isinstance(bert, nn.Module) and isinstance(BERTLM(bert, 23), nn.Module),
            "imported": __import__("bert_pytorch.model", fromlist=["BERT"]).BERT is BERT,
            "encoder": encoder(bert),
            "parts": parts(bert),
            "language model": language_model(bert),
            "fine-tuned": fine_tuned(copy.deepcopy(bert)),
            "kept": kept(bert),
            "double": str(copy.deepcopy(bert).double()(X, SEGMENTS).dtype),
            "id outside": attempt(lambda: bert(X + 23, SEGMENTS).shape[0])["raised"][0],
            "faults": modelling_faults.see(),
            "signatures": signatures.see(),
        }
    )


if __name__ == "__main__":
    main()
