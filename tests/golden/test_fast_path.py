"""What steps compute is what the contract computes: losses and gradients, in float64, whatever makes them fast.

The plain path is a loop over the same examples, one a row: `BERTLM(x, segment_label)` for all words at all positions, then
`PretrainingCriterion`, as bert-pytorch's own trainer has it.
"""

from itertools import islice

import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from bert_pytorch import BERT, BERTDataset, BERTTrainer, WordVocab
from bert_pytorch.dataset.draws import Draws
from bert_pytorch.dataset.loader import BatchLoader
from bert_pytorch.trainer.criterion import PretrainingCriterion
from bert_pytorch.trainer.objective import SUMS

# Torch's compiler looks at `.grad` of what is no leaf, makes objects of functions, and warns itself of both.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf"),
    pytest.mark.filterwarnings("ignore:.*should not be instantiated"),
]

N_STEPS = 5
BATCH = 13
WAYS = {
    "plain batches": {},
    "buckets": {"group_by_length": True},
    "packing": {"packing": True},
    "tokens a batch": {"tokens_per_batch": 67, "group_by_length": True},
    "accumulation": {"gradient_accumulation_steps": 3},
    "checkpointing": {"gradient_checkpointing": True},
    "compile": {"torch_compile": True, "torch_compile_backend": "aot_eager"},
    "packing, accumulation, checkpointing": {
        "packing": True,
        "gradient_accumulation_steps": 3,
        "gradient_checkpointing": True,
    },
    "buckets, accumulation, compile, checkpointing": {
        "group_by_length": True,
        "gradient_accumulation_steps": 2,
        "torch_compile": True,
        "torch_compile_backend": "aot_eager",
        "gradient_checkpointing": True,
    },
}
_LOADER_OPTIONS = ("group_by_length", "packing", "tokens_per_batch")


@pytest.fixture(params=["mlm+nsp", "mlm"])
def dataset(request, tmp_path):
    draws = Draws(5, 0, 0)
    lines = []
    for _ in range(211):
        texts = [[f"w{draws.integer(41)}" for _ in range(1 + draws.integer(11))] for _ in range(2)]
        lines.append("\t".join(" ".join(words) for words in texts))
    (tmp_path / "corpus.txt").write_text("\n".join(lines))
    return BERTDataset(tmp_path / "corpus.txt", WordVocab(lines), seq_len=19, seed=3, objective=request.param)


def new_trainer(dataset, architecture, data, dtype=torch.float64, dropout=0.0, **options):
    torch.manual_seed(11)
    bert = BERT(len(dataset.vocab), 30, 4, 3, dropout, architecture=architecture)
    settings = {"lr": 0.01, "warmup_steps": 0, "max_grad_norm": None, "with_cuda": False, "word_counts": dataset.word_counts}
    trainer = BERTTrainer(bert, len(dataset.vocab), data, **settings, **options)
    trainer.language_model.to(dtype)
    return trainer


def fast_curve(dataset, architecture, options, **more):
    """The losses of some steps as the trainer makes them, and the gradients of the last one."""
    loader_options = {name: options[name] for name in options if name in _LOADER_OPTIONS}
    step_options = {name: options[name] for name in options if name not in _LOADER_OPTIONS}
    n_batches = N_STEPS * options.get("gradient_accumulation_steps", 1)
    loader = BatchLoader(dataset, BATCH, shuffle=True, **loader_options)
    batches = list(islice(loader, n_batches))
    assert len(batches) == n_batches
    trainer = new_trainer(dataset, architecture, batches, **step_options, **more)
    rows = []
    trainer.objective.register_forward_hook(
        lambda module, inputs, sums: rows.append(dict(zip(SUMS, sums[0].tolist(), strict=True)))
    )
    trainer.train(0)
    losses = []
    for i in range(0, n_batches, n_batches // N_STEPS):
        step = rows[i : i + n_batches // N_STEPS]
        total = {name: sum(row[name] for row in step) for name in SUMS}
        losses.append(total["mlm_loss"] / total["n_targets"] + total["nsp_loss"] / max(1, total["n_answers"]))
    return losses, gradients(trainer), batches


def plain_curve(dataset, architecture, batches):
    """The same, the plain way."""
    trainer = new_trainer(dataset, architecture, batches)
    criterion, losses = PretrainingCriterion(), []
    trainer.model.train()
    for i in range(0, len(batches), len(batches) // N_STEPS):
        batch = one_a_row(batches[i : i + len(batches) // N_STEPS])
        next_sentence, words = trainer.model(batch["bert_input"], batch["segment_label"])
        loss = criterion(words.transpose(1, 2), batch["bert_label"])
        if "is_next" in batch:
            loss = loss + criterion(next_sentence, batch["is_next"])
        trainer.optim_schedule.zero_grad()
        loss.backward()
        trainer.optim_schedule.step_and_update_lr()
        losses.append(loss.item())
    return losses, gradients(trainer)


def one_a_row(batches):
    """The examples of batches, one a row, padded at the end."""
    keys = ("bert_input", "bert_label", "segment_label")
    rows, answers = {key: [] for key in keys}, []
    for batch in batches:
        example = batch.get("example", (batch["bert_input"] != 0).long())
        for row, numbers in enumerate(example):
            for number in range(1, int(numbers.max()) + 1):
                for key in keys:
                    rows[key].append(batch[key][row][numbers == number])
        answers.append(batch.get("is_next"))
    whole = {key: pad_sequence(values, batch_first=True) for key, values in rows.items()}
    return whole if answers[0] is None else {**whole, "is_next": torch.cat(answers)}


def gradients(trainer):
    return {name: value.grad for name, value in trainer.language_model.named_parameters() if value.grad is not None}


@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
@pytest.mark.parametrize("way", WAYS)
def test_losses_and_gradients_are_those_of_the_plain_path(dataset, architecture, way):
    losses, fast, batches = fast_curve(dataset, architecture, WAYS[way])
    expected, plain = plain_curve(dataset, architecture, batches)
    assert losses == pytest.approx(expected, abs=1e-9)
    assert max(expected) - min(expected) > 0.01
    assert fast.keys() == plain.keys()
    for name in plain:
        torch.testing.assert_close(fast[name], plain[name], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
def test_single_precision_is_within_its_rounding(dataset, architecture):
    losses, _, batches = fast_curve(dataset, architecture, {"group_by_length": True}, dtype=torch.float32)
    assert losses == pytest.approx(plain_curve(dataset, architecture, batches)[0], abs=1e-5)


@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
@pytest.mark.parametrize(("half", "tolerance"), [("bf16", 0.02), ("fp16", 0.005)])
def test_half_precision_is_within_its_rounding(dataset, architecture, half, tolerance):
    losses, fast, batches = fast_curve(dataset, architecture, {"group_by_length": True, half: True}, dtype=torch.float32)
    expected, plain = plain_curve(dataset, architecture, batches)
    assert losses == pytest.approx(expected, abs=tolerance)
    assert losses != pytest.approx(expected, abs=1e-7)
    assert {value.dtype for value in fast.values()} == {torch.float32}
    assert fast.keys() == plain.keys()


@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
def test_products_of_fewer_bits_are_within_their_rounding(dataset, architecture):
    options = {"group_by_length": True, "float32_matmul_precision": "medium"}
    losses, _, batches = fast_curve(dataset, architecture, options, dtype=torch.float32)
    assert losses == pytest.approx(plain_curve(dataset, architecture, batches)[0], abs=0.02)


@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
def test_checkpointing_changes_no_bit_with_dropout_either(dataset, architecture):
    curves = [
        fast_curve(dataset, architecture, {"gradient_checkpointing": is_on}, dtype=torch.float32, dropout=0.3)[:2]
        for is_on in (False, True)
    ]
    assert curves[0][0] == curves[1][0]
    assert all(torch.equal(curves[0][1][name], curves[1][1][name]) for name in curves[0][1])


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
def test_inductor_computes_the_same(dataset, architecture):
    options = {"group_by_length": True, "torch_compile": True}
    losses, fast, batches = fast_curve(dataset, architecture, options)
    expected, plain = plain_curve(dataset, architecture, batches)
    assert losses == pytest.approx(expected, abs=1e-9)
    for name in plain:
        torch.testing.assert_close(fast[name], plain[name], rtol=1e-6, atol=1e-9)
