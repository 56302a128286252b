"""The native engine: rates by depth, freezing, poolings, refusals; and that it needs no other package."""

import subprocess
import sys

import pytest
import torch

from bert_pytorch.errors import InputError, TrainingError, UsageError
from bert_pytorch.finetuning import native
from bert_pytorch.finetuning.native_model import freeze, groups_of, load_finetuned
from bert_pytorch.finetuning.results import read_finetuned
from bert_pytorch.finetuning.settings import settings_of
from bert_pytorch.model import BERTForSequenceClassification

from .examples import SOURCE, make_bert
from .finetuning_runs import run, write_checkpoint, write_task


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    return write_checkpoint(tmp_path_factory.mktemp("models"))


def tune(folder, pretrained, name="tuned", task="sequence-classification", **settings):
    checkpoint, vocab = pretrained
    return run(folder, task, checkpoint, name, vocab=vocab, engine="native", **settings)


def head(n_layers=3):
    return BERTForSequenceClassification(make_bert(n_layers=n_layers), 5)


def test_each_layer_below_has_a_smaller_rate_and_every_weight_has_one():
    model = head()
    groups = groups_of(model, 0.1, 0.01, 0.5)
    rates = {id(p): (group["lr"], group["weight_decay"]) for group in groups for p in group["params"]}
    named = dict(model.named_parameters())
    assert rates.keys() == {id(p) for p in named.values()}
    expected = {"linear.weight": 0.1, "pooler.weight": 0.1, "bert.embedding.token.weight": 0.1 * 0.5**4}
    expected |= {f"bert.transformer_blocks.{i}.feed_forward.w_1.weight": 0.1 * 0.5 ** (3 - i) for i in range(3)}
    for name, rate in expected.items():
        assert rates[id(named[name])] == (pytest.approx(rate), 0.01), name
    for name in ("linear.bias", "bert.embedding.norm.weight", "bert.embedding.position.weight"):
        assert rates[id(named[name])][1] == 0.0


def test_frozen_parts_stay_as_they_are(pretrained, tmp_path):
    report = tune(tmp_path, pretrained, freeze_layers=1, freeze_embeddings=True, learning_rate=0.01)
    found = read_finetuned(str(tmp_path / "tuned"))
    tuned, _ = load_finetuned(found.folder, found.settings, found.labels, found.head)
    from bert_pytorch.trainer import load_model

    before = load_model(pretrained[0]).bert.state_dict()
    changed = {name for name, value in tuned.bert.state_dict().items() if not torch.equal(value, before[name])}
    assert changed
    assert all(name.startswith("transformer_blocks.1.") for name in changed)
    assert report["learning_parameters"] == sum(
        p.numel() for n, p in tuned.named_parameters() if "blocks.1." in n or "bert" not in n
    )


def test_more_frozen_layers_than_there_are_is_an_error():
    settings = settings_of({"task": "regression", "model": "m", "output_dir": "o", "engine": "native", "freeze_layers": 4})
    with pytest.raises(InputError, match="the model has 3 layers"):
        freeze(head(), settings)


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_poolings_are_kept_with_the_model(pooling, pretrained, tmp_path):
    tune(tmp_path, pretrained, pooling=pooling)
    found = read_finetuned(str(tmp_path / "tuned"))
    assert load_finetuned(found.folder, found.settings, found.labels, found.head)[0].pooling == pooling


def test_from_scratch_has_new_weights_and_the_pooler_is_taken_over_else(pretrained, tmp_path, monkeypatch):
    seen = {}
    plan = native.Run.fit
    monkeypatch.setattr(native.Run, "fit", lambda self, *a: (seen.update(self.model.state_dict()), plan(self, *a))[1])
    from bert_pytorch.trainer import load_model

    model = load_model(pretrained[0])
    tune(tmp_path, pretrained, "a", learning_rate=1e-12)
    assert torch.allclose(seen["pooler.weight"], model.next_sentence.pooler.weight)
    assert torch.allclose(seen["bert.embedding.token.weight"], model.bert.embedding.token.weight)
    tune(tmp_path, pretrained, "b", learning_rate=1e-12, from_scratch=True)
    assert not torch.allclose(seen["bert.embedding.token.weight"], model.bert.embedding.token.weight)


def test_the_same_seed_gives_the_same_model_and_another_one_another(pretrained, tmp_path):
    losses = [tune(tmp_path, pretrained, name, seed=seed)["eval_loss"] for name, seed in (("a", 1), ("b", 1), ("c", 2))]
    assert losses[0] == losses[1] != losses[2]


def test_the_best_evaluation_is_what_is_kept(pretrained, tmp_path):
    settings = {"num_train_epochs": 5, "load_best_model_at_end": True, "per_device_train_batch_size": 8, "learning_rate": 0.02}
    report = tune(tmp_path, pretrained, metric_for_best_model="loss", **settings)
    import json

    from bert_pytorch.finetuning.results import FILE

    assert json.loads((tmp_path / "tuned" / FILE).read_text())["report"]["eval_loss"] == report["eval_loss"]
    assert (tmp_path / "tuned" / report["best_checkpoint"].rpartition("/")[2]).is_dir()


@pytest.mark.parametrize(
    ("settings", "code", "words"),
    [
        ({"fsdp": "full_shard"}, "E-FINETUNE-ARGUMENT", "not a setting of the native engine"),
        ({"learning_rat": 1}, "E-FINETUNE-ARGUMENT", "did you mean learning_rate?"),
        ({"num_train_epochs": 1.5}, "E-FINETUNE-ARGUMENT", "whole passes"),
        ({"callbacks": "x.py"}, "E-SETTING-CONFLICT", "set engine to transformers"),
        ({"optim": "muon", "layer_rate_decay": 0.9}, "E-SETTING-CONFLICT", "no effect with optim muon"),
        ({"metric_for_best_model": "f2"}, "E-METRIC-NAME", "no figure eval_f2"),
        ({"max_length": 65}, "E-FINETUNE-LENGTH", "at most 64 tokens"),
        ({"class_weights": [1.0]}, "E-FINETUNE-SETTING", "expected 2 numbers above 0"),
    ],
)
def test_what_the_engine_does_not_have_is_refused(settings, code, words, pretrained, tmp_path):
    with pytest.raises((InputError, UsageError)) as caught:
        tune(tmp_path, pretrained, **settings)
    assert caught.value.code == code
    assert words in str(caught.value)


def test_muon_and_compiled_schedules_of_pretraining_work_here_too(pretrained, tmp_path):
    report = tune(tmp_path, pretrained, optim="muon", lr_scheduler_type="cosine", warmup_ratio=0.2)
    assert report["steps"] > 0


def test_a_loss_that_is_no_number_ends_the_run_in_one_line(pretrained, tmp_path):
    with pytest.raises(TrainingError, match="E-LOSS-NONFINITE"):
        tune(tmp_path, pretrained, optim="sgd", learning_rate=1e12, max_grad_norm=0.0, num_train_epochs=9)


def test_a_checkpoint_of_other_settings_is_not_gone_on_from(pretrained, tmp_path):
    plan = {"num_train_epochs": 2, "per_device_train_batch_size": 8}
    tune(tmp_path, pretrained, **plan, stop_after_steps=3)
    with pytest.raises(InputError, match=r"learning_rate 0.003 there, 0.1 here.*E-RESUME-CHANGED"):
        tune(tmp_path, pretrained, **plan, learning_rate=0.1, resume_from_checkpoint="last")


def test_a_damaged_model_is_said(pretrained, tmp_path):
    tune(tmp_path, pretrained)
    found = read_finetuned(str(tmp_path / "tuned"))
    path = tmp_path / "tuned" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(InputError, match=r"model.safetensors: damaged"):
        load_finetuned(found.folder, found.settings, found.labels, found.head)


def test_it_runs_with_torch_alone(pretrained, tmp_path):
    """Neither transformers nor tokenizers, datasets, scikit-learn or numpy is imported."""
    path = write_task(tmp_path, "sequence-classification")
    program = f"""
import sys
for name in ("transformers", "tokenizers", "datasets", "sklearn", "numpy", "accelerate", "safetensors", "pandas"):
    sys.modules[name] = None
import warnings
warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
from bert_pytorch.finetuning.run import finetune
from bert_pytorch.finetuning.settings import settings_of
report = finetune(settings_of({{"task": "sequence-classification", "engine": "native", "model": {pretrained[0]!r},
    "vocab": {pretrained[1]!r}, "train_file": {path!r}, "output_dir": "tuned", "max_length": 24, "num_train_epochs": 1}}))
from bert_pytorch.finetuning.predicting import predict_file
print(len(predict_file("tuned", {path!r}, with_labels=False).predictions.values))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env={"PYTHONPATH": str(SOURCE)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "64"
