"""Generated texts of the tasks, each a function of a seed: logs, proteins, tickets, sentences with entities, stories."""

from __future__ import annotations

import random

AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"
PLACES = ("billing", "login", "search", "upload", "export", "mail", "backup", "chart")
KINDS = {
    "incident": (
        "is down since {time}",
        "fails with error {code}",
        "crashed again after the update",
        "hangs and then times out",
    ),
    "request": ("please add {n} seats for {place}", "we would like access to {place}", "could you raise the limit to {n}"),
    "praise": ("works very well now thank you", "is much faster since {time} great job", "the new {place} page is lovely"),
}
NAMES = ("anna", "boris", "carla", "david", "elena", "felix", "greta", "hugo", "irene", "jonas")
CITIES = ("lisbon", "oslo", "prague", "quito", "riga", "sofia", "turin", "utrecht", "vienna", "warsaw")


def log_session(draws: random.Random, number: int) -> list[str]:
    """The lines of one transfer in a storage service, in order."""
    block, host = (
        f"blk_{draws.randrange(10**9, 10**10)}",
        f"10.{draws.randrange(256)}.{draws.randrange(256)}.{draws.randrange(256)}",
    )
    stamp = f"2026-03-{1 + number // 400 % 28:02d} {number // 60 % 24:02d}:{number % 60:02d}"
    size, port = draws.randrange(1000, 9_000_000), draws.randrange(1024, 65536)
    lines = [
        f"INFO gateway accepted connection from {host}:{port}",
        f"INFO allocator reserved block {block} of {size} bytes on volume {draws.randrange(16)}",
        f"INFO writer started writing block {block} with 3 replicas",
        f"INFO replica acknowledged block {block} after {draws.randrange(900)} ms",
        f"INFO writer finished block {block} checksum 0x{draws.randrange(1 << 32):08x}",
        f"INFO gateway closed connection from {host}:{port}",
    ]
    if draws.random() < 0.2:
        lines.insert(4, f"WARN replica slow for block {block} retrying on volume {draws.randrange(16)}")
    if draws.random() < 0.1:
        lines[4:] = [f"INFO reader served block {block} to {host}:{port}", lines[-1]]
    return [f"{stamp}:{draws.randrange(60):02d}.{draws.randrange(1000):03d} {line}" for line in lines]


def log_lines(seed: int, n_lines: int) -> list[str]:
    """A log of sessions, one behind the other."""
    draws, lines = random.Random(seed), []
    for number in range(n_lines):
        lines += log_session(draws, number)
        if len(lines) >= n_lines:
            break
    return lines[:n_lines]


def odd_lines(seed: int, lines: list[str], n: int) -> list[str]:
    """Lines that do not belong into a log: its words in disorder, another program's, and mixed-up statements."""
    draws, odd = random.Random(seed), []
    foreign = (
        "ERROR kernel oom killer chose process mysqld score {}",
        "CRITICAL auth root login without password from terminal {}",
        "DEBUG compiler folded constant expression in unit {}",
    )
    for i in range(n):
        words = draws.choice(lines).split()
        if i % 3 == 0:
            tail = words[2:]
            draws.shuffle(tail)
            odd.append(" ".join(words[:2] + tail))
        elif i % 3 == 1:
            odd.append(" ".join([*words[:2], draws.choice(foreign).format(draws.randrange(100))]))
        else:
            other = draws.choice(lines).split()
            odd.append(" ".join([*words[:2], "ERROR", *other[-3:], *words[3:5], "lost", "quorum"]))
    return odd


def proteins(seed: int, n: int) -> list[tuple[str, str]]:
    """Names and sequences in which each letter follows from the two before it in seven of ten places."""
    rules, draws = random.Random(1), random.Random(seed)
    after = {a + b: rules.choice(AMINO_ACIDS) for a in AMINO_ACIDS for b in AMINO_ACIDS}
    made = []
    for i in range(n):
        letters = [draws.choice(AMINO_ACIDS), draws.choice(AMINO_ACIDS)]
        while len(letters) < 40 + draws.randrange(60):
            letters.append(after[letters[-2] + letters[-1]] if draws.random() < 0.7 else draws.choice(AMINO_ACIDS))
        made.append((f"sp|Q{i:05d}|GEN_{draws.randrange(10**4)}", "".join(letters)))
    return made


def tickets(seed: int, n: int) -> list[tuple[str, str]]:
    """Texts of users, and what kind each is."""
    draws, rows = random.Random(seed), []
    for _ in range(n):
        kind = draws.choice(sorted(KINDS))
        place, values = draws.choice(PLACES), {"n": draws.randrange(2, 90), "code": draws.randrange(400, 600)}
        said = draws.choice(KINDS[kind]).format(place=place, time=draws.choice(("monday", "noon", "today")), **values)
        opening = draws.choice(("hello", "hi team", "dear support", "good morning", "fyi"))
        rows.append((f"{opening} {place} {said} ref {draws.randrange(10**5)}", kind))
    return rows


def tagged(seed: int, n: int) -> list[list[tuple[str, str]]]:
    """Sentences as words and tags: people and cities, told by where they stand as much as by the word."""
    draws, sentences = random.Random(seed), []
    for _ in range(n):
        person, city, other = draws.choice(NAMES), draws.choice(CITIES), draws.choice(NAMES)
        parts = draws.choice(
            (
                f"{person}/B-PER flew/O to/O {city}/B-LOC with/O {other}/B-PER",
                f"the/O train/O from/O {city}/B-LOC was/O late/O said/O {person}/B-PER",
                f"in/O {city}/B-LOC {person}/B-PER met/O {other}/B-PER at/O noon/O",
                f"{person}/B-PER {other}/I-PER lives/O near/O {city}/B-LOC station/O",
                "nobody/O came/O to/O the/O meeting/O on/O friday/O",
            )
        )
        sentences.append([(word, tag) for word, _, tag in (part.rpartition("/") for part in parts.split())])
    return sentences


def stories(seed: int, n: int) -> list[list[str]]:
    """Documents of four sentences; person, animal and colour stay the same within one."""
    draws, made = random.Random(seed), []
    animals, colours = ("horse", "goat", "duck", "cow", "dog", "mule"), ("grey", "black", "spotted", "tan", "cream", "dun")
    for _ in range(n):
        name, animal, colour = draws.choice(NAMES), draws.choice(animals), draws.choice(colours)
        made.append(
            [
                f"at dawn {name} fed the {colour} {animal} behind the barn",
                f"the {colour} {animal} followed {name} down to the river",
                f"near the water {name} washed the {animal} until its {colour} coat shone",
                f"in the evening {name} led the {colour} {animal} home",
            ]
        )
    return made
