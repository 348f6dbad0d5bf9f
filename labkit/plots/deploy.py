"""The deploy timeline: what happens to workers laid over what happens to jobs, so that one can see which follows which.

Jobs are the sections of the workers' code; a job that is begun again was redelivered.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from labkit import Trace
from labkit.plots.canvas import canvas, write
from labkit.plots.figure import Picture, as_twin
from labkit.plots.style import ALARM_PAPER, CHARACTER, DARK_ALARM, FAINT, INK, PAPER, QUIET, look
from labkit.plots.timeline import Job, Mark, Timeline, timeline
from labkit.words import in_seconds

WIDTH, BAR, STRIP, GAP, MARGIN = 7.4, 0.28, 0.19, 0.2, 0.25  # inches
TICK = 0.75  # inches between two ticks, at least
MOST_LINES = 3  # of labels above or below a worker
SHORT_STEPS = tuple(ones * 10.0**power for power in range(-6, 0) for ones in (1, 2, 5))  # seconds between two ticks
STEPS = (*SHORT_STEPS, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_800, 3_600)
LEGEND = (
    "thin line: it polls; dots: it starts up · bar: a job, named by its section, with its worker's "
    "pattern; shaded, thick: begun once more",
    "bar that ends in ✗: it was killed in the middle · dot under a bar: an effect outside; ✗: the same effect again",
)
WINDOW_TEXT, SHADED = "1 to 3 minutes after SIGTERM", "#F0F0F0"
MARKERS = {"ready": "^", "SIGTERM": "v", "killed by it": "v", "SIGKILL": "X", "left": "s", "failed": "X"}


@matplotlib.rc_context(matplotlib.rcParamsDefault)
def deploy_timeline(trace: Trace) -> Picture:
    """Draw workers and jobs over time.

    Parameters
    ----------
    trace: an execution whose jobs are sections, such as `Rollout().run()` of `labkit.incidents.rollout`.
    """
    if not isinstance(trace, Trace):
        raise TypeError(f"a deploy timeline shows a trace, such as `Rollout().run()`, not {type(trace).__name__}")
    shown = timeline(trace)
    scale = _Scale(shown)
    rows = [_Row(shown, scale, worker) for worker in shown.workers]
    tops, y = [], MARGIN
    for row in rows:
        tops.append(y)
        y += row.height + GAP
    most = int((scale.width - 2 * MARGIN) / CHARACTER)
    told = textwrap.wrap(_told(shown), most)
    notes = [line for words in LEGEND for line in textwrap.wrap(words, most)]
    axis = y
    words_at = axis + (0.85 if shown.window else 0.55)
    figure, axes = canvas(scale.width, words_at + STRIP * (len(told) + len(notes) + 1))
    _draw_time(axes, shown, scale, MARGIN, axis)
    for top, row in zip(tops, rows, strict=True):
        row.draw(axes, top)
    for place, line in enumerate([*told, "", *notes]):
        ink, weight = (INK, "bold") if place < len(told) else (QUIET, "normal")
        write(axes, MARGIN, words_at + STRIP * place, line, color=ink, fontweight=weight)
    text = _text(shown)
    return Picture(figure, f"Deploy timeline of {len(shown.workers)} workers. {_told(shown)}", text, as_twin(text))


class _Scale:
    """Where a time stands."""

    def __init__(self, shown: Timeline) -> None:
        self.left = MARGIN + CHARACTER * (max(map(len, shown.workers)) + 3)
        self.inches = (WIDTH - self.left) / max(shown.seconds, 1e-6)
        self.width = WIDTH + 1.1

    def x(self, seconds: float) -> float:
        return self.left + seconds * self.inches


class _Label(NamedTuple):
    """A text at a place in a strip: the line in the strip, where its mark is, on which side, and what it belongs to."""

    line: int
    x: float
    is_left: bool
    mark: Mark


class _Row:
    """One worker: marks of its life above, jobs in the middle, effects below."""

    def __init__(self, shown: Timeline, scale: _Scale, worker: str) -> None:
        self.shown, self.scale, self.worker = shown, scale, worker
        self.style = look(shown.workers.index(worker))
        self.jobs = [job for job in shown.jobs if job.worker == worker]
        own = [mark for mark in shown.marks if mark.worker == worker]
        self.effects = [mark for mark in own if mark.kind in ("effect", "again")]
        self.ready = next((mark.seconds for mark in own if mark.kind == "ready"), shown.ends[worker])
        life = [mark for mark in own if mark.kind in MARKERS and (mark.kind != "ready" or mark.seconds)]
        self.above = self._stack(life)
        self.below = self._stack([mark for mark in own if mark.kind == "again"])
        self.height = BAR + STRIP * (_lines(self.above) + _lines(self.below)) + 0.1

    def _stack(self, marks: Sequence[Mark]) -> list[_Label]:
        """Labels in as many lines as they need so that none meets another; those that find no room have none."""
        ends: list[float] = []
        labels = []
        places = [self.scale.x(mark.seconds) for mark in marks]
        for mark, (x, following) in zip(marks, pairwise([*places, self.scale.width]), strict=True):
            room = CHARACTER * (len(mark.text) + 0.5)
            # On the left when the next mark stands in its way on the right.
            is_left = x + 0.1 + room > following - 0.05 and (ends or [self.scale.left])[0] <= x - 0.1 - room
            start = x - 0.1 - room if is_left else x + 0.1
            line = next((line for line, end in enumerate(ends) if end <= start), len(ends))
            if line < MOST_LINES and start + room <= self.scale.width:
                ends[line : line + 1] = [max(start + room, x + 0.1)]
                labels.append(_Label(line, x, is_left, mark))
        return labels

    def draw(self, axes: Axes, top: float) -> None:
        """Draw the row; `top` is its upper edge."""
        upper = top + STRIP * _lines(self.above)
        middle = upper + BAR / 2
        axes.plot([MARGIN], [middle], self.style.marker, color=self.style.color, markeredgecolor=INK, markersize=8)
        write(axes, MARGIN + 0.14, middle, self.worker, fontweight="bold")
        born, ready, gone = map(self.scale.x, (0, self.ready, self.shown.ends[self.worker]))
        axes.plot([born, ready], [middle] * 2, color=self.style.color, linestyle=(0, (1, 2)), linewidth=1.6)
        axes.plot([ready, gone], [middle] * 2, color=self.style.color, linewidth=1.8)
        for job in self.jobs:
            self._draw_job(axes, job, upper)
        lines = {label.mark: label.line for label in self.below}
        for effect in self.effects:
            again = effect.kind == "again"
            marker, color, size = ("x", DARK_ALARM, 7) if again else ("o", INK, 3.5)
            # Beside its label, if it has one: an effect of the job before may have taken place at the same time.
            y = upper + BAR + (0.07 + STRIP * (lines[effect] + 0.7) if effect in lines else 0.07)
            axes.plot(
                [self.scale.x(effect.seconds)], [y], marker, color=color, markersize=size, markeredgewidth=2, zorder=5
            )
        for line, at, is_left, mark in self.above:
            y = upper - STRIP * (line + 0.5)
            axes.plot([at, at], [y, middle], color=INK, linewidth=0.8, zorder=4)
            alarm = mark.kind in ("SIGKILL", "killed by it", "failed")
            face = DARK_ALARM if alarm else PAPER
            axes.plot([at], [y], MARKERS[mark.kind], markersize=7, markerfacecolor=face, markeredgecolor=INK, zorder=5)
            x, side = _beside(at, is_left)
            write(axes, x, y, mark.text, ha=side, bbox=_PAPER, zorder=3)
        for line, at, is_left, mark in self.below:
            y = upper + BAR + 0.07 + STRIP * (line + 0.7)
            x, side = _beside(at, is_left)
            write(axes, x, y, mark.text, ha=side, color=DARK_ALARM, fontweight="bold", bbox=_PAPER, zorder=3)

    def _draw_job(self, axes: Axes, job: Job, upper: float) -> None:
        x, end = self.scale.x(job.start), self.scale.x(job.end)
        again = job.attempt > 1
        face, edge, width = (ALARM_PAPER, DARK_ALARM, 2.2) if again else (PAPER, self.style.color, 1.4)
        stripe = min(0.12, end - x)
        for room, hatch in ((end - x, ""), (stripe, self.style.hatch)):
            bar = Rectangle((x, upper), room, BAR, facecolor=face, edgecolor=edge, linewidth=width, zorder=2)
            bar.set_hatch(hatch)
            axes.add_patch(bar)
        if job.ended == "killed":
            axes.plot([end], [upper + BAR / 2], "x", color=DARK_ALARM, markersize=10, markeredgewidth=2.6, zorder=6)
        words = f"{job.name} again" if again else job.name
        fitting = [text for text in (words, job.name) if CHARACTER * len(text) + stripe + 0.25 <= end - x]
        if fitting:
            write(axes, x + stripe + 0.06, upper + BAR / 2, fitting[0], zorder=3)


_PAPER = {"facecolor": PAPER, "edgecolor": "none", "pad": 0.5}


def _beside(x: float, is_left: bool) -> tuple[float, str]:
    """Where a label stands beside its mark, and which of its ends stands there."""
    return (x - 0.1, "right") if is_left else (x + 0.1, "left")


def _lines(labels: Sequence[_Label]) -> int:
    return 1 + max((label.line for label in labels), default=-1)


def _draw_time(axes: Axes, shown: Timeline, scale: _Scale, top: float, axis: float) -> None:
    """The axis of time, and a line through all rows for each moment of the deploy."""
    axes.plot([scale.x(0), scale.x(shown.seconds)], [axis, axis], color=INK, linewidth=1)
    hours = STEPS[-1] * math.ceil(TICK / (STEPS[-1] * scale.inches))
    step = next((step for step in STEPS if step * scale.inches >= TICK), hours)
    for place in range(int(shown.seconds / step + 1e-9) + 1):
        x = scale.x(place * step)
        axes.plot([x, x], [axis, axis + 0.06], color=INK, linewidth=1)
        write(axes, x, axis + 0.19, in_seconds(place * step), ha="center")
    if shown.window is not None:
        start, end = map(scale.x, shown.window)
        _draw_window(axes, start, end, top, axis)
    moments = {mark.seconds for mark in shown.marks if mark.kind in ("SIGTERM", "SIGKILL", "killed by it")}
    for moment in sorted(moments):
        axes.plot([scale.x(moment)] * 2, [top, axis], color=FAINT, linewidth=1.2, linestyle=(0, (4, 3)), zorder=0)


def _draw_window(axes: Axes, start: float, end: float, top: float, axis: float) -> None:
    """The minutes after the deploy in which jobs come back: shaded, with a bracket below."""
    axes.add_patch(Rectangle((start, top), end - start, axis - top, facecolor=SHADED, edgecolor="none", zorder=-1))
    y = axis + 0.34
    axes.plot([start, start, end, end], [y, y + 0.07, y + 0.07, y], color=INK, linewidth=1.2)
    middle, half = (start + end) / 2, CHARACTER * len(WINDOW_TEXT) / 2
    middle = max(min(middle, WIDTH + 1.0 - half), MARGIN + half)
    write(axes, middle, y + 0.18, WINDOW_TEXT, ha="center")


def _told(shown: Timeline) -> str:
    """What the picture shows, in a sentence or two."""
    names = sorted({job.name for job in shown.jobs})
    jobs = f"{len(names)} job{'s' * (len(names) > 1)}"
    begun = f"{jobs}, {len(shown.redelivered)} of them begun once more" if names else "No job"
    if not shown.repeated:
        return f"{begun}; no effect took place twice."
    first, last = shown.repeated[0].seconds, shown.repeated[-1].seconds
    when = f"at {in_seconds(first)}" if first == last else f"from {in_seconds(first)} to {in_seconds(last)}"
    stop = shown.told_to_stop
    after = f", {in_seconds(first - stop)} after the first SIGTERM" if stop is not None and first >= stop else ""
    count = len(shown.repeated)
    return f"{begun}; {count} effect{'s' * (count > 1)} took place again, {when}{after}{_in_window(shown)}."


def _in_window(shown: Timeline) -> str:
    """How many of the repeated effects took place in the window."""
    if shown.window is None:
        return ""
    start, end = shown.window
    inside = sum(start <= mark.seconds <= end for mark in shown.repeated)
    return f"; {inside} of them in the window of 1 to 3 minutes after it"


def _text(shown: Timeline) -> str:
    """Everything that happens, in order, a line each."""
    rows: list[tuple[float, int, str, str]] = []
    for job in shown.jobs:
        again = f", attempt {job.attempt}" if job.attempt > 1 else ""
        rows.append((job.start, 1, job.worker, f"{job.name} begins{again}"))
        if job.ended != "open":
            rows.append((job.end, 0, job.worker, f"{job.name} {'is cut off' if job.ended == 'killed' else 'ends'}"))
    rows += [(mark.seconds, 2, mark.worker, mark.text) for mark in shown.marks if mark.text]
    room = max(map(len, shown.workers))
    lines = [f"{in_seconds(seconds):>9}  {worker:<{room}}  {what}" for seconds, _, worker, what in sorted(rows)]
    return "\n".join([*lines, "", _told(shown)])
