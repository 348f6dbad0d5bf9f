"""Hints in three levels, then the solution."""

from __future__ import annotations

import html
from collections.abc import Callable

import ipywidgets as ipw

from labkit.errors import LabError
from labkit.widgets.shown import LIVE, Shown, bar, button

LEVELS = ("nudge", "hint", "scaffold")


class Hints(Shown):
    """Help that comes in small pieces, when it is asked for.

    Parameters
    ----------
    levels: a nudge, a hint and a scaffold: each says more than the one before.
    solution: code, or text; empty for none.
    attempted: says whether there was an attempt, for which the solution waits; None when it does not wait.

    Raises `ValueError` on no level, or on more than three.
    """

    def __init__(self, *levels: str, solution: str = "", attempted: Callable[[], bool] | None = None) -> None:
        super().__init__("hints")
        if not 1 <= len(levels) <= len(LEVELS):
            raise ValueError(f"give one to three hints, from the smallest to the largest, not {len(levels)}")
        self.levels, self.solution, self._attempted = levels, solution, attempted
        self.level = 0  # how many of the pieces are open
        self._pieces = [*zip(LEVELS, levels, strict=False), *([("solution", solution)] if solution else [])]
        self._buttons = [
            button(f"{place}. {name}", self.guarded(lambda p=place: self.open(p)))  # type: ignore[misc]
            for place, (name, _) in enumerate(self._pieces, 1)
        ]
        self.opened = ipw.HTML()
        self.show(
            bar([ipw.HTML("<strong>Stuck?</strong>", layout={"width": "auto"}), *self._buttons]),
            self.status,
            self.opened,
        )
        self._refresh()
        self.say("Try it first. Then take the smallest hint that helps.")

    def open(self, level: int) -> None:
        """Open a piece: 1 is the nudge, the last is the solution.

        Raises `LabError` when there is no such piece, when those before it are still closed, or when the solution waits
        for an attempt.
        """
        if not 1 <= level <= len(self._pieces):
            raise LabError(f"there is no hint {level}; there are {len(self._pieces)}")
        name = self._pieces[level - 1][0]
        if level > self.level + 1:
            raise LabError(f"first the {self._pieces[self.level][0]}: the {name} says more than you may need")
        if name == "solution" and self.is_locked:
            raise LabError("the solution opens after your first attempt: check what you have, however little it is")
        self.level = max(self.level, level)
        self._refresh()
        self.hush()  # the piece speaks for itself

    @property
    def is_locked(self) -> bool:
        """Whether the solution waits for an attempt."""
        return self._attempted is not None and not self._attempted()

    def _refresh(self) -> None:
        for place, made in enumerate(self._buttons, 1):
            made.disabled = place > self.level + 1
        pieces = "".join(self._piece(*piece) for piece in self._pieces[: self.level])
        self.opened.value = f'<div role="status" aria-live="polite">{pieces}</div>' if pieces else ""

    @staticmethod
    def _piece(name: str, words: str) -> str:
        if name == "solution":
            return f'<p><strong>solution</strong></p><pre class="lk-solution">{html.escape(words)}</pre>'
        return f"<p><strong>{name}:</strong> {html.escape(words)}</p>"

    @property
    def text(self) -> str:
        """What there is, as plain text that gives nothing away."""
        return f"Hints: {', '.join(name for name, _ in self._pieces)}. {LIVE}"

    @property
    def static_html(self) -> str:
        """The pieces, each closed until it is asked for; a locked solution is left out."""
        shown = [piece for piece in self._pieces if piece[0] != "solution" or not self.is_locked]
        return "".join(
            f"<details><summary>{place}. {name}</summary>{self._piece(name, words)}</details>"
            for place, (name, words) in enumerate(shown, 1)
        )
