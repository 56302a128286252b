"""The heads equal those of Transformers on the same weights, compute no more than they need, and pool what they say."""

import pytest
import torch

from bert_pytorch import BERT, BERTLM
from bert_pytorch.errors import InputError
from bert_pytorch.finetuning.native_model import groups_of, take_pooler
from bert_pytorch.model import BERTForQuestionAnswering, BERTForSequenceClassification, BERTForTokenClassification
from bert_pytorch.model.bert import ARCHITECTURES

from .examples import B, D, L, V, make_batch, make_bert

C = 5


def inputs(n_padding=4):
    batch = make_batch(n_padding=n_padding)
    return batch["bert_input"], batch["segment_label"]


def test_shapes():
    x, segments = inputs()
    bert = make_bert()
    assert BERTForSequenceClassification(bert, C)(x, segments).shape == (B, C)
    assert BERTForTokenClassification(bert, C)(x, segments).shape == (B, L + 4, C)
    assert BERTForQuestionAnswering(bert)(x, segments).shape == (B, L + 4, 2)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_takes_every_head(architecture):
    x, segments = inputs()
    bert = BERT(V, 12, 2, 3, architecture=architecture)
    language_model = BERTLM(bert, V)
    model = BERTForSequenceClassification(bert, C)
    take_pooler(model, language_model)
    for each, shape in ((model, (B, C)), (BERTForTokenClassification(bert, C), (B, L + 4, C))):
        logits = each(x, segments)
        assert logits.shape == shape
        assert torch.isfinite(logits).all()
    groups = groups_of(model, 0.1, 0.0, 0.5)
    assert sum(p.numel() for group in groups for p in group["params"]) == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
def test_poolings_are_over_tokens_alone(pooling):
    x, segments = inputs()
    model = BERTForSequenceClassification(make_bert(), C, pooling=pooling).eval()
    hidden = model.bert(x, segments)[:, :L]
    pooled = {"cls": hidden[:, 0], "mean": hidden.mean(1), "max": hidden.amax(1)}[pooling]
    expected = model.linear(model.pooler(pooled).tanh())
    assert torch.allclose(model(x, segments), expected, atol=1e-6)
    assert torch.allclose(model(x[:, :L], segments[:, :L]), expected, atol=1e-6)


def test_every_weight_learns():
    x, segments = inputs(0)
    for make in (
        lambda bert: BERTForSequenceClassification(bert, C),
        lambda bert: BERTForTokenClassification(bert, C),
        BERTForQuestionAnswering,
    ):
        model = make(make_bert())
        model(x, segments).square().sum().backward()
        assert [name for name, p in model.named_parameters() if p.grad is None] == []


@pytest.mark.parametrize(
    "make", [lambda bert: BERTForSequenceClassification(bert, 0), lambda b: BERTForTokenClassification(b, 0)]
)
def test_no_label_is_an_error(make):
    with pytest.raises(InputError, match="E-MODEL-HEAD"):
        make(make_bert())


def test_an_unknown_pooling_is_an_error():
    with pytest.raises(InputError, match="expected one of: cls, mean, max"):
        BERTForSequenceClassification(make_bert(), C, pooling="sum")


def test_logits_equal_those_of_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    from bert_pytorch.interop.huggingface import export_model

    language_model = BERTLM(make_bert(), make_bert().vocab_size).eval()
    export_model(language_model, None, tmp_path)
    x, segments = inputs()
    given = {"input_ids": x, "token_type_ids": (segments - 1).clamp(min=0), "attention_mask": (x != 0).long()}
    ours = BERTForSequenceClassification(language_model.bert, C).eval()
    ours.pooler.load_state_dict(language_model.next_sentence.pooler.state_dict())
    theirs = transformers.BertForSequenceClassification.from_pretrained(tmp_path, num_labels=C).eval()
    theirs.classifier.load_state_dict(ours.linear.state_dict())
    assert torch.allclose(ours(x, segments), theirs(**given).logits, atol=1e-5)
    tags = BERTForTokenClassification(language_model.bert, C).eval()
    theirs = transformers.BertForTokenClassification.from_pretrained(tmp_path, num_labels=C).eval()
    theirs.classifier.load_state_dict(tags.linear.state_dict())
    is_token = x != 0
    assert torch.allclose(tags(x, segments)[is_token], theirs(**given).logits[is_token], atol=1e-5)
    answers = BERTForQuestionAnswering(language_model.bert).eval()
    theirs = transformers.BertForQuestionAnswering.from_pretrained(tmp_path).eval()
    theirs.qa_outputs.load_state_dict(answers.linear.state_dict())
    found = theirs(**given)
    both = torch.stack([found.start_logits, found.end_logits], -1)
    assert torch.allclose(answers(x, segments)[is_token], both[is_token], atol=1e-5)
    assert ours.linear.in_features == D
