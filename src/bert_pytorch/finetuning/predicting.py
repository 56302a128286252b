"""Predictions of a finished run on new data, by the engine that trained it."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..errors import UsageError
from .collating import PaddingCollator
from .encoders import encoder_of
from .examples import Example, make_examples
from .features import make_features
from .foreign import Network
from .hub_models import errors_alone, load_hub_model
from .metrics import spans
from .native_batches import NativeBatches
from .native_evaluation import outputs_of
from .native_model import load_finetuned
from .reading import Table, read_table
from .results import Finetuned, read_finetuned
from .scoring import Predictions, predict
from .tasks import ANSWERS, CAUSAL, MASKED, MULTI, REGRESSION, SEQ2SEQ, TOKENS


@dataclass(frozen=True)
class Answered:
    """What a model says of a file.

    Attributes:
        model: The finished run.
        table: The rows of the file.
        examples: Those that were read, in their order.
        predictions: One an example.
        n_cut: Examples longer than `max_length`.
    """

    model: Finetuned
    table: Table
    examples: Sequence[Example]
    predictions: Predictions
    n_cut: int


def predict_file(folder: str, path: str, *, with_labels: bool, batch_size: int = 64, skip_bad_rows: bool = False) -> Answered:
    """Predict the rows of a file.

    Args:
        folder: The `output_dir` of a finished run.
        path: The file; columns as in training, or a text a line.
        with_labels: Whether the right labels are read too.
        batch_size: Rows computed at once.
        skip_bad_rows: Leave bad rows out.

    Raises:
        InputError: Folder or file cannot be used.
        UsageError: The task has nothing to predict.
        UnavailableError: A package is not installed.
    """
    model = read_finetuned(folder)
    name = model.settings.task_and_kind[0].name
    if name in (MASKED, CAUSAL):
        raise UsageError(f"{folder}: a {name} model gives no labels; load it for generation or filling [E-FINETUNE-TASK]")
    settings = replace(model.settings, skip_bad_rows=skip_bad_rows)
    table = read_table(path, text_column=settings.text_column)
    examples = make_examples(table, settings, model.labels, with_labels=with_labels).items
    with contextlib.redirect_stdout(sys.stderr):
        if settings.engine == "native":
            predictions, n_cut = _native(model, examples, batch_size)
        else:
            predictions, n_cut = _hub(model, examples, batch_size)
    return Answered(model, table, examples, predictions, n_cut)


def record_of(answered: Answered, i: int) -> dict[str, object]:
    """A prediction as a user reads it: the label's name, a number, labels, tags and entities, or an answer."""
    example, value = answered.examples[i], answered.predictions.values[i]
    confidence = answered.predictions.confidence[i]
    task, kind = answered.model.settings.task_and_kind
    labels = answered.model.labels
    record: dict[str, object] = {"row": example.where.rpartition(":")[2]}
    record |= {"id": example.key} if example.key and example.key != example.where else {}
    if task.name == TOKENS:
        found = [
            {"type": name, "start": start, "end": end, "text": " ".join(example.words[start:end])}
            for name, start, end in sorted(spans(value), key=lambda span: span[1])
        ]
        record |= {"tokens": list(example.words), "tags": value, "entities": found}
    elif task.name == ANSWERS:
        record |= {"question": example.text, "answer": value}
    else:
        record |= {"text": example.text} | ({} if example.pair is None else {"pair": example.pair})
        if labels is not None and kind == MULTI:
            record["labels"] = [name for name, is_on in zip(labels.names, value, strict=True) if is_on]
        elif labels is not None:
            record["label"] = labels.names[value]
        else:
            record["value" if kind == REGRESSION else "output"] = value
    if confidence is not None:
        record["confidence"] = round(float(confidence), 6)
    return record


def _native(model: Finetuned, examples: Sequence[Example], batch_size: int) -> tuple[Predictions, int]:
    head, vocab = load_finetuned(model.folder, model.settings, model.labels, model.head)
    encoder = encoder_of(vocab)
    features = make_features(examples, encoder, model.settings)
    batches = NativeBatches(features, PaddingCollator(encoder.pad_id), batch_size, 0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    outputs = outputs_of(head.to(device), batches, device)
    return predict(outputs, features, examples, model.settings, model.labels), features.n_cut


@errors_alone()
def _hub(model: Finetuned, examples: Sequence[Example], batch_size: int) -> tuple[Predictions, int]:
    settings = replace(model.settings, allow_network=False)
    hub = load_hub_model(settings, model.labels, model.folder)
    features = make_features(examples, hub.encoder, settings)
    task = settings.task_and_kind[0].name
    collator = PaddingCollator(int(hub.tokenizer.pad_token_id), with_types=hub.with_types and task != SEQ2SEQ)
    batches = NativeBatches(features, collator, batch_size, 0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    hub.model.to(device).eval()
    found: dict[int, Any] = {}
    for rows, outputs in _outputs(hub.model, batches, device, task, settings.max_target_length):
        found.update(zip(rows, outputs, strict=True))
    ordered = [found[i] for i in range(len(found))]
    if task == SEQ2SEQ:
        texts = [text.strip() for text in hub.tokenizer.batch_decode(ordered, skip_special_tokens=True)]
        return Predictions(texts, [None] * len(texts), []), features.n_cut
    return predict(ordered, features, examples, settings, model.labels), features.n_cut


@torch.no_grad()
def _outputs(
    model: Network, batches: NativeBatches, device: torch.device, task: str, most: int
) -> Iterator[tuple[list[int], Sequence[Any]]]:
    for rows, batch in batches.evaluation():
        inputs = {name: value.to(device) for name, value in batch.items() if name in _INPUTS}
        if task == SEQ2SEQ:
            yield rows, model.generate(**inputs, max_length=most).tolist()
            continue
        output = model(**inputs)
        logits: Tensor = torch.stack([output.start_logits, output.end_logits], -1) if task == ANSWERS else output.logits
        yield rows, list(logits.float().cpu())


_INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def conll_of(answered: Answered) -> bytes:
    """Predicted tags in two columns, word and tag, and an empty line behind each row.

    Raises:
        UsageError: The model does not tag words.
    """
    task, _ = answered.model.settings.task_and_kind
    if task.name != TOKENS:
        message = f"{answered.model.folder}: a {task.name} model has no tags"
        raise UsageError(f"{message}; name an --output that ends with .jsonl [E-FINETUNE-TASK]")
    rows = zip(answered.examples, answered.predictions.values, strict=True)
    sentences = (zip(example.words, tags, strict=True) for example, tags in rows)
    return "".join("".join(f"{word}\t{tag}\n" for word, tag in each) + "\n" for each in sentences).encode("utf-8", "replace")


def lines_of(answered: Answered) -> bytes:
    """All predictions as JSONL."""
    records = (record_of(answered, i) for i in range(len(answered.examples)))
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode("utf-8", "replace")
