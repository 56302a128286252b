#!/usr/bin/env python3
"""Ranks that `score.py` gives to odd lines planted in a server log, after a short training on that log.

Twenty lines are planted: a third have the words of a real message in another order, a third have a word or three of a real
message replaced by words of another language, the rest are lines of other programs' logs. The model is trained on the log
without them (`without`), and on the log with them in it (`with`), as where nobody knows which lines are odd. Both are then
asked for a ranking of the log with them in it, by the bundle's own scripts and default settings.

    python benchmarks/odd_lines.py --log FILE [--seeds 1 2] [--threads 1] [--rank_by perplexity] [--output PREFIX]

The last line is JSON: `ok` is whether all planted lines are among the first 40; `--output PREFIX` writes it to PREFIX.json, and
a table to PREFIX.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

BUNDLE = Path(__file__).resolve().parents[1]
PAIRS = BUNDLE / "skills/data-preparation/scripts/make_pairs.py"
SCORE = BUNDLE / "skills/inference-and-export/scripts/score.py"
VOCAB = "import sys; from bert_pytorch.cli import build_vocab; sys.exit(build_vocab(sys.argv[1:]))"
TRAINING = "--objective mlm -hs 64 -l 2 -a 4 -s 64 -b 32 -e 20 --lr 0.002 --device cpu --log_freq 1000000"
N_PLANTED, N_FIRST = 20, 40
WAYS = ("without", "with")
KINDS = ("shuffled", "foreign", "another log")
FOREIGN = """
abend apfel bahnhof brunnen dorf fenster garten himmel kirsche laterne morgen nebel orgel pflaume regen schatten tisch
ufer vogel wolke zucker arbre bougie chemin dimanche escalier fleur gateau horloge jardin lapin maison neige oiseau
papillon rivage soleil tonnerre usine vague aceituna bosque camino fuego gallina hermano iglesia juguete lluvia manzana
naranja pueblo queso sombrero ventana zapato
""".split()
ANOTHER_LOG = """Dec 10 06:55:48 web3 sshd[24200]: Failed password for invalid user oracle from 10.9.8.7 port 38926 ssh2
Dec 10 07:07:38 web3 sshd[24206]: Received disconnect from 10.9.8.7: 11: Bye Bye [preauth]
Jul  1 09:00:55 desk kernel[0]: en0: link speed changed to 1000 Mbps, flow control off
Jul  1 09:02:12 desk loginwindow[94]: session ended by user, screen locked
10.4.1.9 - - [12/Mar/2021:07:21:03 +0100] "GET /images/logo.png HTTP/1.1" 404 512 "-" "Mozilla/5.0"
10.4.1.9 - bob [12/Mar/2021:07:21:09 +0100] "POST /login HTTP/1.1" 302 0 "-" "curl/7.68.0"
2021-03-12 07:21:03,114 ERROR [http-nio-8080-exec-4] o.a.c.c.StandardWrapperValve: Servlet threw exception
2021-03-12 07:22:45,901 WARN [pool-2-thread-1] c.z.h.pool.HikariPool: Thread starvation or clock leap detected
[Sun Dec 04 04:47:44 2005] [error] mod_jk child workerEnv in error state 6
[Sun Dec 04 04:51:08 2005] [notice] caught SIGTERM, shutting down
1117838570 2005.06.03 R02-M1-N0 RAS KERNEL INFO instruction cache parity error corrected
1117842440 2005.06.03 R23-M0-NE RAS APP FATAL ciod: failed to read message prefix on control stream
2017-05-16 00:00:04.500 2931 INFO nova.compute.manager [req-3ea4052c] VM Started (Lifecycle Event)
2017-05-16 00:00:10.284 2931 WARNING nova.virt.libvirt.imagecache [req-addc1839] Unknown base file: /var/lib/nova/a489c8
16-03-18 00:09:36.123 1702 2395 D WindowManager: printFreezingDisplayLogs opening app wtoken
[10.30 16:49:06] chrome.exe - proxy.example.org:5070 close, 0 bytes sent, 0 bytes received, lifetime 00:01
postgres[811]: LOG: checkpoint complete: wrote 74 buffers (0.5%); 0 transaction log files added
mysqld: InnoDB: page cleaner took 4721ms to flush 200 pages; the settings might not be optimal
dhclient[3172]: DHCPREQUEST on eth0 to 192.168.1.1 port 67 (xid=0x6cf3ae62)
CRON[9021]: (root) CMD ( cd / && run-parts --report /etc/cron.hourly )""".splitlines()
"""Written for this file, in the forms of well-known programs."""


def odd_line(kind: str, number: int, lines: list[str], draw: random.Random) -> str:
    """One odd line; no line of the log."""
    if kind == "another log":
        return ANOTHER_LOG[number % len(ANOTHER_LOG)]
    while True:
        # Date, time, process, level and component stay; the words of the message change.
        words = draw.choice(lines).split()
        head, message = words[:5], words[5:]
        if kind == "shuffled":
            changed = draw.sample(message, len(message))
        else:
            changed = list(message)
            for place in draw.sample(range(len(message)), min(len(message), draw.randint(1, 3))):
                changed[place] = draw.choice(FOREIGN)
        # A shuffle that moves one word, or numbers alone, may be a line like all others.
        if sum(one != other for one, other in zip(changed, message, strict=True)) >= (3 if kind == "shuffled" else 1):
            return " ".join([*head, *changed])


def plant(lines: list[str], seed: int) -> tuple[list[str], dict[int, str]]:
    """The log with odd lines in it; by number of a planted line, counted from 1, its kind."""
    draw = random.Random(seed)
    others = draw.sample(range(len(ANOTHER_LOG)), N_PLANTED)
    odd = [(KINDS[i % 3], odd_line(KINDS[i % 3], others[i], lines, draw)) for i in range(N_PLANTED)]
    places = sorted(draw.sample(range(len(lines) + N_PLANTED), N_PLANTED))
    planted = {place + 1: kind for place, (kind, _) in zip(places, odd, strict=True)}
    new, rest = iter(text for _, text in odd), iter(lines)
    return [next(new) if i in planted else next(rest) for i in range(1, len(lines) + N_PLANTED + 1)], planted


def call(folder: Path, n_threads: int, *words: str) -> dict[str, Any]:
    """A command of the bundle; its closing JSON."""
    environment = {**os.environ, "PYTHONPATH": str(BUNDLE / "src"), "OMP_NUM_THREADS": str(n_threads)}
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words[:2])}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def rank(lines: list[str], seed: int, way: str, args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Prepare, train, score; where the planted lines stand."""
    whole, planted = plant(lines, seed)
    (folder / "whole.log").write_text("\n".join(whole) + "\n", encoding="utf-8")
    known = whole if way == "with" else lines
    (folder / "known.log").write_text("\n".join(known) + "\n", encoding="utf-8")
    n = args.threads
    call(folder, n, str(PAIRS), "--input", "known.log", "--output", "log", "--log", "--single", "--valid_share", "0")
    call(folder, n, "-c", VOCAB, "-c", "log.train.txt", "-o", "vocab.json")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    files = ["-c", "log.train.txt", "-v", "vocab.json", "-o", "model", "--seed", str(seed)]
    trained = call(folder, n, "-m", "bert_pytorch", *files, *TRAINING.split())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    model = ["--model", trained["checkpoint"], "--vocab_path", "vocab.json", "--input", "whole.log", "--output", "ranked.jsonl"]
    scored = call(folder, n, str(SCORE), *model, "--log", "--rank_by", args.rank_by, "--device", "cpu")
    rows = [json.loads(line) for line in (folder / "ranked.jsonl").read_text(encoding="ascii").splitlines()]
    ranks: dict[str, list[int]] = {kind: [] for kind in KINDS}
    for row in rows:
        if row["line"] in planted:
            ranks[planted[row["line"]]].append(row["rank"])
    worst = max(max(found) for found in ranks.values())
    before_it = [row["text"] for row in rows[:worst] if row["line"] not in planted]
    return {
        "worst": worst,
        "ranks": ranks,
        "real_lines_before": len(before_it),
        "first_real_lines": [text[:160] for text in before_it[:5]],
        "last_planted": rows[worst - 1]["text"],
        "train_loss": trained["train_loss"],
        "training_cpu_minutes": (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) / 60,
        "score_seconds": scored["elapsed_seconds"],
    }


def table_of(report: dict[str, Any]) -> str:
    """The report as Markdown."""
    head = f"{report['lines']} lines, {N_PLANTED} planted, by {report['rank_by']}: the last rank of a planted line, by kind."
    rows = ["", f"| seed | trained | {' | '.join(KINDS)} | CPU minutes |", f"|---|---|{'---|' * len(KINDS)}---|"]
    for name, run in report["runs"].items():
        seed, way = name.split()
        worst = " | ".join(str(max(run["ranks"][kind])) for kind in KINDS)
        rows.append(f"| {seed} | {way} them | {worst} | {run['training_cpu_minutes']:.1f} |")
    return "\n".join([head, *rows]) + "\n"


def main() -> int:
    """Every seed both ways."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--log", required=True, metavar="FILE", help="hdfs_2k.log of loghub, or a log of its form")
    add("--seeds", type=int, nargs="+", default=[1, 2], help="of planting and of training (1 2)")
    add("--ways", choices=WAYS, nargs="+", default=list(WAYS), help="train on the log with the odd lines, or without (both)")
    add("--threads", type=int, default=1, help="threads of torch (1)")
    add("--rank_by", default="perplexity", help="as of score.py (perplexity)")
    add("--output", metavar="PREFIX", help="write PREFIX.json, PREFIX.md")
    args = parser.parse_args()
    lines = Path(args.log).read_text(encoding="utf-8").splitlines()
    runs: dict[str, dict[str, Any]] = {}
    for seed in args.seeds:
        for way in args.ways:
            with tempfile.TemporaryDirectory() as folder:
                run = runs[f"{seed} {way}"] = rank(lines, seed, way, args, Path(folder))
            minutes = run["training_cpu_minutes"]
            print(f"seed {seed}, {way}: last at {run['worst']}, {minutes:.1f} CPU minutes", file=sys.stderr, flush=True)
    ok = all(run["worst"] <= N_FIRST for run in runs.values())
    report = {"ok": ok, "lines": len(lines), "rank_by": args.rank_by, "training": TRAINING, "runs": runs}
    if args.output:
        Path(f"{args.output}.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        Path(f"{args.output}.md").write_text(table_of(report), encoding="utf-8")
    print(json.dumps(report))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
