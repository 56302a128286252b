"""An error code of this library, told by what the references say of it and by the message that bears it."""

from __future__ import annotations

import re
import shlex

from .handbook import Handbook, Section
from .rules import FIRST, FOLLOWS, Finding

_AFTER_OTHERS = ("E-RANK-LOST", "E-UNEXPECTED", "E-SEARCH-TRIAL", "E-SEARCH-NONE")
_LOOK = {
    "CORPUS": "{check_corpus} --corpus FILE",
    "CHECK": "{check_corpus} --corpus FILE --fix OUT",
    "ENCODED": "{encode_corpus} --help",
    "SHARD": "{encode_corpus} --help",
    "DATA": "{check_corpus} --corpus CORPUS",
    "PAIRS": "{make_pairs} --help",
    "VOCAB": "bert-vocab -c CORPUS -o vocab.json",
    "FILE": "ls -la FILE; pwd",
    "SAVE": "df -h .; ls -ld $(dirname FILE)",
    "CHECKPOINT": "{inspect_checkpoint} FILE",
    "INSPECT": "{inspect_checkpoint} FILE",
    "LEGACY": "{inspect_checkpoint} FILE",
    "HUB": "{inspect_checkpoint} FILE",
    "EXPORT": "{export} --help",
    "INFER": "{inspect_checkpoint} MODEL",
    "PUSH": "{push_to_hub} --folder FOLDER --hub_model_id USER/NAME --dry_run",
    "MODEL": "{plan_run} -c CORPUS -v VOCAB",
    "MEMORY": "{plan_run} -c CORPUS -v VOCAB",
    "DEVICE": "{check_install}",
    "DEPENDENCY": "{check_install}",
    "RESUME": "{doctor} RUN",
    "RUN": "{doctor} RUN",
    "LOSS": "{doctor} RUN",
    "REPORT": "{doctor} RUN",
    "LAUNCH": "torchrun --standalone --nproc_per_node 2 -m bert_pytorch --help",
    "RANK": "{doctor} LOG",
    "SMOKE": "{train_smoke} --help",
    "FINETUNE": "{finetune} --help",
    "SEARCH": "{search} --help",
    "CONFIG": "bert --help",
    "SCHEDULE": "bert --help",
    "OPTIM": "bert --help",
    "METRIC": "bert --help",
    "SETTING": "bert --help",
    "USAGE": "bert --help",
}
"""What shows more, by the first word of a code, where the references name no command."""


def finding_of(code: str, message: str, book: Handbook) -> Finding | None:
    """What a code means, with the place and the remedy that its message names; None: the references do not have it."""
    section = book.sections.get(code)
    if section is None:
        return None
    message = re.sub(
        r"^(?:(?:bert|bert-vocab|\w+\.py): )?(?:rank \d+: )?(?:bert_pytorch\.errors\.)?(?:\w+Error: )?", "", message.strip()
    )
    message = message.partition(f" [{code}]")[0]
    has_message = message not in ("", code)
    remedy = message.rpartition("; ")[2] if "; " in message else ""
    command = _command_for(section, message, book)
    where = message.rpartition("; ")[0] or message if has_message else str(section.path.relative_to(book.bundle))
    rank = FOLLOWS if code in _AFTER_OTHERS else FIRST
    step = ": ".join(filter(None, (remedy, command))) or section.text
    return Finding(code, where, section.text.replace("`", ""), book.resolved(step), rank)


def _command_for(section: Section, message: str, book: Handbook) -> str:
    """The first command of a section, or the one of its kind, for the file that the message names."""
    kind = section.code.split("-")[1]
    look = _LOOK.get(kind) or _LOOK.get(kind.removesuffix("S"), "")
    command = book.with_scripts(section.commands[0] if section.commands else look)
    place = re.match(r"(.+?\.\w+)(?::(\d+))?: ", message)
    if place:
        file = shlex.quote(place[1])
        # `OUT` first: the name of the file may hold it.
        command = re.sub(r"\bOUT\b", lambda _: shlex.quote(f"{place[1]}.mended"), command)
        command = re.sub(r"\bFILE\b", lambda _: file, command)
        if place[2]:
            command = re.sub(r"'\d+p'", f"'{place[2]}p'", command)
    return command
