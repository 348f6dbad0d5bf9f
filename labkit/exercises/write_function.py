"""Exercises in which the learner writes a function that judges or computes: it must answer each case as it should."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from labkit.errors import LabError
from labkit.exercises.answer import Answer
from labkit.exercises.exercise import Exercise
from labkit.source import error_text
from labkit.watchdog import watchdog


@dataclass(frozen=True)
class Case:
    """One call of the learner's function.

    Parameters
    ----------
    arguments: what it is called with.
    is_right: whether an answer is as it should be.
    told: what to say when it is not; a function is given the answer.
    about: what case this is, said before an exception that the function raises for it.
    """

    arguments: tuple[Any, ...]
    is_right: Callable[[Any], bool]
    told: str | Callable[[Any], str]
    about: str = ""


class WriteFunction(Exercise):
    """An exercise that is passed when the learner's function answers every case as it should.

    Parameters
    ----------
    cases: the calls, the simplest question first.
    praise: what to say when each is answered as it should be.
    others: as for `Exercise`.
    """

    def __init__(self, name: str, task: str, *, cases: Sequence[Case], praise: str, **others: Any) -> None:
        super().__init__(name, task, **others)
        self.cases, self.praise = tuple(cases), praise

    def judge(self, function: Callable[..., Any]) -> Answer:
        """Call it with one case after the other, up to the first that it answers wrongly."""
        for case in self.cases:
            try:
                with watchdog.watching(self.names[0]):
                    answer = function(*copy.deepcopy(case.arguments))
            except LabError:
                raise  # it says by itself what is wrong
            except (Exception, SystemExit) as error:
                return Answer(False, f"{case.about}{self.names[0]} raised {error_text(error)}. Mend that first.")
            if not case.is_right(answer):
                return Answer(False, case.told if isinstance(case.told, str) else case.told(answer))
        return Answer(True, f"{self.praise} {len(self.cases)} cases, each answered as it should be.")
