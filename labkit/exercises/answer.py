"""What a check answers: never just pass or fail, and never an exception."""

from __future__ import annotations

import html
from dataclasses import dataclass

from labkit.lab import Scenario
from labkit.trace import Trace
from labkit.verdict import Verdict


@dataclass(frozen=True)
class Answer:
    """The answer to an attempt.

    Parameters
    ----------
    passes: whether the attempt does what was asked, within the bounds of the verdict.
    message: what to look at next.
    verdict: what the search said; None when the attempt could not be searched.
    trace: an execution to look at; if None, the counterexample of the verdict, if there is one.
    scenario: the world that the attempt was put into, so that the execution can be stepped through.
    """

    passes: bool
    message: str
    verdict: Verdict | None = None
    trace: Trace | None = None
    scenario: Scenario | None = None

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

    def _repr_html_(self) -> str:
        parts = [f"<p><strong>{'✓' if self.passes else '✗'} {html.escape(self.message)}</strong></p>"]
        if self.verdict is not None:
            parts.append(f"<p>{html.escape(self.verdict.headline)}</p>")
        if self.shown is not None:
            parts.append(self.shown.lanes(source=True)._repr_html_())
        return "\n".join(parts)
