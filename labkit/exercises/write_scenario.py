"""Exercises in which the learner writes the world around given code: to accept what is sound, and catch the bugs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from labkit.errors import LabError
from labkit.exercises.answer import Answer
from labkit.exercises.exercise import Exercise
from labkit.exercises.write_program import MOST_SECONDS, MOST_STATES
from labkit.exercises.write_property import Slip
from labkit.lab import Lab
from labkit.search.every_schedule import explore
from labkit.source import error_text
from labkit.verdict import Verdict


@dataclass(frozen=True)
class Trial:
    """Given code that a learner's scenario is measured by.

    Parameters
    ----------
    code: the function that is handed to the scenario, after the lab.
    is_sound: whether the scenario must accept it; otherwise it must catch it.
    told: what to say when it is misjudged; a function is given the verdict.
    faults: budgets, as for `explore`.
    """

    code: Callable[..., object]
    is_sound: bool
    told: str | Callable[[Verdict], str]
    faults: Mapping[str, Any] = field(default_factory=dict)


class WriteScenario(Exercise):
    """An exercise that is passed when the learner's scenario tells the sound code from each planted bug.

    The learner writes `my_scenario(lab, code)`: workers that run the code, and properties.

    Parameters
    ----------
    trials: the code to be judged, the simplest question first.
    praise: what to say when each is judged as it should be.
    others: as for `Exercise`.
    """

    def __init__(self, name: str, task: str, *, trials: Sequence[Trial], praise: str, **others: Any) -> None:
        super().__init__(name, task, **others)
        self.trials, self.praise = tuple(trials), praise

    def judge(self, build: Callable[..., object]) -> Answer:
        """Search the learner's scenario with one piece of code after the other, up to the first that is misjudged."""
        answer = Answer(False, "There is nothing to check.")
        for trial in self.trials:
            try:
                answer = self._try(trial, build)
            except Slip as slip:
                return Answer(False, f"{self.names[0]} {slip}. Mend that first.")
            if not answer.passes:
                return answer
        return answer

    def _try(self, trial: Trial, build: Callable[..., object]) -> Answer:
        verdict = explore(
            _scenario(build, trial.code), max_states=MOST_STATES, max_seconds=MOST_SECONDS, **trial.faults
        )
        if not verdict.properties:
            return Answer(False, "No property is stated yet. Call lab.always or lab.at_end, with a name and a check.")
        if verdict.raised:
            name, ending = next(iter(verdict.raised.items()))
            return Answer(False, f"Worker {name} {ending}. What do you call the code with? Mend that first.", verdict)
        if verdict.outcome != ("holds" if trial.is_sound else "violated"):
            return Answer(False, trial.told if isinstance(trial.told, str) else trial.told(verdict), verdict)
        bugs = sum(not each.is_sound for each in self.trials)
        return Answer(True, f"{self.praise} {bugs} planted bugs caught, and the sound code accepted.")


def _scenario(build: Callable[..., object], code: Callable[..., object]) -> Callable[[Lab], None]:
    def scenario(lab: Lab) -> None:
        try:
            build(lab, code)
        except LabError:
            raise  # it says by itself what is wrong with a worker or a property
        except (Exception, SystemExit) as error:
            raise Slip(f"raised {error_text(error)}") from error

    return scenario
