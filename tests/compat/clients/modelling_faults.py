"""Encoders and language models where 0.0.1a4 is wrong, crashes or is another model."""

import torch
from observe import attempt

from bert_pytorch import BERT
from bert_pytorch.model import BERTLM

X = torch.tensor([[3, 5, 11, 2, 7, 2, 0]])
SEGMENTS = torch.tensor([[1, 1, 1, 1, 2, 2, 0]])


def without_dropout():
    bert = BERT(23, hidden=6, n_layers=2, attn_heads=3, dropout=0.0).train()
    return torch.equal(bert(X, SEGMENTS), bert(X, SEGMENTS))


def half_precision():
    bert = BERT(23, hidden=6, n_layers=2, attn_heads=3).eval().half()
    return bool(bert(X, SEGMENTS).isfinite().all())


def too_long():
    bert = BERT(23, hidden=6, n_layers=1, attn_heads=3).eval()
    x = torch.full((1, 521), 7)
    return list(bert(x, torch.ones_like(x)).shape)


def one_row_of_segments():
    """Segments of shape [1, L] for a batch of 5."""
    bert = BERT(23, hidden=6, n_layers=1, attn_heads=3).eval()
    return list(bert(X.repeat(5, 1), SEGMENTS).shape)


def start():
    """How wide the weights begin, and whether the positions are learned."""
    bert = BERT(997, hidden=66, n_layers=1, attn_heads=3)
    position = [name for name, _ in bert.named_parameters() if "position" in name]
    hidden = bert.eval()(X, SEGMENTS)
    return {
        "embedding width": float(bert.embedding.token.weight[1:].detach().std()),
        "learned positions": len(position),
        # Post-norm: each vector leaves the last block with mean 0 and variance 1.
        "normed outputs": bool((hidden.var(-1, correction=0) - 1).abs().max() < 1e-3),
    }


def heads():
    bert = BERT(23, hidden=6, n_layers=1, attn_heads=3)
    model = BERTLM(bert, 23)
    names = set(model.state_dict()) - {f"bert.{name}" for name in bert.state_dict()}
    tied = any(p is bert.embedding.token.weight for p in model.mask_lm.parameters())
    return {"state": sorted(names), "tied": tied}


def see():
    torch.manual_seed(13)
    return {
        "no multiple": attempt(lambda: BERT(23, hidden=10, n_layers=1, attn_heads=3).hidden),
        "odd": attempt(lambda: list(BERT(23, hidden=15, n_layers=1, attn_heads=3)(X, SEGMENTS).shape)),
        "dropout=0.0": without_dropout(),
        "dropout=1.0": attempt(lambda: BERT(23, hidden=6, n_layers=1, attn_heads=3, dropout=1.0).hidden),
        "half precision": attempt(half_precision),
        "too long": attempt(too_long),
        "one row of segments": attempt(one_row_of_segments),
        "start": start(),
        "heads": heads(),
        "two vocabularies": attempt(lambda: list(BERTLM(BERT(23, 6, 1, 3), 29)(X, SEGMENTS)[1].shape)),
    }
