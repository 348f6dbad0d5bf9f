"""What a check answers: never just pass or fail, and never an exception."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any

import ipywidgets as ipw

from labkit.trace import Trace
from labkit.verdict import Verdict
from labkit.widgets import Stepper


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

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """In a live notebook, also a button that opens the execution in a stepper."""
        bundle = {"text/plain": repr(self), "text/html": self._repr_html_()}
        if self.shown is None or self.shown.origin is None:
            return bundle
        return {**(with_stepper(bundle["text/html"], self.shown)._repr_mimebundle_() or {}), **bundle}

    def _repr_html_(self) -> str:
        parts = [f"<p><strong>{'✓' if self.passes else '✗'} {html.escape(self.message)}</strong></p>"]
        if self.verdict is not None:
            parts.append(f"<p>{html.escape(self.verdict.headline)}</p>")
        if self.shown is not None:
            parts.append(self.shown.lanes(source=True)._repr_html_())
        return "\n".join(parts)


def with_stepper(words: str, trace: Trace) -> ipw.VBox:
    """The answer as a view, with a stepper that is made when it is asked for."""
    view = ipw.VBox([ipw.HTML(words)])
    button = ipw.Button(description="Step through it", tooltip="Open this execution in a stepper; redo leads through.")

    def open_it(_: ipw.Button) -> None:
        view.children = (view.children[0], Stepper.of(trace).view)

    button.on_click(open_it)
    view.children = (*view.children, button)
    return view
