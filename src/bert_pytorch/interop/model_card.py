"""The README.md of an exported model: what it is, what it was trained on, and how it is used."""

from __future__ import annotations

from collections.abc import Mapping

from ..model import BERT

_FACTS = {
    "objective": "objective",
    "mlm_probability": "share of words hidden",
    "seq_len": "tokens an example at most",
    "batch_size": "examples a batch",
    "pairs": "training examples",
}


def model_card(name: str, bert: BERT, n_parameters: int, state: Mapping[str, object] | None) -> str:
    """The card.

    Args:
        name: What the model is called: that of its folder.
        bert: The encoder.
        n_parameters: Of encoder and heads.
        state: The checkpoint it comes from; None where it comes from a model in memory.
    """
    kind = "BertForPreTraining" if bert.architecture == "bert" else "ModernBertForMaskedLM"
    rows = {
        "architecture": f"{bert.architecture} (`{kind}`)",
        "layers, hidden size, heads": f"{bert.n_layers}, {bert.hidden}, {bert.attn_heads}",
        "vocabulary": f"{bert.vocab_size} entries",
        "longest input": f"{bert.max_len} tokens",
        "parameters": f"{n_parameters:,}",
        **_training_of({} if state is None else state),
    }
    table = "\n".join(f"| {key} | {value} |" for key, value in rows.items())
    use = f'```python\nfrom transformers import pipeline\n\nfill = pipeline("fill-mask", model="{name}")\n```'
    return f"""---
library_name: transformers
pipeline_tag: fill-mask
tags:
- bert-pytorch
- {bert.architecture}
- fill-mask
---

# {name}

A BERT pretrained on a corpus of its own with bert-pytorch. It has seen no other text, and knows nothing of what was not in its
corpus. It is not fine-tuned: its sentence vectors (mean over tokens) are raw.

| | |
|---|---|
{table}

{use}

The mask is `<mask>`; `<sos>` and `<eos>` stand where other models have `[CLS]` and `[SEP]`. Texts must be cleaned and parted
into words as the corpus was.
"""


def _training_of(state: Mapping[str, object]) -> dict[str, str]:
    settings, schedule = state.get("settings"), state.get("schedule")
    rows: dict[str, str] = {}
    if isinstance(settings, Mapping):
        rows |= {label: str(settings[key]) for key, label in _FACTS.items() if settings.get(key) is not None}
    if isinstance(schedule, Mapping) and isinstance(schedule.get("n_current_steps"), int):
        rows["training steps"] = str(schedule["n_current_steps"])
    return rows
