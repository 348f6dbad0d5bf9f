"""A figure measured in inches, from the top left corner, so that the room of everything is known before it is drawn."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from labkit.plots.style import FONT_SIZE, INK, MONOSPACE, PAPER


def canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """An empty figure, and axes that fill it: one unit is an inch, and y grows downwards."""
    figure = Figure(figsize=(width, height), facecolor=PAPER)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    axes.set_axis_off()
    return figure, axes


def write(axes: Axes, x: float, y: float, text: str, **style: object) -> None:
    """Set text in a font of fixed width, vertically centred."""
    style = {"fontfamily": MONOSPACE, "fontsize": FONT_SIZE, "color": INK, "va": "center", **style}
    axes.text(x, y, text, **style)  # type: ignore[arg-type]
