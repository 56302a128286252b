"""A path, told by what lies there: a run, a model, a program, or a text."""

from __future__ import annotations

from pathlib import Path

from ..errors import UnreadableError, UserError
from .handbook import Handbook
from .programs import diagnose_program
from .rules import FIRST, Finding
from .runs import diagnose_run, is_run
from .texts import diagnose_text

_MOST_TEXT = 20_000_000
_BINARY = (b"PK", b"\x80", b"\x1f\x8b")


def diagnose_path(path: Path, book: Handbook) -> tuple[list[Finding], str]:
    """What is found there, and what to try where that is nothing.

    Raises:
        UnreadableError: There is no such file, or it may not be read.
    """
    try:
        if path.is_dir():
            is_model = (path / "manifest.json").is_file() or (path / "config.json").is_file()
            if is_run(path) and not (is_model and path.name.startswith("checkpoint-")):
                return diagnose_run(path, book), "name the run's folder"
            return _of_model(path, book), "name the folder of a run, with log.jsonl or checkpoint-STEP"
        with open(path, "rb") as file:
            content = file.read(_MOST_TEXT)
            if file.read(1):
                # Of a log that is longer its end counts too.
                file.seek(-_MOST_TEXT // 2, 2)
                content += b"\n" + file.read()
    except OSError as error:
        raise UnreadableError.of(path, error, "check the path [E-FILE-READ]") from error
    is_binary = content.startswith(_BINARY) or b"\x00" in content[:4096] or path.suffix == ".safetensors"
    if is_binary and not content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _of_model(path, book), "say what the file is to be used for"
    text = _decoded(content)
    if path.suffix == ".py":
        return diagnose_program(text, path, book), f"run it, and hand its output: python {path} 2>&1 | doctor.py -"
    return diagnose_text(text, book), "it may hold no error; give the whole output of the command that failed"


def _decoded(content: bytes) -> str:
    encoding = "utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    return content.decode(encoding, "replace")


def _of_model(path: Path, book: Handbook) -> list[Finding]:
    """What a file of a model is, by looking into it without executing it."""
    from ..interop.inspecting import inspect

    def script(name: str) -> str:
        return book.script(name) or f"{name}.py"

    try:
        facts = inspect(path)
    except UserError as error:
        found = diagnose_text(str(error), book)
        return found or [
            Finding("file-refused", str(error), "it cannot be used", f"{script('inspect_checkpoint')} {path}", FIRST)
        ]
    kind = facts["kind"]
    if facts.get("not_finite"):
        where, cause = f"{path}: {facts['not_finite']}", "weights that are no numbers: the run diverged before it was saved"
        return [
            Finding("model-not-finite", where, cause, "take an earlier checkpoint; then bert ... --lr with a third of the rate")
        ]
    if kind == "old-model":
        step = f"{script('convert_legacy')} --model {path} --output new.ep0"
        return [Finding("model-old", f"{path}: {kind}", "a whole model of bert-pytorch 0.0.1a4", step)]
    if kind == "old-vocabulary":
        step = f"{script('convert_legacy')} --vocab {path} --output_vocab vocab.json"
        return [Finding("vocabulary-old", f"{path}: {kind}", "a pickled vocabulary of bert-pytorch 0.0.1a4", step)]
    if kind == "objects":
        names = ", ".join(str(name) for name in _as_list(facts["refers_to"])[:3])
        cause = f"loading it would call {names or 'nothing known'}; it is no checkpoint, and nothing of it was executed"
        step = (
            "take the file that the program saved beside it, or save model.state_dict() there; do not load one you do not trust"
        )
        return [Finding("file-objects", str(path), cause, step)]
    steps = {
        "checkpoint": f"{script('embed')} --model {path} --vocab_path VOCAB --input lines.txt --output vectors.npy",
        "hub-folder": f"{script('import_model')} --model {path} --output new.ep0 --output_vocab vocab.json",
    }
    step = steps.get(str(kind), f"{script('inspect_checkpoint')} {path}")
    return [Finding("model-whole", f"{path}: {kind}", "the file is whole and can be read", step)]


def _as_list(value: object) -> list[object]:
    return list(value) if isinstance(value, (list, tuple)) else []
