"""Exercises in which the learner writes worker code: a lock, a handler, a drain. It is put into worlds and searched."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from labkit.exercises.answer import Answer
from labkit.exercises.exercise import Exercise
from labkit.lab import Scenario
from labkit.search.every_schedule import explore
from labkit.trace import Trace
from labkit.verdict import Verdict

MOST_STATES = 20_000
MOST_SECONDS = 4.0  # a net, for a slow machine and a wild attempt; what is asked for is searched in a fraction of it

Advice = str | Callable[[Trace], str]  # one sentence on what to look at; a function is given the counterexample


@dataclass(frozen=True)
class World:
    """A question that is put to an attempt: a scenario made of it, and what to say when it breaks there.

    Parameters
    ----------
    build: makes the scenario from the attempt.
    advice: for each property's name, what to look at when it is violated. Of several, the first one here is told.
    faults: budgets, as for `explore`. Without them it is searched first: a race that needs no fault is the clearest.
    may_raise: names of exceptions with which an attempt's worker may end here.
    """

    build: Callable[..., Scenario]
    advice: Mapping[str, Advice]
    faults: Mapping[str, Any] = field(default_factory=dict)
    may_raise: tuple[str, ...] = ()


class WriteProgram(Exercise):
    """An exercise that is passed when every world holds.

    Parameters
    ----------
    worlds: what is asked of an attempt, the simplest question first.
    praise: what to say when everything holds.
    others: as for `Exercise`.
    """

    def __init__(self, name: str, task: str, *, worlds: Sequence[World], praise: str, **others: Any) -> None:
        super().__init__(name, task, **others)
        self.worlds, self.praise = tuple(worlds), praise

    def judge(self, *attempt: Any) -> Answer:
        """Put the attempt into one world after the other, up to the first that breaks."""
        answer = Answer(False, "There is nothing to check.")
        for world in self.worlds:
            answer = self._ask(world, world.build(*attempt))
            if not answer.passes:
                return answer
        return answer

    def _ask(self, world: World, scenario: Scenario) -> Answer:
        verdict = _search(scenario)
        if verdict.outcome == "holds" and world.faults:
            verdict = _search(scenario, **world.faults)
        slips = {name: end for name, end in verdict.raised.items() if not _is_allowed(str(end.error), world.may_raise)}
        if slips:
            name, ending = next(iter(slips.items()))
            return Answer(False, f"Worker {name} {ending}. Mend that first; it is no race.", verdict)
        if verdict.outcome == "violated":
            name = next(name for name in world.advice if name in verdict.violations)
            advice, trace = world.advice[name], verdict.violations[name]
            said = advice if isinstance(advice, str) else advice(trace)
            return Answer(False, said, verdict, trace)
        if verdict.outcome == "undetermined":
            endless = "Your code takes too many steps to search them all. Is there a loop that never ends?"
            unseen = "No execution shows what your code does. Read the line below."
            return Answer(False, endless if verdict.stopped or verdict.skipped_polls else unseen, verdict)
        return Answer(True, self.praise, verdict)


def _search(scenario: Scenario, **faults: Any) -> Verdict:
    return explore(scenario, max_states=MOST_STATES, max_seconds=MOST_SECONDS, **faults)


def _is_allowed(error: str, allowed: tuple[str, ...]) -> bool:
    return error.partition(":")[0] in allowed
