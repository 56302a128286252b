"""`compare_runs.py`: runs beside each other in a table, in JSON and on a page."""

import json

import pytest

from bert_pytorch.trainer.report import write_report

from .examples import ROOT, load_script
from .report_pages import POISON, make_log, make_report, read_page


@pytest.fixture(scope="module")
def script():
    return load_script("training", "compare_runs")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with two runs: `b` is of another size, worse, and of other data."""
    monkeypatch.chdir(tmp_path)
    write_report("a", make_report())
    settings = {**make_report()["settings"], "hidden": 64, "seed": 7}
    data = {"pairs": 10, "unk_share": 0.0312}
    write_report("b", make_report(stopped_by="signal", settings=settings, data=data, log_history=make_log(scale=1.5)))
    return tmp_path


@pytest.fixture
def compare(script, here, capsys):
    def call(*arguments):
        capsys.readouterr()
        status = script.main(list(arguments))
        out, err = capsys.readouterr()
        return status, json.loads(out.splitlines()[-1]), out, err

    return call


def test_closing_figures_and_what_differs(compare, here):
    status, report, out, err = compare("a", "b/report.json")
    assert (status, report["ok"], report["output"], err) == (0, True, None, "")
    first, second = report["runs"]
    assert (first["name"], first["path"], second["name"], second["path"]) == ("a", "a", "b", "b/report.json")
    assert (first["best_step"], first["steps"], first["stopped_by"], second["stopped_by"]) == (147, 161, "plan", "signal")
    assert first["best_eval_loss"] == pytest.approx(second["best_eval_loss"] / 1.5)
    assert first["minutes"] == pytest.approx(738.2 / 60)
    assert first["tokens_per_second"] == 54123.4
    assert report["differences"] == {
        "settings": {"hidden": [128, 64], "seed": [None, 7]},
        "data": {"pairs": [20011, 10]},
        "environment": {},
    }
    assert sorted(path.name for path in here.iterdir()) == ["a", "b"]
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "run best held-out loss at step steps tokens/s minutes ended" in lines
    assert "a 3.655 147 161 54,123 12.3 plan" in lines
    assert lines[lines.index("settings that differ:") + 1 :][:2] == ["hidden 128 64", "seed - 7"]
    assert out.isascii()


def test_curves_of_all_runs_are_drawn_over_each_other_by_step_and_by_minutes(compare):
    report = compare("a", "b", "--output", "out/page.html")[1]
    assert report["output"] == "out/page.html"
    content, page = read_page("out/page.html")
    assert page.tags.count("svg") == 8
    assert content.count("var(--c1)") > 8
    assert content.count("var(--c2)") > 8
    for words in ("Held-out loss (nats) by minutes", "Held-out loss (nats) by step", "hidden 128 64", "pairs 20011 10"):
        assert words in page.text
    assert "b: 10.53 to 5.483, lowest 5.483 at step 147, highest 10.53" in page.text
    first = content
    compare("a", "b", "--output", "out/page.html")
    assert read_page("out/page.html")[0] == first


def test_runs_without_figures_or_parts_are_compared_too(compare):
    write_report("empty", {"ok": False})
    write_report("untimed", make_report(log_history=[{"step": 3, "eval_loss": 2.5}]))
    status, report, out, _ = compare("empty", "untimed", "--output", "page.html")
    assert status == 0
    assert report["runs"][0]["best_eval_loss"] is None
    assert any(line.split() == ["empty", *"-----", "failed"] for line in out.splitlines())
    _, page = read_page("page.html")
    assert page.tags.count("svg") == 1
    compare("empty", "empty/report.json", "--output", "page.html")
    assert "there is nothing to draw" in read_page("page.html")[1].text


def test_names_and_values_never_become_a_part_of_the_page(compare):
    name = "$_{x}$ <b> \u4eca"
    write_report(name, make_report(settings={POISON: POISON}))
    _, report, out, _ = compare("a", name, "--output", "page.html")
    content, page = read_page("page.html")
    assert report["runs"][1]["name"] == name
    assert name in page.text
    assert "<script" not in content
    assert out.isascii()


def test_runs_of_one_name_are_told_apart_by_their_paths(compare):
    write_report("more/a", make_report())
    names = [run["name"] for run in compare("a", "more/a", "b")[1]["runs"]]
    assert names == ["a", "more/a", "b"]
    assert [run["name"] for run in compare("a", "a")[1]["runs"]] == ["1: a", "2: a"]


def test_only_the_json_when_asked_for(compare):
    _, report, out, _ = compare("a", "b", "--json")
    assert len(out.splitlines()) == 1
    assert report["ok"] is True


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (("a",), 2, "E-USAGE"),
        (("a",) * 9, 2, "E-USAGE"),
        (("a", "missing"), 1, "E-REPORT-READ"),
        (("a", "."), 1, "E-REPORT-READ"),
        (("a", "a/report.html"), 1, "E-REPORT-FORMAT"),
        (("a", "b", "--output", "b/report.json"), 2, "E-SETTING-CONFLICT"),
        (("a", "b", "--output", "a/report.html/page"), 1, "E-SAVE"),
    ],
)
def test_what_cannot_be_compared_is_said_in_one_line(compare, here, arguments, status, code):
    before = (here / "b" / "report.json").read_bytes()
    ended, report, _, err = compare(*arguments)
    assert (ended, report["ok"], report["code"]) == (status, False, code)
    assert len(err.splitlines()) == 1
    assert (here / "b" / "report.json").read_bytes() == before


def test_the_command_reference_has_the_flags_of_the_parser(script):
    text = (ROOT / "references/cli-reference.md").read_text(encoding="utf-8")
    section = text.split("## compare_runs.py\n")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in section.splitlines() if line.startswith("| `")]
    flags = [action for action in script.build_parser()._actions if action.option_strings and action.dest != "help"]
    expected = [[f"`{', '.join(each.option_strings)}`", "" if each.default is None else "`false`", each.help] for each in flags]
    assert rows == expected
