"""Reports with all their parts, and how their pages are read back."""

import math
import sys
from html.parser import HTMLParser

VOID = {"meta", "br", "wbr", "link", "img", "input", "hr"}
POISON = "<script>alert('x')</script>"


class Page(HTMLParser):
    """A page taken apart; `faults` are tags that do not match and references to anything outside the file."""

    def __init__(self, content):
        super().__init__()
        self.open, self.faults, self.ids, self.words, self.tags = [], [], [], [], []
        self.feed(content)
        self.close()
        if self.open:
            self.faults.append(f"open at the end: {self.open}")

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.part(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            outside = name in ("src", "href", "xlink:href", "action", "srcset") and not value.startswith("#")
            if outside or name.startswith("on") or name.startswith("xmlns"):
                self.faults.append(f"{tag} {name}={value}")

    def handle_endtag(self, tag):
        self.part(tag)
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}>")

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.words.append(data)

    def part(self, tag):
        """Words on both sides of a tag are words of their own, unless it stands within a line."""
        self.words.append("" if tag in ("strong", "wbr") else " ")

    @property
    def text(self):
        return " ".join("".join(self.words).split())


def read_page(path):
    """The page as text and taken apart, after the checks that hold for every page."""
    with open(path, encoding="utf-8", newline="") as file:
        content = file.read()
    page = Page(content)
    assert page.faults == []
    assert len(page.ids) == len(set(page.ids))
    for word in ("http:", "https:", "//", "@import", "<script", "javascript:"):
        assert word not in content.replace(POISON, "").replace("run//x", ""), word
    references = [part.split(")")[0] for part in content.split("url(")[1:]]
    assert all(reference.startswith("#") and reference[1:] in page.ids for reference in references)
    return content, page


def make_log(n_entries=23, every=7, scale=1.0):
    """Curves that fall; every third entry is followed by one of held-out figures."""
    log = []
    for i in range(1, n_entries + 1):
        step, left = every * i, math.exp(-3 * i / n_entries)
        times = {"step": step, "epoch": step / 101, "elapsed_seconds": 1.5 * step}
        figures = {"loss": 3 + 5 * left, "mlm_loss": 2.5 + 5 * left, "nsp_loss": 0.5 + 0.2 * left}
        figures |= {"mlm_accuracy": 0.5 - 0.4 * left, "nsp_accuracy": 0.8 - 0.3 * left}
        speeds = {"learning_rate": 0.002 * left, "grad_norm": 1 + left, "tokens_per_second": 5e4 + i, "memory_bytes": 3 << 28}
        log.append({**times, **{name: scale * value for name, value in figures.items()}, **speeds})
        if i % 3 == 0:
            held_out = {f"eval_{name}": 1.1 * scale * value for name, value in figures.items()}
            log.append({**times, **held_out, "eval_unigram_loss": 6.61})
    return log


def make_report(**changed):
    report = {
        "ok": True,
        "stopped_by": "plan",
        "message": None,
        "settings": {"hidden": 128, "lr": 1e-05, "output_path": "run//x", "packing": False, "max_steps": None},
        "environment": {"library_version": "0.1.0", "python": sys.version, "device": "cpu", "n_threads": 2},
        "data": {"pairs": 20011, "unk_share": 0.0312},
        "summary": {"steps": 161, "elapsed_seconds": 738.2, "real_tokens_per_second": 54123.4, "peak_memory_bytes": 3 << 28},
        "log_history": make_log(),
        "samples": [
            {
                "text": f"the [MASK] ran {POISON}",
                "expected": "dog",
                "before": [["cat", 0.1], [POISON, 0.05]],
                "after": [["dog", 0.612]],
            }
        ],
        "warnings": ["the corpus is small"],
    }
    return {**report, **changed}
