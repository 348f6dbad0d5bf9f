"""Exercises in which the learner writes a schedule: the order in which a program fails, or in which it does not."""

from __future__ import annotations

from typing import Any

from labkit.errors import ScheduleError
from labkit.execution import replay
from labkit.exercises.answer import Answer
from labkit.exercises.exercise import Attempt, Exercise
from labkit.lab import Scenario
from labkit.schedule import Schedule


class WriteSchedule(Exercise):
    """An exercise that is passed by any schedule that does what is asked.

    Parameters
    ----------
    scenario: the program.
    breaks: the name of the property that the schedule must break.
    crashes: how many the schedule may have at most. Other faults it may not have; time may pass whenever it can.
    missed: what to say when the schedule does not break the property.
    praise: what to say when it does.
    others: as for `Exercise`; starter and solution are texts such as `A B B A`.
    """

    _gap = "\n"

    def __init__(
        self,
        name: str,
        task: str,
        *,
        scenario: Scenario,
        breaks: str,
        missed: str,
        praise: str,
        crashes: int = 0,
        **others: Any,
    ) -> None:
        super().__init__(name, task, **others)
        self.scenario, self.breaks, self.missed, self.praise, self.crashes = scenario, breaks, missed, praise, crashes

    def judge(self, schedule: Any) -> Answer:
        """Replay the schedule, and look whether it breaks the property."""
        try:
            chosen = Schedule.parse(schedule) if isinstance(schedule, str) else schedule
            trace = replay(self.scenario, chosen)
        except ScheduleError as error:
            return Answer(False, f"This order cannot be: {error.sentence}")
        other = next((choice for choice in chosen if choice.is_fault and choice.kind != "crash"), None)
        if other is not None:
            return Answer(False, f"Your order has `{other}` in it. That fault may not happen here.", None, trace)
        crashes = sum(choice.kind == "crash" for choice in chosen)
        if crashes > self.crashes:
            most = f"at most {self.crashes}" if self.crashes else "none"
            return Answer(False, f"Crashes in your order: {crashes}. Here {most} may happen.", None, trace)
        if any(found.property == self.breaks for found in trace.violations):
            return Answer(True, self.praise, None, trace)
        if trace.waiting and not trace.over:
            unfinished = f"So far nothing is broken, and {' and '.join(trace.waiting)} can still go on: add steps."
            return Answer(False, unfinished, None, trace)
        return Answer(False, self.missed, None, trace)

    def _wrong_form(self, attempt: Attempt) -> str:
        if len(attempt) != 1 or not isinstance(attempt[0], (str, Schedule)):
            return f'A schedule is a text such as "A B clock A". Call it like this: {self.called}.'
        if isinstance(attempt[0], str) and not attempt[0].strip():
            return "There is no step in it yet. Write the workers' names in the order in which they step: A B …"
        return ""

    def _text(self, one: Any, name: str) -> str:
        return f'{name} = "{one}"'
