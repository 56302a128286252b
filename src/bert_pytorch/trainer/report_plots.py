"""Plots of a report as SVG for the inside of a page: no ids, colours or fonts that meet those of the page or of one another."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from ..extras import import_extra
from .report_curves import MAX_POINTS, Point, thin

WIDTH, HEIGHT = 460, 240
"""Units of a plot. It is shown 340 to 600 pixels wide, so that its letters of 13 units stay readable."""
N_COLOURS = 8
FEW = 40
"""Up to so many points each has a mark of its own: an evaluation a pass, or a single point, would not be seen else."""
_SPINES, _GRID, _INK = "#fe0091", "#fe0092", "#fe0093"
_COLOURS = {_SPINES: "--soft", _GRID: "--line", _INK: "--soft", **{f"#fe00a{i}": f"--c{i}" for i in range(1, N_COLOURS + 1)}}
"""Colours that occur nowhere else, and the variables of the page that take their places: it may be light or dark."""


class Line(NamedTuple):
    """A curve with its name; `colour` counts from 1 to `N_COLOURS`."""

    label: str
    points: Sequence[Point]
    colour: int = 1


class Plot(NamedTuple):
    """What is drawn together. `level` is a dashed line across, for instance what chance gives."""

    title: str
    lines: Sequence[Line]
    level: tuple[str, float] | None = None
    x_label: str = "step"
    is_log: bool = False


def draw(plots: Sequence[Plot]) -> list[str]:
    """The SVG drawings of some plots, without their outer element, the same bytes at each call.

    Ids are those of the plot's place, `p0-`, `p1-` and so on.

    Raises:
        UnavailableError: matplotlib is not installed.
    """
    matplotlib = import_extra("matplotlib", "matplotlib")
    # The settings of this moment are put back afterwards; those of the user's own file do not change a report.
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({"svg.fonttype": "none", "font.size": 13, "axes.xmargin": 0.02})
        drawings = []
        for i, plot in enumerate(plots):
            matplotlib.rcParams["svg.hashsalt"] = f"p{i}"
            drawings.append(_for_the_page(_drawing(plot), f"p{i}-"))
        return drawings


def tick(value: float, digits: int = 4) -> str:
    """A number in as few letters as an axis has room for."""
    for least, size, unit in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if least <= abs(value) < 1e13:
            return f"{value / size:.{digits}g}{unit}"
    return f"{value:.{digits}g}"


def _digits(low: float, high: float) -> int:
    """Digits that tell the marks of an axis from one another, four or more: 488.301 and 488.302 are both 488.3."""
    if not high > low:
        return 4
    return min(9, max(4, 2 + math.ceil(math.log10(max(abs(low), abs(high)) / (high - low)))))


def _drawing(plot: Plot) -> str:
    """What matplotlib makes of a plot: a whole SVG file."""
    ticker = import_extra("matplotlib.ticker", "matplotlib")
    figure = import_extra("matplotlib.figure", "matplotlib").Figure(figsize=(WIDTH / 72, HEIGHT / 72), dpi=72)
    canvas = import_extra("matplotlib.backends.backend_svg", "matplotlib").FigureCanvasSVG(figure)
    figure.patch.set_visible(False)
    axes = figure.add_axes((0.15, 0.19, 0.83, 0.775))
    axes.patch.set_visible(False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(_SPINES)
    axes.tick_params(color=_SPINES, labelcolor=_INK)
    axes.grid(axis="y", color=_GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel(plot.x_label, color=_INK)
    if plot.is_log:
        axes.set_yscale("log")
    if plot.level is not None:
        axes.axhline(plot.level[1], color=_INK, linewidth=1.4, linestyle=(0, (5, 3)))
    for line in plot.lines:
        x, y = zip(*thin(line.points), strict=True)
        mark = {"marker": "o", "markersize": 4} if len(x) <= FEW else {}
        axes.plot(
            x,
            y,
            color=f"#fe00a{line.colour}",
            linewidth=1.6 if len(x) < MAX_POINTS / 2 else 1.0,
            solid_joinstyle="round",
            **mark,
        )
    steps = [1, 2, 2.5, 5, 10]
    axes.xaxis.set_major_locator(ticker.MaxNLocator(5, steps=steps, integer=plot.x_label == "step"))
    if not plot.is_log:
        axes.yaxis.set_major_locator(ticker.MaxNLocator(5, steps=steps))
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    for axis in (axes.xaxis, axes.yaxis):
        digits = _digits(*axis.get_view_interval())
        axis.set_major_formatter(ticker.FuncFormatter(lambda value, _, digits=digits: tick(value, digits)))
    buffer = io.BytesIO()
    # No date, no name of the program: two writes of one report are equal.
    canvas.print_svg(buffer, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return buffer.getvalue().decode("utf-8")


def _for_the_page(text: str, prefix: str) -> str:
    """The inside of an SVG file with ids that begin with `prefix`, the colours and letters of the page, shorter numbers."""
    text = text[text.index(">", text.index("<svg")) + 1 : text.rindex("</svg>")]
    text = re.sub(r"<metadata>.*?</metadata>|<style\b.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{prefix}', text)
    text = text.replace("url(#", f"url(#{prefix}").replace('xlink:href="#', f'href="#{prefix}')
    # Older versions write `font: 12px 'DejaVu Sans'`, newer ones the family apart.
    text = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", text)
    text = re.sub(r"font-family: [^;\"]*;? ?", "", text)
    for colour, variable in _COLOURS.items():
        text = text.replace(colour, f"var({variable})")
    return re.sub(r'(?<= d=")[^"]*(?=")', lambda path: _rounded(path[0]), text).strip()


def _rounded(path: str) -> str:
    """A path with two decimals, on one line: a hundredth of a unit is not seen."""
    short = re.sub(r"\d+\.\d{3,}", lambda found: f"{float(found[0]):.2f}", path)
    return " ".join(short.split())
