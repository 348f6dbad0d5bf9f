"""A figure measured in inches, from the top left corner, so that the room of everything is known before it is drawn."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from labkit.plots.style import FONT_SIZE, INK, MONOSPACE, PAPER, QUIET, Shade


def canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """An empty figure, and axes that fill it: one unit is an inch, and y grows downwards."""
    figure = Figure(figsize=(width, height), facecolor=PAPER)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    axes.set_axis_off()
    return figure, axes


def write(axes: Axes, x: float, y: float, text: str, **style: object) -> None:
    """Set text in a font of fixed width, vertically centred; dollars in it are dollars and begin no formula."""
    style = {"fontfamily": MONOSPACE, "fontsize": FONT_SIZE, "color": INK, "va": "center", **style}
    axes.text(x, y, text, parse_math=False, **style)  # type: ignore[arg-type]


def area(axes: Axes, x: float, y: float, width: float, height: float, shade: Shade) -> None:
    """A rectangle of one kind, with an outline; x and y are its upper left corner."""
    # `add_patch` would also fit the axes' limits to it, which takes most of the time of a large grid.
    axes.add_artist(
        Rectangle(
            (x, y), width, height, facecolor=shade.face, edgecolor=shade.line, hatch=shade.hatch, linewidth=0, zorder=0
        )
    )
    axes.add_artist(Rectangle((x, y), width, height, fill=False, edgecolor=QUIET, linewidth=0.6, zorder=0.5))


def symbol(axes: Axes, x: float, y: float, shade: Shade) -> None:
    """The symbol of a kind of area, around a point; nothing for a kind that has none."""
    if shade.symbol:
        write(axes, x, y, shade.symbol, color=shade.ink, ha="center", fontsize=8, fontweight="bold", zorder=1)
