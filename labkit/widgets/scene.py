"""The state of an execution as HTML: each worker's code, what the stores hold, what must hold."""

from __future__ import annotations

import html
from collections.abc import Sequence

from labkit.frames import Frame
from labkit.play import Play
from labkit.plots.page import TITLES
from labkit.widgets.marks import color, glyph
from labkit.words import in_seconds
from labkit.worker_view import WorkerView

MOST_LINES, AROUND = 24, 9
_escape = html.escape


def scene(play: Play) -> str:
    """Cards for the workers, and below them for the stores and the properties."""
    workers = "".join(map(_worker, play.workers))
    facts = _stores(play) + _properties(play)
    return f'<div class="lk-grid">{workers}</div><div class="lk-grid lk-facts">{facts}</div>'


def _worker(view: WorkerView) -> str:
    kind = "thread" if "/" in view.name else "worker"
    inside = f' <span class="lk-quiet">inside {_escape(", ".join(view.sections))}</span>' if view.sections else ""
    head = (
        f'<div><span style="color:{color(view.place)}" aria-hidden="true">{glyph(view.place)}</span> '
        f'<span class="lk-title">{kind} {_escape(view.name)}</span>{inside}</div>'
        f'<div class="lk-mono" style="font-size:12.5px">{_escape(view.text)}</div>'
    )
    body = ""
    if view.frames:
        *callers, frame = view.frames
        body = "".join(f'<div class="lk-quiet">in {_escape(_place(caller))}</div>' for caller in callers)
        body += _code(frame) + _variables(frame)
    return f'<div class="lk-card" style="border-top-color:{color(view.place)}">{head}{body}</div>'


def _place(frame: Frame) -> str:
    return f"{frame.function}, line {frame.current}: {frame.line}"


def _code(frame: Frame) -> str:
    """The function's source; of a long one, the lines around the current one."""
    numbered = list(enumerate(frame.lines, frame.first))
    if len(numbered) > MOST_LINES:
        start = min(max(0, frame.current - frame.first - AROUND), len(numbered) - MOST_LINES)
        numbered = numbered[start : start + MOST_LINES]
    room = len(str(numbered[-1][0])) if numbered else 0
    lines = []
    for number, line in numbered:
        now = number == frame.current
        text = f"{'▶' if now else ' '} {number:>{room}}  {_escape(line)}"
        lines.append(
            f'<span class="lk-line{" lk-now" if now else ""}"{" aria-current=step" if now else ""}>{text}</span>'
        )
    return f'<div class="lk-code">{"".join(lines)}</div>' if lines else '<p class="lk-quiet">no source to show</p>'


def _variables(frame: Frame) -> str:
    return _table([(name, value or "—") for name, value in frame.variables])


def _stores(play: Play) -> str:
    rows = [(TITLES.get(held.store, held.store), held.name, held.value, held.ttl) for held in play.holdings]
    body = _table(rows) if rows else '<p class="lk-quiet">nothing yet</p>'
    now = f'<span class="lk-quiet">at {in_seconds(play.seconds)}</span>'
    title = f'<span class="lk-title">what the stores hold</span> {now}'
    return f'<div class="lk-card">{title}{body}</div>'


def _properties(play: Play) -> str:
    lines = "".join(f"<div>{_escape(str(prop))}</div>" for prop in play.properties)
    body = lines or '<p class="lk-quiet">the scenario states no property</p>'
    return f'<div class="lk-card"><span class="lk-title">what must hold</span>{body}</div>'


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    """Rows of text, the first column as heads."""
    lines = [
        f'<tr><th scope="row">{_escape(first)}</th>'
        + "".join(f'<td class="lk-mono">{_escape(cell)}</td>' for cell in rest)
        for first, *rest in rows
    ]
    return f'<table class="lk-table">{"".join(lines)}</table>' if rows else ""
