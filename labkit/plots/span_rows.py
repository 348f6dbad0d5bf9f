"""The waterfall: a row for each span, a bar from its beginning to its end; what two workers did at once is shaded."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from labkit.observe.span import Span
from labkit.plots.canvas import canvas, write
from labkit.plots.figure import Picture, as_twin, rounded
from labkit.plots.style import ALARM_PAPER, CHARACTER, DARK_ALARM, FAINT, INK, PAPER, QUIET, look
from labkit.words import in_seconds

WIDTH, ROW, BAR, MARGIN = 8.6, 0.24, 0.15, 0.2  # inches
MOST_ROWS = 60
STEPS = (1, 2, 5)
JOB = "messaging.message.id"


@matplotlib.rc_context(matplotlib.rcParamsDefault)
def waterfall(spans: Iterable[Span]) -> Picture:
    """Draw spans over time.

    Parameters
    ----------
    spans: those of one job, or few; of more than sixty, the first sixty are drawn, and the picture says so.
    """
    every = _in_order(tuple(spans))
    shown = every[:MOST_ROWS]
    workers = list(dict.fromkeys(span.worker for span in sorted(shown, key=lambda span: span.start)))
    scale = _Scale(shown)
    told = _told(every, len(shown))
    room = int((WIDTH - 2 * MARGIN) / CHARACTER) - 4
    together = both_at_work(shown)
    words = [line for text in (told, "", _legend(shown, together)) for line in textwrap.wrap(text, room) or [""]]
    axis = MARGIN + ROW * len(shown) + 0.1
    figure, axes = canvas(WIDTH, axis + 0.5 + 0.19 * (len(words) + 1))
    for start, end in together:
        _shade(axes, scale.x(start), scale.x(end), MARGIN, axis)
    _draw_time(axes, scale, MARGIN, axis)
    for place, span in enumerate(shown):
        _draw(axes, span, scale, MARGIN + ROW * (place + 0.5), workers.index(span.worker))
    for place, line in enumerate(words):
        bold = place < len(textwrap.wrap(told, room))
        y = axis + 0.55 + 0.19 * place
        write(axes, MARGIN, y, line, color=INK if bold else QUIET, fontweight="bold" if bold else "normal")
    text = "\n".join([*(line for span in shown for line in _rows(span)), "", told])
    return Picture(figure, f"Waterfall of {len(shown)} spans. {told}", text, as_twin(text))


class _Scale:
    """Where a time stands; times are counted from the first span."""

    def __init__(self, shown: Sequence[Span]) -> None:
        self.first = min((span.start for span in shown), default=0)
        self.last = max([span.end for span in shown], default=0)
        self.last = max(self.last, self.first + 1_000)
        self.left = MARGIN + CHARACTER * (max((len(_title(span)) for span in shown), default=0) + 4)
        # Room for what is written beside the last bar.
        self.inches = (WIDTH - self.left - CHARACTER * 11) / (self.last - self.first)

    def x(self, time: int) -> float:
        return self.left + (time - self.first) * self.inches

    @property
    def step(self) -> int:
        """Microseconds between two ticks, so that they stand far enough apart."""
        sizes = (size * 10**power for power in range(14) for size in STEPS)
        return next((size for size in sizes if size * self.inches >= 0.8), 10**14)


def both_at_work(spans: Sequence[Span]) -> list[tuple[int, int]]:
    """When two workers or more worked on one job at the same time, from when to when, in microseconds.

    Where nothing says of which job they are: when two or more were in one critical section.
    """
    works = _works(spans)
    pairs = sorted(
        (_about(one), max(one.start, other.start), min(one.end, other.end))
        for place, one in enumerate(works)
        for other in works[place + 1 :]
        if one.worker != other.worker and _about(one) == _about(other)
    )
    found: list[tuple[str, int, int]] = []
    for what, start, end in pairs:
        if start >= end:
            continue
        if found and found[-1][0] == what and start < found[-1][2]:  # a third worker: no time is counted twice
            found[-1] = (what, found[-1][1], max(end, found[-1][2]))
        else:
            found.append((what, start, end))
    return sorted((start, end) for _, start, end in found)


def _about(span: Span) -> str:
    """What a span is about: its job; if nothing says which, its critical section; else its worker alone."""
    if span.kind == "CONSUMER" or JOB in span.attributes:
        return f"job {span.trace_id}"
    return span.name if _is_section(span) else f"worker {span.worker}"


def _is_section(span: Span) -> bool:
    return "labkit.section" in span.attributes


def _works(spans: Sequence[Span]) -> list[Span]:
    """The spans that are work: on a job; if there are none, in a critical section; else a worker's whole life."""
    consumers, sections = [s for s in spans if s.kind == "CONSUMER"], [s for s in spans if _is_section(s)]
    return consumers or sections or [span for span in spans if span.kind == "INTERNAL"]


def said(span: Span) -> list[tuple[int, str]]:
    """What a worker logged in a span, without its end, or asked of a store in a section: when, and what."""
    if span.kind == "INTERNAL":
        queries = [(moment, moment.attributes.get("db.query.text")) for moment in span.moments]
        return [(moment.time, f"{query} -> {moment.attributes['labkit.reply']}") for moment, query in queries if query]
    ends = ("job.finished", "job.busy", "job.failed")
    return [(moment.time, moment.name) for moment in span.moments if "." in moment.name and moment.name not in ends]


def _in_order(spans: tuple[Span, ...]) -> list[Span]:
    """Each span, followed by those that belong to it."""
    known = set(map(id, spans))
    below: dict[int, list[Span]] = {}
    for span in spans:
        below.setdefault(id(span.parent) if id(span.parent) in known else 0, []).append(span)
    order: list[Span] = []

    def add(parent: int) -> None:
        for span in sorted(below.get(parent, ()), key=lambda one: one.start):
            order.append(span)
            add(id(span))

    add(0)
    return order


def _title(span: Span) -> str:
    attempt = span.attributes.get("labkit.message.delivery_count")
    again = f" #{attempt}" if attempt and span.kind == "CONSUMER" else ""
    return f"{span.worker}  {'  ' * min(span.depth, 3)}{span.name}{again}"


def _took(span: Span) -> str:
    if span.start == span.end:
        return span.error
    return f"{_duration(span.seconds)}{' ✗' if span.lost else ''}"


def _duration(seconds: float) -> str:
    return f"{rounded(seconds * 1e3)} ms" if seconds < 0.9995 else f"{rounded(seconds)} s"


def _draw(axes: Axes, span: Span, scale: _Scale, y: float, index: int) -> None:
    style = look(index)
    title = _title(span)
    axes.plot([MARGIN], [y], style.marker, color=style.color, markeredgecolor=INK, markersize=6)
    write(axes, MARGIN + 0.14, y, title, fontweight="bold" if span.kind in ("PRODUCER", "CONSUMER") else "normal")
    x, end = scale.x(span.start), scale.x(span.end)
    if span.start == span.end:
        ink = DARK_ALARM if span.error else style.color
        axes.plot([x], [y], "X" if span.error else style.marker, color=ink, markeredgecolor=INK, markersize=6, zorder=4)
    else:
        thin = span.kind == "INTERNAL"
        height = BAR * (0.45 if thin else 1)
        for hatch, face in (("", PAPER), (style.hatch, "none")):
            bar = Rectangle((x, y - height / 2), end - x, height, facecolor=face, edgecolor=style.color, zorder=3)
            bar.set_hatch(hatch)
            axes.add_patch(bar)
        for time, _ in said(span):
            axes.plot([scale.x(time)] * 2, [y - BAR * 0.8, y + BAR * 0.8], color=INK, linewidth=1.6, zorder=4)
        if span.lost:
            axes.plot([end], [y], "x", color=DARK_ALARM, markersize=9, markeredgewidth=2.4, zorder=5)
    took = _took(span)
    if took:
        write(axes, end + 0.1, y, took, color=DARK_ALARM if span.error else INK, zorder=4, bbox=_PAPER)


_PAPER = {"facecolor": PAPER, "edgecolor": "none", "pad": 0.4}


def _shade(axes: Axes, x: float, end: float, top: float, bottom: float) -> None:
    axes.add_patch(Rectangle((x, top), end - x, bottom - top, facecolor=ALARM_PAPER, edgecolor="none", zorder=0))
    for edge in (x, end):
        axes.plot([edge, edge], [top, bottom], color=DARK_ALARM, linewidth=0.9, linestyle=(0, (4, 3)), zorder=0.5)


def _draw_time(axes: Axes, scale: _Scale, top: float, axis: float) -> None:
    axes.plot([scale.left, scale.x(scale.last)], [axis, axis], color=INK, linewidth=1)
    tick = 0
    while tick <= scale.last - scale.first:
        x = scale.left + tick * scale.inches
        axes.plot([x, x], [top, axis], color=FAINT, linewidth=0.6, zorder=0.2)
        axes.plot([x, x], [axis, axis + 0.06], color=INK, linewidth=1)
        shown = f"+{in_seconds(tick / 1e6)}" if scale.step >= 1_000_000 or not tick else f"+{tick / 1e3:g} ms"
        write(axes, x, axis + 0.19, shown if tick else "0", ha="center")
        tick += scale.step


def _told(spans: Sequence[Span], drawn: int) -> str:
    """What the picture shows, in a sentence or two."""
    if not spans:
        return "There is no span."
    works = _works(spans)
    workers = sorted({span.worker for span in works})
    begins = f"It begins {in_seconds(min(span.start for span in spans) / 1e6)} after the start."
    told = f"{_subject(works)} {len(works)} time{'s' * (len(works) != 1)} by {', '.join(workers)}"
    together = both_at_work(spans)
    if together:
        seconds = sum(end - start for start, end in together) / 1e6
        told += f"; {_duration(seconds)} of it by two at once"
    lost = sum(span.lost for span in works)
    told += f"; {lost} cut off" if lost else ""
    left = f" The first {drawn} of {len(spans)} spans are drawn; choose with of_job()." if drawn < len(spans) else ""
    return f"{told}. {begins}{left}" if works else f"{len(spans)} spans. {begins}{left}"


def _subject(works: Sequence[Span]) -> str:
    """What somebody did, in words that go before `3 times`."""
    if works and works[0].kind == "CONSUMER":
        jobs = len({span.trace_id for span in works})
        return f"{jobs} job{'s' * (jobs != 1)}, worked on"
    names = [span.name for span in works if _is_section(span)]
    return f"{', '.join(dict.fromkeys(names))}: entered" if names else "Run"


def _legend(shown: Sequence[Span], together: Sequence[object]) -> str:
    """What the marks mean that this picture has."""
    marks = {
        "bar: a span, in the look of its worker, with how long it took": any(s.start < s.end for s in shown),
        "small mark: it took no time": any(span.start == span.end for span in shown),
        "line in a bar: it logged something, or asked a store": any(map(said, shown)),
        "✗: its worker was killed, so no exporter ever sent it": any(span.lost for span in shown),
        "shaded: two at once": bool(together),
    }
    return " · ".join(mark for mark, is_there in marks.items() if is_there)


def _rows(span: Span) -> list[str]:
    links = "  linked to its producer" if span.links and span.kind == "CONSUMER" else ""
    row = f"{span.start / 1e6:>10.3f} s  {_title(span):<32}  {_took(span)}{links}".rstrip()
    indent = " " * (len(span.worker) + 2 + 2 * min(span.depth + 1, 3))
    return [row, *(f"{time / 1e6:>10.3f} s  {indent}{word}" for time, word in said(span))]
