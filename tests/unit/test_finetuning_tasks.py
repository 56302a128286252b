"""Every task trains end to end, offline, by each engine that has a head for it, and its result is found again."""

import json
import math

import pytest
import torch
import yaml

from bert_pytorch.errors import InputError, UsageError
from bert_pytorch.finetuning.predicting import conll_of, predict_file, record_of
from bert_pytorch.finetuning.reading import read_table
from bert_pytorch.finetuning.results import read_finetuned
from bert_pytorch.finetuning.run import finetune
from bert_pytorch.finetuning.settings import read_settings, settings_of

from .examples import ROOT, SHARED
from .finetuning_runs import (
    LONGER,
    run,
    texts,
    write_bert,
    write_checkpoint,
    write_gpt2,
    write_lines,
    write_rows,
    write_t5,
    write_task,
)

pytest.importorskip("transformers")
pytest.importorskip("accelerate")
FIGURES = {
    "sequence-classification": {"accuracy", "macro_f1", "mcc"},
    "sentence-pair": {"accuracy", "macro_f1", "mcc"},
    "regression": {"pearson", "spearman", "mse", "mae"},
    "multi-label": {"micro_f1", "macro_f1", "subset_accuracy"},
    "token-classification": {"entity_f1", "entity_precision", "entity_recall", "token_accuracy"},
    "question-answering": {"exact_match", "f1"},
    "masked-lm": {"loss", "perplexity"},
    "causal-lm": {"loss", "perplexity"},
    "seq2seq": {"rouge1", "rouge2", "rougeL", "exact_match"},
}
WITH_HEADS = [task for task in FIGURES if task not in ("masked-lm", "causal-lm", "seq2seq")]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    made = {"bert": write_bert(folder / "bert"), "gpt2": write_gpt2(folder / "gpt2"), "t5": write_t5(folder / "t5")}
    return {**made, "checkpoint": write_checkpoint(folder)}


def model_of(task, models):
    return models[{"causal-lm": "gpt2", "seq2seq": "t5"}.get(task, "bert")]


@pytest.mark.parametrize("task", FIGURES)
def test_each_task_trains_from_a_local_folder_by_the_trainer(task, models, tmp_path):
    if task == "seq2seq":
        pytest.importorskip("rouge_score")
    report = run(tmp_path, task, model_of(task, models), test_file=write_task(tmp_path, task))
    assert report["ok"] is True
    for prefix in ("eval_", "test_"):
        assert {name for name in report if name.startswith(prefix)} >= {prefix + name for name in FIGURES[task]}
    assert all(math.isfinite(report[f"eval_{name}"]) for name in FIGURES[task])
    assert report["score"] == report[f"eval_{report['metric']}"]
    assert report["train_rows"] + report["validation_rows"] == 64
    assert read_finetuned(str(tmp_path / "tuned")).settings.task == task


@pytest.mark.parametrize("task", WITH_HEADS)
def test_each_task_with_a_head_trains_by_the_native_engine(task, models, tmp_path):
    report = run(tmp_path, task, models["bert"], engine="native")
    found = {name for name in report if name.startswith("eval_") and not name.endswith(("_cut_rows", "_lost_tags"))}
    assert found == {f"eval_{name}" for name in (*FIGURES[task], "loss")}
    assert report["steps"] == -(-report["train_rows"] // 32)


@pytest.mark.parametrize("engine", ["transformers", "native"])
@pytest.mark.parametrize("task", ["sequence-classification", "token-classification", "question-answering", "masked-lm"])
def test_tasks_train_from_a_checkpoint_of_this_project(task, engine, models, tmp_path):
    if (task, engine) == ("masked-lm", "native"):
        pytest.skip("the native engine has no such head")
    checkpoint, vocab = models["checkpoint"]
    report = run(tmp_path, task, checkpoint, vocab=vocab, engine=engine)
    assert report["ok"] is True
    assert math.isfinite(report["eval_loss"])


@pytest.mark.parametrize("engine", ["transformers", "native"])
@pytest.mark.parametrize(
    ("task", "least"), [("sequence-classification", 0.9), ("token-classification", 0.9), ("question-answering", 0.6)]
)
def test_both_engines_learn_what_can_be_learned(task, least, engine, models, tmp_path):
    others = write_task(tmp_path / "others", task, seed=7)
    report = run(tmp_path, task, models["bert"], engine=engine, validation_file=others, **LONGER, seed=3)
    assert report["validation_rows"] == 64
    assert report["score"] >= least
    assert report["seen_share"] == 0.0


@pytest.mark.parametrize("engine", ["transformers", "native"])
def test_predictions_of_a_saved_model_are_those_of_the_run(engine, models, tmp_path):
    path = write_task(tmp_path, "sequence-classification")
    settings = {"train_file": path, "validation_file": path, **LONGER}
    report = run(tmp_path, "sequence-classification", models["bert"], engine=engine, **settings)
    answered = predict_file(str(tmp_path / "tuned"), path, with_labels=True)
    right = sum(v == e.label for v, e in zip(answered.predictions.values, answered.examples, strict=True))
    assert right / len(answered.examples) == report["eval_accuracy"]
    record = record_of(answered, 0)
    assert record["label"] in ("0", "1")
    assert 0.5 <= record["confidence"] <= 1.0


@pytest.mark.parametrize("engine", ["transformers", "native"])
def test_lines_of_text_are_predicted_as_rows_of_the_column_of_training(engine, models, tmp_path):
    path = write_rows(tmp_path / "train.tsv", ("opinion", "label"), texts())
    run(tmp_path, "sequence-classification", models["bert"], train_file=path, text_column="opinion", engine=engine)
    (tmp_path / "new.txt").write_text("".join(f"{text}\n\n" for text, _ in texts(8)), encoding="utf-8")
    ours, theirs = (
        predict_file(str(tmp_path / "tuned"), str(tmp_path / name), with_labels=False) for name in ("new.txt", "train.tsv")
    )
    records = [[record_of(answered, i) for i in range(8)] for answered in (ours, theirs)]
    assert [record.pop("row") for record in records[0]] == [str(2 * i + 1) for i in range(8)]
    assert [record["text"] for record in records[0]] == [text for text, _ in texts(8)]
    for one, other in zip(*records, strict=True):
        assert one["label"] == other["label"]
        assert one["confidence"] == pytest.approx(other["confidence"], abs=1e-5)


def test_lines_of_text_are_tagged_word_by_word(models, tmp_path):
    run(tmp_path, "token-classification", models["bert"], engine="native")
    (tmp_path / "new.txt").write_text("the film and Mia Smith .\n", encoding="utf-8")
    answered = predict_file(str(tmp_path / "tuned"), str(tmp_path / "new.txt"), with_labels=False)
    record = record_of(answered, 0)
    assert record["tokens"] == ["the", "film", "and", "Mia", "Smith", "."]
    (tmp_path / "tagged.conll").write_bytes(conll_of(answered))
    (row,) = read_table(str(tmp_path / "tagged.conll")).rows
    assert (row["tokens"], row["tags"]) == (record["tokens"], record["tags"])


def test_a_sequence_to_sequence_model_predicts_texts(models, tmp_path):
    pytest.importorskip("rouge_score")
    run(tmp_path, "seq2seq", models["t5"])
    answered = predict_file(str(tmp_path / "tuned"), str(tmp_path / "rewrites.jsonl"), with_labels=False)
    assert all(isinstance(value, str) for value in answered.predictions.values)
    assert record_of(answered, 0).keys() >= {"text", "output"}


@pytest.mark.parametrize("engine", ["transformers", "native"])
@pytest.mark.parametrize("task", ["token-classification", "question-answering"])
def test_records_of_tags_and_answers_point_into_the_text(task, engine, models, tmp_path):
    run(tmp_path, task, models["bert"], engine=engine, **LONGER)
    path = next(tmp_path.glob("train.conll" if task.startswith("token") else "questions.json"))
    answered = predict_file(str(tmp_path / "tuned"), str(path), with_labels=False)
    for i in range(5):
        record = record_of(answered, i)
        if task == "token-classification":
            assert len(record["tags"]) == len(record["tokens"])
            for entity in record["entities"]:
                assert entity["text"] == " ".join(record["tokens"][entity["start"] : entity["end"]])
        else:
            assert record["answer"] in answered.examples[i].pair


def weights_of(folder):
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize("engine", ["transformers", "native"])
@pytest.mark.parametrize("task", ["sequence-classification", "question-answering"])
def test_a_resumed_run_equals_the_unbroken_one(task, engine, models, tmp_path):
    plan = {
        "num_train_epochs": 2,
        "per_device_train_batch_size": 8,
        "save_strategy": "steps",
        "save_steps": 5,
        "engine": engine,
    }
    whole = run(tmp_path, task, models["bert"], "whole", **plan)
    broken = run(tmp_path, task, models["bert"], "broken", **plan, stop_after_steps=9)
    assert (broken["stopped_by"], broken["steps"]) == ("stop_after_steps", 9)
    again = run(tmp_path, task, models["bert"], "broken", **plan, resume_from_checkpoint="last")
    assert again["steps"] == whole["steps"] > 9
    one, other = weights_of(tmp_path / "whole"), weights_of(tmp_path / "broken")
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert again["eval_loss"] == whole["eval_loss"]


@pytest.mark.parametrize("engine", ["transformers", "native"])
def test_a_folder_that_holds_a_run_is_not_written_over(engine, models, tmp_path):
    run(tmp_path, "regression", models["bert"], engine=engine)
    with pytest.raises(InputError, match="E-FINETUNE-OUTPUT"):
        run(tmp_path, "regression", models["bert"], engine=engine)
    with pytest.raises(InputError, match="E-CHECKPOINT-NONE"):
        run(tmp_path, "regression", models["bert"], "empty", engine=engine, resume_from_checkpoint="last")


OWN = """
import torch
def compute_loss(logits, labels):
    return torch.nn.functional.cross_entropy(logits, labels) * 2
def compute_metrics(predictions, labels):
    return {"agreement": sum(p == t for p, t in zip(predictions, labels)) / len(labels)}
"""


@pytest.mark.parametrize("engine", ["transformers", "native"])
def test_own_metrics_and_an_own_loss_count(engine, models, tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    own = str(tmp_path / "own.py")
    plain = run(tmp_path, "sequence-classification", models["bert"], "plain", engine=engine, learning_rate=1e-9)
    report = run(
        *(tmp_path, "sequence-classification", models["bert"]),
        **{"engine": engine, "compute_metrics": own, "compute_loss": own, "metric_for_best_model": "agreement"},
        **{"greater_is_better": True, "load_best_model_at_end": True, "learning_rate": 1e-9},
    )
    assert report["eval_agreement"] == report["eval_accuracy"]
    assert report["eval_loss"] == pytest.approx(2 * plain["eval_loss"], rel=1e-4)


@pytest.mark.parametrize("engine", ["transformers", "native"])
@pytest.mark.parametrize("loss", [{"class_weights": "balanced"}, {"class_weights": [1.0, 3.0]}, {"loss": "focal"}])
def test_accumulated_batches_are_one_batch_for_every_loss(loss, engine, models, tmp_path):
    common = {"engine": engine, "num_train_epochs": 1, "optim": "sgd", "max_grad_norm": 0.0, "warmup_steps": 0, **loss}
    common |= {"lr_scheduler_type": "constant", "learning_rate": 0.1, "max_train_rows": 32, "max_steps": 1}
    for name, more in (("one", {"per_device_train_batch_size": 32}), ("two", {"per_device_train_batch_size": 16})):
        more = more | ({"gradient_accumulation_steps": 2} if name == "two" else {})
        model = no_dropout(models["bert"], tmp_path / f"model-{name}")
        run(tmp_path, "sequence-classification", model, name, **common, **more)
    one, two = weights_of(tmp_path / "one"), weights_of(tmp_path / "two")
    assert max(float((one[n].float() - two[n].float()).abs().max()) for n in one) < 1e-5
    assert any(not torch.equal(one[n], start) for n, start in weights_of(tmp_path / "model-one").items() if n in one) or engine


def no_dropout(folder, copy):
    import shutil

    shutil.copytree(folder, copy)
    config = json.loads((copy / "config.json").read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (copy / "config.json").write_text(json.dumps(config))
    return str(copy)


def test_held_out_tokens_are_hidden_alike_at_every_evaluation(models, tmp_path):
    run(tmp_path, "masked-lm", models["bert"], num_train_epochs=3, learning_rate=1e-12)
    state = max(tmp_path.glob("tuned/checkpoint-*/trainer_state.json"), key=lambda path: int(path.parent.name.split("-")[1]))
    losses = [entry["eval_loss"] for entry in json.loads(state.read_text())["log_history"] if "eval_loss" in entry]
    assert len(losses) == 3
    assert losses[1:] == pytest.approx(losses[:1] * 2, abs=1e-6)


@pytest.mark.parametrize("engine", ["transformers", "native"])
def test_a_vocabulary_goes_with_a_checkpoint_and_with_nothing_else(engine, models, tmp_path):
    checkpoint, vocab = models["checkpoint"]
    with pytest.raises(UsageError, match="a checkpoint needs its vocabulary"):
        run(tmp_path, "regression", checkpoint, engine=engine)
    with pytest.raises(UsageError, match="vocab has no effect on a model with its own tokenizer"):
        run(tmp_path, "regression", models["bert"], engine=engine, vocab=vocab)
    with pytest.raises(InputError, match="no such file or folder"):
        run(tmp_path, "regression", "google/some-bert", engine=engine)


@pytest.mark.parametrize("engine", ["transformers", "native"])
def test_early_stopping_ends_a_run_that_gets_no_better(engine, models, tmp_path):
    settings = {"num_train_epochs": 8, "learning_rate": 1e-9, "early_stopping_patience": 2, "engine": engine}
    report = run(tmp_path, "sequence-classification", models["bert"], **settings)
    assert report["steps"] == 3 * 2
    assert report["best_checkpoint"].endswith("checkpoint-2")


ASSETS = sorted(ROOT.glob("skills/fine-tuning/assets/*.yaml"))
REAL = {
    "sequence-classification": {"train_file": "sst2.train.tsv", "validation_file": "sst2.valid.tsv"},
    "token-classification": {"train_file": "wnut17.train.conll", "validation_file": "wnut17.dev.conll"},
    "question-answering": {"train_file": "xquad.en.part1.json"},
}


@pytest.mark.filterwarnings("ignore:longer than max_length")
@pytest.mark.parametrize("path", ASSETS, ids=lambda path: path.stem)
def test_each_ready_yaml_runs(path, models, tmp_path):
    if path.stem == "seq2seq":
        pytest.importorskip("rouge_score")
    settings = read_settings(str(path), [])
    values = yaml.safe_load(path.read_text())
    data = {"train_file": write_task(tmp_path, values["task"])}
    if SHARED.is_dir() and path.stem in REAL:
        data = {name: str(SHARED / file) for name, file in REAL[path.stem].items()}
    model = model_of(values["task"], models)
    changed = {
        "model": model,
        "vocab": None,
        "output_dir": str(tmp_path / "out"),
        "max_train_rows": 40,
        "validation_file": None,
    }
    length = 24 if values["task"].endswith("-lm") else min(64, settings.length)
    changed |= {"max_validation_rows": 16, "max_length": length, "num_train_epochs": 1, **data}
    changed |= {"stride": 4} if values["task"] == "question-answering" else {}
    report = finetune(settings_of({**values, **changed}))
    assert report["train_rows"] == 40
    assert math.isfinite(report["eval_loss"])


def test_ready_yamls_are_those_of_the_tasks_and_a_search():
    assert {path.stem for path in ASSETS} == {*FIGURES, "search"}


def test_the_native_engine_refuses_tasks_without_a_head(models, tmp_path):
    with pytest.raises(UsageError, match="needs engine transformers"):
        run(tmp_path, "causal-lm", models["gpt2"], engine="native")


def test_texts_longer_than_max_length_are_counted_and_said(models, tmp_path):
    rows = [{"text": " ".join(["film"] * (5 if i % 2 else 40)) + f" {i}", "label": i % 2} for i in range(64)]
    path = write_lines(tmp_path / "long.jsonl", rows)
    with pytest.warns(UserWarning, match="longer than max_length, their ends are left out: "):
        report = run(tmp_path, "sequence-classification", models["bert"], train_file=path)
    assert report["train_cut_rows"] + report["eval_cut_rows"] == 32
