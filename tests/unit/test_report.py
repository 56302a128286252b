"""The report of a run: what its JSON holds, and a page that is whole, safe and the same each time."""

import json
import math
import os
import sys

import pytest
import torch

from bert_pytorch.errors import InputError, SaveError, UnreadableError
from bert_pytorch.trainer.report import read_report, write_report
from bert_pytorch.trainer.report_curves import MAX_POINTS, best_held_out, curve, thin
from bert_pytorch.trainer.report_html import figure

from .examples import assert_one_line
from .report_pages import POISON, make_log, make_report, read_page

N_PLOTS = 9
NAN, INF = float("nan"), float("inf")


@pytest.fixture
def written(tmp_path):
    """Writes a report; returns its page as text and taken apart, and what its JSON holds."""

    def write(report):
        path = write_report(tmp_path / "run", report)
        assert path == str(tmp_path / "run" / "report.html")
        content, page = read_page(path)
        return content, page, json.loads((tmp_path / "run" / "report.json").read_text(encoding="ascii"))

    return write


@pytest.fixture
def no_matplotlib(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)


def test_the_json_holds_the_report_as_it_was_given(written):
    report = make_report()
    assert written(report)[2] == report


def test_values_stand_on_the_page_in_units_for_readers(written):
    _, page, _ = written(make_report())
    for words in (
        "Finished as planned; best held-out loss 3.655 at step 147; 161 steps; 12.3 minutes; 54,123 tokens/s; 1 warning.",
        *("hidden 128", "lr 1e-05", "packing false", "max_steps \u2013", "output_path run//x"),
        *("pairs 20,011", "unk_share 3.1%", "peak_memory_bytes 768.0 MiB", "n_threads 2"),
        "the corpus is small",
        "cat 10.0%",
        "dog 61.2%",
        "word frequencies alone 6.61",
        *("Held-out figures: 7 entries", "Training figures: 23 entries"),
    ):
        assert words in page.text, words


def test_every_figure_has_a_plot_with_a_title_and_its_values_in_words(written):
    content, page, _ = written(make_report())
    assert page.tags.count("svg") == page.tags.count("title") - 1 == page.tags.count("desc") == N_PLOTS
    assert content.count('role="img"') == N_PLOTS
    for title in ("Loss (nats)", "Masked-word loss (nats)", "Next-sentence accuracy", "Learning rate", "Memory (MiB)"):
        assert f"{title} by step" in page.text
    assert "training: 7.389 to 3.249, lowest 3.249 at step 161, highest 7.389" in page.text


def test_only_figures_with_data_are_drawn(written):
    log = [{"step": i, "epoch": 0, "loss": 5.0 - i, "mlm_loss": None, "grad_norm": NAN} for i in range(3)]
    content, page, _ = written(make_report(log_history=log))
    assert page.tags.count("svg") == 1
    assert "Gradient norm" not in content
    assert "3 values are not finite, or too large, and not drawn." in page.text


@pytest.mark.parametrize("name", ["text", "expected", "before", "settings", "data", "warnings", "message", "stopped_by"])
def test_no_text_of_a_corpus_becomes_a_part_of_the_page(written, name):
    sample = {"text": "a", "expected": "b", "before": [], "after": []}
    bad = {"before": [[POISON, 0.5]], "settings": {POISON: POISON}, "data": {POISON: [POISON]}, "warnings": [POISON]}
    changed = {name: bad.get(name, POISON)}
    report = make_report(samples=[sample | changed]) if name in sample else make_report(samples=[], **changed)
    content, page, _ = written(report)
    assert "<script" not in content
    assert POISON in page.text


def test_what_html_does_not_allow_is_replaced(written):
    content, _, report = written(make_report(warnings=["a\0b\x1b[31m \ud800 \udc80 c", "y" * 9999]))
    assert "a\ufffdb\ufffd[31m \ufffd \ufffd c" in content
    assert "7,999 more characters in report.json" in content
    assert report["warnings"] == ["a\0b\x1b[31m \ud800 \udc80 c", "y" * 9999]


def test_numbers_that_are_not_finite_are_null_and_a_dash(written):
    log = [{"step": 1, "loss": NAN, "eval_loss": INF}, {"step": 2, "loss": 2.5, "eval_loss": -INF}]
    _, page, report = written(make_report(log_history=log, summary={"eval_loss": NAN, "steps": INF}))
    assert [entry["loss"] for entry in report["log_history"]] == [None, 2.5]
    assert report["summary"] == {"eval_loss": None, "steps": None}
    assert "eval_loss \u2013" in page.text
    assert "nan" not in page.text.lower().split()
    assert "2 steps" in page.text
    assert "best held-out" not in page.text


@pytest.mark.parametrize(
    "report",
    [
        {},
        {"ok": False},
        make_report(log_history=[]),
        dict.fromkeys(make_report()),
        make_report(log_history=[{}, {"step": 1}, {"loss": 2.0}, {"step": None, "loss": 2.0}, {"step": 3, "loss": "high"}, 7]),
        make_report(samples=[{}, {"before": "cat", "after": [["dog"], [None, None], 3]}, "no sample"]),
        make_report(log_history=[{"step": 1, "loss": 1e308, "mlm_loss": 10**400, "nsp_loss": -1e29}]),
        make_report(log_history=[{"step": 3, "loss": 0.0, "grad_norm": 0.0, "eval_loss": True}]),
        make_report(log_history=[{"step": i, "loss": 2.0, "memory_bytes": 7} for i in (1, 2)]),
    ],
    ids=["nothing", "failed", "no log", "all null", "odd entries", "odd samples", "huge", "zero", "constant"],
)
def test_a_report_with_gaps_has_a_whole_page(written, report):
    _, page, values = written(report)
    assert page.tags.count("h1") == 1
    assert {"settings", "environment", "data", "summary", "log_history", "samples", "warnings"} <= values.keys()


def test_values_of_other_libraries_are_numbers_and_texts(written, tmp_path):
    import numpy

    settings = {
        "a": numpy.float32(0.5),
        "b": numpy.int64(3),
        "c": torch.tensor(0.25),
        "d": tmp_path,
        "e": (1, NAN),
        6: {"f": {7}},
    }
    assert written(make_report(settings=settings))[2]["settings"] == {
        **{"a": 0.5, "b": 3, "c": 0.25, "d": str(tmp_path), "e": [1, None]},
        "6": {"f": "{7}"},
    }


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"stopped_by": "max_minutes"}, "Stopped when its minutes were used up"),
        ({"stopped_by": "early_stopping"}, "Stopped early, the held-out figures no longer got better"),
        ({"stopped_by": "signal"}, "Stopped by a signal"),
        ({"stopped_by": "a callback"}, "Stopped by a callback"),
        ({"stopped_by": None}, "Finished"),
        ({"ok": False, "stopped_by": "error", "message": "loss is nan [E-X]"}, "Failed"),
        ({"ok": False, "stopped_by": None}, "Failed"),
    ],
)
def test_the_first_line_says_how_the_run_ended(written, changed, line):
    content, page, _ = written(make_report(**changed))
    assert f"{line};" in page.text
    assert ('class="verdict bad"' in content) is (changed.get("ok") is False)
    assert str(changed.get("message") or "") in page.text


def test_a_long_run_stays_a_small_page_and_keeps_its_peaks(written):
    log = make_log(20_011, every=1)
    log[10_007]["grad_norm"] = 999.0
    content, page, report = written(make_report(log_history=log))
    assert len(report["log_history"]) == len(log)
    assert len(content) < 500_000
    assert "highest 999" in page.text
    assert "Training figures: 40 of 20,011 entries, all of them in report.json" in page.text
    assert "Gradient norm (logarithmic)" in page.text


def test_many_samples_warnings_and_settings_are_cut_with_a_word_about_it(written):
    report = make_report(samples=make_report()["samples"] * 97, warnings=[f"warning {i}" for i in range(997)])
    content, page, _ = written(report)
    assert len(content) < 500_000
    assert "57 more in report.json" in page.text
    assert "897 more in report.json" in page.text


def test_without_matplotlib_the_page_has_no_plots_and_the_install_line(written, no_matplotlib):
    _, page, _ = written(make_report())
    assert "svg" not in page.tags
    assert "No plots: " in page.text
    assert "python -m pip install matplotlib" in page.text
    assert "best held-out loss 3.655" in page.text


def test_a_broken_matplotlib_does_not_end_the_run(written, monkeypatch):
    def broken(name):
        raise ImportError("numpy.core.multiarray failed to import")

    monkeypatch.setattr("bert_pytorch.extras.import_module", broken)
    _, page, _ = written(make_report())
    assert "No plots: numpy.core.multiarray failed to import" in page.text


def test_two_writes_give_the_same_bytes_whatever_matplotlib_is_set_to(tmp_path):
    import matplotlib

    contents = []
    for name, settings in (("a", {}), ("b", {"svg.fonttype": "path", "lines.linewidth": 9.0, "font.size": 31})):
        with matplotlib.rc_context(settings):
            before = dict(matplotlib.rcParams)
            write_report(tmp_path / name, make_report())
            assert dict(matplotlib.rcParams) == before
        contents.append([(tmp_path / name / file).read_bytes() for file in ("report.json", "report.html")])
    assert contents[0] == contents[1]


def test_plots_leave_no_trace_in_pyplot(written):
    before = set(sys.modules)
    written(make_report())
    assert "matplotlib.pyplot" not in set(sys.modules) - before


@pytest.mark.parametrize("file", ["report.json", "report.html"])
def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch, file):
    write_report(tmp_path, make_report())
    before = (tmp_path / file).read_bytes()
    replace = os.replace

    def failing(source, target):
        if str(target).endswith(file):
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(SaveError) as caught:
        write_report(tmp_path, make_report(stopped_by="signal"))
    assert_one_line(caught.value, tmp_path / file, "E-SAVE")
    assert (tmp_path / file).read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["report.html", "report.json"]


def test_a_report_is_read_back_from_its_folder_and_its_file(tmp_path):
    report = make_report()
    write_report(tmp_path, report)
    assert read_report(tmp_path) == read_report(tmp_path / "report.json") == report


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b'{"ok": tr', "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[1]", "got a list"),
        (b"{}", "expected ok, summary, log_history"),
        (b'{"ok": true, "summary": [], "log_history": []}', "summary to be a dict, got a list"),
    ],
)
def test_what_is_no_report_is_refused_in_one_line(tmp_path, content, word):
    (tmp_path / "report.json").write_bytes(content)
    with pytest.raises(InputError, match=word) as caught:
        read_report(tmp_path)
    assert_one_line(caught.value, tmp_path / "report.json", "E-REPORT-FORMAT")


def test_a_folder_without_a_report_is_named(tmp_path):
    with pytest.raises(UnreadableError) as caught:
        read_report(tmp_path)
    assert_one_line(caught.value, tmp_path / "report.json", "E-REPORT-READ")


def test_numbers_that_json_should_not_hold_are_read_as_nothing(tmp_path):
    (tmp_path / "report.json").write_text('{"ok": true, "summary": {"a": NaN, "b": 1e999}, "log_history": []}')
    assert read_report(tmp_path)["summary"] == {"a": None, "b": None}


def test_steps_done_twice_after_a_resume_count_once_the_later_ones():
    log = [{"step": step, "loss": loss} for step, loss in ((10, 5.0), (20, 4.0), (30, 3.0), (20, 4.5), (30, 3.5), (40, 3.0))]
    assert curve(log, "loss").points == [(10, 5.0), (20, 4.5), (30, 3.5), (40, 3.0)]


def test_seconds_that_begin_anew_after_a_resume_are_added_up():
    log = [{"step": i, "loss": 1.0, "elapsed_seconds": seconds} for i, seconds in enumerate((60, 120, 30, 90))]
    assert [x for x, _ in curve(log, "loss", by_time=True).points] == [1, 2, 2.5, 3.5]


def test_thinning_keeps_the_ends_and_the_extremes_in_order():
    points = [(float(i), math.sin(i) + (i == 4_321) * 9 - (i == 777) * 9) for i in range(9_973)]
    thinned = thin(points)
    assert len(thinned) <= MAX_POINTS
    assert (thinned[0], thinned[-1]) == (points[0], points[-1])
    assert {points[4_321], points[777]} < set(thinned)
    assert thinned == sorted(thinned)
    assert thin(points[:MAX_POINTS]) == points[:MAX_POINTS]


def test_the_best_held_out_loss_is_that_of_the_log_else_of_the_summary():
    log = [{"step": 3, "eval_loss": 2.0}, {"step": 5, "eval_loss": 1.5}, {"step": 7, "eval_loss": 1.75}]
    assert best_held_out({"log_history": log}) == (1.5, 5)
    assert best_held_out({"summary": {"eval_loss": 3.5}}) == (3.5, None)
    assert best_held_out({}) == (None, None)


@pytest.mark.parametrize(
    ("value", "name", "shown"),
    [
        (2.43219, "eval_loss", "2.432"),
        (54123.4, "rate", "54,123"),
        (5412.34, "rate", "5,412.3"),
        (0.00002, "learning_rate", "2e-05"),
        (0.0, "loss", "0"),
        (0.5, "nsp_accuracy", "50.0%"),
        (3 << 30, "peak_memory_bytes", "3.00 GiB"),
        (1234567, "words", "1,234,567"),
        (True, "ok", "true"),
        ("cpu", "device", "cpu"),
        (None, "loss", "\u2013"),
        (INF, "loss", "\u2013"),
    ],
)
def test_figures_are_rounded_for_readers(value, name, shown):
    assert figure(value, name) == shown
