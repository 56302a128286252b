"""Losses, schedules, evaluation and files where 0.0.1a4 is wrong or crashes, each fault by itself."""

import contextlib
import io
import os
import re
import warnings

import torch
from observe import attempt

from bert_pytorch import BERT
from bert_pytorch.model import BERTLM
from bert_pytorch.trainer import BERTTrainer

BATCH = {
    "bert_input": torch.tensor([[3, 4, 11, 2, 7, 2, 0]] * 3 + [[3, 9, 2, 4, 2, 0, 0]] * 2),
    "bert_label": torch.tensor([[0, 5, 0, 0, 0, 0, 0]] * 3 + [[0, 0, 0, 22, 0, 0, 0]] * 2),
    "segment_label": torch.tensor([[1, 1, 1, 1, 2, 2, 0]] * 3 + [[1, 1, 1, 2, 2, 0, 0]] * 2),
    "is_next": torch.tensor([1, 0, 1, 1, 0]),
}


def new_trainer(train_data=(BATCH,), test_data=None, **options):
    bert = BERT(23, hidden=6, n_layers=2, attn_heads=3)
    return BERTTrainer(bert, 23, list(train_data), test_data, with_cuda=False, **options)


def criterion():
    trainer = new_trainer()
    answers = torch.tensor([[0.5, 0.5], [0.875, 0.125], [0.25, 0.75]]).log()
    words = torch.full((3, 23, 7), 0.02).log()
    return {
        "none is next": float(trainer.criterion(answers, torch.tensor([0, 0, 0]))),
        "one is next": float(trainer.criterion(answers, torch.tensor([0, 0, 1]))),
        "no masked word": float(trainer.criterion(words, torch.zeros(3, 7, dtype=torch.int64))),
    }


def rate_after_one_step(**options):
    trainer = new_trainer(**options)
    trainer.train(0)
    return float(trainer.optim.param_groups[0]["lr"])


def peak():
    """The highest rate of a run of 11 steps that warms up for 3, and how much the rate asked for matters."""
    trainer, rates = new_trainer([BATCH] * 11, lr=0.01, warmup_steps=3), []
    step = trainer.optim.step

    def spied_step(*arguments, **options):
        rates.append(float(trainer.optim.param_groups[0]["lr"]))
        return step(*arguments, **options)

    trainer.optim.step = spied_step
    trainer.train(0)
    rates_of = [rate_after_one_step(lr=lr, warmup_steps=0) for lr in (1e-4, 1e-2)]
    return {"peak": max(rates), "ratio": rates_of[1] / rates_of[0]}


def warmup():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rate_after_one_step(warmup_steps=0)
    return {
        "default": new_trainer([BATCH] * 7).optim_schedule.n_warmup_steps,
        "zero": [str(warning.message) for warning in caught if "divide" in str(warning.message)],
        "negative": attempt(lambda: rate_after_one_step(warmup_steps=-1)),
    }


def decay():
    """Which parameters a weight decay is laid on, and whether it comes with the gradient or beside it."""
    trainer = new_trainer(weight_decay=0.05)
    of = {id(p): group["weight_decay"] for group in trainer.optim.param_groups for p in group["params"]}
    decays = {name: of[id(parameter)] for name, parameter in trainer.model.named_parameters()}
    return {
        "optimizer": type(trainer.optim).__name__,
        "vectors": sorted({decays[name] for name, p in trainer.model.named_parameters() if p.dim() == 1}),
        "segments": decays["bert.embedding.segment.weight"],
        "words": decays["bert.embedding.token.weight"],
    }


def gradient():
    """The norm of the gradients as they stand after a step, where the loss is steep."""
    torch.manual_seed(13)
    trainer = new_trainer()
    with torch.no_grad():
        trainer.model.next_sentence.linear.weight.mul_(1009.0)
    trainer.train(0)
    return float(torch.nn.utils.get_total_norm([p.grad for p in trainer.model.parameters() if p.grad is not None])) > 1.001


def test_mode():
    trainer, seen = new_trainer(test_data=[BATCH]), []
    trainer.bert.register_forward_hook(lambda module, *_: seen.append([module.training, torch.is_grad_enabled()]))
    trainer.test(0)
    return {"training, gradients": seen, "training after": trainer.model.training}


def losses_of_a_test():
    """The loss that `test` gives for the same data in batches of 5 and of 1, in evaluation mode."""
    torch.manual_seed(13)
    one_by_one = [{key: value[i : i + 1] for key, value in BATCH.items()} for i in range(5)]
    one_by_one[0]["bert_label"] = torch.tensor([[0, 5, 8, 0, 21, 0, 0]])
    for batch in one_by_one:
        batch["is_next"] = torch.tensor([1])
    whole = {key: torch.cat([batch[key] for batch in one_by_one]) for key in BATCH}
    trainer, losses = new_trainer(), []
    trainer.model.eval()
    for batches in ([whole], one_by_one):
        trainer.test_data = batches
        with contextlib.redirect_stdout(io.StringIO()) as out:
            report = trainer.test(0)
        losses.append(report["loss"] if report else float(re.search(r"_test, avg_loss= (\S+)", out.getvalue())[1]))
    return losses


def returned():
    with contextlib.redirect_stdout(io.StringIO()) as out:
        trainer = new_trainer(test_data=[BATCH])
        reports = [trainer.train(0), trainer.test(0)]
    names = ["loss", "mlm_loss", "nsp_loss", "mlm_accuracy", "nsp_accuracy"]
    return {"reports": [report and [name in report for name in names] for report in reports], "printed": bool(out.getvalue())}


def files():
    trainer = new_trainer()
    trainer.train(0)
    path = trainer.save(0, "bert.model")
    content = torch.load(path, weights_only=False)
    return {
        "folder is made": attempt(lambda: [trainer.save(0, "deep/bert.model"), os.path.isfile("deep/bert.model.ep0")]),
        "safe load": attempt(lambda: sorted(torch.load(path))),
        "whole object": isinstance(content, torch.nn.Module),
        "heads": isinstance(content, dict) and BERTLM(trainer.bert, 23).load_state_dict(content["model"]) is not None,
        "optimizer": isinstance(content, dict) and len(content["optimizer"]["state"]) > 0,
        "resume": hasattr(trainer, "resume"),
    }


def not_a_number():
    trainer = new_trainer()
    with torch.no_grad():
        trainer.bert.embedding.token.weight.fill_(float("nan"))
    return attempt(lambda: [trainer.train(0), "trained"][1])


def see():
    torch.manual_seed(13)
    no_labels = {key: value for key, value in BATCH.items() if key != "bert_label"}
    return {
        "criterion": criterion(),
        "peak": peak(),
        "warm-up": warmup(),
        "decay": decay(),
        "steep": gradient(),
        "test mode": test_mode(),
        "test losses": losses_of_a_test(),
        "returned": returned(),
        "files": files(),
        "not a number": not_a_number(),
        "key missing": attempt(lambda: new_trainer([no_labels]).train(0)),
        "id outside": attempt(lambda: new_trainer([BATCH | {"bert_label": BATCH["bert_label"] + 23}]).train(0)),
        "no test data": attempt(lambda: new_trainer().test(0)),
        "nothing to train on": attempt(lambda: new_trainer([]).train(0)),
        "log_freq=0": attempt(lambda: new_trainer(log_freq=0).train(0)),
        "lr=0.0": attempt(lambda: [new_trainer(lr=0.0).train(0), "trained"][1]),
    }
