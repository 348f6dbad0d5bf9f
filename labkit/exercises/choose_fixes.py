"""Exercises in which the learner chooses fixes of an incident: as few as hold against every fault."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labkit.exercises.answer import Answer
from labkit.exercises.exercise import Attempt, Exercise
from labkit.incidents import Incident


class ChooseFixes(Exercise):
    """An exercise that is passed by a set of fixes that holds, and from which none can be taken.

    Parameters
    ----------
    incident: whose fixes and faults they are.
    advice: for each property's name, what to look at when it is violated. Of several, the first one here is told.
    praise: what to say when no fix is missing, and none too many.
    others: as for `Exercise`; starter and solution are a tuple of names each.
    """

    _gap = "\n"

    def __init__(
        self, name: str, task: str, *, incident: Incident, advice: Mapping[str, str], praise: str, **others: Any
    ) -> None:
        super().__init__(name, task, **others)
        self.incident, self.advice, self.praise = incident, advice, praise

    def judge(self, fixes: Any) -> Answer:
        """Search the incident with these fixes against each fault; then with one fix less."""
        answer = self._against_all(frozenset(fixes))
        if not answer.passes:
            return answer
        for spare in [fix.name for fix in self.incident.fixes if fix.name in fixes]:
            without = self._against_all(frozenset(fixes) - {spare})
            if without.passes:
                return Answer(False, f"It holds, and without {spare!r} it still does: that fix is too many.")
        return answer

    def _against_all(self, fixes: frozenset[str]) -> Answer:
        for fault in self.incident.faults:
            verdict = self.incident.explore(fixes, fault.name)
            if verdict.outcome != "holds":
                broken = next((name for name in self.advice if name in verdict.violations), "")
                said = f"Against {fault.name!r}: {self.advice.get(broken, 'the search was cut short.')}"
                return Answer(False, said, verdict, verdict.violations.get(broken))
        count = len(self.incident.faults)
        return Answer(True, f"It holds against each of the {count} faults, within their bounds. {self.praise}")

    def _wrong_form(self, attempt: Attempt) -> str:
        if len(attempt) != 1 or not isinstance(attempt[0], (set, frozenset, tuple, list)):
            return f'Give a set of names, such as {{"lock", "guard"}}. Call it like this: {self.called}.'
        known = [fix.name for fix in self.incident.fixes]
        for one in attempt[0]:
            if one not in known:
                return f"There is no fix {one!r}; there are {', '.join(known)}."
        return ""

    def _text(self, one: Any, name: str) -> str:
        # A set has another order in each process; the same choice is always the same text.
        chosen = sorted(one, key=[fix.name for fix in self.incident.fixes].index)
        return f"{name} = {{{', '.join(map(_quoted, chosen))}}}" if chosen else f"{name} = set()"


def _quoted(name: str) -> str:
    return f'"{name}"'
