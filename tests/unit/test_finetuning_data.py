"""Reading labelled data: formats, columns, labels, and every fault in one clear line before anything is trained."""

import json

import pytest

from bert_pytorch.errors import InputError, UserError
from bert_pytorch.finetuning.data import load_data
from bert_pytorch.finetuning.examples import make_examples
from bert_pytorch.finetuning.labels import map_labels, tag_map
from bert_pytorch.finetuning.reading import read_table
from bert_pytorch.finetuning.settings import settings_of

from .finetuning_runs import texts, write_lines, write_rows, write_task


def settings(task="sequence-classification", **values):
    return settings_of({"task": task, "model": "m", "output_dir": "o", **values})


def load(folder, rows, task="sequence-classification", head=("text", "label"), **values):
    return load_data(settings(task, train_file=write_rows(folder / "t.tsv", head, rows), **values))


def test_the_same_rows_from_every_format(tmp_path):
    rows = [("a, b", "0"), ('c "d"', "1")]
    (tmp_path / "a.csv").write_text('text,label\n"a, b",0\n"c ""d""",1\n')
    (tmp_path / "a.tsv").write_text('text\tlabel\na, b\t0\nc "d"\t1\n')
    write_lines(tmp_path / "a.jsonl", [{"text": text, "label": label} for text, label in rows])
    (tmp_path / "a.json").write_text(json.dumps([{"text": text, "label": label} for text, label in rows]))
    found = [read_table(str(tmp_path / f"a.{end}")) for end in ("csv", "tsv", "jsonl", "json")]
    for table in found:
        assert [(row["text"], row["label"]) for row in table.rows] == rows
        assert list(table.columns) == ["text", "label"]
    assert [table.where(1).rpartition(":")[2] for table in found] == ["3", "3", "2", "2"]


def test_parquet_and_folders_of_datasets(tmp_path):
    datasets = pytest.importorskip("datasets")
    rows = {"sentence": [text for text, _ in texts()], "label": [label for _, label in texts()]}
    data = datasets.Dataset.from_dict(rows)
    data.to_parquet(str(tmp_path / "a.parquet"))
    assert read_table(str(tmp_path / "a.parquet")).rows[1] == {"sentence": rows["sentence"][1], "label": 1}
    datasets.DatasetDict({"train": data, "validation": data}).save_to_disk(str(tmp_path / "folder"))
    found = load_data(settings(data_dir=str(tmp_path / "folder")))
    assert (len(found.train), len(found.validation), list(found.labels.names)) == (64, 64, ["0", "1"])
    assert found.facts["seen_share"] == 1.0


def test_conll_columns_with_tabs_or_spaces_and_documents(tmp_path):
    (tmp_path / "a.conll").write_text("-DOCSTART- O\n\nMia B-per\nis O\n\n\nhere O\n")
    table = read_table(str(tmp_path / "a.conll"))
    assert [row["tokens"] for row in table.rows] == [["Mia", "is"], ["here"]]
    assert table.lines == [3, 7]
    (tmp_path / "b.conll").write_text("a b\tO\n\t\nc\tO\n")
    assert [row["tokens"] for row in read_table(str(tmp_path / "b.conll")).rows] == [["a b"], ["c"]]


def test_questions_in_the_form_of_squad(tmp_path):
    table = read_table(write_task(tmp_path, "question-answering", 4))
    found = make_examples(table, settings("question-answering")).items
    assert found[0].text == "was the film good"
    text, start = found[0].answers[0]
    assert found[0].pair[start : start + len(text)] == text


def test_held_out_questions_are_of_other_contexts_and_equal_texts_stay_together(tmp_path):
    rows = [(text.rpartition(" ")[0], label) for text, label in texts(64)] * 3
    data = load(tmp_path, rows)
    assert {e.text for e in data.train} & {e.text for e in data.validation} == set()
    assert data.facts["seen_share"] == 0.0
    again = load(tmp_path, rows)
    assert [e.where for e in again.validation] == [e.where for e in data.validation]


def test_labels_are_numbered_in_their_order():
    assert map_labels(["10", "9", "8"], "f").label2id == {"8": 0, "9": 1, "10": 2}
    assert list(map_labels(["b", "a"], "f").names) == ["a", "b"]
    assert list(map_labels(["0", "2"], "f", ["0", "1", "2"]).names) == ["0", "1", "2"]
    assert list(tag_map(["O", "B-x"], "f").names) == ["O", "B-x", "I-x"]
    assert list(tag_map(["2", "10", "0", "1"] + [str(i) for i in range(10)], "f").names)[-1] == "10"


TEN = [(text, label) for text, label in texts(10)]
ROWS = texts(64)
FAULTS = {
    "a column that is not there": (dict(rows=ROWS, label_column="lable"), "E-FINETUNE-COLUMN", "did you mean label?"),
    "no usual column": (dict(rows=ROWS, head=("words", "y")), "E-FINETUNE-COLUMN", "set text_column"),
    "an empty text": (dict(rows=[*ROWS, (" ", 1)]), "E-FINETUNE-EMPTY", "t.tsv:66: column text is empty"),
    "no label": (dict(rows=[*ROWS, ("film", "")]), "E-FINETUNE-LABEL", "t.tsv:66: no label"),
    "a gap of labels": (dict(rows=[*ROWS, ("film", 3)]), "E-FINETUNE-LABEL-GAP", "from 0 to 3 without 2"),
    "one class only": (dict(rows=[(text, 1) for text, _ in ROWS]), "E-FINETUNE-ONE-CLASS", "got '1'"),
    "ten rows": (dict(rows=TEN), "E-FINETUNE-FEW-ROWS", "10 training rows are too few"),
    "no number": (dict(rows=ROWS, task="regression", label_column="text"), "E-FINETUNE", ""),
    "one number only": (dict(rows=[(t, 2) for t, _ in ROWS], task="regression"), "E-FINETUNE-ONE-CLASS", "all numbers are 2"),
    "a word as a number": (dict(rows=[*ROWS, ("film", "x")], task="regression"), "E-FINETUNE-LABEL", "'x'"),
    "a label not named": (dict(rows=ROWS, label_names=["0", "2"]), "E-FINETUNE-LABEL", "'1' is not in label_names"),
    "no pair": (dict(rows=ROWS, task="sentence-pair"), "E-FINETUNE-COLUMN", "no column for the second text"),
    "both data_dir and files": (dict(rows=ROWS, data_dir="x"), "E-SETTING-CONFLICT", "leave one out"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_one_clear_line(name, tmp_path):
    values, code, words = FAULTS[name]
    with pytest.raises(UserError) as caught:
        load(tmp_path, **values)
    assert str(caught.value.code).startswith(code)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_label_that_training_does_not_have_names_its_line(tmp_path):
    other = write_rows(tmp_path / "valid.tsv", ("text", "label"), [("film", 0), ("film", "strange")])
    with pytest.raises(InputError, match=r"valid.tsv:3: label 'strange' is not one of training: 0, 1") as caught:
        load(tmp_path, ROWS, validation_file=other)
    assert caught.value.code == "E-FINETUNE-LABEL"


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ([{"text": "Zoe", "answer_start": 0}], "it is not in the context"),
        ([{"text": "Mia", "answer_start": 3}], "at 3 stands other text"),
        ([], "a question without an answer"),
    ],
)
def test_answers_that_the_context_does_not_bear_out(answers, words, tmp_path):
    asked = {"id": "q", "question": "who", "answers": answers}
    document = {"data": [{"paragraphs": [{"context": "Mia was here", "qas": [asked]}]}]}
    (tmp_path / "q.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match="E-FINETUNE-ANSWER") as caught:
        make_examples(read_table(str(tmp_path / "q.json")), settings("question-answering"))
    assert words in str(caught.value)


def test_bad_rows_are_left_out_and_counted_where_asked_for(tmp_path):
    with pytest.warns(UserWarning, match="left out bad rows: 1 E-FINETUNE-EMPTY, 1 E-FINETUNE-LABEL"):
        data = load(tmp_path, [*ROWS, ("", 1), ("film", "")], skip_bad_rows=True)
    assert data.facts["skipped_rows"] == 2
    assert len(data.train) + len(data.validation) == 64


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", b"text,label\na,1,2\n", "a.csv:2: expected 2 columns as in its first line, got 3"),
        ("a.csv", b"text,text\na,1\n", "a.csv:1: expected names of columns, each once"),
        ("a.csv", b"text,label\n\xff,1\n", "a.csv:2: no UTF-8"),
        ("a.jsonl", b'{"text": "a"}\n{"text": \n', "a.jsonl:2: no JSON"),
        ("a.jsonl", b"[1]\n", "a.jsonl:1: expected an object"),
        ("a.json", b"{", "a.json: no JSON"),
        ("a.json", b'{"data": 3}', "expected a list of objects"),
        ("a.json", b'{"data": [{"paragraphs": [{"qas": [{"id": 1}]}]}]}', "question 1 lacks"),
        ("a.conll", b"Mia B-per\nis\n", "a.conll:2: expected 2 columns as above, got 1"),
        ("a.conll", b"Mia\n", "a.conll:1: expected a token and its tag"),
        ("a.tsv", b"text\tlabel\n", "no rows"),
        ("a.doc", b"x", "its ending names no format"),
        ("a.txt", b"good film\n\nfilm\t1\n", "a.txt:3: a tab, but .txt is one text a line"),
        ("a.parquet", b"x", "no Parquet"),
    ],
)
def test_files_of_no_known_form_are_named_with_the_line(name, content, words, tmp_path):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_table(str(tmp_path / name))
    assert words in str(caught.value)
    assert caught.value.code == "E-FINETUNE-FORMAT"


def test_a_text_a_line_keeps_its_number(tmp_path):
    (tmp_path / "a.txt").write_bytes("\ufeffgood film\r\n\r\n\u2028bad film\x0b\n".encode())
    table = read_table(str(tmp_path / "a.txt"))
    assert (table.columns, table.lines) == (["text"], [1, 3])
    assert [row["text"] for row in table.rows] == ["good film", "\u2028bad film\x0b"]


def test_a_missing_file_is_said(tmp_path):
    for name in ("a.tsv", "a.parquet"):
        with pytest.raises(FileNotFoundError, match="E-FILE-READ"):
            read_table(str(tmp_path / name))


def test_sets_of_labels_as_lists_or_words(tmp_path):
    rows = [("a", "x, y"), ("b", ""), ("c", "[]"), ("d", '["y"]'), ("e", "x|z")]
    table = read_table(write_rows(tmp_path / "m.tsv", ("text", "labels"), rows))
    found = make_examples(table, settings("multi-label"))
    assert list(found.labels.names) == ["x", "y", "z"]
    assert [item.label for item in found.items] == [[1, 1, 0], [0, 0, 0], [0, 0, 0], [0, 1, 0], [1, 0, 1]]
