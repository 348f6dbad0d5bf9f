"""Exercises in which the learner asks a log: a function whose answers are compared with what happened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from labkit.errors import LabError
from labkit.exercises.answer import Answer
from labkit.exercises.exercise import Exercise
from labkit.exercises.write_property import Slip
from labkit.source import error_text
from labkit.trace import Trace
from labkit.watchdog import watchdog


@dataclass(frozen=True)
class Case:
    """One execution that an attempt is asked about.

    Parameters
    ----------
    ask: calls the attempt, and returns what it makes of the execution.
    wanted: what happened.
    told: what to look at when the two differ.
    trace: gives the execution, to be shown beside it; None when there is nothing to see.
    """

    ask: Callable[..., object]
    wanted: object
    told: str
    trace: Callable[[], Trace] | None = None


class WriteQuery(Exercise):
    """An exercise that is passed when the attempt says of each execution what happened there.

    Parameters
    ----------
    cases: the executions, the simplest first.
    praise: what to say when each answer is right.
    says: how a wrong answer is introduced.
    others: as for `Exercise`.
    """

    def __init__(
        self, name: str, task: str, *, cases: Sequence[Case], praise: str, says: str = "You say", **others: Any
    ) -> None:
        super().__init__(name, task, **others)
        self.cases, self.praise, self.says = tuple(cases), praise, says

    def judge(self, *attempt: Any) -> Answer:
        """Ask about one execution after the other, up to the first wrong answer."""
        for case in self.cases:
            try:
                answer = case.ask(*attempt)
            except LabError:
                raise  # it says by itself what is wrong
            except Slip as slip:
                return Answer(False, f"{self.names[0]} {slip}. Mend that first.")
            except (Exception, SystemExit) as error:
                return Answer(False, f"{self.names[0]} raised {error_text(error)}. Mend that first.")
            if answer != case.wanted:
                said = f"{case.told} {self.says} {_shown(answer)}; it was {_shown(case.wanted)}."
                return Answer(False, said, None, case.trace() if case.trace is not None else None)
        return Answer(True, f"{self.praise} {len(self.cases)} of {len(self.cases)} answers are right.")


def asked(query: Callable[[Any], object], log: object) -> object:
    """The query's answer; `WorkerStuck` when it is given in no time at all."""
    with watchdog.watching("your function"):
        return query(log)


def _shown(answer: object) -> str:
    """An answer as it is told; sets in order, so that it is the same each time."""
    if answer is None:
        return "nothing, and returned None"
    if isinstance(answer, (set, frozenset)):
        return "{" + ", ".join(sorted(map(repr, answer))) + "}" if answer else "none"
    return repr(answer)
