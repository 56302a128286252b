"""The encoder and its heads: shapes, padding, dropout, precision, refusals."""

import pytest
import torch

from bert_pytorch import BERT, BERTLM
from bert_pytorch.model.dropout import Dropout

from .examples import B, D, L, N, V, make_batch, make_bert


@pytest.fixture
def batch():
    return make_batch()


def forward(model, batch):
    with torch.no_grad():
        return model(batch["bert_input"], batch["segment_label"])


def test_the_encoder_has_the_attributes_of_the_ancestor():
    bert = make_bert(n_layers=2)
    assert (bert.hidden, bert.n_layers, bert.attn_heads, len(bert.transformer_blocks)) == (D, 2, N, 2)
    assert isinstance(bert.embedding, torch.nn.Module)


def test_the_defaults_are_those_of_the_base_model():
    with torch.device("meta"):
        bert = BERT(V)
    assert (bert.hidden, bert.n_layers, bert.attn_heads, len(bert.transformer_blocks)) == (768, 12, 12, 12)


def test_arguments_by_position_are_those_of_the_ancestor():
    bert = BERT(V, 10, 3, 5, 0.5)
    assert (bert.hidden, bert.n_layers, bert.attn_heads, bert.dropout) == (10, 3, 5, 0.5)


def test_the_encoder_gives_a_vector_a_token(batch):
    assert list(forward(make_bert(), batch).shape) == [B, L, D]


def test_the_language_model_gives_log_probabilities(batch):
    next_sentence, words = forward(BERTLM(make_bert(), V), batch)
    assert list(next_sentence.shape) == [B, 2]
    assert list(words.shape) == [B, L, V]
    assert torch.allclose(next_sentence.exp().sum(-1), torch.ones(B), atol=1e-5)
    assert torch.allclose(words.exp().sum(-1), torch.ones(B, L), atol=1e-5)


def test_the_heads_sit_on_the_encoder_that_was_given(batch):
    bert = make_bert()
    assert BERTLM(bert, V).bert is bert


def test_every_parameter_gets_a_gradient(batch):
    model = BERTLM(make_bert(dropout=0.0), V)
    next_sentence, words = model(batch["bert_input"], batch["segment_label"])
    (next_sentence[:, 0].sum() + words[:, :, 7].sum()).backward()
    assert [name for name, value in model.named_parameters() if value.grad is None or not value.grad.any()] == []


def test_each_input_matters(batch):
    bert = make_bert().eval()
    before = forward(bert, batch)
    for key in ("bert_input", "segment_label"):
        changed = {**batch, key: batch[key].clone()}
        changed[key][0, 3] = 7 if key == "bert_input" else 2
        after = forward(bert, changed)
        assert not torch.allclose(after[0], before[0], atol=1e-4)
        assert torch.allclose(after[1], before[1], atol=1e-6)


def test_position_matters(batch):
    bert = make_bert().eval()
    batch["bert_input"][:] = 9
    batch["segment_label"][:] = 1
    encoded = forward(bert, batch)[0]
    assert not torch.allclose(encoded[1], encoded[2], atol=1e-3)


@pytest.mark.parametrize("n_padding", [1, 4, 30])
def test_longer_padding_changes_nothing(batch, n_padding):
    model = BERTLM(make_bert(), V).eval()
    short, long = forward(model, batch), forward(model, make_batch(n_padding=n_padding))
    assert torch.allclose(short[0], long[0], atol=1e-6)
    assert torch.allclose(short[1], long[1][:, :L], atol=1e-6)


@pytest.mark.parametrize("segment", [1, 2])
def test_the_segment_of_padding_changes_nothing(segment):
    bert = make_bert().eval()
    batch = make_batch(n_padding=3)
    before = forward(bert, batch)
    batch["segment_label"][:, L:] = segment
    assert torch.allclose(forward(bert, batch)[:, :L], before[:, :L], atol=1e-6)


def test_padding_within_a_sequence_is_not_attended_to_either(batch):
    bert = make_bert().eval()
    batch["bert_input"][0, 3] = 0
    before = forward(bert, batch)
    batch["segment_label"][0, 3] = 2
    after = forward(bert, batch)
    kept = [0, 1, 2, 4, 5, 6]
    assert torch.allclose(after[0, kept], before[0, kept], atol=1e-6)


def test_each_sequence_has_a_padding_of_its_own(batch):
    bert = make_bert().eval()
    whole = forward(bert, batch)
    batch["bert_input"][0, 4:] = 0
    mixed = forward(bert, batch)
    alone = forward(bert, {key: value[:1, :4] for key, value in batch.items() if key != "is_next"})
    assert torch.allclose(mixed[1], whole[1], atol=1e-6)
    assert torch.allclose(mixed[0, :4], alone[0], atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("train", [True, False])
def test_a_row_of_padding_alone_is_finite_and_leaves_the_others_alone(dtype, train):
    model = BERTLM(make_bert(dropout=0.0), V).to(dtype).train(train)
    batch = make_batch(n_padding=2)
    alone = forward(model, {key: value[1:] for key, value in batch.items()})
    batch["bert_input"][0], batch["segment_label"][0] = 0, 0
    mixed = forward(model, batch)
    assert [output.isfinite().all().item() for output in mixed] == [True, True]
    tolerance = 1e-6 if dtype == torch.float32 else 0.05
    assert torch.allclose(mixed[1][1].float(), alone[1][0].float(), atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_finite_forward_and_backward_and_near_to_single(dtype):
    batch = make_batch(n_padding=3)
    model = BERTLM(make_bert(dropout=0.0), V)
    single = forward(model, batch)
    model.to(dtype)
    half = model(batch["bert_input"], batch["segment_label"])
    assert [output.dtype for output in half] == [dtype, dtype]
    for ours, theirs in zip(half, single, strict=True):
        assert torch.allclose(ours.float(), theirs, atol=0.1)
    (half[0].sum() + half[1].sum()).backward()
    assert [name for name, value in model.named_parameters() if not value.grad.isfinite().all()] == []


def test_dropout_of_zero_means_none_anywhere(batch):
    model = BERTLM(make_bert(dropout=0.0), V)
    trained, evaluated = forward(model.train(), batch), forward(model.eval(), batch)
    assert torch.equal(trained[0], evaluated[0])
    assert torch.equal(trained[1], evaluated[1])
    assert {module.p for module in model.modules() if isinstance(module, Dropout)} <= {0.0}


def test_dropout_works_in_training_and_only_there(batch):
    bert = make_bert(dropout=0.5)
    assert not torch.equal(forward(bert.train(), batch), forward(bert, batch))
    assert torch.equal(forward(bert.eval(), batch), forward(bert, batch))


@pytest.mark.parametrize(("hidden", "heads"), [(15, 3), (15, 5), (7, 1), (7, 7), (1, 1), (33, 11), (6, 2)])
def test_odd_hidden_sizes_work(batch, hidden, heads):
    model = BERTLM(BERT(V, hidden=hidden, n_layers=1, attn_heads=heads), V)
    assert list(model.bert(batch["bert_input"], batch["segment_label"]).shape) == [B, L, hidden]
    assert [output.isfinite().all().item() for output in forward(model, batch)] == [True, True]


@pytest.mark.parametrize(("hidden", "heads"), [(16, 3), (10, 4), (3, 5), (768, 11)])
def test_heads_that_do_not_divide_hidden_are_refused_with_both_numbers(hidden, heads):
    with pytest.raises(ValueError, match=rf"\b{hidden}\b.*\b{heads}\b.*\[E-MODEL-HEADS\]$"):
        BERT(V, hidden=hidden, n_layers=1, attn_heads=heads)


@pytest.mark.parametrize("name", ["vocab_size", "hidden", "n_layers", "attn_heads"])
@pytest.mark.parametrize("size", [0, -5])
def test_a_size_below_one_is_refused(name, size):
    sizes = {"vocab_size": V, "hidden": D, "n_layers": 1, "attn_heads": N, name: size}
    with pytest.raises(ValueError, match=rf"{name}.*{size}.*\[E-MODEL-SIZE\]$"):
        BERT(**sizes)


@pytest.mark.parametrize("dropout", [-0.1, 1.0, 1.5, float("nan")])
def test_a_dropout_that_is_no_share_is_refused(dropout):
    with pytest.raises(ValueError, match=r"dropout.*\[E-MODEL-SIZE\]$"):
        BERT(V, hidden=D, n_layers=1, attn_heads=N, dropout=dropout)


def test_an_unknown_architecture_is_refused():
    with pytest.raises(ValueError, match=r"'gpt'.*bert.*\[E-MODEL-ARCHITECTURE\]$"):
        BERT(V, hidden=D, n_layers=1, attn_heads=N, architecture="gpt")


def test_a_sequence_of_512_tokens_fits_and_one_more_is_refused_with_both_numbers():
    bert = BERT(V, hidden=N, n_layers=1, attn_heads=N)
    assert list(forward(bert, make_batch(n_tokens=512)).shape) == [B, 512, N]
    with pytest.raises(ValueError, match=r"\b513\b.*\b512\b.*\[E-MODEL-LENGTH\]$"):
        forward(bert, make_batch(n_tokens=513))


@pytest.mark.parametrize(("x", "segments"), [([B, L], [B, L + 1]), ([B, L], [1, L]), ([L], [L]), ([B, L, 1], [B, L, 1])])
def test_shapes_that_are_no_batch_are_refused(x, segments):
    with pytest.raises(ValueError, match=r"\[B, L\].*\[E-MODEL-SHAPE\]$"):
        make_bert()(torch.ones(x, dtype=torch.int64), torch.ones(segments, dtype=torch.int64))


@pytest.mark.parametrize("vocab_size", [V - 1, V + 1])
def test_two_vocabulary_sizes_are_refused_with_both_numbers(vocab_size):
    with pytest.raises(ValueError, match=rf"\b{vocab_size}\b.*\b{V}\b.*\[E-MODEL-VOCAB\]$"):
        BERTLM(make_bert(), vocab_size)
