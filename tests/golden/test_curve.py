"""Twenty steps and the names of the weights, pinned: a refactoring shows the same numbers.

Without dropout, whose draws differ between processors; the tolerance leaves room for their sums.
"""

from __future__ import annotations

import pytest
import torch

from bert_pytorch import BERT, BERTDataset, BERTTrainer, WordVocab
from bert_pytorch.dataset.draws import Draws
from bert_pytorch.dataset.loader import BatchLoader
from bert_pytorch.trainer.objective import SUMS

NEXT_SENTENCE_LOSSES = [
    0.692448,
    0.680546,
    0.703015,
    0.652908,
    0.593789,
    0.769106,
    0.754945,
    0.770051,
    0.638482,
    0.775647,
    0.701024,
    0.703118,
    0.689316,
    0.715686,
    0.726208,
    0.674212,
    0.696557,
    0.707984,
    0.705728,
    0.695092,
]
MASKED_WORD_LOSSES = [
    2.863824,
    2.927265,
    2.858955,
    2.867102,
    2.865761,
    2.772161,
    2.979068,
    2.891263,
    3.004927,
    2.817966,
    2.877864,
    2.884453,
    2.852551,
    2.838749,
    2.804801,
    2.835059,
    2.782449,
    2.979099,
    2.977619,
    2.872901,
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
    rows = []
    trainer.objective.register_forward_hook(
        lambda module, inputs, sums: rows.append(dict(zip(SUMS, sums[0].tolist(), strict=True)))
    )
    for epoch in range(4):
        trainer.train(epoch)
    assert trainer.optim_schedule.n_current_steps == 20
    assert [row["nsp_loss"] / row["n_answers"] for row in rows] == pytest.approx(NEXT_SENTENCE_LOSSES, abs=1e-4)
    assert [row["mlm_loss"] / row["n_targets"] for row in rows] == pytest.approx(MASKED_WORD_LOSSES, abs=1e-4)


def test_names_of_the_weights(trainer):
    assert list(trainer.language_model.state_dict()) == KEYS


def test_sizes_of_the_weights(trainer):
    assert sum(parameter.numel() for parameter in trainer.language_model.parameters()) == 14455
