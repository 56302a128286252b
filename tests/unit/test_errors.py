"""Every error code is provoked here, and every message has the form: one line, what to do, the code at the end."""

import argparse
import ast
import contextlib
import io
import json
import os
import pickle
import re
import signal
import warnings
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch.utils.data import DataLoader

from bert_pytorch import BERT, BERTLM, BERTDataset, BERTTrainer, WordVocab
from bert_pytorch.cli import build_vocab, train
from bert_pytorch.command import Parser, run
from bert_pytorch.dataset import counting
from bert_pytorch.dataset.cache import EncodingSettings, encode_corpus
from bert_pytorch.dataset.corpus import PairCorpus
from bert_pytorch.dataset.encoded import MappedCorpus
from bert_pytorch.dataset.loader import BatchLoader
from bert_pytorch.dataset.shard_writer import encode_shards
from bert_pytorch.dataset.sharded import ShardedCorpus
from bert_pytorch.dataset.tokenizer import train_subwords
from bert_pytorch.dataset.vocab import Vocab
from bert_pytorch.errors import InputError, SaveError, TrainingError, UnavailableError, UserError
from bert_pytorch.finetuning import native_state
from bert_pytorch.finetuning.data import load_data
from bert_pytorch.finetuning.encoders import Cut, WordEncoder
from bert_pytorch.finetuning.judging import compare as compare_models
from bert_pytorch.finetuning.labels import LabelMap
from bert_pytorch.finetuning.native_arguments import native_arguments
from bert_pytorch.finetuning.native_model import load_start
from bert_pytorch.finetuning.predicting import Answered
from bert_pytorch.finetuning.reading import Table
from bert_pytorch.finetuning.results import Finetuned, read_finetuned
from bert_pytorch.finetuning.scoring import Predictions
from bert_pytorch.finetuning.searching import Search, read_plan
from bert_pytorch.finetuning.settings import settings_of
from bert_pytorch.finetuning.user_code import load_function
from bert_pytorch.inference.embedding import Embedder
from bert_pytorch.inference.filling import fill_mask
from bert_pytorch.inference.loading import Loaded, Recipe
from bert_pytorch.interop import graphs
from bert_pytorch.interop.as_checkpoint import write_as_checkpoint
from bert_pytorch.interop.huggingface import export_model, load_pretrained
from bert_pytorch.interop.inspecting import inspect
from bert_pytorch.interop.legacy import load_old_model
from bert_pytorch.interop.pushing import files_to_push, push
from bert_pytorch.model import BERTForTokenClassification
from bert_pytorch.trainer import load_checkpoint
from bert_pytorch.trainer.arguments import TrainingArguments
from bert_pytorch.trainer.deepspeed_engine import read_config
from bert_pytorch.trainer.distributed import World, lost_ranks_named, start
from bert_pytorch.trainer.loading import as_loader
from bert_pytorch.trainer.optimizers import make_optimizer
from bert_pytorch.trainer.run_folder import RunFolder
from bert_pytorch.trainer.schedules import make_plan

from .examples import (
    LIBRARY,
    SCRIPTS,
    V,
    load_root_script,
    load_script,
    make_batch,
    make_bert,
    make_trainer,
    make_vocab,
    story_pairs,
    write_pairs,
)

CODE = re.compile(r"E-[A-Z]+(?:-[A-Z0-9]+)*")
SMALL = "-c corpus.txt -v vocab.json -o model -hs 8 -l 1 -a 2 -s 13 -b 4 --device cpu".split()


def codes_in(path):
    """Codes in the texts of a source file, its docstrings left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body and isinstance(node.body[0], ast.Expr)
    }
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return {code for text in texts if id(text) not in documented for code in CODE.findall(text.value)}


def corpus_of(content):
    return lambda: PairCorpus(write("corpus.txt", content))


def write(path, content):
    Path(path).write_bytes(content)
    return path


def write_corpus():
    write_pairs("corpus.txt", story_pairs())
    make_vocab(story_pairs()).save_vocab("vocab.json")


def command(function, *arguments):
    """Run a command; raise what it reports, as the library would."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(SystemExit):
        function(list(arguments))
    report = json.loads(out.getvalue().splitlines()[-1])
    assert report["ok"] is False
    assert report["error"].endswith("]") or report["code"] == "E-USAGE"
    message = report["error"] if report["error"].endswith("]") else f"{report['error']} [{report['code']}]"
    raise UserError(message)


def failing(error):
    """What a command reports whose work ends with this error."""

    def work(_):
        raise error

    def end(argv):
        with contextlib.suppress(TypeError):
            run(Parser(prog="bert"), work, argv)

    command(end)


def install_over(files):
    """Install the skill where a folder with these files stands."""
    folder = Path(".agents/skills/bert-pytorch")
    folder.mkdir(parents=True)
    for name, content in files.items():
        write(folder / name, content)
    script = load_root_script("install_skill")
    script.work(script.build_parser().parse(["--client", "agents", "--scope", "project", "--json"]))


class Raises:
    def on_step_end(self, args, state, control):
        raise ValueError("no luck")


def fit(train_data=None, callbacks=(), **settings):
    args = TrainingArguments(**{"output_dir": "run", "max_steps": None if train_data else 3, **settings})
    data = [make_batch()] if train_data is None else train_data
    BERTTrainer(make_bert(), V, data, [make_batch()], with_cuda=False, args=args, callbacks=callbacks).fit()


def locked_folder():
    folder = RunFolder("run")
    try:
        RunFolder("run")
    finally:
        folder.close()


def changed_corpus():
    corpus = PairCorpus(write("corpus.txt", b"a\tb\n"), on_memory=False)
    write("corpus.txt", b"a\tb\nc\td\n")
    return corpus[0]


def encode():
    write_corpus()
    return encode_corpus("corpus.txt", make_vocab(story_pairs()), "corpus.tokens", EncodingSettings())


def changed_source():
    encode()
    write_pairs("corpus.txt", story_pairs(12))
    command(train, *SMALL, "-c", "corpus.tokens")


def cut_off():
    encode()
    os.truncate("corpus.tokens", 1000)
    MappedCorpus("corpus.tokens")


def dataset(**options):
    return BERTDataset(write("corpus.txt", b"a\tb\n"), WordVocab(["a b"]), 7, **options)


def pickled_checkpoint():
    write("model.ep0", pickle.dumps({"model": print}, 2))
    load_checkpoint("model.ep0")


def foreign_checkpoint():
    torch.save({"weights": torch.ones(2)}, "model.ep0")
    load_checkpoint("model.ep0")


def checkpoint(max_steps=None):
    trainer = make_trainer(max_steps=max_steps)
    trainer.train(0)
    return trainer.save(0, "model")


def another_model():
    path = checkpoint()
    trainer = make_trainer(vocab_size=V + 1)
    trainer.resume(path)


def another_vocabulary():
    write_corpus()
    assert train([*SMALL, "-e", "1"]) == 0
    pairs = [(first.replace("c", "z"), second) for first, second in story_pairs()]
    write_pairs("corpus.txt", pairs)
    make_vocab(pairs).save_vocab("vocab.json")
    command(train, *SMALL, "-e", "2", "--resume", "last")


def another_pass():
    trainer = make_trainer(max_steps=2)
    trainer.train(0)
    path = trainer.save(0, "model")
    resumed = make_trainer(max_steps=2)
    resumed.resume(path)
    resumed.train(1)


def nothing_left():
    write_corpus()
    assert train([*SMALL, "-e", "1"]) == 0
    command(train, *SMALL, "-e", "1", "--resume", "last")


def check_a_line_without_a_tab():
    write("corpus.txt", b"a b\n")
    script = load_script("data-preparation", "check_corpus")
    command(script.main, "--corpus", "corpus.txt")


def smoke_with_three_pairs():
    write_pairs("corpus.txt", story_pairs(3))
    load_script("training", "train_smoke").split_corpus(argparse.Namespace(corpus="corpus.txt"), Path("."))


def smoke_with_a_foreign_vocabulary():
    write_pairs("corpus.txt", story_pairs())
    WordVocab(["other words"]).save_vocab("vocab.json")
    load_script("training", "train_smoke").open_vocab(Path("corpus.txt"), Path("vocab.json"))


def broken_weights():
    trainer = make_trainer()
    with torch.no_grad():
        trainer.bert.embedding.norm.weight.fill_(float("nan"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.train(0)


def no_words():
    write("corpus.txt", b"once\tonly\n")
    command(build_vocab, "-c", "corpus.txt", "-o", "vocab.json", "-m", "2")


def make_pairs(content, *flags):
    """Run the script on one file."""
    write("documents.txt", content)
    command(load_script("data-preparation", "make_pairs").main, "--input", "documents.txt", "--output", "pairs", *flags)


def compare(content):
    """Run the script on a report, or on a folder without one."""
    if content is not None:
        write("report.json", content)
    command(load_script("training", "compare_runs").main, ".", ".")


def killed_process():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "_count_parts", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        counting.count_files([write("corpus.txt", b"a b\n")], n_processes=2)


def launched(**environment):
    """Begin as one of two processes, of which the other never comes."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"WORLD_SIZE": "2", **environment}.items():
            patch.setenv(name, value)
        start(False, 1)


def lost_rank():
    with lost_ranks_named(World(0, 2)):
        raise RuntimeError("[gloo/transport/tcp/pair.cc:1] Connection closed by peer")


def short_memory_of_a_rank():
    trainer = make_trainer()
    trainer.world = World(1, 2)
    trainer.step._add_gradients = lambda batches: (_ for _ in ()).throw(MemoryError())
    trainer.step.train(trainer.train_data, None)


TUNE = {"task": "sequence-classification", "model": "m", "output_dir": "o", "train_file": "rows.tsv"}


def rows(*lines, **settings):
    """Read labelled rows, a text and a label each."""
    write("rows.tsv", "\n".join(["text\tlabel", *lines]).encode() + b"\n")
    return load_data(settings_of({**TUNE, **settings}))


def answer_of_another_context():
    answers = {"text": ["zoe"], "answer_start": [0]}
    write("rows.jsonl", json.dumps({"question": "who", "context": "mia", "answers": answers}).encode())
    load_data(settings_of({**TUNE, "task": "question-answering", "train_file": "rows.jsonl"}))


def questions_without_room():
    WordEncoder(WordVocab(["a b"])).encode("a b a b", "a", Cut(8, stride=3))


def taken_folder():
    write_folder = Path("o")
    write_folder.mkdir()
    (write_folder / "finetune.json").write_text("{}")
    folder = RunFolder("o")
    try:
        native_state.find_checkpoint(folder, settings_of(TUNE))
    finally:
        folder.close()


def other_labels():
    both = [Finetuned("a", settings_of(TUNE), LabelMap(names), {}) for names in (["x"], ["y"])]
    compare_models(*(Answered(each, Table("t", [], [], []), [], Predictions([], [], []), 0) for each in both), 100, 0)


def search(**plan):
    space = {"learning_rate": {"type": "categorical", "choices": [0.1]}}
    settings = settings_of({**TUNE, "search": {"hp_space": space, **plan}})
    return Search(settings, read_plan(settings))


def failing_trial():
    write("search.yaml", b"search: {n_trials: 2, n_jobs: 2, hp_space: {seed: {type: int, low: 1, high: 9}}}\n")
    words = [f"{name}={value}" for name, value in TUNE.items()]
    command(load_script("fine-tuning", "search").main, "--config", "search.yaml", *words, "--engine", "native")


def hub(files, **changed):
    """A folder as Transformers saves it, of a small model, with files in place of its own."""
    model, vocab = make_model()
    export_model(model, vocab, "hub")
    config = {**json.loads(Path("hub/config.json").read_text()), **changed}
    for name, content in {"config.json": json.dumps(config).encode(), **files}.items():
        write(f"hub/{name}", content)
    return "hub"


def make_model():
    vocab = make_vocab(story_pairs())
    return BERTLM(make_bert(len(vocab), n_layers=1), len(vocab)).eval(), vocab


def off_by_more():
    model, _ = make_model()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graphs, "_FARTHEST", -1.0)
        graphs.export_torchscript(model, "model.pt")


def into_a_checkpoint():
    write_as_checkpoint("model.ep0", make_model()[0])
    fit(save_strategy="steps", save_steps=3)
    export_model(*make_model(), "run/checkpoint-3")


def similar_to_nothing():
    model, vocab = make_model()
    write_as_checkpoint("model.ep0", model, vocab)
    vocab.save_vocab("vocab.json")
    flags = ["--model", "model.ep0", "--vocab_path", "vocab.json", "--input", write("lines.txt", b""), "--query", "a"]
    command(load_script("inference-and-export", "similar").main, *flags)


def unreachable_hub():
    with pytest.MonkeyPatch.context() as patch:
        failing_api = SimpleNamespace(create_repo=lambda *_, **__: (_ for _ in ()).throw(OSError("no route")))
        patch.setattr("huggingface_hub.HfApi", lambda **_: failing_api)
        push({}, "me/model")


def spoilt_shards(change):
    """A change to a corpus in shards before it is read."""
    write_corpus()
    vocab = WordVocab.load_vocab("vocab.json")
    encode_shards("corpus.txt", vocab, "shards", EncodingSettings(), 5)
    change()
    BERTDataset("shards/manifest.json", vocab, 13)[0]


def no_checkpoint():
    write_corpus()
    command(train, *SMALL, "--resume", "last")


PROVOKE = {
    "E-BATCH-KEYS": lambda: make_trainer([{}]).train(0),
    "E-BATCH-RANGE": lambda: make_trainer([make_batch(is_next=torch.tensor([0, 2]))]).train(0),
    "E-BATCH-DTYPE": lambda: make_trainer([make_batch(is_next=torch.tensor([0.0, 1.0]))]).train(0),
    "E-BATCH-SHAPE": lambda: make_trainer([make_batch(is_next=torch.tensor([[0], [1]]))]).train(0),
    "E-CHECK-FAULTS": check_a_line_without_a_tab,
    "E-CALLBACK": lambda: fit(callbacks=[Raises()]),
    "E-CALLBACK-EVENTS": lambda: fit(callbacks=[object()]),
    "E-INSTALL-CHANGED": lambda: install_over({".installed.json": b'{"files": {}}', "notes.md": b"mine"}),
    "E-INSTALL-FOREIGN": lambda: install_over({"SKILL.md": b"mine"}),
    "E-CHECKPOINT-DAMAGED": lambda: load_checkpoint(write("model.ep0", b"")),
    "E-CHECKPOINT-FORMAT": foreign_checkpoint,
    "E-CHECKPOINT-NONE": no_checkpoint,
    "E-CHECKPOINT-PICKLE": pickled_checkpoint,
    "E-CHECKPOINT-READ": lambda: load_checkpoint("missing.ep0"),
    "E-CONFIG-KEY": lambda: command(train, "--config", write("run.yaml", b"hiden: 8\n")),
    "E-CONFIG-READ": lambda: command(train, "--config", "missing.yaml"),
    "E-CONFIG-VALUE": lambda: command(train, "--config", write("run.yaml", b"packing: 3\n")),
    "E-CONFIG-YAML": lambda: command(train, "--config", write("run.yaml", b"- 8\n")),
    "E-CORPUS-BACKSLASH-T": corpus_of(b"a\\tb\n"),
    "E-CORPUS-BLANK": corpus_of(b"a\tb\n\n"),
    "E-CORPUS-CHANGED": changed_corpus,
    "E-CORPUS-EMPTY-TEXT": corpus_of(b"a\t \n"),
    "E-CORPUS-ENCODING": corpus_of(b"a\t\xff\n"),
    "E-CORPUS-LINES": lambda: PairCorpus(write("corpus.txt", b"a\tb\n"), corpus_lines=2),
    "E-CORPUS-NO-PAIRS": corpus_of(b""),
    "E-CORPUS-TAB": corpus_of(b"a b\n"),
    "E-DATA-BATCH": lambda: BatchLoader(dataset(), 4, tokens_per_batch=6),
    "E-DATA-MASKING": lambda: dataset(mlm_probability=0.0),
    "E-DATA-OBJECTIVE": lambda: dataset(objective="clm"),
    "E-DATA-LENGTH": lambda: BERTDataset(write("corpus.txt", b"a\tb\n"), WordVocab(["a"]), 4),
    "E-DATA-VOCAB": lambda: BERTDataset(write("corpus.txt", b"a\tb\n"), WordVocab(["z"]), 7),
    "E-DEPENDENCY": lambda: failing(ModuleNotFoundError("No module named 'torch'", name="torch")),
    "E-DEEPSPEED-CONFIG": lambda: read_config(TrainingArguments(deepspeed=write("ds.json", b'{"gradient_clipping": 3}')), 4, 2),
    "E-DEVICE-CUDA": lambda: command(train, *SMALL[:-2], "--device", "cuda"),
    "E-DOCTOR-UNKNOWN": lambda: command(load_script("..", "doctor").main, "--text", "all is well"),
    "E-ENCODED-CHANGED": changed_source,
    "E-ENCODED-FILE": cut_off,
    "E-ENCODED-VOCAB": lambda: BERTDataset(encode().path, WordVocab(["other words"]), 13),
    "E-ENCODING-NAME": lambda: PairCorpus(write("corpus.txt", b"a\tb\n"), "klingon"),
    "E-FILE-READ": lambda: PairCorpus("missing.txt"),
    "E-FINETUNE-ANSWER": answer_of_another_context,
    "E-FINETUNE-ARGUMENT": lambda: native_arguments(settings_of({**TUNE, "engine": "native", "fsdp": "full_shard"}), []),
    "E-FINETUNE-CODE": lambda: load_function(write("own.py", b"x = 1\n"), "compute_loss"),
    "E-FINETUNE-COLUMN": lambda: rows("a\t1", label_column="y"),
    "E-FINETUNE-COMPARE": other_labels,
    "E-FINETUNE-EMPTY": lambda: rows(" \t1"),
    "E-FINETUNE-FEW-ROWS": lambda: rows("a\t1", "b\t0"),
    "E-FINETUNE-FORMAT": lambda: rows("a\t1\t2"),
    "E-FINETUNE-LABEL": lambda: rows("a\t"),
    "E-FINETUNE-LABEL-GAP": lambda: rows("a\t0", "b\t1", "c\t3"),
    "E-FINETUNE-LENGTH": questions_without_room,
    "E-FINETUNE-MODEL": lambda: load_start(settings_of(TUNE)),
    "E-FINETUNE-ONE-CLASS": lambda: rows("a\t1", "b\t1"),
    "E-FINETUNE-OUTPUT": taken_folder,
    "E-FINETUNE-RESULT": lambda: read_finetuned("missing"),
    "E-FINETUNE-SETTING": lambda: settings_of({}),
    "E-FINETUNE-TASK": lambda: settings_of({**TUNE, "task": "tagging"}),
    "E-SEARCH-NONE": lambda: search().report(),
    "E-SEARCH-SPACE": lambda: search(pruner="brave"),
    "E-SEARCH-TRIAL": failing_trial,
    "E-MODEL-HEAD": lambda: BERTForTokenClassification(make_bert(), 0),
    "E-INTERRUPTED": lambda: failing(KeyboardInterrupt()),
    "E-LAUNCH-ENVIRONMENT": launched,
    "E-LAUNCH-RENDEZVOUS": lambda: launched(RANK="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="1"),
    "E-LOSS-NONFINITE": broken_weights,
    "E-MEMORY": lambda: failing(RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 5 bytes")),
    "E-MEMORY-RANK": short_memory_of_a_rank,
    "E-METRIC-NAME": lambda: fit(metric_for_best_model="f1", load_best_model_at_end=True),
    "E-MODEL-ARCHITECTURE": lambda: BERT(V, 6, 1, 3, architecture="gpt"),
    "E-MODEL-HEADS": lambda: BERT(V, 7, 1, 3),
    "E-MODEL-LENGTH": lambda: make_bert(max_len=3)(*[torch.ones(2, 5, dtype=torch.int64)] * 2),
    "E-MODEL-SHAPE": lambda: make_bert()(torch.ones(2, 5), torch.ones(2, 3)),
    "E-MODEL-SIZE": lambda: BERT(V, 6, 0, 3),
    "E-MODEL-VOCAB": lambda: BERTLM(make_bert(), V + 1),
    "E-OPTIM-NAME": lambda: make_optimizer("adam", [], lr=0.1),
    "E-OPTIM-SETTING": lambda: make_optimizer("sgd", [], lr=0.1, settings={"momentum": "much"}),
    "E-PAIRS-COLUMN": lambda: make_pairs(b"a,b\nc,d\n", "--format", "csv", "--columns", "z"),
    "E-PAIRS-NONE": lambda: make_pairs(b"one\n\ntwo\n"),
    "E-PAIRS-PARTS": lambda: make_pairs(b"one\ntwo\nthree\n"),
    "E-PAIRS-RECORD": lambda: make_pairs(b"{\n", "--format", "jsonl"),
    "E-RESUME-CHANGED": lambda: (fit(max_steps=1), fit(max_steps=2, resume_from_checkpoint="last")),
    "E-REMOTE-READ": lambda: ShardedCorpus("memory://none/manifest.json", None, "cache"),
    "E-SHARD-DAMAGED": lambda: spoilt_shards(lambda: write("shards/shard-00000.tokens", b"x")),
    "E-SHARD-MISSING": lambda: spoilt_shards(lambda: os.unlink("shards/shard-00000.tokens")),
    "E-SHARDS-FILE": lambda: spoilt_shards(lambda: write("shards/manifest.json", b"{}")),
    "E-RANK-DATA": lambda: as_loader(DataLoader([1, 2]), None, None, World(0, 2), shuffle=True),
    "E-RANK-LOST": lost_rank,
    "E-REPORT-FORMAT": lambda: compare(b"{}"),
    "E-REPORT-READ": lambda: compare(None),
    "E-RESUME-DONE": nothing_left,
    "E-RESUME-EPOCH": another_pass,
    "E-RESUME-MODEL": another_model,
    "E-RESUME-VOCAB": another_vocabulary,
    "E-RUN-EXISTS": lambda: (fit(), fit()),
    "E-RUN-LOCKED": locked_folder,
    "E-SAVE": lambda: WordVocab(["a"]).save_vocab(f"{write('file', b'x')}/vocab.json"),
    "E-SCHEDULE-NAME": lambda: make_plan("cosin", None, 0, 7),
    "E-SCHEDULE-SETTING": lambda: make_plan("cosine", None, 0, None),
    "E-SCHEDULE-WARMUP": lambda: make_trainer(warmup_steps=7, max_steps=7),
    "E-SETTING-CONFLICT": lambda: command(train, *SMALL, "--cuda_devices", "0"),
    "E-SMOKE-SIZE": smoke_with_three_pairs,
    "E-SMOKE-VOCAB": smoke_with_a_foreign_vocabulary,
    "E-TRAINER-NO-DATA": lambda: make_trainer([], warmup_steps=0).train(0),
    "E-TRAINER-NO-TEST": lambda: make_trainer().test(0),
    "E-TRAINER-PLAN": lambda: fit(iter([])),
    "E-TRAINER-SETTING": lambda: make_trainer(lr=0.0),
    "E-USAGE": lambda: command(train, "--junk"),
    "E-PROCESS": killed_process,
    "E-VOCAB-EMPTY": no_words,
    "E-VOCAB-EXTEND": lambda: train_subwords(Counter(a=1), "BPE", 256).extend(WordVocab(["b"])),
    "E-VOCAB-FILE": lambda: WordVocab.load_vocab(write("vocab.json", b"{")),
    "E-VOCAB-LENGTH": lambda: WordVocab(["a"]).to_seq("a", seq_len=1, with_sos=True, with_eos=True),
    "E-UNEXPECTED": lambda: failing(TypeError("a fault of ours")),
    "E-VOCAB-SIZE": lambda: Vocab({}, max_size=-1),
    "E-EXPORT-ARCHITECTURE": lambda: export_model(BERTLM(make_bert(architecture="bert-pytorch"), V), None, "hub"),
    "E-EXPORT-DIFFERS": off_by_more,
    "E-EXPORT-FOLDER": into_a_checkpoint,
    "E-EXPORT-VOCAB": lambda: export_model(make_model()[0], WordVocab(["a"]), "hub"),
    "E-HUB-CONFIG": lambda: load_pretrained(hub({}, model_type="roberta")),
    "E-HUB-TOKENIZER": lambda: load_pretrained(hub({"tokenizer.json": b'{"model": {"type": "Unigram"}}'})),
    "E-HUB-WEIGHTS": lambda: load_pretrained(hub({"model.safetensors": b"{"})),
    "E-INFER-EMPTY": similar_to_nothing,
    "E-INFER-HEAD": lambda: Loaded(*make_model(), Recipe(), ["mask_lm.norm.weight"]).check_heads("head", "mask_lm."),
    "E-INFER-MASK": lambda: fill_mask(*make_model(), "no mask"),
    "E-INFER-SETTING": lambda: Embedder(make_bert(), make_vocab(story_pairs()), layer=7),
    "E-INSPECT-FILE": lambda: inspect(write("model.bin", b"PK\x03\x04")),
    "E-LEGACY-FILE": lambda: load_old_model(write("model.ep0", pickle.dumps({"model": print}, 2))),
    "E-PUSH": unreachable_hub,
    "E-PUSH-FOLDER": lambda: files_to_push("."),
    "E-PUSH-NAME": lambda: push({}, "a/b/c"),
    "E-VOCAB-TEXTS": lambda: WordVocab("train.txt"),
}


def test_the_table_holds_every_code_of_the_sources_and_no_other():
    sources = [*LIBRARY.rglob("*.py"), *SCRIPTS]
    assert len(sources) > 20
    assert set().union(*map(codes_in, sources)) == set(PROVOKE)


@pytest.mark.parametrize("code", PROVOKE)
def test_each_code_can_be_provoked_and_its_message_is_one_line_with_what_to_do(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError) as caught:
        PROVOKE[code]()
    message = str(caught.value)
    assert message.endswith(f" [{code}]")
    assert caught.value.code == code
    assert message.count("[E-") == 1
    assert message.isprintable()
    assert message.isascii()
    assert "; " in message or "expected" in message or code == "E-USAGE"


@pytest.mark.parametrize(
    ("kind", "builtin", "status"),
    [
        (InputError, ValueError, 1),
        (SaveError, OSError, 1),
        (TrainingError, RuntimeError, 1),
        (UnavailableError, RuntimeError, 3),
    ],
)
def test_a_user_error_is_also_the_builtin_a_caller_expects(kind, builtin, status):
    error = kind("where: what; do that [E-SOME-CODE]")
    assert isinstance(error, builtin)
    assert (str(error), error.code, error.exit_code) == ("where: what; do that [E-SOME-CODE]", "E-SOME-CODE", status)


def test_an_error_survives_the_way_from_a_worker():
    error = pickle.loads(pickle.dumps(InputError("where: what; do that [E-SOME-CODE]")))
    assert (type(error), str(error)) == (InputError, "where: what; do that [E-SOME-CODE]")


def test_the_code_is_the_one_at_the_end_whatever_the_file_is_called(tmp_path):
    path = os.path.join(tmp_path, "strange [E-OTHER] name.txt")
    with pytest.raises(ValueError) as caught:
        PairCorpus(write(path, b"no tab\n"))
    assert caught.value.code == "E-CORPUS-TAB"


@pytest.mark.parametrize("name", ["Caught fish.txt", "Caught: one.txt"])
def test_a_file_name_is_never_taken_for_a_part_of_the_message(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError) as caught:
        PairCorpus(write(name, b"no tab\n"))
    assert str(caught.value).startswith(f"{name}:1: ")


@pytest.mark.parametrize("name", ["new\nline.txt", "grün.txt", "语.txt"])
def test_a_strange_file_name_does_not_break_the_line(tmp_path, capsys, name):
    path = os.path.join(tmp_path, name)
    assert build_vocab(["-c", path, "-o", str(tmp_path / "vocab.json")]) == 1
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1
    assert json.loads(out)["code"] == "E-FILE-READ"
    assert len(err.splitlines()) == 1
