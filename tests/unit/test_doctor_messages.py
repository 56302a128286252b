"""Every rule of the doctor about a message: provoked for real where that can be done here, typed where it cannot."""

import re
from pathlib import Path

import pytest

from bert_pytorch.diagnosis.handbook import Handbook
from bert_pytorch.diagnosis.rules import FOLLOWS
from bert_pytorch.diagnosis.texts import RULES, diagnose_text

from .examples import ROOT
from .messages import PROVOKED, said
from .test_errors import PROVOKE

BOOK = Handbook(ROOT)
NEEDS_A_GPU, NEEDS_OTHERS = "needs a GPU or its driver", "needs another machine, version or a full memory"

TYPED = {
    "cuda-memory": (NEEDS_A_GPU, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total"),
    "cuda-device-assert": (
        NEEDS_A_GPU,
        "RuntimeError: CUDA error: device-side assert triggered\nCompile with `TORCH_USE_CUDA_DSA`",
    ),
    "cuda-kernel-image": (NEEDS_A_GPU, "RuntimeError: CUDA error: no kernel image is available for execution on the device"),
    "cuda-driver-old": (NEEDS_A_GPU, "RuntimeError: The NVIDIA driver on your system is too old (found version 11040)."),
    "cuda-no-driver": (
        NEEDS_A_GPU,
        "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU",
    ),
    "cuda-ordinal": (NEEDS_A_GPU, "RuntimeError: CUDA error: invalid device ordinal"),
    "cuda-fork": (
        NEEDS_A_GPU,
        "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing",
    ),
    "cuda-library": (NEEDS_A_GPU, "OSError: libcudart.so.12: cannot open shared object file: No such file or directory"),
    "collective-timeout": (
        NEEDS_A_GPU,
        "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE",
    ),
    "process-group-end": (
        NEEDS_A_GPU,
        "Warning: WARNING: destroy_process_group() was not called before program exit, which can leak",
    ),
    "process-group-abort": (
        "a race of threads, lost once in some thousand ends",
        "terminate called without an active exception",
    ),
    "worker-shared-memory": (
        NEEDS_OTHERS,
        "RuntimeError: DataLoader worker (pid 31) is killed by signal: Bus error. It is possible",
    ),
    "loss-nan": (NEEDS_OTHERS, "{'loss': nan, 'grad_norm': nan, 'learning_rate': 0.001, 'epoch': 0.2}"),
    "hf-torch-version": (
        NEEDS_OTHERS,
        "ValueError: Due to a serious vulnerability issue, we require users to upgrade torch to at least v2.6",
    ),
    "tokenizers-fork": (
        NEEDS_OTHERS,
        "huggingface/tokenizers: The current process just got forked, after parallelism has already been used. Disabling",
    ),
    "pip-managed": (NEEDS_OTHERS, "error: externally-managed-environment\n\nx This environment is externally managed"),
    "numpy-binary": (NEEDS_OTHERS, "A module that was compiled using NumPy 1.x cannot be run in\nNumPy 2.0.1 as it may crash."),
    "python-old": (NEEDS_OTHERS, "TypeError: unsupported operand type(s) for |: 'type' and 'NoneType'"),
    "ancestor-chance": (
        "tests/compat/test_doctor.py has it from the real package",
        "EP1_train, avg_loss= 4.1 total_acc= 50.02",
    ),
    "ancestor-lines": (
        "tests/compat/test_doctor.py has it from the real package",
        'File "bert_pytorch/dataset/dataset.py", line 23, in <listcomp>\nIndexError: list index out of range',
    ),
    "ancestor-file-mode": (
        "tests/compat/test_doctor.py has it from the real package",
        "AttributeError: 'BERTDataset' object has no attribute 'random_file'",
    ),
}
"""Rules whose message is typed, with the reason."""


def test_every_rule_has_a_message_and_most_messages_are_real():
    # Two rules are made of the tables of renamed settings, one of the name of any module.
    made = {"hf-argument-renamed", "hf-argument-gone", "module-missing"}
    assert {rule.name for rule in RULES} | made == set(PROVOKED) | set(TYPED)
    assert set(PROVOKED) & set(TYPED) == set()
    assert (len(PROVOKED), len(TYPED)) == (73, 21)


def check(name, text):
    findings = diagnose_text(text, BOOK)
    rules = [finding.rule for finding in findings]
    assert name in rules, text[-1500:]
    finding = findings[rules.index(name)]
    # What only follows from something else may stand behind it; all other rules tell first.
    assert rules[0] == name or finding.rank == FOLLOWS, (rules, text[-1500:])
    for value in finding.as_dict().values():
        assert value
        assert value.isascii()
        assert "\n" not in value
    assert not re.search(r"\{\w+\}", finding.cause + finding.next.replace("{N}", "")), finding
    return finding


@pytest.mark.parametrize("name", PROVOKED)
def test_a_rule_knows_the_message_that_is_provoked(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check(name, said(PROVOKED[name]))


@pytest.mark.parametrize("name", TYPED)
def test_a_rule_knows_the_message_that_is_typed(name):
    check(name, TYPED[name][1])


@pytest.mark.parametrize("name", sorted({rule.name for rule in RULES}))
def test_scripts_that_a_rule_names_are_there(name):
    rule = next(rule for rule in RULES if rule.name == name)
    scripts = [word for word in re.findall(r"\{([a-z_]\w*)\}", rule.next) if f"(?P<{word}>" not in rule.pattern]
    assert [script for script in scripts if BOOK.script(script) is None] == []


def test_every_code_has_a_finding_of_its_own():
    assert set(BOOK.sections) == set(PROVOKE)
    for code, section in BOOK.sections.items():
        (finding,) = [each for each in diagnose_text(f"bert: a.txt:3: wrong; do this [{code}]", BOOK) if each.rule == code]
        assert finding.next.startswith("do this"), code
        assert finding.cause[:40] in section.text.replace("`", "")
        assert diagnose_text(code, BOOK)[0].next, code


def test_rows_of_the_tables_are_rules_too():
    literals = [row.literal for row in BOOK.rows]
    assert len(literals) > 25
    for row in BOOK.rows:
        text = f"{row.literal}\n{' '.join(row.needed)}"
        assert diagnose_text(text, BOOK), row


def test_scripts_and_files_of_a_message_stand_in_the_command():
    text = "bert: my corpus.txt:17: expected a pair, got a blank line; remove it [E-CORPUS-BLANK]"
    (finding,) = diagnose_text(text, BOOK)
    assert finding.next.endswith("sed '/^[[:space:]]*$/d' 'my corpus.txt' > 'my corpus.txt.mended'")
    (finding,) = diagnose_text("x.txt:17: expected two texts; fix the line [E-CORPUS-TAB]", BOOK)
    assert "sed -n '17p' x.txt" in finding.next
    for start in ("", "bert: ", "plan_run.py: ", "rank 1: ", "bert: rank 1: ", "bert_pytorch.errors.InputError: "):
        (finding,) = diagnose_text(f"{start}model.ep3: damaged: it is cut off; copy it [E-INSPECT-FILE]", BOOK)
        assert finding.next.endswith("inspect_checkpoint.py model.ep3"), finding
    (finding,) = diagnose_text("E-DEVICE-CUDA", BOOK)
    assert str(ROOT / "scripts" / "check_install.py") in finding.next
    assert Path(finding.next.split()[1]).is_file()


def test_a_cause_comes_before_what_follows_from_it():
    log = "\n".join(
        [
            "rank 1: run/x: cannot be written: No space; free space [E-SAVE]",
            "rank 0: another process ended; see its message [E-RANK-LOST]",
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
            "Root Cause (first observed failure)",
        ]
    )
    rules = [finding.rule for finding in diagnose_text(log, BOOK)]
    assert rules[0] == "E-SAVE"
    assert rules.index("E-RANK-LOST") > 0
    assert rules[-1] in ("torchrun-child", "E-RANK-LOST")


def test_what_is_no_fault_is_not_recognised():
    for text in (
        "",
        "all is well",
        '{"ok": true, "processes": 1, "eval_loss": 3.2}',
        "step 10 loss 4.1",
        "E-NOTHING",
        "x\x00y" * 99,
    ):
        assert diagnose_text(text, BOOK) == [], text


def test_long_and_strange_texts_take_no_time():
    import time

    began = time.perf_counter()
    for text in ("a" * 10**6, "loss: " * 10**5, "Column name x " * 10**5, "[E-" * 10**5, "pickle " * 10**5, "Can't " * 10**5):
        diagnose_text(text, BOOK)
    assert time.perf_counter() - began < 20
