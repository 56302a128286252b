"""Messages of torch about shapes, types and files, with their causes and what to do."""

from __future__ import annotations

from .rules import Rule

_LOAD = "python -c \"from bert_pytorch.trainer import load_model; model = load_model('CHECKPOINT')\""

SHAPES = (
    Rule(
        "torch-matmul-shape",
        r"mat1 and mat2 shapes cannot be multiplied \((\d+)x(\d+) and (\d+)x(\d+)\)",
        "the vectors have {2} features, the layer takes {3}: a head for another hidden size, or a missing transpose",
        "build the layer as nn.Linear({2}, ...); sizes of a model: {inspect_checkpoint} CHECKPOINT",
    ),
    Rule(
        "torch-sizes-differ",
        r"The size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\) at non-singleton dimension (\d+)",
        "tensors of {1} and {2} in dimension {3} are combined: more tokens than positions, or a batch dimension too few",
        "print(x.shape, segments.shape): both are [B, L]; one sequence: x.unsqueeze(0); positions: BERT(..., max_len={1})",
    ),
    Rule(
        "torch-cat-sizes",
        r"Sizes of tensors must match except in dimension (\d+)\. Expected size (\d+) but got size (\d+)",
        "sequences of {2} and {3} tokens are put together unpadded",
        "pad first: torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True), with id 0",
    ),
    Rule(
        "torch-view",
        r"shape '(\[[^\]]*\])' is invalid for input of size (\d+)",
        "{2} numbers do not fill the shape {1}: hidden is no multiple of the heads, or a batch is smaller than expected",
        "hidden % attn_heads must be 0; in your own code write -1 for the batch: x.view(-1, ...)",
    ),
    Rule(
        "torch-batch-target",
        r"Expected input batch_size \((\d+)\) to match target batch_size \((\d+)\)",
        "{1} predictions stand against {2} targets: logits and labels are flattened differently",
        "loss(logits.view(-1, logits.size(-1)), labels.view(-1)), and check labels.shape",
    ),
    Rule(
        "torch-target-shape",
        r"Target size \(torch\.Size\((\[.*?\])\)\) must be the same as input size \(torch\.Size\((\[.*?\])\)\)",
        "targets {1} and predictions {2} of a yes-or-no loss differ in shape",
        "labels = labels.view_as(logits).float()",
    ),
    Rule(
        "torch-target-bounds",
        r"Target (-?\d+) is out of bounds",
        "a label {1} where the model has no such class or word: num_labels is too small, or a vocabulary of another model",
        "num_labels=max(labels) + 1 in from_pretrained; finetune.py counts them: {finetune} --help",
    ),
    Rule(
        "torch-index-range",
        r"index out of range in self|IndexError: index \d+ is out of bounds for dimension",
        "an id beyond the embedding: the vocabulary is not the model's, or the text is longer than the model takes",
        "compare vocab_size and max_len: {inspect_checkpoint} CHECKPOINT; {inspect_checkpoint} VOCAB",
    ),
    Rule(
        "torch-stack",
        r"stack expects each tensor to be equal size, but got (\[[^\]]*\]) at entry \d+ and (\[[^\]]*\])",
        "examples of {1} and {2} are stacked into one batch without padding",
        "DataLoader(data, collate_fn=...) that pads with 0, or BERTDataset(path, vocab, seq_len), whose items have one length",
    ),
    Rule(
        "torch-collate",
        r"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found (.+)",
        "the dataset yields {1}, which torch cannot make a batch of: a None label, or an object",
        "return tensors or numbers from __getitem__, and no None",
    ),
)

TYPES = (
    Rule(
        "torch-long-expected",
        r"expected scalar type Long but found (\w+)|expected target dtype to be Long[^,]*, but got (\w+)|"
        r"scalar types: Long, Int; but got (torch\.\w+)",
        "ids, labels and segments are whole numbers, and these are {1}{2}{3}",
        "ids = ids.long(); labels of a regression belong to task=regression: {finetune} task=regression ...",
    ),
    Rule(
        "torch-low-precision",
        r"(?<![\w.])([\w.]{1,80})\"?(?: not implemented for '(?:Half|BFloat16)'|: Low precision dtypes not supported)",
        "{1} does not exist in 16 bits on this device",
        "model.float(), or autocast in place of .half(): bert ... --bf16",
    ),
    Rule(
        "torch-two-devices",
        r"Expected all tensors to be on the same device|is not on the expected device|"
        r"Input type \(torch\.cuda\.\w+\) and weight type \(torch\.\w+\) should be the same",
        "model and batch are on two devices",
        "batch = {name: value.to(model.device) for name, value in batch.items()}; BERTTrainer does so by itself",
    ),
    Rule(
        "torch-backward-twice",
        r"Trying to backward through the graph a second time",
        "backward() runs twice on one graph: a loss of an earlier step is added up, or a hidden state is carried over",
        "total += loss.item() in place of total += loss; state = state.detach()",
    ),
    Rule(
        "torch-inplace",
        r"modified by an inplace operation",
        "a tensor that backward needs was changed: x += y, x[...] = y, relu_(), or optimizer.step() between two backwards",
        "x = x + y; find the line with torch.autograd.set_detect_anomaly(True)",
    ),
    Rule(
        "torch-no-grad",
        r"does not require grad and does not have a grad_fn",
        "the loss hangs on no parameter: it was made under torch.no_grad(), after .detach(), or all weights are frozen",
        'python -c "import torch; print(torch.is_grad_enabled())"; sum(p.requires_grad for p in model.parameters()) is above 0',
    ),
    Rule(
        "torch-scheduler-order",
        r"lr_scheduler\.step\(\)` before `optimizer\.step\(\)",
        "the first rate of the schedule is skipped (also where a scaler left the first step out: then it is harmless)",
        "optimizer.step() first, then scheduler.step()",
    ),
    Rule(
        "loss-nan",
        r"(?i)\b(?:avg_|train_|eval_|mlm_)?loss['\"]?\s*[:=]\s*['\"]?(nan|-?inf)\b",
        "the loss is {1}: too high a rate, 16 bits without scaling, or a batch without any target (all labels -100 or 0)",
        "a third of the rate (--lr), --max_grad_norm 1; the lines at fault: bert ... --nan_policy raise",
    ),
)

FILES = (
    Rule(
        "torch-weights-only",
        r"Weights only load failed",
        "the file holds Python objects beside tensors, which could run code: a whole model, as 0.0.1a4 saved it",
        "{inspect_checkpoint} FILE, which runs nothing; of 0.0.1a4: {convert_legacy} --model FILE --output new.ep0",
    ),
    Rule(
        "torch-truncated",
        r"failed finding central directory|PytorchStreamReader failed|Ran out of input|pickle data was truncated|"
        r"unexpected EOF, expected \d+ more bytes",
        "the file is cut off or empty: a copy or a save was interrupted",
        "copy it again, or take the checkpoint before: ls -la CHECKPOINT*; {inspect_checkpoint} CHECKPOINT",
    ),
    Rule(
        "torch-compiled-keys",
        r"(?:Missing|Unexpected) key\(s\) in state_dict:[\s\S]{0,2000}?\"(?P<prefix>_orig_mod|module)\.",
        "the weights were saved from a wrapper ({prefix}: torch.compile or DataParallel), the model has none, or the reverse",
        "state = {k.removeprefix('{prefix}.'): v for k, v in state.items()}; model.load_state_dict(state)",
    ),
    Rule(
        "torch-state-keys",
        r"(?:Missing|Unexpected) key\(s\) in state_dict",
        "the weights are not those of this class: another architecture, or a dict that has them under `model`",
        f"{_LOAD}; what it holds: {{inspect_checkpoint}} CHECKPOINT",
    ),
    Rule(
        "hf-head-size",
        r"size mismatch for (?:classifier|score|qa_outputs|cls\.seq_relationship)[\w.]*|"
        r"(?:classifier|score|qa_outputs)\S*\s*\|\s*MISMATCH",
        "the head in the file has another number of labels than num_labels says",
        "from_pretrained(FOLDER, num_labels=N, ignore_mismatched_sizes=True): the head begins anew; or give the N of the file",
    ),
    Rule(
        "torch-vocab-size",
        r"size mismatch for (?P<name>\S*(?:embedding|token|decoder|word)\S*): copying a param with shape "
        r"torch\.Size\(\[(?P<there>\d+)[^)]*\) from checkpoint, the shape in current model is torch\.Size\(\[(?P<here>\d+)",
        "the checkpoint has a vocabulary of {there}, the model was built with {here}: another vocab.json",
        "give the vocabulary of that run: {inspect_checkpoint} CHECKPOINT; {inspect_checkpoint} VOCAB",
    ),
    Rule(
        "torch-size-mismatch",
        r"size mismatch for (?P<name>\S+): copying a param with shape torch\.Size\((?P<there>[^)]*)\) from checkpoint, "
        r"the shape in current model is torch\.Size\((?P<here>[^)]*)\)",
        "{name} is {there} in the file and {here} in the model: other hidden size, layers or heads",
        f"{{inspect_checkpoint}} CHECKPOINT tells the sizes; or {_LOAD}, which builds the model by them",
    ),
)

TORCH = (*SHAPES, *TYPES, *FILES)
