"""A corpus in shards: the same examples, an order that no number of processes changes, and no more fetched than is needed."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import fsspec
import pytest
import torch

from bert_pytorch import BERTDataset
from bert_pytorch.cli import build_vocab, train
from bert_pytorch.dataset.cache import EncodingSettings
from bert_pytorch.dataset.loader import BatchLoader
from bert_pytorch.dataset.shard_writer import encode_shards
from bert_pytorch.dataset.sharded import ShardedCorpus, ShardOrder
from bert_pytorch.errors import InputError, UnavailableError, UsageError

from .examples import SOURCE, assert_one_line, load_script, make_vocab, write_pairs

PAIRS = [(f"a{i % 17} b{i % 5}" + " c" * (i % 4), f"d{i % 3} e{i % 29}") for i in range(107)]
VOCAB = make_vocab(PAIRS)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_pairs("corpus.txt", PAIRS)
    fsspec.filesystem("memory").store.clear()
    yield tmp_path
    fsspec.filesystem("memory").store.clear()


def encode(folder, shard_lines=13, together=4, **settings):
    settings = EncodingSettings(**settings)
    return encode_shards("corpus.txt", VOCAB, folder, settings, shard_lines, together=together)


def batches(dataset, **options):
    options.setdefault("batch_size", 8)
    return list(BatchLoader(dataset, shuffle=True, **options))


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_shards_hold_the_corpus_and_the_manifest_counts_it(here):
    made = encode("many")
    assert [shard["n_lines"] for shard in made["shards"]] == [13] * 8 + [3]
    plain, many = (BERTDataset(path, VOCAB, 9, seed=3) for path in ("corpus.txt", "many/manifest.json"))
    assert len(many) == len(plain) == 107
    for name in ("word_counts", "n_words", "n_unknown", "n_trimmed", "n_skipped"):
        assert getattr(many, name) == getattr(plain, name)
    assert many.n_trimmed > 0
    assert [many.get_corpus_line(i) for i in (0, 13, 106)] == [PAIRS[i] for i in (0, 13, 106)]
    assert torch.equal(many.encoded.hashes, plain.encoded.hashes)
    assert "corpus.txt line 15" in many.describe([14])


@pytest.mark.parametrize("objective", ["mlm", "mlm+sop"])
def test_examples_are_those_of_one_file(here, objective):
    encode("many")
    plain, many = (BERTDataset(path, VOCAB, 13, seed=3, objective=objective) for path in ("corpus.txt", "many/manifest.json"))
    assert all(same(plain[i], many[i]) for i in range(107))


def test_one_shard_is_one_file(here):
    encode("one", shard_lines=1000)
    plain, one = (BERTDataset(path, VOCAB, 13, seed=3) for path in ("corpus.txt", "one/manifest.json"))
    for epoch in (0, 1):
        both = [list(BatchLoader(each, 8, shuffle=True)) for each in (plain, one) if each.set_epoch(epoch) is None]
        assert all(same(*pair) for pair in zip(*both, strict=True))


def test_a_partner_is_of_the_same_shard_and_never_the_true_one(here):
    encode("many")
    many = BERTDataset("many/manifest.json", VOCAB, 13, seed=3)
    n_next = 0
    for i in range(107):
        first, second, is_next = many.random_sent(i)
        assert first == PAIRS[i][0]
        assert (second == PAIRS[i][1]) is bool(is_next)
        assert second in {PAIRS[j][1] for j in range(i // 13 * 13, min(107, i // 13 * 13 + 13))}
        n_next += is_next
    assert 30 < n_next < 77


@pytest.mark.parametrize("sizes", [[13] * 8 + [3], [1, 7, 2, 5, 31], [6000, 5000, 4000]])
@pytest.mark.parametrize("together", [1, 2, 4])
def test_the_order_has_every_line_once_wherever_it_is_cut(sizes, together):
    order = ShardOrder(sizes, together, 5, 2)
    whole = order[slice(0, sum(sizes))].tolist()
    assert sorted(whole) == list(range(sum(sizes)))
    assert whole != sorted(whole)
    for start in range(0, sum(sizes), 11 if sum(sizes) < 1000 else 977):
        assert order[slice(start, start + 17)].tolist() == whole[start : start + 17]
    assert ShardOrder(sizes, together, 5, 3)[slice(0, sum(sizes))].tolist() != whole


def test_shards_come_some_at_a_time_and_by_turns():
    lines = ShardOrder([10] * 6, 2, 5, 0)[slice(0, 60)]
    shards = (lines // 10).view(3, 20)
    assert all(len(group.unique()) == 2 for group in shards)
    assert all(len(group[::2].unique()) == len(group[1::2].unique()) == 1 for group in shards)


@pytest.mark.parametrize("n_ranks", [2, 3, 4])
@pytest.mark.parametrize("options", [{}, {"pad_to_multiple_of": 4}, {"group_by_length": True}, {"packing": True}])
def test_processes_share_the_batches_that_one_would_have(here, n_ranks, options):
    encode("many")
    many = BERTDataset("many/manifest.json", VOCAB, 13, seed=3)
    whole = batches(many, **options)
    parts = [batches(many, rank=rank, n_ranks=n_ranks, **options) for rank in range(n_ranks)]
    for batch, *own in zip(whole, *parts, strict=True):
        for rank, part in enumerate(own):
            rows = batch["bert_input"][rank::n_ranks]
            width = part["bert_input"].size(1)
            assert len(part["bert_input"]) == len(rows)
            assert torch.equal(part["bert_input"], rows[:, :width])
            assert not rows[:, width:].any()
        if not options.get("packing"):
            assert torch.equal(batch["is_next"][0::n_ranks], own[0]["is_next"])


def test_workers_change_nothing_and_open_shards_of_their_own(here):
    encode("many")
    many = BERTDataset("many/manifest.json", VOCAB, 13, seed=3)
    assert all(same(*pair) for pair in zip(batches(many), batches(many, n_workers=1), strict=True))
    assert len(pickle.loads(pickle.dumps(many.encoded))) == 107


def test_a_process_fetches_the_shards_of_its_rows_alone(here):
    """Eight shards of equal length, all read together: each of four processes needs two."""
    write_pairs("corpus.txt", PAIRS[:104])
    encode("memory://bucket/corpus", together=8)
    fetched = []
    for rank in range(4):
        corpus = ShardedCorpus("memory://bucket/corpus/manifest.json", VOCAB.fingerprint, f"cache{rank}")
        batches(BERTDataset(corpus, VOCAB, 13, seed=3), rank=rank, n_ranks=4)
        fetched.append({path.name for path in (here / f"cache{rank}" / "shards").glob("*.tokens")})
    assert [len(each) for each in fetched] == [2] * 4
    assert len(set().union(*fetched)) == 8


def test_copies_stay_within_their_room_and_are_used_again(here, monkeypatch):
    made = encode("memory://bucket/corpus", together=2)
    most = max(shard["n_bytes"] for shard in made["shards"])
    corpus = ShardedCorpus("memory://bucket/corpus/manifest.json", None, "cache", 2.5 * most / (1 << 30))
    seen = set()
    for number in range(9):
        corpus.shard(number)
        there = list((here / "cache" / "shards").glob("*.tokens"))
        assert sum(path.stat().st_size for path in there) <= 2.5 * most
        seen |= {path.name for path in there}
    assert len(seen) == 9
    # What is there is not fetched again, and a part of it is.
    fsspec.filesystem("memory").store.clear()
    again = ShardedCorpus.__new__(ShardedCorpus)
    again.__dict__ |= corpus.__dict__
    again._open.clear()
    assert len(again.shard(8)) == 3
    with pytest.raises(InputError, match="E-SHARD-MISSING"):
        again.shard(0)


def test_a_folder_and_another_file_system_hold_the_same(here):
    one, other = encode("many"), encode("memory://bucket/corpus")
    assert one["shards"] == other["shards"]
    encode(f"file://{here}/third")
    third = ShardedCorpus(f"file://{here}/third/manifest.json", VOCAB.fingerprint, "cache")
    assert [third.shard(number).manifest["n_lines"] for number in (0, 8)] == [13, 3]


def spoil(change):
    """Change the manifest of `many`."""
    path = Path("many/manifest.json")
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


SPOILT = {
    "E-SHARD-MISSING": lambda: os.unlink("many/shard-00000.tokens"),
    "E-SHARD-DAMAGED": lambda: flip("many/shard-00000.tokens"),
    "E-SHARDS-FILE": lambda: Path("many/manifest.json").write_text("{}"),
    "E-ENCODED-VOCAB": lambda: spoil(lambda manifest: manifest["vocab"].update(fingerprint="other")),
    "E-FILE-READ": lambda: os.unlink("many/manifest.json"),
}


def flip(path):
    content = bytearray(Path(path).read_bytes())
    content[100] ^= 1
    Path(path).write_bytes(content)


@pytest.mark.parametrize("code", SPOILT)
def test_what_is_wrong_with_shards_is_said(here, code):
    encode("many")
    SPOILT[code]()
    with pytest.raises(InputError) as caught:
        BERTDataset("many/manifest.json", VOCAB, 13)[0]
    assert_one_line(caught.value, "many", code)


def test_a_remote_shard_is_checked_as_it_comes(here):
    encode("memory://bucket/corpus")
    system = fsspec.filesystem("memory")
    content = bytearray(system.cat_file("/bucket/corpus/shard-00000.tokens"))
    content[100] ^= 1
    system.pipe_file("/bucket/corpus/shard-00000.tokens", bytes(content))
    corpus = ShardedCorpus("memory://bucket/corpus/manifest.json", None, "cache")
    with pytest.raises(InputError, match="E-SHARD-DAMAGED"):
        corpus.shard(0)
    assert list((here / "cache" / "shards").glob("*.tokens")) == []
    assert len(corpus.shard(1)) == 13


@pytest.mark.parametrize(
    "change",
    [
        lambda manifest: manifest.update(version=2),
        lambda manifest: manifest.update(n_lines=1),
        lambda manifest: manifest.update(shards=[]),
        lambda manifest: manifest["shards"][0].pop("sha256"),
        lambda manifest: manifest["word_counts"].pop(),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(here, change):
    encode("many")
    spoil(change)
    with pytest.raises(InputError, match="E-SHARDS-FILE"):
        ShardedCorpus("many/manifest.json")


def test_nothing_is_written_over_other_shards_and_bad_lines_leave_no_manifest(here):
    encode("many")
    with pytest.raises(InputError, match="is there already"):
        encode("many")
    with open("corpus.txt", "a", encoding="utf-8") as file:
        file.write("no tab\n")
    with pytest.raises(InputError, match="E-CORPUS-TAB"):
        encode("bad")
    assert not (here / "bad" / "manifest.json").exists()
    assert encode("good", skip_bad_lines=True)["corpus"]["n_skipped"] == 1


def test_remote_paths_need_a_folder_and_a_protocol_that_is_there(here, monkeypatch):
    encode("memory://bucket/corpus")
    with pytest.raises(UsageError, match="cache_dir"):
        ShardedCorpus("memory://bucket/corpus/manifest.json")
    with pytest.raises(InputError, match="E-REMOTE-READ"):
        ShardedCorpus("memory://bucket/none/manifest.json", None, "cache")
    with pytest.raises(InputError, match="E-REMOTE-READ"):
        ShardedCorpus("nowhere://bucket/manifest.json", None, "cache")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(UnavailableError, match="pip install fsspec"):
        ShardedCorpus("memory://bucket/corpus/manifest.json", None, "cache")


SMALL = "-hs 16 -l 1 -a 2 -s 16 -b 8 --max_steps 4 --device cpu".split()


def closing(capsys):
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_bert_trains_from_shards_and_from_single_files_elsewhere(here, capsys):
    script = load_script("data-preparation", "encode_corpus")
    assert build_vocab(["-c", "corpus.txt", "-o", "vocab.json"]) == 0
    system, flags = fsspec.filesystem("memory"), ["--corpus", "corpus.txt", "--vocab", "vocab.json", "--json"]
    assert script.main([*flags, "--shard_lines", "40", "--together", "2", "--output", "memory://b/shards"]) == 0
    assert closing(capsys)["shards"] == 3
    assert script.main([*flags, "--output", "corpus.tokens"]) == 0
    assert script.main([*flags, "--shard_lines", "200", "--output", "one"]) == 0
    for name in ("corpus.txt", "corpus.tokens", "vocab.json"):
        system.put_file(name, f"/b/{name}")
    write_pairs("held_out.txt", [(f"b{i % 5} a{i % 17}", f"e{i} d{i % 3}") for i in range(29)])
    losses = {}
    runs = ("memory://b/corpus.txt", "memory://b/corpus.tokens", "one/manifest.json", "memory://b/shards/manifest.json")
    for number, path in enumerate(runs):
        capsys.readouterr()
        vocab = "memory://b/vocab.json" if path.startswith("memory") else "vocab.json"
        status = train(["-c", path, "-t", "held_out.txt", "-v", vocab, "-o", f"run{number}/m", *SMALL])
        report = closing(capsys)
        assert status == 0, report
        losses[path] = report["train_loss"], report["eval_mlm_loss"]
        assert report["pairs"] == 107
    assert losses[runs[0]] == losses[runs[1]] == losses[runs[2]] != losses[runs[3]]
    assert report["eval_seen_share"] is None
    assert len(list((here / "run3" / "shards").glob("*.tokens"))) == 3


@pytest.mark.parametrize(
    "flags",
    [
        ["-c", "many/manifest.json", "--cache_dir", "x"],
        ["-c", "many/manifest.json", "--cache_limit", "3"],
        ["-c", "many/manifest.json", "--corpus_lines", "3"],
        ["-c", "many/manifest.json", "--skip_bad_lines"],
        ["-c", "corpus.txt", "--cache_limit", "3"],
    ],
)
def test_flags_without_effect_are_refused(here, capsys, flags):
    assert build_vocab(["-c", "corpus.txt", "-o", "vocab.json"]) == 0
    encode("many")
    assert train(["-v", "vocab.json", "-o", "run/m", *SMALL, *flags]) == 2
    assert closing(capsys)["code"] == "E-SETTING-CONFLICT"


def test_two_processes_train_on_shards_as_one_does(here):
    assert build_vocab(["-c", "corpus.txt", "-o", "vocab.json"]) == 0
    (here / "elsewhere").mkdir()
    flags = ["--corpus", "corpus.txt", "--vocab", "vocab.json", "--shard_lines", "13", "--json"]
    where = f"file://{here}/elsewhere"
    assert load_script("data-preparation", "encode_corpus").main([*flags, "--together", "2", "--output", where]) == 0
    small = [*SMALL, "--dropout", "0", "--logging_steps", "1", "-c", f"{where}/manifest.json", "-v", "vocab.json"]
    assert train([*small, "--output_dir", "run1"]) == 0
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc_per_node=2",
            "-m",
            "bert_pytorch",
            *small,
            "-b",
            "4",
            "--output_dir",
            "run2",
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    logs = [(here / run / "log.jsonl").read_text().splitlines() for run in ("run1", "run2")]
    losses = [[entry["loss"] for entry in map(json.loads, log) if "loss" in entry] for log in logs]
    assert len(losses[0]) >= 4
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
