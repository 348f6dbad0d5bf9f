"""The lane diagram: steps downwards, one lane per worker, one for Redis, one for the outside world.

Downwards, because each row then holds one command in full width and no two labels can meet.
"""

from __future__ import annotations

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from labkit.plots.figure import Picture
from labkit.plots.intervals import Interval
from labkit.plots.page import (
    BAR,
    GUTTER,
    HEADER,
    LEGEND_ROW,
    PADDING,
    ROW,
    Page,
    broken_text,
    effect,
    label,
    line,
    title_of,
)
from labkit.plots.style import (
    ALARM,
    ALARM_PAPER,
    DARK_ALARM,
    FAINT,
    FONT_SIZE,
    INK,
    MONOSPACE,
    PAPER,
    QUIET,
    look,
    shorten,
)
from labkit.trace import Event, Trace

LISTED_IN_ALT = 15  # longer traces are summarised in the alternative text


def lanes(trace: Trace, source: bool = False) -> Picture:
    """Draw an execution.

    Parameters
    ----------
    trace: what happened.
    source: whether to show the line of code beside each step.
    """
    with matplotlib.rc_context(matplotlib.rcParamsDefault):
        page = Page(trace, source)
        figure = Figure(figsize=(page.width, page.height), facecolor=PAPER)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_xlim(0, page.width)
        axes.set_ylim(page.height, 0)
        axes.set_axis_off()
        _draw_lanes(axes, page)
        for interval in page.bars:
            _draw_bar(axes, page, interval)
        for interval in page.lives:
            _draw_life(axes, page, interval)
        for event in trace.events:
            _draw_event(axes, page, event, source)
        _draw_legend(axes, page)
    return Picture(figure, _alt(trace), trace.table(source))


def _text(axes: Axes, x: float, y: float, text: str, **style: object) -> None:
    style = {"fontfamily": MONOSPACE, "fontsize": FONT_SIZE, "color": INK, "va": "center", **style}
    axes.text(x, y, text, **style)  # type: ignore[arg-type]


def _draw_lanes(axes: Axes, page: Page) -> None:
    _text(axes, 0.1, HEADER / 2, "step   time", color=QUIET)
    for worker in page.trace.actors:
        x, style = page.marker_at(worker), look(page.trace.index_of(worker))
        axes.plot([x], [HEADER / 2], style.marker, color=style.color, markeredgecolor=INK, markersize=8)
        _text(axes, x + 0.14, HEADER / 2, title_of(worker), fontweight="bold")
        end = page.bottom
        for event in page.trace.events:
            own = event.worker == worker and event.ending is not None
            if own or (event.choice.process == worker.partition("/")[0] and _ends_process(event)):
                end = page.rows[event.number]
        axes.plot([x, x], [HEADER, end], color=style.color, linewidth=1.6, zorder=1)
    _text(axes, page.redis, HEADER / 2, "Redis", fontweight="bold")
    axes.plot([page.redis, page.redis], [HEADER, page.bottom], color=FAINT, linewidth=1.6, zorder=1)
    if page.has_outside:
        _text(axes, page.outside, HEADER / 2, "outside", fontweight="bold")
        axes.plot([page.outside, page.outside], [HEADER, page.bottom], color=FAINT, linewidth=1.6, zorder=1)
    axes.plot([0.05, page.width - 0.05], [HEADER - 0.05] * 2, color=INK, linewidth=0.8)


def _draw_bar(axes: Axes, page: Page, interval: Interval) -> None:
    """What a worker believes: it holds a lock (hatched), or is in a section (plain)."""
    assert interval.worker is not None
    style = look(page.trace.index_of(interval.worker))
    x = page.left[interval.worker] + page.slot(interval) * BAR * 1.7
    top, end = page.rows[interval.first], page.rows[interval.last] if interval.ended != "open" else page.bottom
    hatch = style.hatch if interval.kind == "hold" else ""
    face = PAPER if interval.kind == "hold" else style.color
    axes.add_patch(Rectangle((x, top), BAR, end - top, facecolor=face, edgecolor=style.color, hatch=hatch, zorder=2))


def _draw_life(axes: Axes, page: Page, interval: Interval) -> None:
    """A key that will expire, in Redis's lane, looking like the worker that set it."""
    index = page.trace.index_of(interval.worker) if interval.worker in page.trace.actors else 6
    style = look(index)
    x = page.redis + 0.12 + page.slot(interval) * 0.3
    top, end = page.rows[interval.first], page.rows[interval.last] if interval.ended != "open" else page.bottom
    box = Rectangle((x, top), 0.13, end - top, facecolor=PAPER, edgecolor=style.color, hatch=style.hatch, zorder=2)
    axes.add_patch(box)
    _text(axes, x + 0.2, top, interval.name, fontsize=FONT_SIZE - 1, bbox=_paper([]), zorder=3)


def _draw_event(axes: Axes, page: Page, event: Event, source: bool) -> None:
    y = page.rows[event.number]
    broken = page.broken_by(event)
    if broken:
        size = (page.width - 0.1, ROW * (1 + page.extra(event)))
        axes.add_patch(
            Rectangle((0.05, y - ROW / 2), *size, facecolor=ALARM_PAPER, edgecolor=ALARM, linewidth=1.4, zorder=0)
        )
    _text(axes, 0.1, y, f"{event.number:>4} {shorten(event.seconds, 8):>7}", color=QUIET)
    if event.worker is None:
        axes.plot([GUTTER, page.width - PADDING], [y, y], color=INK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
        _text(axes, page.label_at(event), y, label(event), bbox=_paper(broken), zorder=4)
    else:
        _draw_step(axes, page, event, y)
    if source and event.line is not None:
        _text(axes, page.label_at(event), y + ROW * 0.9, line(event), color=QUIET, bbox=_paper(broken), zorder=4)
    for place, name in enumerate(broken, 1 + page.extra(event) - len(broken)):
        where = page.label_at(event), y + ROW * place
        _text(axes, *where, broken_text(name), color=DARK_ALARM, fontweight="bold", bbox=_paper(broken), zorder=4)


def _draw_step(axes: Axes, page: Page, event: Event, y: float) -> None:
    assert event.worker is not None
    x, style = page.marker_at(event.worker), look(page.trace.index_of(event.worker))
    if event.kind in ("command", "call"):
        target = page.redis if event.kind == "command" else page.outside
        axes.plot([x, target], [y, y], color=FAINT, linewidth=0.9, zorder=0.5)
        axes.plot([target], [y], ">", color=INK, markersize=4, zorder=4)
    marker, size = (style.marker, 7) if event.kind != "crash" else ("X", 10)
    face = style.color if event.kind in ("command", "call", "crash") else PAPER
    axes.plot([x], [y], marker, markerfacecolor=face, markeredgecolor=INK, markersize=size, zorder=5)
    paper = _paper(page.broken_by(event))
    _text(axes, page.label_at(event), y, label(event), bbox=paper, zorder=4)
    if event.kind == "call":
        _text(axes, page.outside + 0.12, y, effect(event), fontweight="bold", bbox=paper, zorder=4)


def _draw_legend(axes: Axes, page: Page) -> None:
    for row, text in enumerate(page.legend):
        _text(axes, 0.1, page.bottom + 0.17 + row * LEGEND_ROW, text, fontsize=FONT_SIZE - 1, color=QUIET)


def _ends_process(event: Event) -> bool:
    """Whether a worker is gone after an event, with all its threads."""
    return event.kind == "crash" or (event.ending is not None and "/" not in (event.worker or ""))


def _paper(broken: list[str]) -> dict[str, object]:
    """What lies under a label, so that lines and bars do not cross it."""
    return {"facecolor": ALARM_PAPER if broken else PAPER, "edgecolor": "none", "pad": 1}


def _alt(trace: Trace) -> str:
    """What the picture shows, in words."""
    who = ", ".join(trace.actors)
    parts = [f"Lane diagram of {len(trace.events)} steps by workers {who}."]
    shown = trace.events if len(trace.events) <= LISTED_IN_ALT else trace.events[-5:]
    if len(shown) < len(trace.events):
        parts.append(f"The last {len(shown)} steps:")
    parts += [f"{event.number}. {event.seconds}, {event.worker or 'clock'}: {event.summary}." for event in shown]
    return " ".join([*parts, trace.headline])
