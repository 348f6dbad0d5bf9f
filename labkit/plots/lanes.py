"""The lane diagram: steps downwards, one lane per worker, one for Redis, one for the outside world.

Downwards, because each row then holds one command in full width and no two labels can meet.
"""

from __future__ import annotations

import matplotlib
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from labkit.plots.canvas import canvas, write
from labkit.plots.figure import Picture
from labkit.plots.intervals import Interval
from labkit.plots.page import (
    BAR,
    HEADER,
    LEGEND_ROW,
    LIFE_BAR,
    PADDING,
    ROW,
    TITLES,
    Page,
    broken_text,
    effect,
    label,
    line,
    number_and_time,
)
from labkit.plots.style import (
    ALARM,
    ALARM_PAPER,
    DARK_ALARM,
    FAINT,
    FONT_SIZE,
    INK,
    PAPER,
    QUIET,
    look,
)
from labkit.trace import Event, Trace
from labkit.words import shorten, steps

MOST_IN_ALT = 300  # characters of a step in the alternative text
LISTED_IN_ALT = 15  # longer traces are summarised in the alternative text


@matplotlib.rc_context(matplotlib.rcParamsDefault)
def lanes(trace: Trace, source: bool = False) -> Picture:
    """Draw an execution.

    Parameters
    ----------
    trace: what happened.
    source: whether to show the line of code beside each step.
    """
    page = Page(trace, source)
    figure, axes = canvas(page.width, page.height)
    _draw_lanes(axes, page)
    for interval in page.bars:
        _draw_bar(axes, page, interval)
    for interval in page.lives:
        _draw_life(axes, page, interval)
    for place, broken in enumerate(page.set_up):
        y = HEADER + ROW * (place + 0.5)
        _draw_alarm(axes, page, y, 1)
        write(axes, 0.1, y, "set-up", color=QUIET, zorder=4)
        write(axes, page.gutter, y, broken, color=DARK_ALARM, fontweight="bold", bbox=_paper([broken]), zorder=4)
    for event in trace.events:
        _draw_event(axes, page, event, source)
    _draw_legend(axes, page)
    return Picture(figure, alt_text(trace), trace.table(source))


def _draw_lanes(axes: Axes, page: Page) -> None:
    write(axes, 0.1, HEADER / 2, "step   time", color=QUIET)
    for worker in page.trace.actors:
        x, style = page.marker_at(worker), look(page.trace.index_of(worker))
        axes.plot([x], [HEADER / 2], style.marker, color=style.color, markeredgecolor=INK, markersize=8)
        write(axes, x + 0.14, HEADER / 2, page.title_of(worker), fontweight="bold")
        axes.plot([x, x], [HEADER, page.lane_end(worker)], color=style.color, linewidth=1.6, zorder=1)
    for store, x in page.stores.items():
        write(axes, x, HEADER / 2, TITLES[store], fontweight="bold")
        axes.plot([x, x], [HEADER, page.bottom], color=FAINT, linewidth=1.6, zorder=1)
        for number, names in page.names_at(store).items():
            where = x + page.names_room(store), page.rows[number]
            paper = _paper(page.broken_by(page.trace.events[number - 1]))
            write(axes, *where, names, fontsize=FONT_SIZE - 1, bbox=paper, zorder=3)
    if page.has_outside:
        write(axes, page.outside, HEADER / 2, "outside", fontweight="bold")
        axes.plot([page.outside, page.outside], [HEADER, page.bottom], color=FAINT, linewidth=1.6, zorder=1)
    axes.plot([0.05, page.width - 0.05], [HEADER - 0.05] * 2, color=INK, linewidth=0.8)


def _draw_bar(axes: Axes, page: Page, interval: Interval) -> None:
    """What a worker believes: it holds a lock (hatched), is in a section (plain) or in a transaction (empty)."""
    assert interval.worker is not None
    style = look(page.trace.index_of(interval.worker))
    top, height = page.span(interval)
    hatch = style.hatch if interval.kind == "hold" else ""
    face = style.color if interval.kind == "section" else PAPER
    corner = page.bar_at(interval), top
    axes.add_patch(Rectangle(corner, BAR, height, facecolor=face, edgecolor=style.color, hatch=hatch, zorder=2))


def _draw_life(axes: Axes, page: Page, interval: Interval) -> None:
    """A key that will expire or a message that is hidden, in its store's lane, looking like the worker that did it."""
    style = look(page.look_of_life(interval))
    top, height = page.span(interval)
    corner = page.life_at(interval), top
    box = Rectangle(corner, LIFE_BAR, height, facecolor=PAPER, edgecolor=style.color, hatch=style.hatch, zorder=2)
    axes.add_patch(box)


def _draw_event(axes: Axes, page: Page, event: Event, source: bool) -> None:
    y = page.rows[event.number]
    broken = page.broken_by(event)
    if broken:
        _draw_alarm(axes, page, y, 1 + page.extra(event))
    write(axes, 0.1, y, number_and_time(event), color=QUIET)
    if event.worker is None:
        axes.plot(
            [page.gutter, page.width - PADDING], [y, y], color=INK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1
        )
        write(axes, page.label_at(event), y, label(event), bbox=_paper(broken), zorder=4, fontweight=_weight(event))
    else:
        _draw_step(axes, page, event, y)
    if source and event.line is not None:
        write(axes, page.label_at(event), y + ROW * 0.9, line(event), color=QUIET, bbox=_paper(broken), zorder=4)
    for place, name in enumerate(broken, 1 + page.extra(event) - len(broken)):
        where = page.label_at(event), y + ROW * place
        write(axes, *where, broken_text(name), color=DARK_ALARM, fontweight="bold", bbox=_paper(broken), zorder=4)


def _draw_alarm(axes: Axes, page: Page, y: float, rows: int) -> None:
    """What lies under so many rows, the first around `y`, in which something is broken."""
    size = page.width - 0.1, ROW * rows
    axes.add_patch(
        Rectangle((0.05, y - ROW / 2), *size, facecolor=ALARM_PAPER, edgecolor=ALARM, linewidth=1.4, zorder=0)
    )


def _draw_step(axes: Axes, page: Page, event: Event, y: float) -> None:
    assert event.worker is not None
    x, style = page.marker_at(event.worker), look(page.trace.index_of(event.worker))
    if event.kind in ("command", "call"):
        target = page.target_of(event)
        axes.plot([x, target], [y, y], color=FAINT, linewidth=0.9, zorder=0.5)
        axes.plot([target], [y], ">", color=INK, markersize=4, zorder=4)
        if event.choice.kind == "lose":
            axes.plot([target - 0.11], [y], "x", color=DARK_ALARM, markersize=6, markeredgewidth=2, zorder=6)
    dies = event.kind == "crash" or (event.ending is not None and event.ending.killed)
    hit = event.kind in ("signal", "jump")
    axes.plot(
        [x],
        [y],
        "X" if dies else style.marker,
        markersize=10 if dies else 7,
        markerfacecolor=style.color if event.kind in ("command", "call") or dies else PAPER,
        markeredgecolor=DARK_ALARM if hit else INK,
        markeredgewidth=2.2 if hit and not dies else 1,
        zorder=5,
    )
    paper = _paper(page.broken_by(event))
    write(axes, page.label_at(event), y, label(event), bbox=paper, zorder=4, fontweight=_weight(event))
    if event.kind == "call":
        write(axes, page.outside + 0.12, y, effect(event), fontweight="bold", bbox=paper, zorder=4)


def _draw_legend(axes: Axes, page: Page) -> None:
    for row, text in enumerate(page.legend):
        write(axes, 0.1, page.bottom + 0.17 + row * LEGEND_ROW, text, fontsize=FONT_SIZE - 1, color=QUIET)


def _weight(event: Event) -> str:
    """Faults stand out."""
    return "bold" if event.choice.is_fault else "normal"


def _paper(broken: list[str]) -> dict[str, object]:
    """What lies under a label, so that lines and bars do not cross it."""
    return {"facecolor": ALARM_PAPER if broken else PAPER, "edgecolor": "none", "pad": 1}


def alt_text(trace: Trace) -> str:
    """What the picture shows, in words."""
    who = ", ".join(trace.actors)
    parts = [f"Lane diagram of {steps(len(trace.events))} by workers {who}."]
    shown = trace.events if len(trace.events) <= LISTED_IN_ALT else trace.events[-5:]
    if len(shown) < len(trace.events):
        parts.append(f"The last {len(shown)} steps:")
    parts += [
        f"{event.number}. {event.seconds}, {event.worker or 'clock'}: {shorten(event.summary, MOST_IN_ALT)}."
        for event in shown
    ]
    return " ".join([*parts, trace.headline])
