"""How batches become steps: accumulation, precision, packed rows in parts, and going on from within."""

import pytest
import torch

from bert_pytorch.dataset.loader import BatchLoader
from bert_pytorch.errors import InputError
from bert_pytorch.trainer.criterion import PretrainingCriterion
from bert_pytorch.trainer.objective import SUMS, PretrainingObjective, answers_by_row

from .examples import make_batches, make_dataset, make_trainer, same_tensors, weights

LONG = [(f"id{i}" + " a" * (i * 7 % 5), "b" + f" c{i % 13}" * (i * 5 % 7)) for i in range(61)]


@pytest.mark.parametrize(("together", "steps"), [(1, 7), (2, 4), (3, 3), (7, 1), (11, 1)])
def test_a_pass_ends_with_a_smaller_step(together, steps):
    trainer = make_trainer(make_batches(7), gradient_accumulation_steps=together)
    report = trainer.train(0)
    assert report["steps"] == trainer.optim_schedule.n_current_steps == steps
    assert report["n_items"] == 14
    assert trainer.optim_schedule.n_warmup_steps == steps


def test_a_step_of_several_batches_is_that_of_the_one_big_batch():
    batches = make_batches(3)
    batches[1]["bert_label"][0] = 0
    whole = {key: torch.cat([batch[key] for batch in batches]) for key in batches[0]}
    after = []
    for data, together in ((batches, 3), ([whole], 1)):
        trainer = make_trainer(data, dropout=0.0, gradient_accumulation_steps=together, warmup_steps=0)
        report = trainer.train(0)
        after.append((weights(trainer), report["loss"], report["mlm_accuracy"]))
    assert after[0][1:] == pytest.approx(after[1][1:], abs=1e-6)
    for name, value in after[0][0].items():
        torch.testing.assert_close(value, after[1][0][name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"gradient_accumulation_steps": 2}, {"fp16": True}, {"bf16": True}])
@pytest.mark.parametrize("n_done", [1, 3, 4])
def test_a_run_that_stops_within_a_pass_goes_on_to_the_bit(tmp_path, options, n_done):
    def new():
        return make_trainer(make_batches(7), warmup_steps=2, **options)

    broken, calls = new(), []

    def stop(module, inputs, output):
        calls.append(1)
        if len(calls) > n_done:
            raise KeyboardInterrupt

    hook = broken.bert.register_forward_hook(stop)
    with pytest.raises(KeyboardInterrupt):
        broken.train(0)
    hook.remove()
    path = broken.save(0, str(tmp_path / "m"))
    together = options.get("gradient_accumulation_steps", 1)
    assert torch.load(path)["position"]["n_batches"] == n_done // together * together
    unbroken = new()
    for epoch in (0, 1):
        unbroken.train(epoch)
    resumed = new()
    for epoch in range(resumed.resume(path), 2):
        resumed.train(epoch)
    assert same_tensors(weights(unbroken), weights(resumed))
    assert same_tensors(unbroken.optim.state_dict()["state"], resumed.optim.state_dict()["state"])


def test_float16_scales_losses_and_leaves_a_step_out_that_overflows():
    trainer = make_trainer(make_batches(1), fp16=True, warmup_steps=0)
    scaler = trainer.update.scaler
    before, scale = weights(trainer), scaler.get_scale()
    trainer.train(0)
    assert not same_tensors(before, weights(trainer))
    for value in trainer.language_model.parameters():
        value.register_hook(lambda grad: grad * float("inf"))
    before = weights(trainer)
    trainer.train(1)
    assert same_tensors(before, weights(trainer))
    assert scaler.get_scale() == scale / 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gradient_accumulation_steps": 0}, "expected at least 1"),
        ({"bf16": True, "fp16": True}, "both on"),
        ({"torch_compile_backend": "inductor"}, "no effect"),
    ],
)
def test_steps_that_cannot_be_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        make_trainer(**options)


def test_a_criterion_of_ones_own_measures_the_same_the_plain_way():
    class Own(PretrainingCriterion):
        """The same under another name."""

    reports = []
    for criterion in (PretrainingCriterion(), Own()):
        trainer = make_trainer(make_batches(3), make_batches(2), dropout=0.0, warmup_steps=0)
        trainer.criterion = criterion
        reports.append({**trainer.train(0), **{f"test {name}": value for name, value in trainer.test(0).items()}})
    assert reports[0].keys() == reports[1].keys()
    for name, value in reports[0].items():
        assert "seconds" in name or value == pytest.approx(reports[1][name], abs=1e-5)


@pytest.mark.parametrize("cut", [1, 3])
def test_packed_rows_can_be_parted_with_their_answers(tmp_path, cut):
    """What several GPUs do, each with some rows."""
    dataset = make_dataset(tmp_path / "corpus.txt", LONG, seq_len=17, seed=5)
    batch = next(iter(BatchLoader(dataset, 8, shuffle=True, packing=True)))
    trainer = make_trainer([batch], dropout=0.0, vocab_size=len(dataset.vocab), warmup_steps=0)
    objective = PretrainingObjective(trainer.language_model).eval()
    names = ("bert_input", "segment_label", "bert_label")
    whole = objective(*(batch[name] for name in names), batch["is_next"], batch["example"])
    answers = answers_by_row(batch["is_next"], batch["bert_input"], batch["example"])
    parts = [
        objective(*(batch[name][rows] for name in names), answers[rows], batch["example"][rows])
        for rows in (slice(0, cut), slice(cut, None))
    ]
    assert batch["example"].max() > 1
    assert whole[0, SUMS.index("n_items")] == len(batch["is_next"])
    torch.testing.assert_close(torch.cat(parts).sum(0), whole[0], rtol=1e-5, atol=1e-5)


def test_precision_of_products_holds_while_the_trainer_runs(monkeypatch):
    seen = []
    trainer = make_trainer(float32_matmul_precision="medium")
    own = trainer.objective.forward
    monkeypatch.setattr(
        trainer.objective, "forward", lambda **batch: seen.append(torch.get_float32_matmul_precision()) or own(**batch)
    )
    trainer.train(0)
    assert set(seen) == {"medium"}
    assert torch.get_float32_matmul_precision() == "highest"
    with pytest.raises(InputError, match="is 'low', expected one of: highest, high, medium"):
        make_trainer(float32_matmul_precision="low")
