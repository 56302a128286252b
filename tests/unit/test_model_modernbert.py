"""The architecture `"modernbert"`: weight for weight what Transformers calls `ModernBertForMaskedLM`."""

import pytest
import torch

from bert_pytorch import BERT, BERTLM
from bert_pytorch.errors import InputError

from .examples import V

transformers = pytest.importorskip("transformers")

BLOCK = {
    "attention_norm.weight": "attn_norm.weight",
    "attention.qkv_linear.weight": "attn.Wqkv.weight",
    "attention.output_linear.weight": "attn.Wo.weight",
    "feed_forward_norm.weight": "mlp_norm.weight",
    "feed_forward.w_1.weight": "mlp.Wi.weight",
    "feed_forward.w_2.weight": "mlp.Wo.weight",
}
REST = {
    "bert.embedding.token.weight": "model.embeddings.tok_embeddings.weight",
    "bert.embedding.norm.weight": "model.embeddings.norm.weight",
    "bert.final_norm.weight": "model.final_norm.weight",
    "mask_lm.transform.weight": "head.dense.weight",
    "mask_lm.norm.weight": "head.norm.weight",
    "mask_lm.decoder.weight": "decoder.weight",
    "mask_lm.decoder.bias": "decoder.bias",
}


def as_ours(name, value, heads):
    """Queries' and keys' features in the order in which they are paired here: neighbours, not one of each half of a head."""
    if not name.endswith("Wqkv.weight"):
        return value
    q, k, v = value.unflatten(0, (3, heads, 2, -1))
    return torch.stack((q.transpose(1, 2), k.transpose(1, 2), v.reshape(heads, -1, 2, v.size(-1)))).reshape(value.shape)


def pair_of_models(hidden, n_layers, heads, feed_forward):
    config = transformers.ModernBertConfig(
        vocab_size=V,
        hidden_size=hidden,
        intermediate_size=feed_forward,
        num_hidden_layers=n_layers,
        num_attention_heads=heads,
        pad_token_id=0,
        max_position_embeddings=1024,
        # Ten times the usual width: with new weights of 0.02 wrong wiring would hide within the tolerance.
        initializer_range=0.2,
        attn_implementation="sdpa",
    )
    torch.manual_seed(5)
    theirs = transformers.ModernBertForMaskedLM(config).eval()
    with torch.no_grad():
        for value in theirs.parameters():
            value.add_(torch.randn_like(value) * 0.1)
    bert = BERT(V, hidden, n_layers, heads, max_len=1024, architecture="modernbert", feed_forward_hidden=feed_forward)
    ours = BERTLM(bert, V).eval()
    state, given = ours.state_dict(), theirs.state_dict()
    names = dict(REST)
    for i in range(n_layers):
        names |= {f"bert.transformer_blocks.{i}.{our}": f"model.layers.{i}.{their}" for our, their in BLOCK.items()}
    names.pop("bert.transformer_blocks.0.attention_norm.weight")
    assert set(names.values()) == set(given)
    assert {name for name in state if not name.startswith("next_sentence.")} == set(names)
    ours.load_state_dict({**state, **{our: as_ours(their, given[their], heads) for our, their in names.items()}})
    return ours, theirs


@pytest.mark.parametrize(("hidden", "n_layers", "heads", "feed_forward"), [(20, 2, 2, 31), (30, 5, 3, 45)])
@pytest.mark.parametrize("n_tokens", [7, 65, 66, 211])
def test_outputs_and_gradients_equal_those_of_transformers(hidden, n_layers, heads, feed_forward, n_tokens):
    ours, theirs = pair_of_models(hidden, n_layers, heads, feed_forward)
    draws = torch.Generator().manual_seed(n_tokens)
    ids = torch.randint(5, V, (3, n_tokens), generator=draws)
    ids[1, n_tokens // 2 :] = 0
    is_token = ids != 0
    words = ours(ids, is_token.long())[1]
    logits = theirs(input_ids=ids, attention_mask=is_token.long()).logits
    torch.testing.assert_close(words[is_token], logits.log_softmax(-1)[is_token], rtol=1e-5, atol=1e-5)
    words[is_token][:, 7].sum().backward()
    logits.log_softmax(-1)[is_token][:, 7].sum().backward()
    our_gradient = ours.bert.transformer_blocks[1].attention.qkv_linear.weight.grad
    their_gradient = as_ours("Wqkv.weight", theirs.model.layers[1].attn.Wqkv.weight.grad, heads)
    torch.testing.assert_close(our_gradient, their_gradient, rtol=1e-3, atol=1e-4)


def test_a_far_token_is_seen_by_each_third_layer_only():
    ids = torch.randint(5, V, (1, 101), generator=torch.Generator().manual_seed(3))
    other = ids.clone()
    other[0, 100] = 5 + (other[0, 100] - 4) % (V - 5)
    bert = BERT(V, 12, 4, 2, max_len=101, architecture="modernbert").eval()
    seen = []
    for block in bert.transformer_blocks:
        block.attention.register_forward_hook(lambda module, inputs, output: seen.append(output[0].detach()))
    bert(ids, torch.ones_like(ids))
    first, seen[:] = seen[:], []
    # A layer alone, on vectors that differ at the far end only.
    views = bert._views(None, torch.arange(101))
    x = first[0][None]
    y = x.clone()
    y[0, 100] += 1
    for number, (mask, rotation) in enumerate(views):
        before, after = (bert.transformer_blocks[number].attention(z, mask, rotation)[0] for z in (x, y))
        moved = (before != after).any(-1)
        assert moved[36:].all()
        assert bool(moved[:36].any()) == (number == 0)


@pytest.mark.parametrize(("hidden", "heads"), [(15, 3), (21, 7)])
def test_heads_of_an_odd_number_of_features_are_refused(hidden, heads):
    with pytest.raises(InputError, match="rotary positions pair the features"):
        BERT(V, hidden, 1, heads, architecture="modernbert")


def test_sizes_are_those_released_and_can_be_chosen():
    assert BERT(V, 20, 1, 2, architecture="modernbert").feed_forward_hidden == 30
    bert = BERT(V, 20, 1, 2, architecture="modernbert", feed_forward_hidden=53)
    assert bert.transformer_blocks[0].feed_forward.w_1.weight.shape == (106, 20)
    assert BERT(**bert.config).feed_forward_hidden == 53
    with pytest.raises(InputError, match="feed_forward_hidden is 0"):
        BERT(V, 20, 1, 2, feed_forward_hidden=0)


def test_outputs_into_the_residual_stream_start_smaller_the_deeper_the_model():
    torch.manual_seed(7)
    bert = BERT(V, 120, 8, 2, architecture="modernbert")
    block = bert.transformer_blocks[3]
    assert float(block.feed_forward.w_1.weight.detach().std()) == pytest.approx(0.0176, rel=0.05)
    assert float(block.feed_forward.w_2.weight.detach().std()) == pytest.approx(0.0176 / 4, rel=0.05)
    assert float(block.attention.output_linear.weight.detach().std()) == pytest.approx(0.0176 / 4, rel=0.05)
