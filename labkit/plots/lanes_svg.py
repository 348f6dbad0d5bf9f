"""The lane diagram as SVG: the same layout as the picture, drawn in a millisecond, for what follows every click."""

from __future__ import annotations

import html
from zlib import crc32

from labkit.plots.figure import SMALLEST
from labkit.plots.intervals import Interval
from labkit.plots.lanes import alt_text
from labkit.plots.page import (
    BAR,
    HEADER,
    LEGEND_ROW,
    LIFE_BAR,
    OF_THE_SET_UP,
    PADDING,
    ROW,
    TITLES,
    Page,
    broken_text,
    effect,
    label,
    number_and_time,
)
from labkit.plots.style import ALARM, ALARM_PAPER, DARK_ALARM, FAINT, INK, PAPER, QUIET, look
from labkit.trace import Event, Trace

INCH = 110  # pixels, as many as the picture has
SIZE = 8.5 * INCH / 72  # of letters, in pixels
WIDE = 0.602  # of a letter's width to its size, in the font of fixed width
FONT = "'DejaVu Sans Mono', Menlo, Consolas, monospace"
_HATCH = {  # SVG has no hatches: lines in a tile of 6 pixels
    "///": "M-1 7L7 -1",
    "\\\\\\": "M-1 -1L7 7",
    "...": "M2 3h2",
    "xxx": "M-1 7L7 -1M-1 -1L7 7",
    "---": "M0 3h6",
    "+++": "M0 3h6M3 0v6",
    "ooo": "M1 3a2 2 0 1 0 4 0a2 2 0 1 0 -4 0",
}


def lanes_svg(trace: Trace) -> str:
    """Draw an execution as one `svg` element, with its alternative text.

    Parameters
    ----------
    trace: what happened.
    """
    page = Page(trace, source=False)
    parts = [_alarm(page, HEADER + ROW * (place + 0.5), 1) for place in range(len(page.set_up))]
    parts += [
        _alarm(page, page.rows[event.number], 1 + page.extra(event)) for event in trace.events if page.broken_by(event)
    ]
    parts += _lanes(page)
    for place, broken in enumerate(page.set_up):
        y = HEADER + ROW * (place + 0.5)
        parts += [
            _text(0.1, y, "set-up", QUIET),
            _text(page.gutter, y, broken, DARK_ALARM, paper=ALARM_PAPER, bold=True),
        ]
    parts += [_bar(page, interval) for interval in page.bars]
    parts += [_life(page, interval) for interval in page.lives]
    for event in trace.events:
        parts += _event(page, event)
    for row, words in enumerate(page.legend):
        parts.append(_text(0.1, page.bottom + 0.17 + row * LEGEND_ROW, words, QUIET, small=True))
    width, height = page.width * INCH, page.height * INCH
    hatches = {place: look(place) for place in {*range(len(trace.workers)), OF_THE_SET_UP}}
    tiles = "".join(
        f'<pattern id="lk-hatch-{place}" width="6" height="6" patternUnits="userSpaceOnUse">'
        f'<path d="{_HATCH[style.hatch]}" stroke="{style.color}" fill="none"/></pattern>'
        for place, style in hatches.items()
    )
    drawn = f"<defs>{tiles}</defs>{''.join(parts)}"
    # Browsers take a pattern of that name from the first picture of the page, and draw none if it is in a hidden tab.
    drawn = drawn.replace("lk-hatch-", f"lk-hatch-{crc32(drawn.encode()):08x}-")
    return (
        f'<svg role="img" aria-label="{html.escape(alt_text(trace))}" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'style="width:{width:.0f}px;max-width:100%;min-width:{SMALLEST * width:.0f}px;height:auto;'
        f'background:{PAPER};border-radius:6px" '
        f'font-family="{FONT}" font-size="{SIZE:.1f}">{drawn}</svg>'
    )


def _lanes(page: Page) -> list[str]:
    parts = [_text(0.1, HEADER / 2, "step   time", QUIET)]
    for worker in page.trace.actors:
        x, place = page.marker_at(worker), page.trace.index_of(worker)
        parts.append(_line(x, HEADER, x, page.lane_end(worker), look(place).color, 1.6))
        parts.append(_marker(x, HEADER / 2, look(place).marker, look(place).color))
        parts.append(_text(x + 0.14, HEADER / 2, page.title_of(worker), bold=True))
    for store, x in page.stores.items():
        parts += [_text(x, HEADER / 2, TITLES[store], bold=True), _line(x, HEADER, x, page.bottom, FAINT, 1.6)]
    if page.has_outside:
        x = page.outside
        parts += [_text(x, HEADER / 2, "outside", bold=True), _line(x, HEADER, x, page.bottom, FAINT, 1.6)]
    parts.append(_line(0.05, HEADER - 0.05, page.width - 0.05, HEADER - 0.05, INK, 0.8))
    return parts


def _bar(page: Page, interval: Interval) -> str:
    """What a worker believes: it holds a lock (hatched), is in a section (plain) or in a transaction (empty)."""
    assert interval.worker is not None
    place = page.trace.index_of(interval.worker)
    fill = {"hold": f"url(#lk-hatch-{place})", "section": look(place).color}.get(interval.kind, PAPER)
    return _rectangle(page.bar_at(interval), *page.span(interval), BAR, look(place).color, fill)


def _life(page: Page, interval: Interval) -> str:
    """A key that will expire or a message that is hidden, in its store's lane, looking like the worker that did it."""
    place = page.look_of_life(interval)
    left, fill = page.life_at(interval), f"url(#lk-hatch-{place})"
    return _rectangle(left, *page.span(interval), LIFE_BAR, look(place).color, fill)


def _alarm(page: Page, y: float, rows: int) -> str:
    """What lies under so many rows, the first around `y`, in which something is broken, and under the lanes."""
    return _rectangle(0.05, y - ROW / 2, ROW * rows, page.width - 0.1, ALARM, ALARM_PAPER)


def _event(page: Page, event: Event) -> list[str]:
    y, broken, parts = page.rows[event.number], page.broken_by(event), []
    paper = ALARM_PAPER if broken else PAPER
    parts.append(_text(0.1, y, number_and_time(event), QUIET))
    for store in page.stores:
        if event.number in page.names_at(store):
            x = page.stores[store] + page.names_room(store)
            parts.append(_text(x, y, page.names_at(store)[event.number], paper=paper, small=True))
    bold = event.choice.is_fault
    if event.worker is None:
        parts.append(_line(page.gutter, y, page.width - PADDING, y, INK, 0.9, "4 3"))
    else:
        parts += _step(page, event, event.worker, y)
    parts.append(_text(page.label_at(event), y, label(event), paper=paper, bold=bold))
    if event.kind == "call":
        parts.append(_text(page.outside + 0.12, y, effect(event), paper=paper, bold=True))
    for place, name in enumerate(broken, 1 + page.extra(event) - len(broken)):
        where = page.label_at(event), y + ROW * place
        parts.append(_text(*where, broken_text(name), DARK_ALARM, paper=paper, bold=True))
    return parts


def _step(page: Page, event: Event, worker: str, y: float) -> list[str]:
    x, style, parts = page.marker_at(worker), look(page.trace.index_of(worker)), []
    asks = event.kind in ("command", "call")
    if asks:
        target = page.target_of(event)
        parts += [_line(x, y, target, y, FAINT, 0.9), _marker(target - 0.03, y, ">", INK, 3)]
        if event.choice.kind == "lose":
            parts.append(_marker(target - 0.11, y, "x", DARK_ALARM, 4))
    dies = event.kind == "crash" or (event.ending is not None and event.ending.killed)
    fill = style.color if asks or dies else PAPER
    edge = DARK_ALARM if event.kind in ("signal", "jump") and not dies else INK
    parts.append(_marker(x, y, "X" if dies else style.marker, fill, 6 if dies else 5, edge))
    return parts


# ---- shapes, placed in inches from the upper left corner


def _line(x: float, y: float, to_x: float, to_y: float, color: str, width: float, dashes: str = "") -> str:
    dash = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (
        f'<line x1="{_px(x)}" y1="{_px(y)}" x2="{_px(to_x)}" y2="{_px(to_y)}" stroke="{color}" '
        f'stroke-width="{width * INCH / 72:.1f}"{dash}/>'
    )


def _rectangle(x: float, y: float, height: float, width: float, edge: str, fill: str) -> str:
    box = f'x="{_px(x)}" y="{_px(y)}" width="{_px(width)}" height="{_px(height)}"'
    ground = f'<rect {box} fill="{PAPER}"/>' if fill.startswith("url") else ""
    return f'{ground}<rect {box} fill="{fill}" stroke="{edge}" stroke-width="1.4"/>'


def _text(
    x: float, y: float, words: str, color: str = INK, *, paper: str = "", bold: bool = False, small: bool = False
) -> str:
    """Words, vertically centred; with `paper` nothing that lies under them shines through."""
    weight = ' font-weight="700"' if bold else ""
    size = SIZE * 7.5 / 8.5 if small else SIZE
    smaller = f' font-size="{size:.1f}"' if small else ""
    place = f'x="{_px(x)}" y="{_px(y)}" dy="0.35em" xml:space="preserve"'
    written = f'<text {place} fill="{color}"{weight}{smaller}>{html.escape(words)}</text>'
    if not paper:
        return written
    box = f'x="{x * INCH - 1:.1f}" y="{y * INCH - size * 0.65:.1f}" height="{size * 1.3:.1f}"'
    return f'<rect {box} width="{len(words) * size * WIDE + 2:.1f}" fill="{paper}"/>{written}'


def _marker(x: float, y: float, shape: str, fill: str, r: float = 5, edge: str = INK) -> str:
    """A worker's marker, or another, around a point; `r` is in pixels."""
    cx, cy = x * INCH, y * INCH
    if shape == "o":
        return f'<circle cx="{cx:.1f}" cy="{cy:.1f}" r="{r}" fill="{fill}" stroke="{edge}"/>'
    if shape == "x":
        path = f"M{cx - r:.1f} {cy - r:.1f}l{2 * r} {2 * r}m0 {-2 * r}l{-2 * r} {2 * r}"
        return f'<path d="{path}" stroke="{fill}" stroke-width="3"/>'
    points = " ".join(f"{cx + r * dx:.1f},{cy + r * dy:.1f}" for dx, dy in _SHAPES[shape])
    return f'<polygon points="{points}" fill="{fill}" stroke="{edge}"/>'


def _px(inches: float) -> str:
    return f"{inches * INCH:.1f}"


_CROSS = [(-0.4, -1), (0.4, -1), (0.4, -0.4), (1, -0.4), (1, 0.4), (0.4, 0.4), (0.4, 1), (-0.4, 1)]
_CROSS += [(-0.4, 0.4), (-1, 0.4), (-1, -0.4), (-0.4, -0.4)]
_STAR = [(0, -1), (0.25, -0.3), (1, -0.3), (0.4, 0.15), (0.6, 0.9), (0, 0.45), (-0.6, 0.9), (-0.4, 0.15)]
_SHAPES: dict[str, list[tuple[float, float]]] = {
    "s": [(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
    "^": [(0, -1), (1, 0.9), (-1, 0.9)],
    "v": [(0, 1), (1, -0.9), (-1, -0.9)],
    "D": [(0, -1.1), (1.1, 0), (0, 1.1), (-1.1, 0)],
    "P": _CROSS,
    "X": [((x - y) * 0.75, (x + y) * 0.75) for x, y in _CROSS],
    "*": [*_STAR, (-1, -0.3), (-0.25, -0.3)],
    ">": [(-1, -1), (1, 0), (-1, 1)],
}
