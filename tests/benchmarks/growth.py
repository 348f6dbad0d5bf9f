"""How cost grows with workers and with steps, beside the number of schedules that there are."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

from labkit import explore
from labkit.engine import Engine, State
from labkit.interception import intercepted
from labkit.plots.style import BLUE, GREEN, INK, PAPER, QUIET, VERMILLION
from tests.benchmarks.cases import Scenario, own_keys
from tests.programs import naive_lock

WORKERS, STEPS = (2, 3, 4, 5, 6), (2, 4, 8, 16, 32, 64)


class Point(NamedTuple):
    """A scenario of one size: the number of its schedules and of its states, and the G that the search took."""

    size: int
    schedules: int
    states: int
    cost: float


LOOKS = {  # by a point's field: colour, marker, line style and words
    "schedules": (VERMILLION, "^", "--", "schedules"),
    "states": (BLUE, "o", "-", "states"),
    "cost": (GREEN, "s", "-.", "cost in G"),
}


def number_of_schedules(scenario: Scenario) -> int:
    """How many schedules a scenario without cycles has: the ways through its states, counted once per state."""
    with intercepted():
        engine = Engine(scenario)

        @cache
        def ways(state: State) -> int:
            return sum(ways(move.state) for move in engine.moves(state)) or 1

        try:
            return ways(engine.start)
        finally:
            engine.close()


def measure(size: int, scenario: Scenario, one_get: float) -> Point:
    """One point of a curve; the fastest of three searches."""
    verdict = min((explore(scenario) for _ in range(3)), key=lambda verdict: verdict.seconds)
    return Point(size, number_of_schedules(scenario), verdict.states, verdict.seconds / one_get)


def curves(one_get: float) -> dict[str, list[Point]]:
    """The points by what grows."""
    workers = [measure(count, naive_lock("ABCDEF"[:count]), one_get) for count in WORKERS]
    steps = [measure(count, own_keys(count), one_get) for count in STEPS]
    return {"workers (check-then-set lock)": workers, "steps of each of 2 workers (keys of their own)": steps}


def table(found: dict[str, list[Point]]) -> None:
    """The points as text."""
    for what, points in found.items():
        print(f"\n{what:50}{'schedules':>14}{'states':>10}{'G':>10}")
        for point in points:
            print(f"{point.size:<50}{_short(point.schedules):>14}{point.states:>10,}{point.cost:>10,.0f}")


def _short(number: int) -> str:
    return f"{number:,}" if number < 10**9 else f"{number:.1e}"


def plot(found: dict[str, list[Point]], path: str) -> None:
    """The points as a picture: logarithmic, with each curve's name at its end."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.6), layout="constrained")
    for place, (what, points) in enumerate(found.items(), 1):
        _panel(figure.add_subplot(1, len(found), place), what, points, doubling=place > 1)
    figure.suptitle("How many schedules and states there are, and what the search costs", fontsize=12, color=INK)
    figure.savefig(path, dpi=150)


def _panel(axes: Any, what: str, points: list[Point], doubling: bool) -> None:
    sizes = [point.size for point in points]
    top = 10.0 * max(point.schedules for point in points)
    ends = {field: max(1.0, float(getattr(points[-1], field))) for field in LOOKS}
    heights = _spread(ends, least=0.055 * math.log10(top))
    for field, (color, marker, line, words) in LOOKS.items():
        values = [float(getattr(point, field)) for point in points]
        axes.plot(sizes, values, color=color, marker=marker, linestyle=line, linewidth=1.8, markersize=6)
        place = (sizes[-1], 10 ** heights[field])
        text = f"{words} {_power(ends[field])}"
        paper = {"facecolor": PAPER, "edgecolor": "none", "pad": 1}
        axes.annotate(text, place, (11, 0), textcoords="offset points", va="center", color=INK, fontsize=9, bbox=paper)
    axes.set_yscale("log")
    axes.set_ylim(1, top)
    if doubling:
        axes.set_xscale("log", base=2)
    axes.set_xlim(sizes[0] * 0.9 if doubling else sizes[0] - 0.2, sizes[-1] * 7 if doubling else sizes[-1] + 2.1)
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.minorticks_off()
    axes.set_xlabel(what, color=INK)
    axes.set_ylabel("number; cost: multiples of one GET (log scale)", color=INK)
    axes.grid(axis="y", color="#E4E4E4", linewidth=0.8)
    axes.tick_params(colors=QUIET)
    axes.spines[["top", "right"]].set_visible(False)


def _spread(ends: dict[str, float], least: float) -> dict[str, float]:
    """Where labels stand, as powers of ten: at their curves' ends, but so far apart that none covers another."""
    heights: dict[str, float] = {}
    for field in sorted(ends, key=lambda field: ends[field]):
        heights[field] = max(math.log10(ends[field]), max(heights.values(), default=-math.inf) + least)
    return heights


def _power(number: float) -> str:
    """A number, or from a billion on the power of ten that it comes to."""
    if number < 10**9:
        return f"{number:,.0f}"
    power = math.floor(math.log10(number))
    return f"${number / 10**power:.1f} \\times 10^{{{power}}}$"
