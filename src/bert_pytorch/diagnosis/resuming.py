"""The command of a run, put together again from what its newest checkpoint and its encoded corpora remember."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import UserError
from .handbook import Handbook

_NOT_SAID = ("resume_from_checkpoint", "allow_change", "output_path", "logging_dir", "output_dir")
_PLAN = ("max_steps", "warmup_steps", "warmup_ratio", "stop_after_epochs", "max_minutes")
_LARGEST_VOCAB, _MOST_FILES = 50_000_000, 40


class Commands(NamedTuple):
    """Command lines for one run."""

    again: str
    """Trains the same anew, in a folder of its own."""
    slower: str
    """The same with a third of the rate."""
    resume: str
    """Goes on."""
    corpus: str = "CORPUS"
    """What it was trained on."""


def commands_of(folder: Path, state: Mapping[str, Any], *, is_finetuning: bool, book: Handbook) -> Commands:
    """The lines of a run.

    What the run did not write down is named in capitals: CORPUS, HELD_OUT, VOCAB; without a checkpoint the line is `bert ...`.

    Args:
        folder: Of the run.
        state: `trainer_state.json` of its newest checkpoint, with `model_config`; may be empty.
        is_finetuning: Whether it is one of fine-tuning.
        book: Names the scripts.
    """
    here, new = (shlex.quote(os.path.relpath(path)) for path in (folder, _free(folder)))
    if is_finetuning:
        line = f"{book.script('finetune') or 'finetune.py'} --config TASK.yaml"
        slower = f"{line} output_dir={new} learning_rate=1e-5"
        return Commands(f"{line} output_dir={new}", slower, f"{line} output_dir={here} resume_from_checkpoint=last")
    arguments = state.get("arguments") or {}
    n_ranks = 1 + len(state.get("random_of_ranks") or ())
    head = "bert" if n_ranks == 1 else f"torchrun --standalone --nproc_per_node {n_ranks} -m bert_pytorch"
    files = list(_files(folder, state)) if state else []
    line = " ".join([head, *files, *_flags(state, n_ranks)]) if state else "bert ..."
    new_line = " ".join([head, *files, *_flags(state, n_ranks, is_new=True)]) if state else "bert ..."
    again = f"{new_line} --output_dir {new}"
    rate = float(arguments.get("learning_rate") or 1e-3) / 3
    corpus = files[0].removeprefix("-c ") if files else "CORPUS"
    # Equal to the last bit only with as many threads as before.
    threads = f"OMP_NUM_THREADS={state['n_threads']} " if state.get("n_threads") else ""
    resume = f"{threads}{line} --output_dir {here} --resume_from_checkpoint last"
    return Commands(again, f"{again} --lr {rate:.2g}", resume, corpus)


def _free(folder: Path) -> Path:
    """A folder beside it that is not there yet."""
    folder = Path(os.path.abspath(folder))
    return next(path for n in range(2, 1000) if not (path := folder.with_name(f"{folder.name}-{n}")).exists())


def _flags(state: Mapping[str, Any], n_ranks: int, *, is_new: bool = False) -> Iterator[str]:
    """The flags whose values are others than their defaults; for a new run without its plan, which follows from the passes."""
    from ..assembly import SIZES
    from ..cli import bert_parser

    config = state.get("model_config") or {}
    values = {flag: config[name] for flag, (name, _) in (*SIZES.items(), ("dropout", ("dropout", 0))) if name in config}
    values |= {**(state.get("arguments") or {}), **(state.get("settings") or {})}
    for name in ("batch_size", "tokens_per_batch"):
        if values.get(name):
            values[name] //= n_ranks
    left_out = {*_NOT_SAID, *(_PLAN if is_new else ("num_train_epochs",))}
    for action in bert_parser()._actions:
        names = [option.lstrip("-") for option in action.option_strings]
        name = next((each for each in names if each in values), None)
        if name is None or not left_out.isdisjoint(names) or values[name] in (None, action.default, {}):
            continue
        flag = next(option for option in action.option_strings if option.startswith("--"))
        if action.nargs == 0:
            yield from [flag] if values[name] else []
        else:
            text = str(values[name])
            yield f"{flag} {shlex.quote(text.lower() if isinstance(values[name], bool) else text)}"


def _files(folder: Path, state: Mapping[str, Any]) -> Iterator[str]:
    """The corpora, that of training first, and the vocabulary: by the encoded corpora in the folder, and by its hash."""
    settings = state.get("settings") or {}
    sources: list[tuple[str, int]] = []
    fingerprint = settings.get("vocab_sha256")
    try:
        from ..dataset.encoded_file import read_manifest

        for path in sorted(folder.glob("*.tokens")):
            manifest = read_manifest(os.fspath(path))
            sources.append((manifest["corpus"]["absolute_path"], manifest["n_lines"]))
    except (ModuleNotFoundError, UserError, KeyError):
        pass
    train = next((path for path, n in sources if n == settings.get("pairs")), None)
    test = next((path for path, _ in sources if path != train), None)
    yield f"-c {_short(train, 'CORPUS')}"
    measured = ((state.get("run") or {}).get("measuring") or {}).get("eval_report")
    if test is None and len(sources) == 1 and measured:
        test = train
    if test or not train:
        yield f"-t {_short(test, 'HELD_OUT')}"
    places = [Path("."), folder, folder.parent, *(Path(path).parent for path, _ in sources)]
    yield f"-v {_short(_find_vocab(places, fingerprint), 'VOCAB')}"


def _short(path: str | None, unknown: str) -> str:
    return unknown if path is None else shlex.quote(min(path, os.path.relpath(path), key=len))


def _find_vocab(places: list[Path], fingerprint: str | None) -> str | None:
    """A file with this vocabulary in one of the folders."""
    from ..dataset.vocab import Vocab

    files = [
        path for place in dict.fromkeys(places) for kind in ("*.json", "*.pkl", "*vocab*.txt") for path in place.glob(kind)
    ]
    for path in files[:_MOST_FILES]:
        try:
            if path.stat().st_size <= _LARGEST_VOCAB and Vocab.load_vocab(path).fingerprint == fingerprint:
                return os.path.realpath(path)
        except (UserError, OSError):
            continue
    return None
