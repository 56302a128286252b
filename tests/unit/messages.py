"""Real messages of torch, Transformers, datasets, Python and the system: each is provoked here, none is typed."""

import contextlib
import importlib
import importlib.util
import logging
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import traceback
import warnings
from datetime import timedelta
from pathlib import Path
from unittest import mock

import torch
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.utils.data import DataLoader, Dataset, default_collate

ROOT = Path(__file__).resolve().parents[2]


class Kept(logging.Handler):
    """Keeps what a logger says."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


@contextlib.contextmanager
def heard(name):
    handler, logger = Kept(), logging.getLogger(name)
    logger.addHandler(handler)
    try:
        yield handler.lines
    finally:
        logger.removeHandler(handler)


def said(work):
    """What a user sees of a piece of work: warnings, log lines, and the traceback it ends in."""
    with warnings.catch_warnings(record=True) as caught, heard("transformers") as lines, heard("datasets") as more:
        warnings.simplefilter("always")
        try:
            value = work()
        except (Exception, KeyboardInterrupt):
            value = traceback.format_exc()
    return "\n".join([*(str(each.message) for each in caught), *lines, *more, value if isinstance(value, str) else ""])


def shell(line, program="", **environment):
    """What a command prints, with a program beside it."""
    Path("program.py").write_text(program, encoding="utf-8")
    environment = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", **environment}
    line = re.sub(r"\bPYTHON\b", sys.executable, line)
    done = subprocess.run(["/bin/bash", "-c", line], capture_output=True, text=True, env=environment, timeout=100)
    return done.stdout + done.stderr


def optimised_backward():
    weight = torch.ones(2, requires_grad=True)
    total = (weight * weight).exp()
    total.mul_(2)
    total.sum().backward()


def scheduler_first():
    optimiser = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)
    torch.optim.lr_scheduler.StepLR(optimiser, 1).step()


def twice():
    loss = (torch.ones(2, requires_grad=True) ** 2).sum()
    loss.backward()
    loss.backward()


def saved(value):
    torch.save(value, "file.pt")
    return "file.pt"


def cut_file():
    os.truncate(saved(torch.ones(99)), 300)
    torch.load("file.pt", weights_only=True)


class Embedder(nn.Module):
    def __init__(self, n_words):
        super().__init__()
        self.embedding = nn.Embedding(n_words, 3)


class Deadly(Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, number):
        os.kill(os.getpid(), signal.SIGKILL)


def killed_worker():
    return list(DataLoader(Deadly(), num_workers=1))


def same_port_twice():
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        first.listen()
        second.bind(first.getsockname())


def unlaunched():
    with mock.patch.dict(os.environ):
        for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
            os.environ.pop(name, None)
        torch.distributed.init_process_group("gloo")


def no_peer():
    torch.distributed.TCPStore("127.0.0.1", 1, is_master=False, timeout=timedelta(seconds=1))


def failed_child():
    raise ChildFailedError("train.py", {0: ProcessFailure(0, 4711, 1, "/dev/null")})


def no_compiler():
    from torch._inductor import config

    torch._dynamo.reset()
    with config.patch({"cpp.cxx": ("no-such-compiler",), "force_disable_caches": True}):
        torch.compile(lambda x: (x * 3).relu() + 1)(torch.ones(7))


TORCH = {
    "torch-matmul-shape": lambda: nn.Linear(3, 2)(torch.ones(2, 4)),
    "torch-sizes-differ": lambda: torch.ones(2, 5) + torch.ones(2, 3),
    "torch-cat-sizes": lambda: torch.cat([torch.ones(2, 3), torch.ones(2, 4)]),
    "torch-view": lambda: torch.ones(2, 3).view(7),
    "torch-batch-target": lambda: nn.functional.cross_entropy(torch.ones(2, 3), torch.tensor([0])),
    "torch-target-shape": lambda: nn.functional.binary_cross_entropy_with_logits(torch.ones(2), torch.ones(2, 1)),
    "torch-target-bounds": lambda: nn.functional.cross_entropy(torch.ones(2, 3), torch.tensor([0, 3])),
    "torch-index-range": lambda: nn.Embedding(3, 2)(torch.tensor([5])),
    "torch-stack": lambda: default_collate([torch.ones(2), torch.ones(3)]),
    "torch-collate": lambda: default_collate([None]),
    "torch-long-expected": lambda: nn.Embedding(3, 2)(torch.tensor([1.0])),
    "torch-low-precision": lambda: torch.cholesky_inverse(torch.eye(2).half()),
    "torch-two-devices": lambda: torch.ones(2, device="meta") + torch.ones(2),
    "torch-backward-twice": twice,
    "torch-inplace": optimised_backward,
    "torch-no-grad": lambda: torch.ones(2).sum().backward(),
    "torch-scheduler-order": scheduler_first,
    "torch-weights-only": lambda: torch.load(saved(nn.Linear(2, 2)), weights_only=True),
    "torch-truncated": cut_file,
    "torch-compiled-keys": lambda: nn.Linear(2, 3).load_state_dict({"_orig_mod.weight": torch.ones(3, 2)}),
    "torch-state-keys": lambda: nn.Linear(2, 3).load_state_dict({"other": torch.ones(3, 2)}),
    "torch-vocab-size": lambda: Embedder(5).load_state_dict(Embedder(7).state_dict()),
    "torch-size-mismatch": lambda: nn.Linear(2, 3).load_state_dict(nn.Linear(2, 4).state_dict()),
    "torch-cpu-memory": lambda: torch.empty(10**15),
    "cuda-not-compiled": lambda: torch.ones(1).cuda(),
    "worker-killed": killed_worker,
    "worker-pickle": lambda: pickle.dumps(lambda: 0),
    "address-in-use": same_port_twice,
    "launch-environment": unlaunched,
    "launch-no-group": lambda: torch.distributed.barrier(),
    "peer-connection": no_peer,
    "torchrun-child": failed_child,
    "compile-compiler": no_compiler,
}


def config(**options):
    from transformers import BertConfig

    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    return BertConfig(**{"vocab_size": 5, "max_position_embeddings": 8, "num_labels": 3, **sizes, **options})


def tokenizer(**options):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"[UNK]": 0, "[PAD]": 1, "a": 2, "b": 3}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]", **options)


def trainer(rows, **settings):
    import datasets
    from transformers import BertForSequenceClassification, Trainer, TrainingArguments

    args = TrainingArguments("out", report_to="none", use_cpu=True, max_steps=1, disable_tqdm=True, **settings)
    return Trainer(BertForSequenceClassification(config()), args, train_dataset=datasets.Dataset.from_dict(rows))


def another_head():
    from transformers import BertForSequenceClassification

    BertForSequenceClassification(config()).save_pretrained("three")
    return BertForSequenceClassification.from_pretrained("three", num_labels=5)


def new_head():
    from transformers import BertForSequenceClassification, BertModel

    BertModel(config()).save_pretrained("encoder")
    BertForSequenceClassification.from_pretrained("encoder")


def from_folder(**files):
    from transformers import AutoModel

    Path("folder").mkdir()
    for name, content in files.items():
        Path("folder", f"{name}.json").write_text(content, encoding="utf-8")
    AutoModel.from_pretrained("folder")


def arguments(**settings):
    from transformers import TrainingArguments

    return TrainingArguments("out", report_to="none", use_cpu=True, **settings)


def trainer_with_a_tokenizer():
    from transformers import Trainer

    Trainer(tokenizer=None)


def unknown_name():
    from transformers import AutoTokenizer

    AutoTokenizer.from_pretrained("nobody/nothing", local_files_only=True)


def refused_by_the_hub():
    from huggingface_hub.utils import hf_raise_for_status

    # The client that the hub's package has: httpx2 since its version 2.
    httpx = importlib.import_module("httpx2" if importlib.util.find_spec("httpx2") else "httpx")
    hf_raise_for_status(httpx.Response(401, request=httpx.Request("GET", "https://huggingface.co/api/models/a/b")))


def without_accelerate():
    with mock.patch("transformers.training_args.is_accelerate_available", return_value=False):
        return arguments().device


def without_a_mask():
    from transformers import BertForMaskedLM, pipeline

    pipeline("fill-mask", model=BertForMaskedLM(config()), tokenizer=tokenizer())("a b")


def load_dataset(kind, *contents):
    import datasets

    paths = [f"rows{i}.{kind}" for i in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        Path(path).write_text(content, encoding="utf-8")
    datasets.load_dataset(kind if kind != "py" else "./rows0.py", data_files=paths if kind != "py" else None, cache_dir="cache")


def missing_column():
    import datasets

    datasets.Dataset.from_dict({"text": ["a"]}).remove_columns("label")


def damaged_tensors():
    from safetensors.torch import load_file

    Path("x.safetensors").write_bytes(b"\xff" * 16)
    load_file("x.safetensors")


def shared_tensors():
    from safetensors.torch import save_file

    weight = torch.ones(3)
    save_file({"a": weight, "b": weight}, "x.safetensors")


LIBRARIES = {
    "hf-trainer-tokenizer": trainer_with_a_tokenizer,
    "hf-argument-renamed": lambda: arguments(evaluation_strategy="no"),
    "hf-argument-gone": lambda: arguments(overwrite_output_dir=True),
    "hf-offline": unknown_name,
    "hf-not-allowed": refused_by_the_hub,
    "hf-padding": lambda: tokenizer(pad_token="[PAD]")(["a b", "a"], return_tensors="pt"),
    "hf-no-pad-token": lambda: tokenizer()(["a b", "a"], padding=True),
    "hf-no-mask": without_a_mask,
    "hf-accelerate": without_accelerate,
    "hf-too-long": lambda: tokenizer(model_max_length=2)("a b a b") and None,
    "hf-new-head": new_head,
    "hf-head-size": another_head,
    "hf-no-loss": lambda: trainer({"input_ids": [[2, 3]] * 4}).train(),
    "hf-no-columns": lambda: trainer({"text": ["a"] * 4}).train(),
    "hf-best-strategy": lambda: arguments(load_best_model_at_end=True),
    "hf-no-eval-data": lambda: trainer({"input_ids": [[2, 3]] * 4}, eval_strategy="steps", eval_steps=1),
    "hf-no-checkpoint": lambda: trainer({"input_ids": [[2, 3]] * 4}).train(resume_from_checkpoint=True),
    "hf-unknown-model": lambda: from_folder(config="{}"),
    "hf-no-weights": lambda: from_folder(config=config().to_json_string()),
    "datasets-rows": lambda: load_dataset("csv", "a,b\n1,2\n3,4,5\n"),
    "datasets-generate": lambda: load_dataset("json", '{"a": 1}\n', '{"b": "x"}\n'),
    "datasets-column": missing_column,
    "datasets-script": lambda: load_dataset("py", ""),
    "safetensors-header": damaged_tensors,
    "safetensors-shared": shared_tensors,
}

FULL = "with open('/dev/full', 'w') as file: file.write('a')"
MANY = "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))\nfiles = [open('/dev/null') for _ in range(30)]"
UNGUARDED = "import multiprocessing\nmultiprocessing.get_context('spawn').Process(target=print).start()"
OLD_VOCABULARY = "import pickle\nvocab = pickle.loads(b'cbert_pytorch.dataset.vocab\\nWordVocab\\n.')"

SYSTEM = {
    "text-not-utf8": lambda: b"caf\xe9".decode("utf-8"),
    "text-locale": lambda: "caf\u00e9".encode("ascii"),
    "memory-killed": lambda: shell("sleep 9 & kill -9 $!; wait $!"),
    "disk-full": lambda: shell("PYTHON -I -S program.py", FULL),
    "file-permission": lambda: shell("./program.py"),
    "file-missing": lambda: open("gone/corpus.txt"),
    "script-path": lambda: shell("PYTHON skills/training/scripts/train_smoke.py"),
    "command-missing": lambda: shell("bert -c train.txt", PATH="/nowhere"),
    "worker-files": lambda: shell("PYTHON -I -S program.py", MANY),
    "worker-main-guard": lambda: shell("PYTHON -I -S program.py", UNGUARDED),
    "legacy-pickle": lambda: shell("PYTHON -I -S program.py", OLD_VOCABULARY),
    "module-bert-pytorch": lambda: shell("PYTHON -I -S program.py", "import bert_pytorch"),
    "module-missing": lambda: shell("PYTHON -I -S program.py", "import sklearn.metrics"),
    "pip-no-match": lambda: shell("PYTHON -m pip install --no-index no-such-package-here"),
}


def interrupted():
    raise KeyboardInterrupt


SYSTEM["interrupted"] = interrupted
PROVOKED = {**TORCH, **LIBRARIES, **SYSTEM}
