"""Parts of a page that is one file: escaped text, tables, plots with legends, the style. Nothing is fetched from anywhere."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Mapping, Sequence

from ..errors import UnavailableError
from .report_plots import HEIGHT, WIDTH, Plot, draw, tick

DASH = "\u2013"
LONGEST = 2000
"""Characters of a value that the page shows."""
_SCRIPTLESS = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """
:root{color-scheme:light dark;--bg:#fff;--card:#f6f8fa;--ink:#1b1f24;--soft:#59636e;--line:#d1d9e0;--good:#116329;--bad:#b3261e;
--c1:#1f6fd1;--c2:#c2500a;--c3:#18794e;--c4:#7a3fd1;--c5:#bf2a72;--c6:#7d6008;--c7:#0b7285;--c8:#55606b}
@media (prefers-color-scheme:dark){:root{--bg:#0f1318;--card:#181e26;--ink:#e6eaef;--soft:#a5b0bb;--line:#343d47;--good:#5fd38d;
--bad:#ff8f86;--c1:#6cabf7;--c2:#f59a5c;--c3:#4fc98f;--c4:#b99af7;--c5:#f27fb6;--c6:#d8b550;--c7:#4fc4da;--c8:#b3bcc6}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1240px;padding:16px;background:var(--bg);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",Arial,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.5rem;line-height:1.25;margin:8px 0}
h2{font-size:1.15rem;margin:32px 0 8px}
h3{font-size:1rem;margin:0}
a{color:var(--c1)}
.verdict{font-size:1.1rem;font-weight:600;margin:8px 0;padding:10px 14px;background:var(--card);
border-left:5px solid var(--good)}
.verdict.bad{border-color:var(--bad)}
.verdict.bad strong{color:var(--bad)}.verdict strong{color:var(--good)}
.note,.about{color:var(--soft)}
.about{font-size:.875rem;margin:4px 0 0}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr));gap:16px}
figure{margin:0;padding:12px;background:var(--card);border-radius:8px;min-width:0}
svg{display:block;width:100%;height:auto}
svg *{stroke-linejoin:round;stroke-linecap:butt}
svg text{font-family:inherit}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:2px 16px;margin:4px 0;padding:0;font-size:.875rem}
.legend i{display:inline-block;width:22px;margin-right:6px;vertical-align:middle;border-top:3px solid}
.legend i.level{border-top-style:dashed;color:var(--soft)}
.tables{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr));gap:0 24px;align-items:start}
section{min-width:0}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.9375rem}
th,td{text-align:left;vertical-align:top;padding:5px 12px 5px 0;border-bottom:1px solid var(--line)}
tbody th{font-weight:400;color:var(--soft)}
.facts{table-layout:fixed}
.facts th{width:42%}
thead th{font-weight:600}
.wide th,.wide td{overflow-wrap:normal;min-width:5.5em}
.figures td{white-space:nowrap}
.words td{overflow-wrap:anywhere;min-width:9em}
td{font-variant-numeric:tabular-nums}
summary{cursor:pointer;padding:4px 0}
:focus-visible{outline:2px solid var(--c1);outline-offset:2px}
"""


def text(value: object) -> str:
    """Text for the inside of an element or an attribute; what HTML does not allow becomes a replacement character."""
    allowed = re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "\ufffd", str(value))
    if len(allowed) > LONGEST:
        allowed = f"{allowed[:LONGEST]} ... ({len(allowed) - LONGEST:,} more characters in report.json)"
    return html.escape(allowed)


def words(name: str) -> str:
    """A name such as `real_tokens_per_second`, which may break at its underscores."""
    return text(name).replace("_", "_<wbr>")


def figure(value: object, name: str = "") -> str:
    """A measured value for a reader, rounded, with the unit that its name tells; a dash where nothing was measured."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return DASH
    if isinstance(value, bool) or not isinstance(value, int | float):
        return plain(value)
    if name.endswith("_bytes"):
        return f"{value / (1 << 20):,.1f} MiB" if abs(value) < 1 << 30 else f"{value / (1 << 30):,.2f} GiB"
    if name.endswith(("_share", "_accuracy")):
        return f"{value:.1%}"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 10**15 else str(value)
    if name == "learning_rate" or not 1e-3 <= abs(value) < 1e9:
        return f"{value:.4g}"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}"


def plain(value: object) -> str:
    """A setting as it is, so that it can be copied; a dash where there is none."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return DASH
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {plain(each)}" for name, each in value.items()) or DASH
    if isinstance(value, list | tuple):
        return ", ".join(map(plain, value)) or DASH
    return str(value)


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "wide") -> str:
    """A table whose first column names its rows; it scrolls in its own box where the page is narrow. Cells are HTML."""
    lines = [f"<tr><th scope=row>{row[0]}</th>{''.join(f'<td>{cell}</td>' for cell in row[1:])}</tr>" for row in rows]
    tops = f"<thead><tr>{''.join(f'<th scope=col>{text(name)}</th>' for name in head)}</tr></thead>" if head else ""
    box = f'<div class="scroll" role="region" aria-label="{text(title)}" tabindex="0">'
    return f'{box}<table class="{kind}">{tops}<tbody>\n{chr(10).join(lines)}\n</tbody></table></div>'


def facts(values: Mapping[str, object], *, measured: bool = False) -> str:
    """A table of names and values."""
    rows = [(words(name), text(figure(value, name) if measured else plain(value))) for name, value in values.items()]
    body = "\n".join(f"<tr><th scope=row>{name}</th><td>{value}</td></tr>" for name, value in rows)
    return f'<table class="facts"><tbody>\n{body}\n</tbody></table>'


def section(title: str, body: str) -> str:
    """A part of a page under a heading."""
    name = re.sub(r"[^a-z]+", "-", title.lower())
    return f'<section aria-labelledby="{name}">\n<h2 id="{name}">{text(title)}</h2>\n{body}\n</section>'


def gallery(plots: Sequence[Plot], nothing: str) -> str:
    """Plots with their legends, or a line that says why there are none."""
    if not plots:
        return f'<p class="note">{text(nothing)}</p>'
    try:
        drawings = draw(plots)
    except (UnavailableError, ImportError, OSError) as error:
        # A report without plots is better than a run that fails at its end for want of a package, or of a whole one.
        return f'<p class="note">No plots: {text(error)}</p>'
    shown = [_shown(i, plot, drawing) for i, (plot, drawing) in enumerate(zip(plots, drawings, strict=True))]
    return '<div class="plots">\n' + "\n".join(shown) + "\n</div>"


def _shown(i: int, plot: Plot, drawing: str) -> str:
    abouts = [_about(line.label, line.points, plot.x_label) for line in plot.lines]
    legend = [
        f'<li><i style="color:var(--c{line.colour})" aria-hidden="true"></i>{text(line.label)}</li>' for line in plot.lines
    ]
    if plot.level is not None:
        legend.append(f'<li><i class="level" aria-hidden="true"></i>{text(plot.level[0])} {tick(plot.level[1])}</li>')
        abouts.append(f"{plot.level[0]}: {tick(plot.level[1])}")
    scale = " (logarithmic)" if plot.is_log else "" if plot.x_label == "step" else f" by {plot.x_label}"
    head = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="p{i}-title p{i}-desc">'
    names = f'<title id="p{i}-title">{text(plot.title)} by {text(plot.x_label)}</title>'
    names += f'<desc id="p{i}-desc">{text("; ".join(abouts))}</desc>'
    title = f"<h3>{text(plot.title + scale)}</h3>"
    key = f'<ul class="legend">{"".join(legend)}</ul>'
    about = "<br>".join(map(text, abouts))
    return f'<figure>{title}{key}\n{head}{names}\n{drawing}\n</svg>\n<p class="about">{about}</p></figure>'


def _about(label: str, points: Sequence[tuple[float, float]], unit: str) -> str:
    """A curve in words, for those who do not see it."""

    def place(x: float) -> str:
        return f"at step {x:,.0f}" if unit == "step" else f"at {tick(x)} {unit}"

    if len(points) == 1:
        return f"{label}: {tick(points[0][1])} {place(points[0][0])}"
    low, high = (choose(points, key=lambda point: point[1]) for choose in (min, max))
    ends = f"{tick(points[0][1])} to {tick(points[-1][1])}"
    return f"{label}: {ends}, lowest {tick(low[1])} {place(low[0])}, highest {tick(high[1])}"


def page(title: str, body: Iterable[str]) -> bytes:
    """A whole page as the bytes of its file."""
    parts = "\n".join(body)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_SCRIPTLESS}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{text(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
{parts}
</main>
</body>
</html>
""".encode()
