"""What a check answers: never just pass or fail, and never an exception."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass

from labkit.errors import LabError
from labkit.lab import Scenario
from labkit.search.every_schedule import explore
from labkit.verdict import Verdict


@dataclass(frozen=True)
class Answer:
    """The answer to an attempt.

    Parameters
    ----------
    passes: whether the attempt does what was asked, within the bounds of the verdict.
    message: what to look at next.
    verdict: what the search said; None when the attempt could not be searched.
    """

    passes: bool
    message: str
    verdict: Verdict | None = None

    def __repr__(self) -> str:
        parts = [self.message]
        if self.verdict is not None:
            parts.append(self.verdict.headline)
            shown = self.verdict.counterexample
            parts += ["", shown.table(source=True)] if shown is not None else []
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        parts = [f"<p><strong>{'✓' if self.passes else '✗'} {html.escape(self.message)}</strong></p>"]
        if self.verdict is not None:
            parts.append(f"<p>{html.escape(self.verdict.headline)}</p>")
            shown = self.verdict.counterexample
            parts += [shown.lanes(source=True)._repr_html_()] if shown is not None else []
        return "\n".join(parts)


def examine(
    attempt: object, scenario: Scenario, advice: Callable[[str], str], *, crashes: int, pauses: int, praise: str
) -> Answer:
    """Search a learner's attempt.

    Parameters
    ----------
    attempt: what the learner wrote; a function, one hopes.
    scenario: the world that it is put into.
    advice: for a violated property's name, one sentence on what to look at.
    crashes, pauses: the budgets of the search.
    praise: what to say when it holds.
    """
    if not callable(attempt):
        return Answer(False, f"Give the check your function itself, not {attempt!r}.")
    try:
        verdict = explore(scenario, max_states=50_000)  # a race that needs no fault is the clearest to look at
        if verdict.outcome == "holds":
            verdict = explore(scenario, crashes=crashes, pauses=pauses, max_states=50_000)
    except LabError as error:
        return Answer(False, f"This could not be searched: {error}.")
    except Exception as error:  # a check never raises into the notebook
        return Answer(False, f"The check itself failed with {type(error).__name__}: {error}. This is a bug of the lab.")
    if verdict.raised:
        name, ending = next(iter(verdict.raised.items()))
        return Answer(False, f"Worker {name} {ending}. Mend that first; it is no race.", verdict)
    if verdict.outcome == "violated":
        return Answer(False, advice(next(iter(verdict.violations))), verdict)
    if verdict.outcome == "undetermined":
        return Answer(
            False, "Your code takes too many steps to search them all. Is there a loop that never ends?", verdict
        )
    return Answer(True, praise, verdict)
