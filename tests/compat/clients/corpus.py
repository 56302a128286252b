"""The corpus of the clients: 13 pairs of texts, 18 words beside the five specials, so V = 23."""

PAIRS = [
    ("the fox runs ", " the fox sleeps"),
    ("a dog sees the fox ", " it runs to a river"),
    ("the dog barks ", " a fox barks"),
    ("birds sing ", " the dog sleeps now"),
    ("the river sleeps ", " no dog swims there"),
    ("a fox swims ", " birds sing there"),
    ("it sleeps ", " the fox runs now"),
    ("the dog runs to the river ", " it barks"),
    ("no fox barks ", " the dog barks"),
    ("birds sees a dog ", " birds sing now"),
    ("the cold fox sleeps ", " the dog sees it"),
    ("a river runs ", " a dog runs there"),
    ("now birds sing ", " the fox sees birds"),
]


def write_pairs(name, pairs=PAIRS, encoding="utf-8"):
    """One pair a line, parted by one tab, each line ended."""
    with open(name, "w", encoding=encoding) as file:
        file.write("".join(f"{first}\t{second}\n" for first, second in pairs))
    return name
