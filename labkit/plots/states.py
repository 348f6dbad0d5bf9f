"""The state graph: every state of a scenario, and every choice between them.

The states stand in layers, by the number of choices on the shortest way to them, and each layer is ordered so that few
lines cross. Source: K. Sugiyama, S. Tagawa, M. Toda, "Methods for visual understanding of hierarchical system
structures", IEEE Transactions on Systems, Man, and Cybernetics 11 (1981); here its barycentre method alone. A library
would not help: networkx draws layers too, but does not order what stands in them.
"""

from __future__ import annotations

import textwrap
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch

from labkit import Choice, Schedule, explore
from labkit.errors import ScheduleError
from labkit.lab import Scenario
from labkit.plots.canvas import canvas, write
from labkit.plots.figure import Picture, as_twin
from labkit.plots.style import CHARACTER, DARK_ALARM, DASHES, INK, PAPER, QUIET, WIDEST, look
from labkit.properties import check_stated
from labkit.search.state_space import Edge, Node, StateSpace, state_space
from labkit.words import shorten

MOST_STATES = 150
SWEEPS = 8  # of ordering, downwards and upwards in turn
ACROSS, NARROWEST, DOWN, ROW, MARGIN, SAMPLE = 0.5, 0.32, 0.62, 0.21, 0.35, 0.5  # inches
MOST_CHARACTERS = 46  # of a step in the list beside
CLOCK, FAULT = "wide dots", "dash and dot"


def state_graph(
    scenario: Scenario,
    schedule: Schedule | str | None = None,
    property: str | None = None,
    *,
    seed: int = 0,
    **budgets: Any,
) -> Picture:
    """Draw every state of a small scenario, with one schedule as a thick line.

    Parameters
    ----------
    scenario: builds the world.
    schedule: the one to draw; if None, the shortest that violates the property, if there is one.
    property: the one whose counterexample is drawn; None for the first that is violated.
    seed: what everything random depends on.
    budgets: what may go wrong, as for `explore`.

    Raises `ScenarioError`, which says how many states there are, when they are more than 150, or when nobody states the
    property; and `ScheduleError` when the schedule does not fit the scenario within these budgets.
    """
    space = state_space(scenario, most=MOST_STATES, seed=seed, **budgets)
    if schedule is None:
        verdict = explore(scenario, seed=seed, **budgets)
        if property is not None:
            check_stated(property, verdict.properties)
        found = next((trace for name, trace in verdict.violations.items() if property in (None, name)), None)
        schedule = found.schedule if found is not None else ""
    wanted = Schedule.parse(schedule)
    fits = len(space.way(wanted))
    if fits < len(wanted):
        raise ScheduleError(f"choice {fits + 1}, `{wanted[fits]}`, is not possible within these budgets")
    return draw(space, wanted)


@matplotlib.rc_context(matplotlib.rcParamsDefault)
def draw(space: StateSpace, schedule: Schedule) -> Picture:
    """Draw states that have been found, and a schedule among them."""
    way = space.way(schedule)
    layers = _in_layers(space)
    widest = max(map(len, layers))
    legend = _legend(space, bool(way))
    steps = [shorten(f"{n:>2} {_what(edge)}", MOST_CHARACTERS) for n, edge in enumerate(way, 1)]
    across = max(NARROWEST, min(ACROSS, (WIDEST - 2 * MARGIN) / widest))
    room, bottom = max(across * widest, 1.2), MARGIN * 2 + DOWN * (len(layers) - 1)
    words = CHARACTER * (max(map(len, steps), default=0) + 4)
    samples = SAMPLE + CHARACTER * (max(len(line) for line, _, _ in legend) + 2)
    # The schedule and the legend stand beside the states, or below them where that would be too wide.
    x = MARGIN + room + 0.2
    is_beside = x + max(words, samples) <= WIDEST
    if is_beside:
        width, height = x + max(words, samples), max(bottom, ROW * (len(steps) + len(legend) + 3)) + 0.1
        told_at, legend_at = (x, MARGIN), (x, MARGIN + ROW * (len(steps) + bool(steps)))
    else:
        width, height = (
            max(2 * MARGIN + room, MARGIN + words + samples),
            bottom + ROW * max(len(steps), len(legend)) + 0.1,
        )
        told_at, legend_at = (MARGIN, bottom), (MARGIN + words * bool(steps), bottom)
    middle = (MARGIN + room / 2) if is_beside else width / 2
    places = {
        number: (middle + across * (place - (len(layer) - 1) / 2), MARGIN + DOWN * depth)
        for depth, layer in enumerate(layers)
        for place, number in enumerate(layer)
    }
    figure, axes = canvas(width, height)
    for edge in space.edges:
        _draw_edge(axes, space, edge, places, edge in way)
    for number, node in enumerate(space.nodes):
        _draw_node(axes, node, *places[number])
    _number_way(axes, way, places)
    for place, line in enumerate(steps):
        write(axes, told_at[0], told_at[1] + ROW * place, line, fontweight="bold")
    _draw_legend(axes, legend, *legend_at)
    text = _text(space, layers, way)
    return Picture(figure, _alt(space, layers, way), text, as_twin(text))


def _in_layers(space: StateSpace) -> list[list[int]]:
    """The states by layer, ordered so that those that belong together stand one below the other."""
    layers: list[list[int]] = [[] for _ in range(1 + max(node.layer for node in space.nodes))]
    for number, node in enumerate(space.nodes):
        layers[node.layer].append(number)
    neighbours: dict[tuple[int, int], list[int]] = {}
    for edge in space.edges:
        for one, other in ((edge.before, edge.after), (edge.after, edge.before)):
            neighbours.setdefault((one, space.nodes[other].layer), []).append(other)
    for sweep in range(SWEEPS):
        downwards = sweep % 2 == 0
        order = range(1, len(layers)) if downwards else range(len(layers) - 2, -1, -1)
        for depth in order:
            beside = depth - 1 if downwards else depth + 1
            at = {number: place - (len(layers[beside]) - 1) / 2 for place, number in enumerate(layers[beside])}
            middle = (len(layers[depth]) - 1) / 2
            wish = {}
            for place, number in enumerate(layers[depth]):
                found = [at[other] for other in neighbours.get((number, beside), ())]
                wish[number] = sum(found) / len(found) if found else place - middle
            layers[depth].sort(key=wish.__getitem__)
    return layers


def _what(edge: Edge) -> str:
    """What a choice does, and whose step it is."""
    if edge.choice.kind == "step":
        return f"{edge.choice}: {edge.text}"
    return "time passes" if edge.choice.kind == "clock" else str(edge.choice)


def _draw_edge(
    axes: Axes, space: StateSpace, edge: Edge, places: dict[int, tuple[float, float]], is_drawn: bool
) -> None:
    one, other = places[edge.before], places[edge.after]
    level = other[1] <= one[1]  # sideways or back: a bow, since others stand in between
    color, dashes = _line(space, edge.choice)
    arrow = FancyArrowPatch(
        one,
        other,
        arrowstyle="-|>,head_length=3.2,head_width=1.6",
        connectionstyle=f"arc3,rad={0.35 if level else 0}",
        shrinkA=6,
        shrinkB=6,
        color=INK if is_drawn else color,
        linestyle=DASHES["solid" if is_drawn else dashes],
        linewidth=3 if is_drawn else 1,
        zorder=2 if is_drawn else 1,
    )
    axes.add_patch(arrow)
    if edge.broken:
        middle = ((one[0] + other[0]) / 2, (one[1] + other[1]) / 2)
        axes.plot(*middle, "x", color=DARK_ALARM, markersize=7, markeredgewidth=2.2, zorder=5)


def _line(space: StateSpace, choice: Choice) -> tuple[str, str]:
    """The colour and the dashes of a choice."""
    if choice.kind == "step" and choice.process is not None:
        style = look(space.workers.index(choice.process))
        return style.color, style.dashes
    return (QUIET, CLOCK) if choice.kind == "clock" else (DARK_ALARM, FAULT)


def _draw_node(axes: Axes, node: Node, x: float, y: float) -> None:
    marker = "s" if node.is_end else "o"
    face = DARK_ALARM if node.broken else PAPER
    axes.plot([x], [y], marker, markersize=12, markerfacecolor=face, markeredgecolor=INK, markeredgewidth=1, zorder=4)
    if node.broken:
        axes.plot([x], [y], "x", color=PAPER, markersize=6, markeredgewidth=1.8, zorder=5)


def _number_way(axes: Axes, way: list[Edge], places: dict[int, tuple[float, float]]) -> None:
    """The number of each step of the schedule, beside the state that it leads to; the last where it comes back."""
    for after, step in {edge.after: step for step, edge in enumerate(way, 1)}.items():
        x, y = places[after]
        from_right = places[way[step - 1].before][0] > x
        where, side = (x - 0.12 if from_right else x + 0.12, y - 0.1), "right" if from_right else "left"
        paper = {"facecolor": PAPER, "edgecolor": "none", "pad": 0.6}
        write(axes, *where, str(step), ha=side, fontweight="bold", fontsize=8, bbox=paper, zorder=6)


def _draw_legend(axes: Axes, legend: list[tuple[str, str, str]], x: float, top: float) -> None:
    for place, (line, dashes, color) in enumerate(legend):
        y = top + ROW * place
        if dashes:
            axes.plot([x, x + SAMPLE - 0.1], [y, y], color=color, linestyle=DASHES[dashes], linewidth=1.6)
        write(axes, x + SAMPLE, y, line)


def _legend(space: StateSpace, has_way: bool) -> list[tuple[str, str, str]]:
    """Lines, each with the dashes and the colour of a sample, or without."""
    lines = [
        (f"{name}: {look(index).dashes}", look(index).dashes, look(index).color)
        for index, name in enumerate(space.workers)
    ]
    kinds = {edge.choice.kind for edge in space.edges}
    faults = ", ".join(sorted(kinds - {"step", "clock"}))
    lines += [(f"time passes: {CLOCK}", CLOCK, QUIET)] if "clock" in kinds else []
    lines += [(f"{faults}: {FAULT}", FAULT, DARK_ALARM)] if faults else []
    words = ["circle: a state, square: an end"]
    words += ["dark, ✗: a property does not hold"] if any(node.broken for node in space.nodes) else []
    words += ["✗ on a line: the step breaks one"] if any(edge.broken for edge in space.edges) else []
    words += ["thick, numbered: the schedule"] if has_way else []
    return lines + [(line, "", INK) for line in words]


def _summary(space: StateSpace, layers: list[list[int]]) -> str:
    broken = sum(bool(node.broken) for node in space.nodes)
    breaking = sum(bool(edge.broken) for edge in space.edges)
    ends = sum(node.is_end for node in space.nodes)
    by_steps = f" {breaking} choices break one." if breaking else ""
    return (
        f"{len(space.nodes)} states and {len(space.edges)} choices in {len(layers)} layers; {ends} states are ends, "
        f"in {broken} a property does not hold.{by_steps}"
    )


def _of_the_way(way: list[Edge]) -> str:
    steps = "; ".join(f"{place} {_what(edge)}" for place, edge in enumerate(way, 1))
    return f"The schedule drawn: {steps}." if way else "No schedule is drawn."


def _alt(space: StateSpace, layers: list[list[int]], way: list[Edge]) -> str:
    return f"State graph: {_summary(space, layers)} {shorten(_of_the_way(way), 600).rstrip('.')}."


def _text(space: StateSpace, layers: list[list[int]], way: list[Edge]) -> str:
    """Every state with where its choices lead."""
    lines = [_summary(space, layers), *textwrap.wrap(_of_the_way(way), 110, subsequent_indent="  "), ""]
    leading: dict[int, list[str]] = {}
    for edge in space.edges:
        broken = f" (breaks {', '.join(edge.broken)})" if edge.broken else ""
        leading.setdefault(edge.before, []).append(f"  {_what(edge)} -> state {edge.after}{broken}")
    for layer in layers:
        for number in sorted(layer):
            node = space.nodes[number]
            notes = ["an end"] if node.is_end else []
            notes += [f"{name!r} does not hold" for name in node.broken]
            lines.append(f"state {number}, layer {node.layer}" + "".join(f", {note}" for note in notes))
            lines += leading.get(number, [])
    return "\n".join(lines)
