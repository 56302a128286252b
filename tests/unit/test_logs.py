"""Server logs: masks, windows, and pairs that never cross a session."""

import random
import re
from collections import defaultdict
from itertools import pairwise

import pytest

from bert_pytorch.preparation.logs import masker

from .examples import SHARED

# Warnings go to stderr, as they do for the user.
pytestmark = pytest.mark.filterwarnings("default")


def event(draw, session):
    words = draw.choice(["opened", "closed", "read from", "wrote to"])
    when = f"2024-03-{draw.randrange(10, 29)} {draw.randrange(10, 24)}:11:{draw.randrange(10, 60)},{draw.randrange(999)}"
    return f"{when} INFO node{draw.randrange(99)} {words} s_{session} at 10.0.{draw.randrange(256)}.7:{draw.randrange(9999)}"


def expected_pairs(lines, session, form):
    """Neighbours within a session, by a parser of the test's own."""
    histories = defaultdict(list)
    for line in lines:
        for key in dict.fromkeys(re.findall(session, line)):
            histories[key].append(form(line))
    return sorted(pair for history in histories.values() for pair in pairwise(history))


def test_pairs_never_cross_a_session_however_sessions_interleave(make_pairs):
    draw = random.Random(5)
    lines = [event(draw, draw.randrange(41)) for _ in range(499)]
    lines += ["a line of no session", f"{event(draw, 3)} and s_4", "", event(draw, 4)]
    report = make_pairs("\n".join(lines), "--session", r"s_(\d+)", name="server.log")
    assert (report["lines_without_session"], report["lines_in_several_sessions"]) == (1, 1)
    assert report["documents"] == 41
    mask = masker()
    assert sorted(report["lines_made"]) == expected_pairs(lines, r"s_(\d+)", mask)


@pytest.mark.parametrize("max_open", ["2", "1000"])
def test_sessions_are_gathered_in_order(make_pairs, max_open):
    # Words tell the session: no digit, so that masks leave them alone.
    draw = random.Random(7)
    names = ["ada", "bob", "cyd", "dan", "eve", "fay", "gus"]
    lines = [f"id={draw.choice(names)} {'abcdefgh'[i % 8]}{'qrstuvw'[i % 7]}{'klmno'[i % 5]}" for i in range(280)]
    report = make_pairs("\n".join(lines), "--session", r"id=(\w+)", "--max_open_sessions", max_open, name="server.log")
    assert all(first.split()[0] == second.split()[0] for first, second in report["lines_made"])
    full = expected_pairs(lines, r"id=(\w+)", str)
    if max_open == "1000":
        assert sorted(report["lines_made"]) == full
        assert report["closed_early"] == 0
    else:
        assert set(report["lines_made"]) < set(full)
        assert report["closed_early"] > 0


def test_windows_part_a_log_without_sessions(make_pairs):
    lines = [f"event {'abcdefghijklmnopqrstuvwxyz'[i]}" for i in range(26)]
    report = make_pairs("\n".join(lines), "--window", "5", name="server.log")
    assert report["documents"] == 6
    assert set(report["lines_made"]) == {pair for i in range(0, 26, 5) for pair in pairwise(lines[i : i + 5])}


MASKED = {
    "2024-03-01T10:11:12.123Z ERROR x": "<TIME> ERROR x",
    "2024-03-01 10:11:12,123 +0100 x": "<TIME> x",
    "Mar  1 10:11:12 host sshd[123]: x": "<TIME> host sshd[<NUM>]: x",
    "[Mon Mar 04 10:11:12 2024] x": "[<TIME>] x",
    "10.0.0.1 - - [01/Mar/2024:10:11:12 +0000] GET": "<ADDRESS> - - [<TIME>] GET",
    "081109 203615 148 INFO dfs.X: for block blk_-38865 ok": "<TIME> <NUM> INFO dfs.X: for block blk_<NUM> ok",
    "17/06/09 20:10:40 INFO x": "<TIME> INFO x",
    "src: /10.250.19.102:54106 dest": "src: /<ADDRESS> dest",
    "fe80::1ff:fe23:4567:890a up, 2001:db8:0:0:0:0:2:1 std::vector": "<ADDRESS> up, <ADDRESS> std::vector",
    "aa:bb:cc:dd:ee:ff at 0xDEADbeef": "<ADDRESS> at <HEX>",
    "id 123e4567-e89b-12d3-a456-426614174000": "id <ID>",
    "sha d41d8cd98f00b204e9800998ecf8427e took -1.5 ms 10ms, version 1.2.3.4.5": (
        "sha <HEX> took <NUM> ms <NUM>ms, version <NUM>"
    ),
    "deadbeef feedface bad cafe": "deadbeef feedface bad cafe",
}


@pytest.mark.parametrize("line", MASKED)
def test_what_varies_is_masked_and_words_are_not(make_pairs, line):
    report = make_pairs(f"{line}\n{line}\n{line}\n{line}\n", "--window", "2", "--drop_seen", name="a.log")
    assert report["code"] == "E-PAIRS-PARTS"
    report = make_pairs(f"{line}\n{line}\n", "--valid_share", "0", name="a.log")
    assert report["lines_made"] == [(MASKED[line], MASKED[line])]


def test_masks_stay_whole_and_no_digit_is_left(make_pairs):
    draw = random.Random(11)
    lines = [event(draw, i) + f" u{draw.random()} {draw.randbytes(8).hex()}" for i in range(97)]
    report = make_pairs("\n".join(lines), "--split_punctuation", "--lowercase", "--mask", "USER=(?<=INFO )\\w+", name="a.log")
    text = " ".join(" ".join(pair) for pair in report["lines_made"])
    assert not re.search(r"\d", text)
    assert {"<time>", "<user>", "<address>", "<num>"} <= set(text.split())
    assert "<" not in text.split()


def test_no_pair_of_the_server_log_crosses_a_session(make_pairs):
    if not SHARED.is_dir():
        pytest.skip("the shared data are not here")
    lines = (SHARED / "hdfs_2k.log").read_text().splitlines()
    flags = ["--session", r"(blk_-?\d+)", "--valid_share", "0.2"]
    report = make_pairs("\n".join(lines), *flags, name="hdfs.log")
    assert len(report["lines_made"]) == len(expected_pairs(lines, r"blk_-?\d+", str)) == 6
    threads = make_pairs("\n".join(lines), "--session", r"^\d+ \d+ (\d+)", name="hdfs.log")
    assert len(threads["lines_made"]) == len(expected_pairs(lines, r"^\d+ \d+ (\d+)", str))
