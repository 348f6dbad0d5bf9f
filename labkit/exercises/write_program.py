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
MOST_SECONDS = 6.0  # a net, for a slow machine and a wild attempt; what is asked for is searched in a fraction of it
MANY_POLLS = 400  # one each tenth of a second, as redis-py's lock polls, for longer than a lease of 30 seconds

MEND = "Mend that first; it is no race."
# Errors by which a worker is told that somebody else was faster: these are races.
OVERTAKEN = ("WatchError", "LockError", "LockNotOwnedError", "MessageNotInflight", "ClaimLost")

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
    wakes: whether it must hold too when a worker wakes late: sleeps keep workers apart by luck alone.
    """

    build: Callable[..., Scenario]
    advice: Mapping[str, Advice]
    faults: Mapping[str, Any] = field(default_factory=dict)
    may_raise: tuple[str, ...] = ()
    wakes: bool = False


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
        verdict = _patient(scenario)
        if verdict.outcome == "holds" and world.faults:
            verdict = _patient(scenario, **world.faults)
        slips = {name: end for name, end in verdict.raised.items() if not _is_allowed(str(end.error), world.may_raise)}
        if slips:
            name, ending = next(iter(slips.items()))
            late = str(ending.error).partition(":")[0] in OVERTAKEN
            mend = "So it learns that it was overtaken: what is to be done then?" if late else MEND
            return Answer(False, f"Worker {name} {ending}. {mend}", verdict)
        if verdict.outcome == "violated":
            name = next(name for name in world.advice if name in verdict.violations)
            advice, trace = world.advice[name], verdict.violations[name]
            said = advice if isinstance(advice, str) else advice(trace)
            return Answer(False, said, verdict, trace)
        if verdict.outcome == "undetermined":
            return Answer(False, _why_unknown(verdict), verdict)
        return (_woken_late(scenario) if world.wakes else None) or Answer(True, self.praise, verdict)


def _woken_late(scenario: Scenario) -> Answer | None:
    """What breaks it when a worker wakes later than it wanted to, and nothing else ends meanwhile; None if nothing."""
    late = explore(scenario, max_states=MOST_STATES, max_seconds=MOST_SECONDS / 2, pauses=1, others=5)
    told = "To sleep only makes it rare: here one wakes a little later than in your runs."
    for name, trace in late.violations.items():
        for way in (trace, *late.others.get(name, ())):
            has_slept = any(event.kind == "sleep" and event.worker not in late.bounds.spared for event in way.events)
            has_ended = any(event.kind == "clock" and (event.writes or "due" in event.text) for event in way.events)
            if has_slept and not has_ended:
                return Answer(False, told, late, way)
    return None


def _patient(scenario: Scenario, **faults: Any) -> Verdict:
    """The verdict; a poller that was left alone is followed for longer, if that ends: a time-out may end its wait."""
    verdict = _search(scenario, MOST_SECONDS, **faults)
    if verdict.outcome == "undetermined" and verdict.stopped is None and verdict.skipped_polls:
        longer = _search(scenario, MOST_SECONDS / 2, polls=MANY_POLLS, **faults)
        return longer if longer.outcome != "undetermined" else verdict
    return verdict


def _search(scenario: Scenario, seconds: float, **faults: Any) -> Verdict:
    return explore(scenario, max_states=MOST_STATES, max_seconds=seconds, **faults)


def _why_unknown(verdict: Verdict) -> str:
    """What to look at when the search has not come to its end."""
    if verdict.stopped is not None:
        return "Your code takes too many steps to search them all. Is there a loop that never ends?" + (
            " If not, this machine is busy: check once more." if "seconds" in verdict.stopped else ""
        )
    if verdict.skipped_polls:
        return (
            "Your code waits in a loop, and what it waits for may never come: too long to search. Is there a loop that "
            "never ends? Who frees what it waits for, if the one that has it is dead?"
        )
    return "No execution shows what your code does. Read the line below."


def _is_allowed(error: str, allowed: tuple[str, ...]) -> bool:
    return error.partition(":")[0] in allowed
