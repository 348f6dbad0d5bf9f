"""The progress graph: one worker's steps to the right, the other's upwards; every schedule is a staircase.

Source: see `labkit.search.progress_map`, which says what is to be shaded.
"""

from __future__ import annotations

from itertools import pairwise

import matplotlib
from matplotlib.axes import Axes

from labkit import Event, Schedule, Trace, explore, replay
from labkit.lab import Scenario
from labkit.plots.canvas import symbol
from labkit.plots.figure import Picture, as_twin
from labkit.plots.grid import Entry, Grid, Point, as_letters, sentence
from labkit.plots.style import ABSENT, CALM, INK, PAPER, UNSURE, WORSE, WORST
from labkit.search.progress_map import BROKEN, DEPENDS, DOOMED, OPEN, ProgressMap, progress_map
from labkit.words import steps

UNREACHED = "unreached"
SHADES = {BROKEN: WORST, DOOMED: WORSE, DEPENDS: UNSURE, OPEN: CALM, UNREACHED: ABSENT}
WORDS = {
    BROKEN: "broken, whichever way you came",
    DOOMED: "doomed: nothing prevents it any more",
    DEPENDS: "depends on the way you came",
    OPEN: "can still go well",
    UNREACHED: "no schedule comes here",
}
LETTERS = {BROKEN: "✗", DOOMED: "!", DEPENDS: "?", OPEN: "·", UNREACHED: " "}
Way = list[tuple[Point, Event | None]]


def progress_graph(
    scenario: Scenario,
    schedule: Schedule | str | None = None,
    property: str | None = None,
    *,
    pauses: int | None = 0,
    seed: int = 0,
) -> Picture:
    """Draw what can still happen after so many steps of each of two workers, and one schedule as a staircase.

    Parameters
    ----------
    scenario: builds the world; it has two workers.
    schedule: the one to draw; if None, the shortest that violates the property, if there is one.
    property: the one that the picture is about; None for all of them.
    pauses: how often time may pass while a worker could step, as for `explore`. There are no faults.
    seed: what everything random depends on.

    Raises `ScenarioError` when there are not two workers, too many steps for a picture, or no such property, and
    `ScheduleError` when the schedule does not fit the scenario.
    """
    points = progress_map(scenario, property, pauses=pauses, seed=seed)
    if schedule is None:
        violations = explore(scenario, pauses=pauses, signals=0, seed=seed).violations
        found = next((trace for name, trace in violations.items() if property in (None, name)), None)
        schedule = found.schedule if found is not None else None
    trace = None if schedule is None else replay(scenario, schedule, seed=seed)
    return draw(points, trace, property)


@matplotlib.rc_context(matplotlib.rcParamsDefault)
def draw(points: ProgressMap, trace: Trace | None, property: str | None = None) -> Picture:
    """Draw a map that has been made, and a trace on it."""
    way = _way(points, trace)
    broken = _broken(way, trace, property)
    reached = [*points.points, *(point for point, _ in way)]
    columns, rows = max(column for column, _ in reached), max(row for _, row in reached)
    texts = _labels(points, trace, 0, columns), _labels(points, trace, 1, rows)
    everywhere = [(column, row) for column in range(columns + 1) for row in range(rows + 1)]
    fates = {point: points.points.get(point, UNREACHED) for point in everywhere}
    there = [fate for fate in SHADES if fate in fates.values()]
    grid = Grid(points.workers, texts, _legend(there, way, broken, property))
    figure, axes = grid.draw()
    for point, fate in fates.items():
        grid.fill(axes, point, SHADES[fate])
        symbol(axes, grid.x(point[0]) + 0.1, grid.y(point[1] + 1) + 0.1, SHADES[fate])
    if way:
        _draw_way(axes, grid, way, broken)
    told = _of_the_trace(grid, trace, broken)
    words = [f"{LETTERS[fate]} {WORDS[fate]}" for fate in there if fate != UNREACHED]
    letters = as_letters(grid, {point: LETTERS[fate] for point, fate in fates.items()})
    text = "\n".join([*letters, "", *words, "", *told])
    return Picture(figure, _alt(grid, points, told), text, as_twin(text))


def _labels(points: ProgressMap, trace: Trace | None, worker: int, count: int) -> list[str]:
    """The steps of a worker, as the drawn trace has them; where it has none, as most states do."""
    texts = list(points.steps[worker])
    drawn = [event.text for event in (trace.events if trace else ()) if _stepper(event) == points.workers[worker]]
    texts[: len(drawn)] = drawn
    return texts[:count]


def _stepper(event: Event) -> str | None:
    """The worker that takes a step, if the event is one."""
    return event.choice.process if event.choice.kind in ("step", "lose") else None


def _way(points: ProgressMap, trace: Trace | None) -> Way:
    """The points that a trace comes to: the start, and then one for each event."""
    column, row = 0, 0
    way: Way = [((0, 0), None)] if trace is not None else []
    for event in trace.events if trace is not None else ():
        column += _stepper(event) == points.workers[0]
        row += _stepper(event) == points.workers[1]
        way.append(((column, row), event))
    return way


def _broken(way: Way, trace: Trace | None, property: str | None) -> list[Point]:
    """The points at which the drawn schedule breaks a property that the picture is about."""
    violations = trace.violations if trace is not None else ()
    numbers = {found.number for found in violations if property in (None, found.property)}
    return list(dict.fromkeys(way[number][0] for number in sorted(numbers)))


def _legend(there: list[str], way: Way, broken: list[Point], property: str | None) -> list[Entry]:
    entries = [Entry(WORDS[fate], SHADES[fate]) for fate in there]
    if way:
        entries.append(Entry("line: one schedule, from the square"))
    else:
        entries.append(Entry("no line: no schedule breaks it"))
    kinds = {event.kind for _, event in way if event is not None}
    if "clock" in kinds:
        entries.append(Entry("diamond: time passes there"))
    if any(event is not None and event.choice.is_fault for _, event in way):
        entries.append(Entry("cross in a frame: a fault"))
    if broken:
        entries.append(Entry("large ✗: the step that breaks it"))
    about = "every property" if property is None else property
    return [*entries, sentence(f"About: {about}")]


def _draw_way(axes: Axes, grid: Grid, way: Way, broken: list[Point]) -> None:
    middles = [grid.middle(point) for point, _ in way]
    xs, ys = [x for x, _ in middles], [y for _, y in middles]
    for color, width, order in ((PAPER, 5.0, 3), (INK, 2.2, 4)):
        axes.plot(xs, ys, color=color, linewidth=width, zorder=order, solid_joinstyle="miter")
    for (x, y), (to_x, to_y) in pairwise(dict.fromkeys(middles)):
        where, head = ([(x + to_x) / 2], [(y + to_y) / 2]), ">" if to_x > x else "^"
        axes.plot(*where, head, color=INK, markersize=6, markeredgecolor=PAPER, markeredgewidth=0.7, zorder=5)
    axes.plot(*middles[0], "s", color=INK, markersize=6, zorder=5)
    for middle, (_, event) in zip(middles, way, strict=True):
        if event is not None and event.kind == "clock":
            axes.plot(*middle, "D", markerfacecolor=PAPER, markeredgecolor=INK, markersize=7, zorder=6)
        elif event is not None and event.choice.is_fault:
            axes.plot(*middle, "X", markerfacecolor=PAPER, markeredgecolor=INK, markersize=9, zorder=6)
    for point in broken:
        axes.plot(*grid.middle(point), "x", color=PAPER, markersize=11, markeredgewidth=5, zorder=7)
        axes.plot(*grid.middle(point), "x", color=INK, markersize=10, markeredgewidth=2.6, zorder=8)


def _of_the_trace(grid: Grid, trace: Trace | None, broken: list[Point]) -> list[str]:
    """The drawn schedule, and where it breaks something."""
    if trace is None:
        return ["No schedule is drawn."]
    one, other = grid.workers
    told = [f"It breaks after {steps(column)} of {one} and {steps(row)} of {other}." for column, row in broken]
    return [
        f"The schedule drawn: {trace.schedule}",
        *(told or ["It breaks nothing." if trace.over else "It breaks nothing so far; it stops midway."]),
    ]


def _alt(grid: Grid, points: ProgressMap, told: list[str]) -> str:
    one, other = grid.workers
    counts = [sum(fate == wanted for fate in points.points.values()) for wanted in (BROKEN, DOOMED, DEPENDS)]
    return (
        f"Progress graph of {one}, up to {grid.columns} steps to the right, and {other}, up to {grid.rows} upwards. "
        f"Of {len(points.points)} points that schedules reach: broken {counts[0]}, doomed {counts[1]}, depending on "
        f"the way {counts[2]}. " + " ".join(f"{line.rstrip('.')}." for line in told)
    )
