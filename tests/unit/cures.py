"""For each error code what its remedy does: the action that failed, done again as the troubleshooting references say.

Each function runs in the folder that the provocation left. Commands that stand in the references are taken from there.
"""

import contextlib
import io
import json
import os
import shutil
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch

from bert_pytorch import BERT, BERTLM, BERTDataset, BERTTrainer, WordVocab
from bert_pytorch.cli import build_vocab, train
from bert_pytorch.dataset.corpus import PairCorpus
from bert_pytorch.dataset.encoded import MappedCorpus
from bert_pytorch.dataset.loader import BatchLoader
from bert_pytorch.dataset.shard_writer import encode_shards
from bert_pytorch.dataset.sharded import ShardedCorpus
from bert_pytorch.dataset.tokenizer import train_subwords
from bert_pytorch.dataset.vocab import Vocab
from bert_pytorch.diagnosis.handbook import Handbook
from bert_pytorch.diagnosis.texts import diagnose_text
from bert_pytorch.finetuning import native_state
from bert_pytorch.finetuning.data import load_data
from bert_pytorch.finetuning.encoders import Cut, WordEncoder
from bert_pytorch.finetuning.judging import compare as compare_models
from bert_pytorch.finetuning.labels import LabelMap
from bert_pytorch.finetuning.native_arguments import native_arguments
from bert_pytorch.finetuning.native_model import load_start
from bert_pytorch.finetuning.predicting import Answered, predict_file
from bert_pytorch.finetuning.reading import Table
from bert_pytorch.finetuning.results import Finetuned, read_finetuned
from bert_pytorch.finetuning.scoring import Predictions
from bert_pytorch.finetuning.settings import settings_of
from bert_pytorch.finetuning.user_code import load_function
from bert_pytorch.inference.embedding import Embedder
from bert_pytorch.inference.filling import fill_mask
from bert_pytorch.inference.loading import open_model
from bert_pytorch.interop import graphs
from bert_pytorch.interop.as_checkpoint import write_as_checkpoint
from bert_pytorch.interop.huggingface import export_model, load_pretrained
from bert_pytorch.interop.inspecting import inspect
from bert_pytorch.interop.pushing import check_id, files_to_push
from bert_pytorch.model import BERTForTokenClassification
from bert_pytorch.trainer import load_checkpoint
from bert_pytorch.trainer.arguments import TrainingArguments
from bert_pytorch.trainer.deepspeed_engine import read_config
from bert_pytorch.trainer.distributed import World, start
from bert_pytorch.trainer.loading import as_loader
from bert_pytorch.trainer.optimizers import make_optimizer
from bert_pytorch.trainer.report import write_report
from bert_pytorch.trainer.run_folder import RunFolder
from bert_pytorch.trainer.schedules import make_plan

from . import test_errors as errors
from .examples import (
    ROOT,
    SOURCE,
    V,
    load_script,
    make_batch,
    make_batches,
    make_bert,
    make_trainer,
    make_vocab,
    story_pairs,
    write_pairs,
)
from .finetuning_runs import run as finetune_run
from .finetuning_runs import write_checkpoint, write_task
from .lookalikes import write_files
from .test_errors import SMALL, TUNE, fit, make_model, write, write_corpus

BOOK = Handbook(ROOT)


def documented(message):
    """Run the command that the doctor takes out of the references for a message; the file it writes."""
    command = diagnose_text(message, BOOK)[0].next.split(": ", 1)[-1]
    subprocess.run(["/bin/bash", "-euo", "pipefail", "-c", command], check=True)
    return f"{message.split(':')[0]}.mended"


def mended(code, content):
    """Write a corpus, run the documented command on it, and read what comes out."""
    write("corpus.txt", content)
    with pytest.raises(ValueError):
        PairCorpus("corpus.txt")
    assert len(PairCorpus(documented(f"corpus.txt:1: a fault; mend it [{code}]"))) > 0


def script(skill, name, *words):
    """Run a script in this process; its report, which is a good one."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        status = load_script(skill, name).main([str(word) for word in words])
    report = json.loads(out.getvalue().splitlines()[-1])
    assert (status, report["ok"]) == (0, True), report
    return report


def bert(*words):
    """Run `bert`; it ends well."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        assert train([*SMALL, *words]) == 0


def gone_on_with(*words):
    """A run that is ended after a pass, and goes on."""
    write_corpus()
    bert("-e", "2", "--stop_after_epochs", "1")
    bert("-e", "2", "--resume", "last", *words)


def configured(content):
    write_corpus()
    bert("--config", write("run.yaml", content), "-e", "1")


def train_on(**changed):
    make_trainer([make_batch(**changed)]).train(0)


def fixed_corpus():
    write_pairs("corpus.txt", [*story_pairs(), ("a", "b")])
    with open("corpus.txt", "a", encoding="utf-8") as file:
        file.write("no tab\n")
    with contextlib.suppress(ValueError, AssertionError):
        script("data-preparation", "check_corpus", "--corpus", "corpus.txt", "--fix", "clean.txt")
    script("data-preparation", "check_corpus", "--corpus", "clean.txt")


def mended_callback():
    with pytest.raises(Exception, match="E-RUN-EXISTS"):
        fit()
    fit(callbacks=[type("Mended", (), {"on_step_end": lambda *_: None})()], resume_from_checkpoint="last")


def earlier_checkpoint():
    trainer = make_trainer()
    for epoch in range(2):
        trainer.train(epoch)
        trainer.save(epoch, "model")
    os.truncate("model.ep1", 99)
    with pytest.raises(ValueError):
        make_trainer().resume("model.ep1")
    assert make_trainer().resume("model.ep0") == 1


def known_by_inspection():
    assert inspect("model.ep0")["kind"] == "tensors"
    load_checkpoint(errors.checkpoint())


def converted():
    write_files(Path())
    script("inference-and-export", "convert_legacy", "--model", "bert.model.ep0", "--output", "new.ep0")
    load_checkpoint("new.ep0")


def changed_corpus_again():
    shutil.copy("corpus.txt", "copy.txt")
    assert PairCorpus("copy.txt", on_memory=False)[0] == ("a", "b")


def another_python():
    """The script with a Python that has the packages."""
    path = ROOT / "scripts" / "check_install.py"
    assert subprocess.run([sys.executable, "-I", "-S", path], capture_output=True).returncode == 3
    assert subprocess.run([sys.executable, path], capture_output=True).returncode == 0


def on_the_cpu():
    write_corpus()
    bert("-e", "1")


def encoded_again():
    write_corpus()
    Path("corpus.tokens").unlink(missing_ok=True)
    errors.encode()
    bert("-c", "corpus.tokens", "-e", "1")


def rows(*lines, **settings):
    """Read labelled rows, enough of them."""
    lines = [*lines, *(f"text {i}\t{i % 2}" for i in range(8))]
    write("rows.tsv", "\n".join(["text\tlabel", *lines]).encode() + b"\n")
    return load_data(settings_of({**TUNE, "min_train_rows": 2, **settings}))


def answered_rightly():
    answers = {"text": ["mia"], "answer_start": [0]}
    lines = [json.dumps({"question": f"who {i}", "context": f"mia {i}", "answers": answers}) for i in range(9)]
    write("rows.jsonl", "\n".join(lines).encode())
    load_data(settings_of({**TUNE, "task": "question-answering", "train_file": "rows.jsonl", "min_train_rows": 2}))


def same_labels():
    one = Finetuned("a", settings_of(TUNE), LabelMap(["x"]), {})
    example = rows("a\t1").train[0]
    answered = Answered(one, Table("t", [], [], []), [example], Predictions([0], [1.0], [[1.0]]), 0)
    compare_models(answered, answered, 100, 0)


def loaded_start():
    model, vocab = write_checkpoint(Path())
    load_start(settings_of({**TUNE, "model": model, "vocab": vocab, "max_length": 24}))


def another_folder():
    folder = RunFolder("another")
    try:
        native_state.find_checkpoint(folder, settings_of({**TUNE, "output_dir": "another"}))
    finally:
        folder.close()


def finished_run():
    model, vocab = write_checkpoint(Path())
    finetune_run(Path(), "sequence-classification", model, vocab=vocab, engine="native")
    assert read_finetuned("tuned").labels is not None
    path = write_task(Path(), "sequence-classification")
    assert len(predict_file("tuned", path, with_labels=False).predictions.values) == 64


def searched(*words, n_jobs=1):
    """A search with a model that is there."""
    model, vocab = write_checkpoint(Path())
    rows_file = write_task(Path(), "sequence-classification")
    plan = f"search: {{n_trials: 2, n_jobs: {n_jobs}, hp_space: {{seed: {{type: int, low: 1, high: 9}}}}}}\n"
    write("good.yaml", plan.encode())
    values = {"task": TUNE["task"], "model": model, "vocab": vocab, "output_dir": "found", "train_file": rows_file}
    values |= {"max_length": 24, "max_steps": 2}
    settings = [f"{name}={value}" for name, value in values.items()]
    report = script("fine-tuning", "search", "--config", "good.yaml", *settings, "--engine", "native", *words)
    assert report["best_score"] is not None


def met():
    """Two processes that are both started."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = "from bert_pytorch.trainer.distributed import start; print(start(False, 60).size)"
    places = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "PYTHONPATH": str(SOURCE)}
    processes = [
        subprocess.Popen([sys.executable, "-c", program], env={**os.environ, **places, "RANK": str(i)}, stdout=subprocess.PIPE)
        for i in range(2)
    ]
    assert [process.communicate(timeout=100)[0].split()[-1] for process in processes] == [b"2", b"2"]


def good_weights():
    trainer = make_trainer()
    trainer.train(0)
    path = trainer.save(0, "good")
    with torch.no_grad():
        trainer.bert.embedding.norm.weight.fill_(float("nan"))
    trainer.resume(path)
    assert trainer.train(1)["loss"] > 0


def in_smaller_parts():
    """A step in parts that fit, on a machine where no more than two rows do."""
    rows_at_once = []

    def compute_loss(model, batch, n_targets):
        rows_at_once.append(len(batch["bert_input"]))
        if rows_at_once[-1] > 2:
            raise MemoryError
        _, words = model(batch["bert_input"], batch["segment_label"], batch["bert_label"])
        targets = batch["bert_label"][batch["bert_label"] != 0]
        return torch.nn.functional.nll_loss(words, targets, reduction="sum") / n_targets

    args = TrainingArguments(output_dir="parts", max_steps=2, tokens_per_part=14)
    data = [make_batch(n_sequences=4)] * 2
    BERTTrainer(make_bert(), V, data, with_cuda=False, args=args, compute_loss=compute_loss).fit()
    assert set(rows_at_once) == {2}


def made_pairs(content, *flags):
    write("documents.txt", content)
    flags = ["--input", "documents.txt", "--output", "good", *flags]
    assert script("data-preparation", "make_pairs", *flags)["pairs"] > 0


def shards_copied_again(name, how="spoilt"):
    """A file of a corpus in shards is spoilt or gone, then copied again."""
    write_corpus()
    vocab = WordVocab.load_vocab("vocab.json")
    shutil.rmtree("shards", ignore_errors=True)
    encode_shards("corpus.txt", vocab, "shards", errors.EncodingSettings(), 5)
    shutil.copytree("shards", "source")
    if how == "gone":
        os.unlink(f"shards/{name}")
    else:
        write(f"shards/{name}", b"x")
    with pytest.raises(ValueError):
        BERTDataset("shards/manifest.json", vocab, 13)[0]
    shutil.copy(f"source/{name}", f"shards/{name}")
    BERTDataset("shards/manifest.json", vocab, 13)[0]


def remote_file_there():
    fsspec = pytest.importorskip("fsspec")
    write_corpus()
    encode_shards("corpus.txt", WordVocab.load_vocab("vocab.json"), "shards", errors.EncodingSettings(), 5)
    memory = fsspec.filesystem("memory")
    memory.put("shards", "/none", recursive=True)
    try:
        assert len(ShardedCorpus("memory://none/manifest.json", None, "cache")) > 0
    finally:
        memory.rm("/none", recursive=True)


def reported():
    write_report("a", {"ok": True, "summary": {"eval_loss": 1.0, "steps": 2}, "log_history": []})
    write_report("b", {"ok": True, "summary": {"eval_loss": 2.0, "steps": 2}, "log_history": []})
    script("training", "compare_runs", "a", "b")


def one_more_pass():
    bert("-e", "2", "--resume", "last", "--allow_change")


def the_pass_it_says():
    trainer = make_trainer(max_steps=5)
    trainer.train(0)
    trainer.train(1)
    path = trainer.save(1, "model")
    resumed = make_trainer(max_steps=7)
    resumed.train(resumed.resume(path))


def the_first_vocabulary():
    write_corpus()
    bert("-e", "2", "--resume", "last", "--allow_change")


def the_flags_of_the_first_run():
    path = errors.checkpoint()
    make_trainer().resume(path)


def counted_on_one_core():
    line = next(command for command in BOOK.sections["E-PROCESS"].commands if command.startswith("taskset"))
    shim = f"{sys.executable} -c 'import sys; from bert_pytorch.cli import build_vocab; sys.exit(build_vocab())'"
    line = line.replace("bert-vocab ...", f"{shim} -c corpus.txt -o counted.json")
    subprocess.run(line, shell=True, check=True, env={**os.environ, "PYTHONPATH": str(SOURCE)}, capture_output=True)
    assert len(WordVocab.load_vocab("counted.json")) == 7


def counted(*words):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        assert build_vocab(["-c", "corpus.txt", "-o", "vocab.json", *words]) == 0


def lines_of_a_file():
    write("train.txt", b"a b\n")
    with open("train.txt", encoding="utf-8") as lines:
        assert len(WordVocab(lines)) == 7


def smoke_of_more():
    write_pairs("corpus.txt", story_pairs(150))
    load_script("training", "train_smoke").split_corpus(errors.argparse.Namespace(corpus="corpus.txt"), Path("."))


def smoke_anew():
    Path("vocab.json").unlink()
    load_script("training", "train_smoke").open_vocab(Path("corpus.txt"), Path("vocab.json"))


def hub():
    shutil.rmtree("hub", ignore_errors=True)
    load_pretrained(errors.hub({}))


def similar_lines():
    model, vocab = make_model()
    write_as_checkpoint("model.ep0", model, vocab)
    vocab.save_vocab("vocab.json")
    flags = ["--model", "model.ep0", "--vocab_path", "vocab.json", "--input", write("lines.txt", b"a0 b0\na1 b1\n")]
    script("inference-and-export", "similar", *flags, "--query", "a0")


def in_the_end_an_export():
    export_model(*make_model(), "exported")
    assert files_to_push("exported")


def whole_file():
    write_as_checkpoint("model.bin", *make_model())
    assert inspect("model.bin")["kind"] == "checkpoint"


def a_head_that_learned():
    model, vocab = make_model()
    write_as_checkpoint("model.ep0", model, vocab)
    vocab.save_vocab("vocab.json")
    open_model("model.ep0", "vocab.json").check_heads("head", "mask_lm.")


def unset():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORLD_SIZE", "2")
        assert "unset WORLD_SIZE" in BOOK.sections["E-LAUNCH-ENVIRONMENT"].commands
        patch.delenv("WORLD_SIZE")
        assert start(False, 1).size == 1


class Endless:
    """Batches whose number nobody knows."""

    def __iter__(self):
        return iter(make_batches())


CURE = {
    "E-BATCH-KEYS": train_on,
    "E-BATCH-RANGE": lambda: train_on(is_next=torch.tensor([0, 1])),
    "E-BATCH-DTYPE": lambda: train_on(is_next=torch.tensor([0.0, 1.0]).long()),
    "E-BATCH-SHAPE": lambda: train_on(is_next=torch.tensor([[0], [1]]).squeeze(1)),
    "E-CHECK-FAULTS": fixed_corpus,
    "E-CALLBACK": mended_callback,
    "E-CALLBACK-EVENTS": lambda: fit(callbacks=[type("Looks", (), {"on_step_end": lambda *_: None})()]),
    "E-CHECKPOINT-DAMAGED": earlier_checkpoint,
    "E-CHECKPOINT-FORMAT": known_by_inspection,
    "E-CHECKPOINT-NONE": gone_on_with,
    "E-CHECKPOINT-PICKLE": converted,
    "E-CHECKPOINT-READ": lambda: load_checkpoint(errors.checkpoint()),
    "E-CONFIG-KEY": lambda: configured(b"hidden: 8\n"),
    "E-CONFIG-READ": lambda: configured(b"layers: 1\n"),
    "E-CONFIG-VALUE": lambda: configured(b"packing: true\n"),
    "E-CONFIG-YAML": lambda: configured(b"hidden: 8\n"),
    "E-CORPUS-BACKSLASH-T": lambda: mended("E-CORPUS-BACKSLASH-T", b"a\\tb\n"),
    "E-CORPUS-BLANK": lambda: mended("E-CORPUS-BLANK", b"a\tb\n\nc\td\n"),
    "E-CORPUS-CHANGED": changed_corpus_again,
    "E-CORPUS-EMPTY-TEXT": lambda: mended("E-CORPUS-EMPTY-TEXT", b"a\t \nc\td\n"),
    "E-CORPUS-ENCODING": lambda: mended("E-CORPUS-ENCODING", b"caf\xe9\tb\n"),
    "E-CORPUS-LINES": lambda: PairCorpus("corpus.txt"),
    "E-CORPUS-NO-PAIRS": lambda: PairCorpus(write("corpus.txt", b"a\tb\n")),
    "E-CORPUS-TAB": lambda: PairCorpus(write("corpus.txt", b"a b\nc\td\n"), skip_bad_lines=True)[0],
    "E-DATA-BATCH": lambda: BatchLoader(errors.dataset(), 4, tokens_per_batch=7),
    "E-DATA-MASKING": lambda: errors.dataset(mlm_probability=0.15),
    "E-DATA-OBJECTIVE": lambda: errors.dataset(objective="mlm"),
    "E-DATA-LENGTH": lambda: BERTDataset("corpus.txt", WordVocab(["a"]), 5),
    "E-DATA-VOCAB": lambda: BERTDataset("corpus.txt", WordVocab(["a b"]), 7),
    "E-DEPENDENCY": another_python,
    "E-DEEPSPEED-CONFIG": lambda: read_config(
        TrainingArguments(deepspeed=write("ds.json", b'{"gradient_clipping": "auto"}')), 4, 2
    ),
    "E-DEVICE-CUDA": on_the_cpu,
    "E-DOCTOR-UNKNOWN": lambda: script("..", "doctor", "--text", "all is well\nRuntimeError: CUDA out of memory"),
    "E-ENCODED-CHANGED": encoded_again,
    "E-ENCODED-FILE": lambda: (os.unlink("corpus.tokens"), errors.encode(), MappedCorpus("corpus.tokens")),
    "E-ENCODED-VOCAB": lambda: BERTDataset("corpus.tokens", make_vocab(story_pairs()), 13),
    "E-ENCODING-NAME": lambda: PairCorpus("corpus.txt", "utf-8"),
    "E-FILE-READ": lambda: PairCorpus(write("missing.txt", b"a\tb\n")),
    "E-FINETUNE-ANSWER": answered_rightly,
    "E-FINETUNE-ARGUMENT": lambda: native_arguments(settings_of({**TUNE, "engine": "native"}), []),
    "E-FINETUNE-CODE": lambda: load_function(
        write("own.py", b"def compute_loss(outputs, labels, n): return 0\n"), "compute_loss"
    ),
    "E-FINETUNE-COLUMN": lambda: rows("a\t1", "b\t0", label_column="label"),
    "E-FINETUNE-COMPARE": same_labels,
    "E-FINETUNE-EMPTY": lambda: rows(" \t1", "a\t1", "b\t0", skip_bad_rows=True),
    "E-FINETUNE-FEW-ROWS": lambda: rows("a\t1", "b\t0", min_train_rows=2),
    "E-FINETUNE-FORMAT": lambda: rows("a\t1", "b\t0"),
    "E-FINETUNE-LABEL": lambda: rows("a\t1", "b\t0"),
    "E-FINETUNE-LABEL-GAP": lambda: rows("a\t0", "b\t1", "c\t3", label_names=["0", "1", "2", "3"]),
    "E-FINETUNE-LENGTH": lambda: WordEncoder(WordVocab(["a b"])).encode("a b a b", "a", Cut(16, stride=3)),
    "E-FINETUNE-MODEL": loaded_start,
    "E-FINETUNE-ONE-CLASS": lambda: rows("a\t1", "b\t0"),
    "E-FINETUNE-OUTPUT": another_folder,
    "E-FINETUNE-RESULT": finished_run,
    "E-FINETUNE-SETTING": lambda: settings_of(TUNE),
    "E-FINETUNE-TASK": lambda: settings_of({**TUNE, "task": "token-classification"}),
    "E-SEARCH-NONE": searched,
    "E-SEARCH-SPACE": lambda: errors.search(),
    "E-SEARCH-TRIAL": lambda: searched(n_jobs=2),
    "E-MODEL-HEAD": lambda: BERTForTokenClassification(make_bert(), 2),
    "E-INTERRUPTED": gone_on_with,
    "E-LAUNCH-ENVIRONMENT": unset,
    "E-LAUNCH-RENDEZVOUS": met,
    "E-LOSS-NONFINITE": good_weights,
    "E-MEMORY": in_smaller_parts,
    "E-MEMORY-RANK": in_smaller_parts,
    "E-METRIC-NAME": lambda: fit(
        metric_for_best_model="eval_loss",
        load_best_model_at_end=True,
        save_strategy="steps",
        save_steps=1,
        eval_strategy="steps",
        eval_steps=1,
    ),
    "E-MODEL-ARCHITECTURE": lambda: BERT(V, 6, 1, 3, architecture="modernbert"),
    "E-MODEL-HEADS": lambda: BERT(V, 6, 1, 3),
    "E-MODEL-LENGTH": lambda: make_bert(max_len=5)(*[torch.ones(2, 5, dtype=torch.int64)] * 2),
    "E-MODEL-SHAPE": lambda: make_bert()(*[torch.ones(5, dtype=torch.int64).unsqueeze(0)] * 2),
    "E-MODEL-SIZE": lambda: BERT(V, 6, 1, 3),
    "E-MODEL-VOCAB": lambda: BERTLM(make_bert(), V),
    "E-OPTIM-NAME": lambda: make_optimizer("adamw_torch", [{"params": list(make_bert().parameters())}], lr=0.1),
    "E-OPTIM-SETTING": lambda: make_optimizer(
        "sgd", [{"params": list(make_bert().parameters())}], lr=0.1, settings={"momentum": 0.9}
    ),
    "E-PAIRS-COLUMN": lambda: made_pairs(
        b"a,b\n" + b"".join(b"c%d,d%d\n" % (i, i) for i in range(40)), "--format", "csv", "--columns", "a", "b"
    ),
    "E-PAIRS-NONE": lambda: made_pairs(b"".join(b"one %d\n\n" % i for i in range(40)), "--single"),
    "E-PAIRS-PARTS": lambda: made_pairs(b"".join(b"one %d\ntwo %d\n\n" % (i, i) for i in range(40))),
    "E-PAIRS-RECORD": lambda: made_pairs(
        b"".join(b'{"text": "one %d\\ntwo %d"}\n' % (i, i) for i in range(40)), "--format", "jsonl"
    ),
    "E-RESUME-CHANGED": lambda: fit(max_steps=2, resume_from_checkpoint="last", allow_change=True),
    "E-REMOTE-READ": remote_file_there,
    "E-SHARD-DAMAGED": lambda: shards_copied_again("shard-00000.tokens"),
    "E-SHARD-MISSING": lambda: shards_copied_again("shard-00000.tokens", "gone"),
    "E-SHARDS-FILE": lambda: shards_copied_again("manifest.json"),
    "E-RANK-DATA": lambda: as_loader(torch.utils.data.TensorDataset(torch.ones(4)), 2, None, World(0, 2), shuffle=True),
    "E-REPORT-FORMAT": reported,
    "E-REPORT-READ": reported,
    "E-RESUME-DONE": one_more_pass,
    "E-RESUME-EPOCH": the_pass_it_says,
    "E-RESUME-MODEL": the_flags_of_the_first_run,
    "E-RESUME-VOCAB": the_first_vocabulary,
    "E-RUN-EXISTS": lambda: fit(output_dir="another"),
    "E-RUN-LOCKED": lambda: RunFolder("run").close(),
    "E-SAVE": lambda: WordVocab(["a"]).save_vocab("another/vocab.json"),
    "E-SCHEDULE-NAME": lambda: make_plan("cosine", None, 0, 7),
    "E-SCHEDULE-SETTING": lambda: make_plan("cosine", None, 0, 7),
    "E-SCHEDULE-WARMUP": lambda: make_trainer(max_steps=7),
    "E-SETTING-CONFLICT": on_the_cpu,
    "E-SMOKE-SIZE": smoke_of_more,
    "E-SMOKE-VOCAB": smoke_anew,
    "E-TRAINER-NO-DATA": lambda: make_trainer(make_batches(), warmup_steps=0).train(0),
    "E-TRAINER-NO-TEST": lambda: make_trainer(test_data=make_batches()).test(0),
    "E-TRAINER-PLAN": lambda: fit(Endless(), max_steps=2),
    "E-TRAINER-SETTING": lambda: make_trainer(lr=0.1),
    "E-USAGE": on_the_cpu,
    "E-PROCESS": counted_on_one_core,
    "E-VOCAB-EMPTY": lambda: counted("-m", "1"),
    "E-VOCAB-EXTEND": lambda: train_subwords(Counter(a=1) + Counter(b=1), "BPE", 256),
    "E-VOCAB-FILE": lambda: (write("corpus.txt", b"a\tb\n"), counted(), WordVocab.load_vocab("vocab.json")),
    "E-VOCAB-LENGTH": lambda: WordVocab(["a"]).to_seq("a", seq_len=3, with_sos=True, with_eos=True),
    "E-VOCAB-SIZE": lambda: Vocab({}, max_size=None),
    "E-VOCAB-TEXTS": lines_of_a_file,
    "E-EXPORT-ARCHITECTURE": lambda: graphs.export_tensors(BERTLM(make_bert(architecture="bert-pytorch"), V), "m.safetensors"),
    "E-EXPORT-DIFFERS": lambda: graphs.export_torchscript(make_model()[0].float(), "again.pt"),
    "E-EXPORT-FOLDER": lambda: export_model(*make_model(), "exported"),
    "E-EXPORT-VOCAB": lambda: export_model(*make_model(), "hub"),
    "E-HUB-CONFIG": hub,
    "E-HUB-TOKENIZER": hub,
    "E-HUB-WEIGHTS": hub,
    "E-INFER-EMPTY": similar_lines,
    "E-INFER-HEAD": a_head_that_learned,
    "E-INFER-MASK": lambda: fill_mask(*make_model(), "a0 <mask> c"),
    "E-INFER-SETTING": lambda: Embedder(make_bert(), make_vocab(story_pairs()), layer=1),
    "E-INSPECT-FILE": whole_file,
    "E-LEGACY-FILE": converted,
    "E-PUSH-FOLDER": in_the_end_an_export,
    "E-PUSH-NAME": lambda: check_id("me/model"),
}

ELSEWHERE = {
    "E-INSTALL-CHANGED": "tests/bundle/test_install_skill.py::test_files_the_user_changed_are_named_and_kept",
    "E-INSTALL-FOREIGN": "tests/bundle/test_install_skill.py::test_what_it_did_not_install_is_refused_or_moved_aside",
    "E-PUSH": "tests/unit/test_push.py::test_an_export_reaches_the_hub_whole_in_one_commit",
    "E-RANK-LOST": "tests/distributed/test_ranks.py::test_a_killed_process_is_begun_anew_and_nothing_changes",
}
"""Codes whose remedy another test executes, as it takes a hub, several processes, or folders of skills."""

NOT_CURED = {"E-UNEXPECTED": "a fault of this library: its remedy is to report it"}
