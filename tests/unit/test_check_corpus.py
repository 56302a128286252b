"""The check of a corpus: counts are exact, training and check agree, and a clean corpus loses nothing good."""

import codecs
import json
import os
import random
import sys

import pytest

from bert_pytorch import BERTDataset, WordVocab
from bert_pytorch.dataset.corpus import PairCorpus
from bert_pytorch.dataset.tokenizer import train_subwords
from bert_pytorch.errors import InputError, UsageError
from bert_pytorch.preparation.checking import CheckOptions, check_corpus
from bert_pytorch.preparation.faults import KINDS, READABLE_KINDS, Rules
from bert_pytorch.preparation.fixing import CHANGES

from .examples import load_script

SCRIPT = load_script("data-preparation", "check_corpus")
OF_ONE_LINE = {
    b"caf\xe9\tb": {"encoding"},
    b"\xff\x00\r": {"encoding"},
    b"no tab": {"no_tab"},
    b"a\\tb": {"backslash_t"},
    b"a\\tb\tc": set(),
    b"a\tb\tc": {"many_tabs"},
    b"a\tb\t": {"many_tabs"},
    b"a\t": {"empty_text"},
    b"\xe3\x80\x80\tb": {"empty_text"},
    b"": {"blank"},
    b" \r": {"blank"},
    b"\t\t": {"blank"},
    b"a\x00\tb": {"nul"},
    b"a\x07\tb": {"control"},
    b"a\rb\tc": {"control"},
    b"a\xc2\x85b\tc": {"control"},
    b"a <mask> b\tc": {"special_word"},
    b"a <mask>, b\t<PAD>": set(),
    b"<unk>\t<pad>": {"special_word"},
    b"a\xe2\x80\x8bb\tc": {"zero_width"},
    b"\xe2\x80\xaea\tc": {"zero_width"},
    # The joiners of Hindi and of emoji, and a no-break space, which parts words.
    b"\xe0\xa4\x95\xe0\xa5\x8d\xe2\x80\x8d\xe0\xa4\xb7\t\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x94\xac \xc2\xa0b": set(),
    b"a\xef\xbb\xbf\tb": {"bom"},
    b"a\tb\r": {"crlf"},
    b"a\tb\r\r": {"crlf"},
    b"a  b\ta b ": {"same_texts"},
    b"a\t" + b"b" * 100_000: {"long_line"},
    b"no tab\x00\x07\xe2\x80\x8b\xef\xbb\xbf <sos> \r": {
        "no_tab",
        "nul",
        "control",
        "zero_width",
        "bom",
        "special_word",
        "crlf",
    },
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(content, columns=2, allowed=(), max_chars=100_000, **options):
    with open("corpus.txt", "wb") as file:
        file.write(content)
    return check_corpus("corpus.txt", Rules(columns, max_chars, allowed), CheckOptions(**options))


def counts(report, of="faults"):
    return {kind: fault["count"] for kind, fault in report[of].items()}


def read(path):
    with open(path, "rb") as file:
        return file.read()


@pytest.mark.parametrize(("line", "kinds"), OF_ONE_LINE.items(), ids=[repr(line[:30]) for line in OF_ONE_LINE])
def test_the_faults_of_a_line(folder, line, kinds):
    # Good lines around it, so that it is looked at together with others first.
    good = [b"good %d\tline" % number for number in range(7)]
    report = check(b"\n".join([*good, line, b"good\tend\n"]))
    assert counts(report) == dict.fromkeys(kinds, 1)
    assert list(report["faults"]) == [kind for kind in KINDS if kind in kinds]
    for fault in report["faults"].values():
        assert fault["first_lines"] == [8]
        assert len(fault["example"]) <= 60
        assert fault["example"].isascii()
    refused = any(KINDS[kind].is_refused for kind in kinds)
    assert report["pairs"] == 9 - refused
    assert report["lines"] == 9
    if refused:
        with pytest.raises(InputError):
            PairCorpus("corpus.txt")
    assert len(PairCorpus("corpus.txt", skip_bad_lines=True)) == report["pairs"]


def plant(n_lines):
    """Lines, the line numbers of each planted fault, the good pairs, and the other file."""
    draw = random.Random(7)
    lines = [b"%d w%d b\tw%d w%d d" % (i, i % 997, i % 991, i % 13) for i in range(n_lines)]
    free = draw.sample(range(1, n_lines), n_lines - 1)
    planted, good = {}, list(lines)
    spoil = {
        "encoding": lambda line: line.replace(b"w", b"\xe9", 1),
        "no_tab": lambda line: line.replace(b"\t", b" "),
        "backslash_t": lambda line: line.replace(b"\t", b"\\t"),
        "many_tabs": lambda line: line.replace(b" ", b"\t", 1),
        "empty_text": lambda line: line.split(b"\t")[0] + b"\t ",
        "blank": lambda line: b"  ",
        "nul": lambda line: line.replace(b"w", b"\x00w", 1),
        "control": lambda line: line.replace(b"w", b"w\x1b", 1),
        "special_word": lambda line: line + b" <mask>",
        "zero_width": lambda line: line.replace(b"w", b"\xe2\x80\x8bw", 1),
        "bom": lambda line: b"\xef\xbb\xbf" + line,
        "long_line": lambda line: line + b" x" * 300,
        "same_texts": lambda line: line.split(b"\t")[0] + b"\t" + line.split(b"\t")[0],
        "crlf": lambda line: line + b"\r",
    }
    for size, (kind, change) in zip((3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47), spoil.items(), strict=True):
        planted[kind] = sorted(free.pop() for _ in range(size))
        for i in planted[kind]:
            lines[i] = change(lines[i])
            mended = good[i] if kind in ("backslash_t", "nul", "control", "zero_width", "bom", "crlf") else None
            good[i] = mended
    # Further copies, one with other white space, stand below what they repeat.
    planted["duplicate"] = sorted(free.pop() for _ in range(53))
    for i in planted["duplicate"]:
        lines[i], good[i] = lines[0].replace(b" ", b"  ", i % 2), None
    shared = sorted(free.pop() for _ in range(59))
    other = [b"held out %d\tpair" % i for i in range(101)] + [lines[i].replace(b"\t", b" \t") for i in shared]
    draw.shuffle(other)
    planted["overlap"] = [i for i, line in enumerate(other) if not line.startswith(b"held")]
    for i in shared:
        good[i] = None
    return lines, planted, [line for line in good if line is not None], other


def test_every_planted_fault_is_found_and_every_good_pair_is_kept(folder):
    lines, planted, good, other = plant(100_000)
    (folder / "other.txt").write_bytes(b"\n".join(other))
    report = check(b"\n".join(lines) + b"\n", max_chars=500, other="other.txt", fix="clean.txt")
    assert set(planted) == set(KINDS)
    assert counts(report) == {kind: len(planted[kind]) for kind in KINDS}
    for kind, numbers in planted.items():
        assert report["faults"][kind]["first_lines"] == [i + 1 for i in numbers[:5]], kind
    assert report["faults"]["duplicate"]["example"].startswith("0 ")
    assert report["ok"] is False
    assert report["lines"] == 100_000
    assert report["pairs"] == 100_000 - sum(len(planted[kind]) for kind in KINDS if KINDS[kind].is_refused)
    assert report["other"] == {"path": "other.txt", "lines": 160, "pairs": 160}
    assert read("clean.txt") == b"\n".join(good) + b"\n"
    assert report["fixed"]["pairs"] == len(good)
    assert report["fixed"]["left_out"] == 100_000 - len(good)
    listed = [row.split("\t") for row in read("clean.txt" + CHANGES).decode().splitlines()[1:]]
    assert len(listed) == report["fixed"]["left_out"] + report["fixed"]["changed"]
    assert {row[0] for row in listed if row[2] == "changed"} == {
        str(i + 1) for kind in ("backslash_t", "nul", "control", "zero_width", "bom", "crlf") for i in planted[kind]
    }
    again = check_corpus("clean.txt", Rules(max_chars=500), CheckOptions(other="other.txt"))
    assert again["ok"] is True
    assert again["pairs"] == len(good)
    assert len(PairCorpus("clean.txt")) == len(good)


def test_facts_are_those_of_training(folder):
    draw = random.Random(3)
    texts = [" ".join(f"t{int(draw.paretovariate(0.6)) % 211}" for _ in range(draw.randint(1, 13))) for _ in range(2002)]
    bad = ["no tab", "", "x\t", "a\u00a0<unk> <mask>\u2003b\tt1  t2 "]
    lines = [f"{first}\t{second}" for first, second in zip(texts[::2], texts[1::2], strict=True)] + bad
    draw.shuffle(lines)
    WordVocab(texts, max_size=47).save_vocab("vocab.json")
    report = check("\n".join(lines).encode(), seq_len=17, vocab="vocab.json")
    dataset = BERTDataset("corpus.txt", WordVocab.load_vocab("vocab.json"), 17, skip_bad_lines=True)
    assert report["pairs"] == len(dataset)
    assert report["lines"] - report["pairs"] == dataset.n_skipped
    assert report["tokens"] == dataset.n_words
    assert report["trimmed"]["pairs"] == dataset.n_trimmed
    kept = sum(min(14, len(first.split()) + len(second.split())) for first, second in dataset.corpus)
    assert report["trimmed"]["tokens"] == dataset.n_words - kept
    assert report["vocabulary"]["given"]["unk_share"] == pytest.approx(dataset.n_unknown / dataset.n_words, abs=1e-12)
    assert report["types"] == len({word for pair in dataset.corpus for text in pair for word in text.split()})


@pytest.mark.parametrize("model", ["WordPiece", "BPE"])
def test_facts_of_pieces_are_those_of_training(folder, model):
    draw = random.Random(5)
    letters = "abcdefg\u00e9\u4e2d"
    words = ["".join(draw.choices(letters, k=draw.randint(1, 7))) for _ in range(400)]
    texts = [" ".join(draw.choices(words, k=draw.randint(1, 13))) for _ in range(700)]
    lines = [f"{first}\t{second}" for first, second in zip(texts[::2], texts[1::2], strict=True)]
    counts = WordVocab([text.replace("g", "") for text in texts]).freqs
    train_subwords(counts, model, 290, lowercase=True).save_vocab("vocab.json")
    report = check("\n".join(lines).encode(), seq_len=29, vocab="vocab.json", allowed=["duplicate", "same_texts"])
    dataset = BERTDataset("corpus.txt", WordVocab.load_vocab("vocab.json"), 29)
    assert (report["tokens"], report["words"]) == (dataset.n_words, sum(len(text.split()) for text in texts))
    assert report["trimmed"]["pairs"] == dataset.n_trimmed > 0
    assert report["lengths"]["pair"]["max"] == int(dataset.encoded.offsets[::2].diff().max())
    assert report["vocabulary"]["given"]["unk_share"] == pytest.approx(dataset.n_unknown / dataset.n_words, abs=1e-12)
    assert (report["vocabulary"]["given"]["unk_share"] > 0) == (model == "WordPiece")
    per_word = report["vocabulary"]["given"]["tokens_per_word"]
    assert per_word == pytest.approx(dataset.n_words / report["words"])
    assert per_word > 1


def test_a_vocabulary_without_capitals_covers_them(folder):
    WordVocab(["a b"], lowercase=True).save_vocab("vocab.json")
    report = check(b"A B\tb c\n", vocab="vocab.json")
    assert report["vocabulary"]["given"]["unk_share"] == 0.25


ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32", "latin-1", "cp037", "utf-7")


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_any_encoding_is_read_and_written_as_utf_8(folder, encoding):
    text = "gr\u00fcn a\tb\nc\td\x1b\n\ne\u00e9  f\tg\n"
    report = check(text.encode(encoding), encoding=encoding, fix="clean.txt")
    assert counts(report) == {"blank": 1, "control": 1}
    assert read("clean.txt").decode() == "gr\u00fcn a\tb\nc\td\ne\u00e9  f\tg\n"


@pytest.mark.parametrize(
    ("content", "encoding", "n"),
    [
        (codecs.BOM_UTF8 + b"a\tb\n", "utf-8", 1),
        (codecs.BOM_UTF8 + b"a\tb\n", "utf-8-sig", 0),
        (codecs.BOM_UTF16_LE + "a\tb\n".encode("utf-16-le"), "utf-16", 0),
        (codecs.BOM_UTF16_LE + "a\tb\n".encode("utf-16-le"), "utf-16-le", 1),
    ],
)
def test_a_mark_is_a_fault_where_the_encoding_does_not_ask_for_it(folder, content, encoding, n):
    assert counts(check(content, encoding=encoding)).get("bom", 0) == n


def test_allowed_kinds_are_no_faults_and_stay_as_they_are(folder):
    content = codecs.BOM_UTF8 + b"a\x00\tb\r\na\x00\tb\r\nc\x1b\r\td\r\r\ne\te\nf\xe2\x80\x8b\t<pad>\nh\ti\xef\xbb\xbf\n"
    report = check(content, allowed=READABLE_KINDS, fix="clean.txt")
    assert report["ok"] is True
    assert report["faults"] == {}
    expected = {
        "bom": 2,
        "nul": 2,
        "crlf": 3,
        "duplicate": 1,
        "control": 1,
        "same_texts": 1,
        "zero_width": 1,
        "special_word": 1,
    }
    assert counts(report, "allowed") == expected
    assert read("clean.txt") == content
    assert report["fixed"]["changed"] == report["fixed"]["left_out"] == 0
    with pytest.raises(UsageError, match="E-SETTING-CONFLICT"):
        Rules(allowed=["no_tab"])


def test_lines_that_are_the_same_only_when_mended_are_kept_once(folder):
    report = check(b"a\xe2\x80\x8bb\tc\nab\tc\nab \tc\r\nx\x0by\tz\nx y\tz\n\x00\tb\nq\\\x00tr\n", fix="clean.txt")
    assert counts(report) == {"no_tab": 1, "nul": 2, "zero_width": 1, "duplicate": 2, "crlf": 1, "control": 1}
    assert read("clean.txt") == b"ab\tc\nx y\tz\nq\tr\n"
    assert check(read("clean.txt"))["ok"] is True


@pytest.mark.parametrize("allowed", [(), ("duplicate",)])
def test_pairs_of_the_other_file_are_left_out_wherever_they_stand(folder, allowed):
    (folder / "other.txt").write_bytes(b"c\td\nbad\nc \td\ny\tz\n")
    report = check(b"a\tb\nc\td\na\tb\nc\td\n", other="other.txt", fix="clean.txt", allowed=allowed)
    assert report["faults"]["overlap"] == {"count": 2, "first_lines": [1, 3], "example": "c\\td", "refused_by_bert": False}
    assert read("clean.txt") == (b"a\tb\na\tb\n" if allowed else b"a\tb\n")


def test_one_text_a_line(folder):
    report = check(b"a b c\n\nd\te\nf\\tg\na  b c\nd e\r\n", columns=1, seq_len=5, fix="clean.txt")
    assert counts(report) == {"many_tabs": 1, "blank": 1, "duplicate": 1, "crlf": 1}
    assert (report["pairs"], report["tokens"]) == (4, 9)
    assert report["lengths"] == {"text": {"p50": 2, "p90": 3, "p99": 3, "max": 3}}
    assert report["trimmed"]["pairs"] == 0
    assert read("clean.txt") == b"a b c\nf\\tg\nd e\n"
    content = b"a b c d\ne f\n"
    assert check(content, columns=1, seq_len=5)["trimmed"] == {
        "seq_len": 5, "pairs": 1, "tokens": 1, "pair_share": 1 / 2, "token_share": 1 / 6,
    }  # fmt: skip


def test_an_empty_file_and_one_without_a_pair(folder):
    for content in (b"", codecs.BOM_UTF8):
        with pytest.raises(InputError, match="E-CORPUS-NO-PAIRS"):
            check(content, fix="clean.txt")
    report = check(b"no tab\n\n", fix="clean.txt")
    assert counts(report) == {"no_tab": 1, "blank": 1}
    assert report["fixed"] == {"output": None, "changes": None, "pairs": 0, "changed": 0, "left_out": 2}
    (folder / "other.txt").write_bytes(b"a\tb\n")
    assert check(b"a\tb\na\tb\n", other="other.txt", fix="clean.txt")["fixed"]["output"] is None
    assert not (folder / "clean.txt").exists()


@pytest.mark.parametrize("output", ["corpus.txt", "./corpus.txt", "hard.txt", "soft.txt", "other.txt", "listed"])
def test_the_clean_corpus_never_replaces_a_file_that_is_read(folder, output):
    content = b"a\tb\n\n"
    (folder / "corpus.txt").write_bytes(content)
    (folder / "other.txt").write_bytes(content)
    os.link("corpus.txt", "hard.txt")
    os.symlink("corpus.txt", "soft.txt")
    os.symlink("corpus.txt", "listed" + CHANGES)
    with pytest.raises(UsageError, match="E-SETTING-CONFLICT"):
        check_corpus("corpus.txt", Rules(), CheckOptions(other="other.txt", fix=output))
    assert read("corpus.txt") == read("other.txt") == content


def test_a_corpus_that_changes_meanwhile_leaves_the_old_clean_one_whole(folder, monkeypatch):
    (folder / "clean.txt").write_bytes(b"old")
    rules, examine_file = Rules(), Rules.examine_file

    def append(self, path, encoding):
        with open(path, "ab") as file:
            file.write(b"c\td\n")
        return examine_file(self, path, encoding)

    monkeypatch.setattr(Rules, "examine_file", append)
    (folder / "corpus.txt").write_bytes(b"a\tb\n")
    with pytest.raises(InputError, match="E-CORPUS-CHANGED"):
        check_corpus("corpus.txt", rules, CheckOptions(fix="clean.txt"))
    assert sorted(os.listdir()) == ["clean.txt", "corpus.txt"]
    assert read("clean.txt") == b"old"


def run_script(capsys, *arguments):
    status = SCRIPT.main(list(arguments))
    out, err = capsys.readouterr()
    assert out.isascii()
    assert err.isascii()
    *summary, last = out.splitlines()
    return status, summary, json.loads(last), err


def test_the_script_with_every_kind_of_fault_says_so_briefly(folder, capsys):
    lines, planted, _, other = plant(1009)
    name = "\u8bed\u6599.txt"
    (folder / name).write_bytes(b"\n".join(lines))
    (folder / "other.txt").write_bytes(b"\n".join(other))
    WordVocab(["w1"]).save_vocab("vocab.json")
    flags = ("--corpus", name, "--max_chars", "500", "--other", "other.txt", "--vocab", "vocab.json", "--fix", "clean.txt")
    status, summary, report, err = run_script(capsys, *flags)
    assert status == 1
    assert (report["ok"], report["code"]) == (False, "E-CHECK-FAULTS")
    assert report["error"].endswith("[E-CHECK-FAULTS]")
    assert counts(report) == {kind: len(planted[kind]) for kind in KINDS}
    assert len("\n".join(summary)) <= 2000
    assert [line.split()[0] for line in summary[: len(KINDS)]] == list(KINDS)
    assert len(err.splitlines()) == 1
    status, summary, again, err = run_script(capsys, "--corpus", "clean.txt", "--other", "other.txt", "--json")
    assert (status, summary, again["ok"], err) == (0, [], True, "")
    assert again["pairs"] == report["fixed"]["pairs"]


def test_the_script_refuses_wrong_flags_with_2(folder, capsys):
    (folder / "corpus.txt").write_bytes(b"a\tb\n")
    for flags in (["--allow", "no_tab"], ["--columns", "3"], ["--max_chars", "0"], ["--seq_len", "4"]):
        with pytest.raises(SystemExit) as end:
            SCRIPT.main(["--corpus", "corpus.txt", *flags])
        assert end.value.code == 2
        assert json.loads(capsys.readouterr().out.splitlines()[-1])["code"] == "E-USAGE"
    status, _, report, _ = run_script(capsys, "--corpus", "corpus.txt", "--fix", "corpus.txt")
    assert (status, report["code"]) == (2, "E-SETTING-CONFLICT")
    assert read("corpus.txt") == b"a\tb\n"


def test_a_line_of_a_megabyte_and_one_of_a_million_words(folder):
    report = check(b"a\tb\n" + b"x" * 2**20 + b"\t" + b"w " * 1_000_003 + b"\n")
    assert counts(report) == {"long_line": 1}
    assert report["lengths"]["b"]["max"] == 1_000_003
    assert report["faults"]["long_line"]["example"] == "x" * 57 + "..."
    assert max(len(word) for word, _ in report["top_tokens"]) <= 60
    assert sys.getsizeof(json.dumps(report)) < 4000
