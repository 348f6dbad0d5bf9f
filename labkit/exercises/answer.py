"""What a check answers: never just pass or fail, and never an exception."""

from __future__ import annotations

import html
from dataclasses import dataclass

import ipywidgets as ipw
from IPython.display import display

from labkit.trace import Trace
from labkit.verdict import Verdict
from labkit.widgets import Stepper
from labkit.widgets.shown import Shown, bar, button


@dataclass(frozen=True)
class Answer:
    """The answer to an attempt.

    Parameters
    ----------
    passes: whether the attempt does what was asked, within the bounds of the verdict.
    message: what to look at next.
    verdict: what the search said; None when the attempt could not be searched.
    trace: an execution to look at; if None, the counterexample of the verdict, if there is one.
    """

    passes: bool
    message: str
    verdict: Verdict | None = None
    trace: Trace | None = None

    @property
    def shown(self) -> Trace | None:
        """The execution to look at, or None."""
        if self.trace is not None:
            return self.trace
        return self.verdict.counterexample if self.verdict is not None else None

    def __repr__(self) -> str:
        parts = [self.message]
        if self.verdict is not None:
            parts.append(self.verdict.headline)
        if self.shown is not None:
            parts += ["", self.shown.table(source=True)]
        return "\n".join(parts)

    def _ipython_display_(self) -> None:
        """In a live notebook, also a button that opens the execution in a stepper."""
        if self.shown is None or self.shown.origin is None:
            display({"text/plain": repr(self), "text/html": self._repr_html_()}, raw=True)  # type: ignore[no-untyped-call]
        else:
            Steppable(self, self.shown)._ipython_display_()

    def _repr_html_(self) -> str:
        parts = [f"<p><strong>{'✓' if self.passes else '✗'} {html.escape(self.message)}</strong></p>"]
        if self.verdict is not None:
            parts.append(f"<p>{html.escape(self.verdict.headline)}</p>")
        if self.shown is not None:
            parts.append(self.shown.lanes(source=True)._repr_html_())
        return "\n".join(parts)


class Steppable(Shown):
    """An answer with a button that opens its execution in a stepper, which is made when it is asked for.

    Parameters
    ----------
    answer: the answer.
    trace: the execution.
    """

    def __init__(self, answer: Answer, trace: Trace) -> None:
        super().__init__("check")
        self.answer, self.trace = answer, trace
        self.words = ipw.HTML(answer._repr_html_())
        tooltip = "Open this execution in a stepper; redo leads through."
        self.opener = button("Step through it", self.guarded(self._open), tooltip=tooltip)
        self.show(self.words, bar([self.opener]), self.status)

    def _open(self) -> None:
        self.show(self.words, Stepper.of(self.trace).view)

    @property
    def text(self) -> str:
        """The answer as plain text."""
        return repr(self.answer)

    @property
    def static_html(self) -> str:
        """The answer with its picture."""
        return self.answer._repr_html_()
