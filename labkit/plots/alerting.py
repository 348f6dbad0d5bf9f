"""Alerts over time: when each rule was pending and when it fired, under what happened to the workers."""

from __future__ import annotations

import textwrap

import matplotlib
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from labkit.observe.alerting import Alerts
from labkit.observe.rules import Alert
from labkit.plots.canvas import canvas, write
from labkit.plots.figure import Picture, as_twin
from labkit.plots.style import ALARM_PAPER, CHARACTER, DARK_ALARM, FAINT, INK, PAPER, QUIET
from labkit.words import in_seconds

WIDTH, ROW, BAR, MARGIN, STRIP = 8.6, 0.34, 0.2, 0.2, 0.19  # inches
STEPS = (10, 30, 60, 120, 300, 600, 1_800, 3_600)  # seconds between two ticks
LEGEND = "hatched: pending, until the rule has held for long enough · dark, with the second at which it began: fires"
_MARKERS = {"polls": "^", "SIGTERM": "v", "killed": "X", "drained": "s"}


@matplotlib.rc_context(matplotlib.rcParamsDefault)
def alert_timeline(found: Alerts) -> Picture:
    """Draw alerts over time.

    Parameters
    ----------
    found: what `labkit.observe.alerts` gives.
    """
    left = MARGIN + CHARACTER * (max((len(rule.name) for rule in found.rules), default=0) + 2)
    inches = (WIDTH - MARGIN - left) / max(found.seconds, 1)
    groups = _groups(found)
    lines = _lines(groups, left, inches)
    top = MARGIN + STRIP * (1 + max(lines, default=0)) + 0.1
    axis = top + ROW * len(found.rules) + 0.05
    told = _told(found)
    bold = textwrap.wrap(told, int((WIDTH - 2 * MARGIN) / CHARACTER) - 4)
    words = [*bold, "", *textwrap.wrap(LEGEND, int((WIDTH - 2 * MARGIN) / CHARACTER) - 4)]
    figure, axes = canvas(WIDTH, axis + 0.55 + STRIP * (len(words) + 0.5))
    for (seconds, label, marker), line in zip(groups, lines, strict=True):
        x, y = left + seconds * inches, MARGIN + STRIP * line
        axes.plot([x, x], [y, axis], color=QUIET, linewidth=0.9, linestyle=(0, (4, 3)), zorder=0)
        axes.plot([x], [y], marker, color=PAPER, markeredgecolor=INK, markersize=6, zorder=5)
        write(axes, x + 0.09, y, label, bbox=_PAPER, zorder=3)
    for place, rule in enumerate(found.rules):
        y = top + ROW * (place + 0.5)
        axes.plot([left, WIDTH - MARGIN], [y, y], color=FAINT, linewidth=0.8, zorder=0)
        states = found.states[rule.name]
        fires = rule.name in found.fired
        write(axes, MARGIN, y, rule.name, fontweight="bold" if fires else "normal", color=INK if fires else QUIET)
        for alert in states:
            _draw(axes, alert, y, left, inches)
        if not states:
            write(axes, left + 0.1, y, "silent", color=QUIET, bbox=_PAPER, zorder=1)
    _draw_time(axes, found.seconds, left, inches, axis)
    for place, line_ in enumerate(words):
        strong = place < len(bold)
        y = axis + 0.55 + STRIP * place
        write(axes, MARGIN, y, line_, color=INK if strong else QUIET, fontweight="bold" if strong else "normal")
    text = found.table()
    return Picture(figure, f"Alert timeline of {len(found.rules)} rules. {told}", text, as_twin(text))


_PAPER = {"facecolor": PAPER, "edgecolor": "none", "pad": 0.5}


def _groups(found: Alerts) -> list[tuple[float, str, str]]:
    """What happened to workers, those with the same word shortly after each other together: second, label, marker."""
    groups: list[tuple[float, str, str]] = []
    last: dict[str, tuple[float, int]] = {}
    for seconds, worker, word in found.marks:
        before = last.get(word)
        if before is not None and seconds - before[0] <= 10:
            at, label, marker = groups[before[1]]
            groups[before[1]] = (at, f"{label}, {worker}", marker)
            continue
        last[word] = (seconds, len(groups))
        groups.append((seconds, f"{word}: {worker}", _MARKERS[word]))
    return groups


def _lines(groups: list[tuple[float, str, str]], left: float, inches: float) -> list[int]:
    """A line for each label, so that none meets another."""
    ends: list[float] = []
    lines = []
    for seconds, label, _ in groups:
        x = left + seconds * inches
        line = next((line for line, end in enumerate(ends) if end <= x), len(ends))
        ends[line : line + 1] = [x + CHARACTER * (len(label) + 3)]
        lines.append(line)
    return lines


def _draw(axes: Axes, alert: Alert, y: float, left: float, inches: float) -> None:
    fired = alert.until if alert.fired is None else alert.fired
    for start, end, firing in ((alert.since, fired, False), (fired, alert.until, True)):
        if firing and alert.fired is None:
            continue
        room = max(end - start, 4 if firing else 0) * inches
        face, edge = (DARK_ALARM, DARK_ALARM) if firing else (ALARM_PAPER, DARK_ALARM)
        bar = Rectangle((left + start * inches, y - BAR / 2), room, BAR, facecolor=face, edgecolor=edge, zorder=2)
        bar.set_hatch("" if firing else "////")
        axes.add_patch(bar)
        label = in_seconds(start)
        if not firing:
            continue
        if CHARACTER * (len(label) + 1) <= room:
            write(axes, left + start * inches + 0.06, y, label, color=PAPER, fontweight="bold", zorder=3)
        else:
            write(axes, left + start * inches + room + 0.06, y, label, fontweight="bold", zorder=3, bbox=_PAPER)


def _draw_time(axes: Axes, seconds: float, left: float, inches: float, axis: float) -> None:
    axes.plot([left, left + seconds * inches], [axis, axis], color=INK, linewidth=1)
    step = next((step for step in STEPS if step * inches >= 0.75), STEPS[-1])
    for tick in range(0, int(seconds) + 1, step):
        x = left + tick * inches
        axes.plot([x, x], [axis, axis + 0.06], color=INK, linewidth=1)
        write(axes, x, axis + 0.19, f"{tick} s", ha="center")


def _told(found: Alerts) -> str:
    """What the picture shows, in a sentence or two."""
    if not found.fired:
        return "No alert fires."
    fired = ", ".join(f"{name} from {in_seconds(seconds)}" for name, seconds in found.fired.items())
    return f"Fires: {fired}. Silent: {', '.join(found.silent) or 'none'}."
