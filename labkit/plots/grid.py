"""A grid of two workers' steps: one worker's to the right, the other's upwards, each line between cells a step."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from labkit.errors import ScenarioError
from labkit.plots.canvas import area, canvas, symbol, write
from labkit.plots.style import CHARACTER, INK, QUIET, WIDEST, Shade, look
from labkit.words import shorten

Point = tuple[int, int]

MOST_STEPS = 40  # of one worker
MOST_CHARACTERS = 34  # of a step at its axis
CELL, SMALL_CELL, ROW, GAP, TOP = 0.42, 0.24, 0.19, 0.08, 0.45  # inches
WIDEST_LINE = 46  # characters of the legend
LARGE = 16  # steps, from which on cells are small


class Entry(NamedTuple):
    """A sentence of the legend, in lines, with a sample of what it explains if that is an area."""

    words: str
    shade: Shade | None = None


class Grid:
    """Where everything stands, in inches.

    Parameters
    ----------
    workers: the two workers: to the right, and upwards.
    steps: the texts of their steps, one for each line between two cells.
    legend: what is written beside.
    """

    def __init__(
        self, workers: tuple[str, str], steps: tuple[Sequence[str], Sequence[str]], legend: Sequence[Entry]
    ) -> None:
        self.workers, self.legend = workers, legend
        most = max(map(len, steps))
        if most > MOST_STEPS:
            raise ScenarioError(f"a grid shows at most {MOST_STEPS} steps of a worker; here one takes {most}")
        self.columns, self.rows = map(len, steps)
        self.steps = [[shorten(f"{n} {text}", MOST_CHARACTERS) for n, text in enumerate(each, 1)] for each in steps]
        self.cell = CELL if most <= LARGE else SMALL_CELL
        longest = CHARACTER * max([len(text) for text in self.steps[1]] + [len(name) + 14 for name in workers])
        below = [CHARACTER * (len(text) + 1) - self.cell * n for n, text in enumerate(self.steps[0], 1)]
        self.left = 0.3 + max([longest, *below])
        self.bottom = TOP + self.cell * (self.rows + 1)
        self._place_legend()

    def _place_legend(self) -> None:
        """The legend stands beside the cells, or below them where that would be too wide."""
        lines = [len(line) + (4 if entry.shade else 0) for entry in self.legend for line in entry.words.splitlines()]
        room, high = CHARACTER * (max(lines) + 2), ROW * len(lines) + GAP * len(self.legend)
        right, under = self.x(self.columns + 1), self.bottom + ROW * (self.columns + 2)
        is_beside = right + 0.3 + room <= WIDEST
        self.legend_at = (right + 0.3, TOP) if is_beside else (0.15, under + GAP)
        self.width = right + 0.3 + room if is_beside else max(right + 0.2, 0.15 + room)
        self.height = max(under, self.legend_at[1] + high) + 0.1

    def x(self, column: int) -> float:
        """The left edge of a column."""
        return self.left + self.cell * column

    def y(self, row: int) -> float:
        """The lower edge of a row."""
        return self.bottom - self.cell * row

    def middle(self, point: Point) -> tuple[float, float]:
        """The middle of a cell."""
        return self.x(point[0]) + self.cell / 2, self.y(point[1]) - self.cell / 2

    def points(self) -> list[Point]:
        """All cells."""
        return [(column, row) for column in range(self.columns + 1) for row in range(self.rows + 1)]

    def draw(self) -> tuple[Figure, Axes]:
        """A figure with the axes and the legend."""
        figure, axes = canvas(self.width, self.height)
        self._name(axes, TOP / 2, 1, "upwards")
        for row, text in enumerate(self.steps[1], 1):
            write(axes, self.left - 0.08, self.y(row), text, ha="right")
            axes.plot([self.left - 0.06, self.left], [self.y(row)] * 2, color=QUIET, linewidth=0.8)
        self._name(axes, self.bottom + ROW * (self.columns + 1.4), 0, "to the right")
        for column, text in enumerate(self.steps[0], 1):
            # To the left of its leader, so that no leader crosses a text.
            x, y = self.x(column), self.bottom + ROW * column
            axes.plot([x, x, x - 0.05], [self.bottom, y, y], color=QUIET, linewidth=0.8)
            write(axes, x - 0.08, y, text, ha="right")
        x, y = self.legend_at[0], self.legend_at[1] + ROW / 2
        for words, shade in self.legend:
            if shade is not None:
                area(axes, x, y - 0.1, 0.2, 0.2, shade)
                symbol(axes, x + 0.1, y, shade)
            for line in words.splitlines():
                write(axes, x + (0.3 if shade else 0), y, line)
                y += ROW
            y += GAP
        return figure, axes

    def fill(self, axes: Axes, point: Point, shade: Shade) -> None:
        """Shade a cell."""
        area(axes, self.x(point[0]), self.y(point[1]) - self.cell, self.cell, self.cell, shade)

    def _name(self, axes: Axes, y: float, index: int, where: str) -> None:
        style = look(index)
        axes.plot([0.15], [y], style.marker, color=style.color, markeredgecolor=INK, markersize=8)
        write(axes, 0.29, y, f"{self.workers[index]}, {where}", fontweight="bold")


def sentence(text: str) -> Entry:
    """A sentence of the legend, in as many lines as it needs."""
    return Entry(textwrap.fill(text, WIDEST_LINE))


def as_letters(grid: Grid, letters: dict[Point, str]) -> list[str]:
    """The cells as lines of text, the uppermost first, and the steps at the axes."""
    room = max(map(len, letters.values())) + 2
    lines = [
        f"{row:>3} | " + "".join(f"{letters[column, row]:<{room}}" for column in range(grid.columns + 1)).rstrip()
        for row in range(grid.rows, -1, -1)
    ]
    lines.append("      " + "".join(f"{column:<{room}}" for column in range(grid.columns + 1)).rstrip())
    one, other = grid.workers
    lines += ["", f"{one}, to the right:", *(f"  {step}" for step in grid.steps[0])]
    return [*lines, f"{other}, upwards:", *(f"  {step}" for step in grid.steps[1])]
