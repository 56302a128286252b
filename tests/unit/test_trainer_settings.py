"""Settings and batches that cannot be used are refused before they do harm."""

import warnings

import pytest
import torch

from bert_pytorch import BERTTrainer

from .examples import B, L, V, make_batch, make_bert, make_trainer, same_tensors, weights

NAN = float("nan")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lr", 0.0),
        ("lr", -1e-3),
        ("lr", NAN),
        ("lr", float("inf")),
        ("log_freq", 0),
        ("log_freq", -1),
        ("weight_decay", -0.1),
        ("weight_decay", NAN),
        ("max_grad_norm", 0.0),
        ("max_grad_norm", -1.0),
        ("max_grad_norm", NAN),
        ("betas", (1.0, 0.9)),
        ("betas", (0.9, -0.1)),
        ("max_steps", 0),
        ("max_steps", -5),
    ],
)
def test_a_setting_out_of_its_range_is_refused_by_name(name, value):
    with pytest.raises(ValueError, match=rf"{name}[^\n]*\[E-[A-Z-]+\]$"):
        make_trainer(**{name: value})


@pytest.mark.parametrize("vocab_size", [V - 1, V + 1])
def test_a_vocabulary_of_another_size_is_refused_with_both_numbers(vocab_size):
    with pytest.raises(ValueError, match=rf"\b{vocab_size}\b.*\b{V}\b.*\[E-MODEL-VOCAB\]$"):
        BERTTrainer(make_bert(), vocab_size, [make_batch()], with_cuda=False)


def test_word_counts_of_another_vocabulary_are_refused_with_both_numbers():
    with pytest.raises(ValueError, match=rf"\b{V - 1}\b.*\b{V}\b.*\[E-MODEL-VOCAB\]$"):
        make_trainer(word_counts=[1] * (V - 1))


@pytest.mark.parametrize("key", ["bert_input", "bert_label", "segment_label"])
def test_a_batch_without_a_key_is_refused(key):
    batch = make_batch()
    del batch[key]
    with pytest.raises(ValueError, match=rf"{key}.*\[E-BATCH-KEYS\]$"):
        make_trainer([batch]).train(0)


@pytest.mark.parametrize("batch", [tuple(make_batch().values()), 7, "text", {key: [1] for key in make_batch()}])
def test_a_batch_that_is_no_dict_of_tensors_is_refused(batch):
    with pytest.raises(ValueError, match=r"\[E-BATCH-KEYS\]$"):
        make_trainer([batch]).train(0)


def test_a_batch_of_none_is_refused_instead_of_ending_the_pass():
    with pytest.raises(ValueError, match=r"\[E-BATCH-KEYS\]$"):
        make_trainer([make_batch(), None, make_batch()], warmup_steps=0).train(0)


@pytest.mark.parametrize(
    ("key", "shape"),
    [
        ("bert_label", [B, L + 1]),
        ("segment_label", [B + 1, L]),
        ("bert_input", [B, L - 1]),
        ("bert_input", [B * L]),
        ("is_next", [B + 1]),
        ("is_next", [B, 1]),
        ("is_next", []),
    ],
)
def test_shapes_that_disagree_are_refused_with_all_of_them(key, shape):
    batch = make_batch(**{key: torch.ones(shape, dtype=torch.int64)})
    with pytest.raises(ValueError, match=r"bert_input.*is_next.*\[E-BATCH-SHAPE\]$"):
        make_trainer([batch]).train(0)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("bert_input", V),
        ("bert_input", -1),
        ("bert_label", V),
        ("bert_label", -100),
        ("segment_label", 3),
        ("segment_label", -1),
        ("is_next", 2),
        ("is_next", -1),
    ],
)
def test_a_value_out_of_its_range_is_refused_with_key_and_value(key, value):
    batch = make_batch()
    batch[key].view(-1)[1] = value
    trainer = make_trainer([batch])
    before = weights(trainer)
    with pytest.raises(ValueError, match=rf"{key}.*{value}\b.*\[E-BATCH-RANGE\]$"):
        trainer.train(0)
    assert same_tensors(weights(trainer), before)


@pytest.mark.parametrize("key", ["bert_input", "bert_label", "segment_label", "is_next"])
@pytest.mark.parametrize("value", [0.5, NAN])
def test_values_that_are_no_whole_numbers_are_refused_and_not_cut(key, value):
    batch = make_batch()
    batch[key] = batch[key].float()
    batch[key].view(-1)[1] = value
    with pytest.raises(ValueError, match=rf"{key}[^\n]*\[E-BATCH-[A-Z]+\]$"):
        make_trainer([batch]).train(0)


def test_a_batch_without_a_row_is_no_broken_loss():
    empty = {key: value[:0] for key, value in make_batch().items()}
    with pytest.raises(ValueError, match=r"\[E-BATCH-SHAPE\]$"):
        make_trainer([empty], warmup_steps=0).train(0)


def test_a_target_on_padding_is_refused_or_counted_and_never_dropped():
    """Columns of padding are cut before the model sees them; a label there would vanish without a word."""
    batch = make_batch(n_padding=3)
    batch["bert_label"][0, L + 1] = 9
    trainer = make_trainer([batch], warmup_steps=0)
    try:
        n_targets = trainer.train(0)["n_targets"]
    except ValueError as error:
        assert str(error).endswith("[E-BATCH-RANGE]")
    else:
        assert n_targets == B + 1


@pytest.mark.parametrize("where", ["train", "test"])
def test_a_loss_that_is_no_number_stops_the_run(where):
    trainer = make_trainer(test_data=[make_batch()])
    with torch.no_grad():
        trainer.bert.embedding.norm.weight.fill_(NAN)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*the update is skipped")
        with pytest.raises(RuntimeError, match=r"nan.*\[E-LOSS-NONFINITE\]$"):
            getattr(trainer, where)(0)


def test_sequences_too_long_for_the_model_are_refused_with_both_numbers():
    with pytest.raises(ValueError, match=r"\b600\b.*\b512\b.*\[E-MODEL-LENGTH\]$"):
        make_trainer([make_batch(n_tokens=600)]).train(0)
