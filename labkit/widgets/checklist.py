"""A checklist to fill in for a system of your own, and to take home as Markdown."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

import ipywidgets as ipw

from labkit.errors import LabError
from labkit.incidents.checklist import CHECKLIST, Point
from labkit.widgets.shown import LIVE, Shown, bar, button, static

STATES = ("yes", "partly", "no", "not needed")
OPEN = "not answered"
_kept: dict[str, dict[str, tuple[str, str]]] = {}  # by title, then by point: the state and the note, of this kernel


class NoAnswer(LabError):
    """What was said is no answer to a point of this checklist."""


class Checklist(Shown):
    """Questions to a system of your own: each is answered yes, partly, no or not needed, with a note.

    A checklist that is made again, because its cell is run again, still has its answers.

    Parameters
    ----------
    points: the points; those of the second incident, if none are given.
    title: what stands above the summary.
    """

    def __init__(self, points: Sequence[Point] = CHECKLIST, title: str = "Background jobs: checklist") -> None:
        super().__init__("checklist")
        self.points, self.title = tuple(points), title
        self.answers = _kept.setdefault(title, {})
        self.buttons: dict[str, dict[str, ipw.Button]] = {}
        self.notes: dict[str, ipw.Text] = {}
        parts: list[ipw.Widget] = []
        for number, point in enumerate(self.points, 1):
            parts += self._row(number, point)
        self.summary = ipw.HTML()
        self.show(*parts, self.status, self.summary)
        self._refresh()

    def _row(self, number: int, point: Point) -> list[ipw.Widget]:
        made = {state: self._button(point.name, state) for state in STATES}
        note = ipw.Text(
            value=self.answers.get(point.name, (OPEN, ""))[1],
            placeholder="a note: where, who, what next",
            tooltip=f"A note on: {point.name}",
        )
        note.observe(self.guarded(lambda: self._take_note(point.name)), "value")
        self.buttons[point.name], self.notes[point.name] = made, note
        words = (
            f'<div class="lk-goal"><strong>{number}. {html.escape(point.name)}.</strong> {html.escape(point.question)}'
            f'<div class="lk-quiet">Look at: {html.escape(point.look)}.</div></div>'
        )
        return [ipw.HTML(words), bar([*made.values(), note])]

    def _button(self, point: str, state: str) -> ipw.Button:
        return button(state, self.guarded(lambda: self.answer(point, state)), tooltip=f"{point}: {state}")

    def answer(self, point: str, state: str, note: str | None = None) -> None:
        """Answer a point, as the buttons do.

        Parameters
        ----------
        point: its name.
        state: `yes`, `partly`, `no` or `not needed`.
        note: a note; None leaves the one that is there.

        Raises `NoAnswer` for another point or state.
        """
        if point not in self.notes:
            raise NoAnswer(f"{point!r} is no point of this checklist; there are {', '.join(self.notes)}")
        if state not in STATES:
            raise NoAnswer(f"{state!r} is no answer; there are {', '.join(STATES)}")
        before = self.answers.get(point, (OPEN, ""))[1]
        self.answers[point] = (state, before if note is None else note)
        self.notes[point].value = self.answers[point][1]
        self._refresh()

    def _take_note(self, point: str) -> None:
        self.answers[point] = (self._state(point), self.notes[point].value)
        self._refresh()

    def _state(self, point: str) -> str:
        return self.answers.get(point, (OPEN, ""))[0]

    def _with(self, state: str) -> list[str]:
        return [point.name for point in self.points if self._state(point.name) == state]

    def _refresh(self) -> None:
        for point, made in self.buttons.items():
            for state, each in made.items():
                picked = state == self._state(point)
                each.description = f"✓ {state}" if picked else state
                (each.add_class if picked else each.remove_class)("lk-picked")
        self.say(self._told)
        self.summary.value = f'<pre class="lk-solution lk-copied" tabindex="0">{html.escape(self.markdown)}</pre>'

    @property
    def _told(self) -> str:
        answered = len(self.points) - len(self._with(OPEN))
        return f"{answered} of {len(self.points)} answered. Below is your list as Markdown, to copy."

    # ---- to take home

    @property
    def markdown(self) -> str:
        """The list as Markdown: the answers with their notes, then what to do first."""
        rows = [
            f"| {point.name} | {self._state(point.name)} | {_cell(self.answers.get(point.name, (OPEN, ''))[1])} |"
            for point in self.points
        ]
        lines = [f"# {self.title}", "", "| point | do we have it? | note |", "|---|---|---|", *rows]
        to_do = [("no", "to build"), ("partly", "to finish"), (OPEN, "to find out")]
        found = [
            f"- [ ] {todo}: {point.name}. Look at: {point.look}."
            for state, todo in to_do
            for point in self.points
            if self._state(point.name) == state
        ]
        return "\n".join([*lines, "", "## What to do", "", *(found or ["Nothing is open."])])

    def save(self, path: str | Path) -> None:
        """Write the Markdown into a new file; `NoAnswer` when there is a file of that name, which stays as it is."""
        try:
            with Path(path).open("x", encoding="utf-8") as out:
                out.write(self.markdown + "\n")
        except FileExistsError:
            raise NoAnswer(
                f"there is a file {str(path)!r} already, and it stays as it is: choose another name"
            ) from None

    @property
    def text(self) -> str:
        """The points as plain text, with the answers so far."""
        lines = [f"Checklist. {LIVE}"]
        for number, point in enumerate(self.points, 1):
            lines += [f"{number}. {point.name}: {point.question} ({self._state(point.name)})"]
        return "\n".join(lines)

    @property
    def static_html(self) -> str:
        """The points, without buttons."""
        return static(self.text)


def forget() -> None:
    """Forget all answers, as a new kernel does."""
    _kept.clear()


def _cell(note: str) -> str:
    return note.replace("|", "\\|").replace("\n", " ")
