"""A program that uses this library, bert-pytorch 0.0.1a4 or Transformers, told by reading it; it is never run.

What the library offers is read from its own sources in the same way, so that nothing is imported and nothing is listed twice.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from .handbook import Handbook
from .rules import FIRST, LISTED, USUAL, Finding
from .texts import of_old_argument

_LIBRARY = Path(__file__).resolve().parents[1]
_CLASSES = {
    "BERT": "model/bert.py",
    "BERTLM": "model/language_model.py",
    "BERTTrainer": "trainer/pretrain.py",
    "BERTDataset": "dataset/dataset.py",
    "WordVocab": "dataset/vocab.py",
}
_SWITCHES = ("with_cuda", "on_memory")
_OLD_SIZES = {"hidden": 768, "attn_heads": 12}


class _Program(NamedTuple):
    """A program and what its names stand for."""

    tree: ast.Module
    path: Path
    modules: dict[str, str]
    """What a name of the program was imported as: `from torch import load` gives `torch.load` for `load`."""


def diagnose_program(source: str, path: Path, book: Handbook) -> list[Finding]:
    """What is wrong in a program, first of all what keeps it from running.

    Args:
        source: Its text.
        path: Its name, for the places in what is found.
        book: Names the scripts.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError) as error:
        where = f"{path}:{getattr(error, 'lineno', 1)}"
        step = f"sed -n '{getattr(error, 'lineno', 1)}p' {path}"
        return [Finding("program-syntax", where, f"this is no Python: {error}", step, FIRST)]
    program = _Program(tree, path, _imported(tree))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    findings = [*_of_imports(program, book)]
    for call in sorted(calls, key=lambda node: node.lineno):
        name = _name_of(call.func, program)
        findings += [
            *_of_loading(call, name, program, book),
            *_of_our_calls(call, name, program),
            *_of_transformers(call, name, program),
        ]
    if any(_class_of(_name_of(call.func, program)) == "BERTTrainer" for call in calls):
        findings += [*_of_tests(calls, program), _of_versions(program, book)]
    unique = {(each.rule, each.where): each for each in findings}
    return sorted(unique.values(), key=lambda each: each.rank)


def _of_imports(program: _Program, book: Handbook) -> Iterator[Finding]:
    """Modules and names that the library does not have."""
    for node in ast.walk(program.tree):
        if not isinstance(node, ast.ImportFrom) or node.level or not node.module or node.module.split(".")[0] != "bert_pytorch":
            continue
        names = _names_in(node.module)
        wanted = [alias.name for alias in node.names if alias.name != "*"]
        missing = (
            wanted
            if names is None
            else [name for name in wanted if name not in names and _names_in(f"{node.module}.{name}") is None]
        )
        if missing:
            where = f"{program.path}:{node.lineno}: from {node.module} import {', '.join(missing)}"
            cause = (
                "an inner part of bert-pytorch 0.0.1a4 that is another here: blocks, embeddings and attention were written anew"
            )
            near = difflib.get_close_matches(missing[0], [*_CLASSES, *(names or ())], n=1, cutoff=0.85)
            step = (
                f"from {node.module} import {near[0]}"
                if near and names
                else "build with BERT, BERTLM and BERTTrainer of bert_pytorch"
            )
            yield Finding(
                "program-import", where, cause, f"{step}; old models: {book.script('convert_legacy')} --model FILE ...", FIRST
            )


def _of_loading(call: ast.Call, name: str, program: _Program, book: Handbook) -> Iterator[Finding]:
    """Whole objects that are loaded, which can run code, or saved."""
    where = f"{program.path}:{call.lineno}: {ast.unparse(call)}"
    given = _keywords(call)
    if name == "torch.load" and not _is(given.get("weights_only"), True):
        cause = "whole objects are loaded: refused by torch from 2.6 on, and able to run code where weights_only=False"
        step = "model = load_model(path).bert, from bert_pytorch.trainer; files of 0.0.1a4 first: "
        yield Finding(
            "program-torch-load", where, cause, f"{step}{book.script('convert_legacy')} --model FILE --output new.ep0"
        )
    elif name in ("pickle.load", "pickle.loads", "dill.load", "joblib.load", "cloudpickle.load"):
        cause = "a pickle can run code, and names the classes of the package that wrote it"
        step = f"vocab = WordVocab.load_vocab(path), which reads old ones safely; {book.script('convert_legacy')} --vocab FILE"
        yield Finding("program-pickle", where, cause, step)
    elif name == "torch.save" and call.args and isinstance(call.args[0], (ast.Name, ast.Attribute)):
        last = ast.unparse(call.args[0]).rpartition(".")[2]
        if last in ("bert", "model", "trainer", "lm"):
            step = "trainer.save(epoch, path), which can be resumed; or torch.save(model.state_dict(), path)"
            yield Finding("program-torch-save", where, "a whole object is saved: it loads with this code only", step, LISTED)


def _of_our_calls(call: ast.Call, name: str, program: _Program) -> Iterator[Finding]:
    """Arguments that are unknown, or cannot work."""
    kind = _class_of(name)
    if kind is None or not any(module.startswith("bert_pytorch") for module in program.modules.values()):
        return
    where = f"{program.path}:{call.lineno}: {kind}(...)"
    given, known = _keywords(call), _parameters(kind)
    for word in given:
        if word not in known:
            near = difflib.get_close_matches(word, known, n=1)
            step = f"write {near[0]}= in place of {word}=" if near else f"leave {word}= out; {kind} takes {', '.join(known)}"
            yield Finding("program-argument", f"{where} {word}=", f"{kind} has no argument {word}", step, FIRST)
    values = {**dict(zip(known, call.args, strict=False)), **given}
    for word in _SWITCHES:
        if isinstance(getattr(values.get(word), "value", None), str):
            cause = f"{word} is a text, and any text counts as true"
            yield Finding("program-switch", f"{where} {word}=", cause, f"write {word}=True or {word}=False")
    if kind == "WordVocab" and isinstance(getattr(values.get("texts"), "value", None), str):
        step = 'with open("train.txt", encoding="utf-8") as lines: vocab = WordVocab(lines)'
        yield Finding("E-VOCAB-TEXTS", where, "WordVocab wants lines; a path is taken letter by letter", step, FIRST)
    if kind == "BERT":
        hidden, heads = (getattr(values.get(word), "value", usual) for word, usual in _OLD_SIZES.items())
        if isinstance(hidden, int) and isinstance(heads, int) and heads and hidden % heads:
            step = f"hidden={max(1, round(hidden / heads)) * heads}, attn_heads={heads}"
            yield Finding("E-MODEL-HEADS", where, f"hidden {hidden} is no multiple of attn_heads {heads}", step, FIRST)
    length = getattr(values.get("seq_len"), "value", None)
    if kind == "BERTDataset" and isinstance(length, int) and length < 5:
        yield Finding("E-DATA-LENGTH", where, f"seq_len {length} leaves no room beside three markers", "seq_len=64", FIRST)


def _of_tests(calls: list[ast.Call], program: _Program) -> Iterator[Finding]:
    """Evaluation without held-out text, and loaders in the order of the file."""
    trainers = [call for call in calls if _class_of(_name_of(call.func, program)) == "BERTTrainer"]
    blind = [call for call in trainers if len(call.args) < 4 and "test_dataloader" not in _keywords(call)]
    tests = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "test"]
    if blind and tests and len(blind) == len(trainers):
        where = f"{program.path}:{tests[0].lineno}: {ast.unparse(tests[0])}"
        step = "BERTTrainer(bert, len(vocab), train_loader, test_dataloader=DataLoader(held_out, batch_size=32))"
        yield Finding("E-TRAINER-NO-TEST", where, "the trainer has no held-out batches to test on", step, FIRST)
    loaders = [call for call in calls if _name_of(call.func, program).endswith("DataLoader")]
    if loaders and not any({"shuffle", "sampler", "batch_sampler"} & _keywords(call).keys() for call in loaders):
        where = f"{program.path}:{loaders[0].lineno}: DataLoader(...)"
        cause = "pairs come in the order of the file, at each pass"
        yield Finding("program-order", where, cause, "DataLoader(train_data, batch_size=32, shuffle=True)", LISTED)


def _of_versions(program: _Program, book: Handbook) -> Finding:
    """What it gives depends on whose `bert_pytorch` is imported."""
    cause = (
        "with 0.0.1a4 installed lr has no effect, next-sentence accuracy stays at 50 % and 10,000 warm-up steps hide learning"
    )
    step = f"PYTHONPATH={book.script('BUNDLE')}/src python {program.path}: the same program, with this library"
    return Finding("program-old-library", f"{program.path}: from bert_pytorch", cause, step, LISTED)


def _of_transformers(call: ast.Call, name: str, program: _Program) -> Iterator[Finding]:
    """Names of settings that Transformers no longer has."""
    owner = name.rpartition(".")[2]
    if owner == "Trainer" and "tokenizer" in _keywords(call):
        where = f"{program.path}:{call.lineno}: {owner}(tokenizer=)"
        yield Finding(
            "hf-trainer-tokenizer", where, "renamed in Transformers 5", "Trainer(..., processing_class=tokenizer)", FIRST
        )
    if not owner.endswith("TrainingArguments") or name.startswith("bert_pytorch"):
        return
    for word in _keywords(call):
        # This one is taken until Transformers 6.
        rank = USUAL if word.startswith("gradient_checkpointing") else FIRST
        finding = of_old_argument(word, f"{program.path}:{call.lineno}: {owner}({word}=)", rank)
        if finding:
            yield finding


def _imported(tree: ast.Module) -> dict[str, str]:
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.split(".")[0]
                modules[alias.asname or root] = alias.name if alias.asname else root
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return modules


def _name_of(node: ast.expr, program: _Program) -> str:
    """The full name of what is called, as far as imports tell it."""
    if isinstance(node, ast.Attribute):
        return f"{_name_of(node.value, program)}.{node.attr}"
    return program.modules.get(node.id, node.id) if isinstance(node, ast.Name) else "?"


def _class_of(name: str) -> str | None:
    last = name.rpartition(".")[2]
    return last if last in _CLASSES and (name == last or name.startswith("bert_pytorch")) else None


def _keywords(call: ast.Call) -> dict[str, ast.expr]:
    return {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}


def _is(node: ast.expr | None, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


@cache
def _parameters(kind: str) -> list[str]:
    """The arguments of a class of ours, in order."""
    tree = ast.parse((_LIBRARY / _CLASSES[kind]).read_text(encoding="utf-8"))
    owner = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == kind)
    made = next(node for node in owner.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    return [each.arg for each in (*made.args.args, *made.args.kwonlyargs)][1:]


@cache
def _names_in(module: str) -> set[str] | None:
    """The names that a module of the library has; None: there is no such module."""
    base = _LIBRARY.joinpath(*module.split(".")[1:])
    path = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    if not path.is_file():
        return None
    names = {child.stem for child in base.iterdir()} if base.is_dir() else set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
            if ast.unparse(targets[0]) == "__all__" and node.value is not None:
                names |= set(ast.literal_eval(node.value))
        elif isinstance(node, ast.If):
            names |= {alias.name for inner in ast.walk(node) if isinstance(inner, ast.ImportFrom) for alias in inner.names}
    return names
