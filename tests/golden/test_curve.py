"""Twenty steps and the names of the weights, pinned: a refactoring shows the same numbers.

Without dropout, whose draws differ between processors; the tolerance leaves room for their sums.
"""

from __future__ import annotations

import pytest
import torch

from bert_pytorch import BERT, BERTDataset, BERTTrainer, WordVocab
from bert_pytorch.dataset.draws import Draws
from bert_pytorch.dataset.loader import BatchLoader

NEXT_SENTENCE_LOSSES = [
    0.689462,
    0.700502,
    0.694984,
    0.708066,
    0.613063,
    0.624266,
    0.760159,
    0.805008,
    0.734653,
    0.691732,
    0.772127,
    0.804427,
    0.667263,
    0.74719,
    0.644083,
    0.81613,
    0.740406,
    0.742075,
    0.679248,
    0.677634,
]
MASKED_WORD_LOSSES = [
    2.912494,
    2.904862,
    2.911592,
    2.917494,
    2.90908,
    2.894268,
    3.024839,
    2.820428,
    2.914382,
    3.021554,
    2.892294,
    2.8474,
    2.871231,
    2.941848,
    2.92134,
    2.850119,
    2.884342,
    2.881323,
    2.968384,
    2.890961,
]
LAYER_KEYS = [
    *("attention.qkv_linear.weight", "attention.qkv_linear.bias"),
    *("attention.output_linear.weight", "attention.output_linear.bias"),
    *("attention_norm.weight", "attention_norm.bias"),
    *("feed_forward.w_1.weight", "feed_forward.w_1.bias", "feed_forward.w_2.weight", "feed_forward.w_2.bias"),
    *("feed_forward_norm.weight", "feed_forward_norm.bias"),
]
KEYS = [
    *("bert.embedding.token.weight", "bert.embedding.position.weight", "bert.embedding.segment.weight"),
    *("bert.embedding.norm.weight", "bert.embedding.norm.bias"),
    *(f"bert.transformer_blocks.{layer}.{key}" for layer in range(2) for key in LAYER_KEYS),
    *("next_sentence.pooler.weight", "next_sentence.pooler.bias", "next_sentence.linear.weight", "next_sentence.linear.bias"),
    *("mask_lm.transform.weight", "mask_lm.transform.bias", "mask_lm.norm.weight", "mask_lm.norm.bias"),
    *("mask_lm.decoder.weight", "mask_lm.decoder.bias"),
]


@pytest.fixture
def trainer(tmp_path):
    draws = Draws(5, 0, 0)
    words = [f"w{draws.integer(18)}" for _ in range(7 * 2 * 61)]
    lines = ["\t".join(" ".join(words[i + j : i + j + 7]) for j in (0, 7)) for i in range(0, len(words), 14)]
    (tmp_path / "corpus.txt").write_text("\n".join(lines))
    vocab = WordVocab(lines)
    data = BERTDataset(tmp_path / "corpus.txt", vocab, seq_len=17, seed=3)
    torch.manual_seed(11)
    bert = BERT(len(vocab), hidden=15, n_layers=2, attn_heads=3, dropout=0.0)
    loader = BatchLoader(data, 13, shuffle=True)
    return BERTTrainer(bert, len(vocab), loader, lr=0.03, warmup_steps=3, max_steps=20, word_counts=data.word_counts)


def test_twenty_step_curve(trainer):
    losses = []
    trainer.criterion.register_forward_hook(lambda module, inputs, loss: losses.append(loss.item()))
    for epoch in range(4):
        trainer.train(epoch)
    assert trainer.optim_schedule.n_current_steps == 20
    assert losses[0::2] == pytest.approx(NEXT_SENTENCE_LOSSES, abs=1e-4)
    assert losses[1::2] == pytest.approx(MASKED_WORD_LOSSES, abs=1e-4)


def test_names_of_the_weights(trainer):
    assert list(trainer.language_model.state_dict()) == KEYS


def test_sizes_of_the_weights(trainer):
    assert sum(parameter.numel() for parameter in trainer.language_model.parameters()) == 14455
