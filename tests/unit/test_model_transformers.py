"""Weight for weight what Transformers calls `BertForPreTraining`: copied weights give equal outputs.

Theirs differs in two numberings: next-sentence class 0 is "is next" (ours is 1); token types 0 and 1 are our segments 1 and 2.
"""

import pytest
import torch

from bert_pytorch import BERT, BERTLM

from .examples import V, make_batch

transformers = pytest.importorskip("transformers")

HEADS = {
    "bert.embedding.token.weight": "bert.embeddings.word_embeddings.weight",
    "bert.embedding.position.weight": "bert.embeddings.position_embeddings.weight",
    "bert.embedding.norm": "bert.embeddings.LayerNorm",
    "next_sentence.pooler": "bert.pooler.dense",
    "mask_lm.transform": "cls.predictions.transform.dense",
    "mask_lm.norm": "cls.predictions.transform.LayerNorm",
    "mask_lm.decoder.bias": "cls.predictions.bias",
}
BLOCK = {
    "attention.output_linear": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "feed_forward.w_1": "intermediate.dense",
    "feed_forward.w_2": "output.dense",
    "feed_forward_norm": "output.LayerNorm",
}


def copied(theirs, ours, n_layers):
    """Our state dict with their weights in it."""
    names = dict(HEADS)
    for i in range(n_layers):
        names |= {f"bert.transformer_blocks.{i}.{our}": f"bert.encoder.layer.{i}.{their}" for our, their in BLOCK.items()}
    state = {}
    for our, their in names.items():
        for suffix in ("", ".weight", ".bias"):
            if our + suffix in ours:
                state[our + suffix] = theirs[their + suffix]
    for i in range(n_layers):
        for kind in ("weight", "bias"):
            parts = [theirs[f"bert.encoder.layer.{i}.attention.self.{name}.{kind}"] for name in ("query", "key", "value")]
            state[f"bert.transformer_blocks.{i}.attention.qkv_linear.{kind}"] = torch.cat(parts)
    types = theirs["bert.embeddings.token_type_embeddings.weight"]
    state["bert.embedding.segment.weight"] = torch.cat([torch.zeros_like(types[:1]), types])
    for kind in ("weight", "bias"):
        state[f"next_sentence.linear.{kind}"] = theirs[f"cls.seq_relationship.{kind}"].flip(0)
    state["mask_lm.decoder.weight"] = theirs["bert.embeddings.word_embeddings.weight"]
    return state


@pytest.mark.parametrize(("hidden", "n_layers", "heads"), [(20, 2, 4), (15, 3, 3)])
@pytest.mark.parametrize("n_padding", [0, 4])
def test_outputs_equal_those_of_transformers(hidden, n_layers, heads, n_padding):
    config = transformers.BertConfig(
        vocab_size=V,
        hidden_size=hidden,
        num_hidden_layers=n_layers,
        num_attention_heads=heads,
        intermediate_size=4 * hidden,
        max_position_embeddings=512,
        type_vocab_size=2,
        # Ten times the usual width: with new weights of 0.02 wrong wiring would hide within the tolerance.
        initializer_range=0.2,
    )
    torch.manual_seed(5)
    theirs = transformers.BertForPreTraining(config).eval()
    with torch.no_grad():
        for value in theirs.parameters():
            value.add_(torch.randn_like(value) * 0.1)
    ours = BERTLM(BERT(V, hidden, n_layers, heads), V).eval()
    ours.load_state_dict(copied(theirs.state_dict(), ours.state_dict(), n_layers), strict=True)
    batch = make_batch(n_sequences=3, n_padding=n_padding)
    batch["bert_input"][1, 5:] = 0
    is_token = batch["bert_input"] != 0
    types = (batch["segment_label"] - 1).clamp(min=0)
    with torch.no_grad():
        outputs = theirs(batch["bert_input"], attention_mask=is_token.long(), token_type_ids=types, output_hidden_states=True)
        encoded = ours.bert(batch["bert_input"], batch["segment_label"])
        next_sentence, words = ours(batch["bert_input"], batch["segment_label"])
    assert (encoded - outputs.hidden_states[-1])[is_token].abs().max() < 1e-5
    assert (next_sentence - outputs.seq_relationship_logits.log_softmax(-1).flip(-1)).abs().max() < 1e-5
    assert (words - outputs.prediction_logits.log_softmax(-1))[is_token].abs().max() < 1e-5


def test_a_new_model_starts_as_wide_as_theirs():
    torch.manual_seed(1)
    model = BERTLM(BERT(V, hidden=120, n_layers=1, attn_heads=3), V)
    spreads = {name: value.std().item() for name, value in model.named_parameters() if value.dim() > 1}
    assert {name: spread for name, spread in spreads.items() if not 0.01 < spread < 0.03} == {}
    assert [name for name, value in model.named_parameters() if name.endswith("bias") and value.any()] == []
