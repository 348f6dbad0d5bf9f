"""How the workers of a live run came to their ends: marks for the trace, and words."""

from __future__ import annotations

import signal
from collections.abc import Collection, Iterable, Mapping

from labkit import errors
from labkit.errors import LabError, ScenarioError
from labkit.processes.faults import LiveFault
from labkit.processes.merging import Mark, Story
from labkit.processes.running import Exit

KILLED = "was killed by SIGKILL"
_KINDS = {-signal.SIGKILL: "crash", -signal.SIGTERM: "signal"}


def without_the_late(marks: Iterable[Mark], exits: Mapping[str, Exit]) -> list[Mark]:
    """The marks, but those of kills that came when their worker had just ended by itself."""
    return [mark for mark in marks if mark.kind != "crash" or exits[mark.worker].code == -signal.SIGKILL]


def marks_of_strangers(name: str, ended: Exit, marks: Iterable[Mark]) -> list[Mark]:
    """The mark of a signal that ended a worker, if neither the lab nor the worker itself sent it."""
    kind = _KINDS.get(ended.code)
    if kind is None or any(mark.worker == name and mark.kind == kind for mark in marks):
        return []
    return [Mark(ended.at, name, kind, deadly=False)]


def settled(marks: list[Mark], stories: Mapping[str, Story], terminated: Collection[str]) -> list[Mark]:
    """The marks, none of a crash before what its worker had done by then, and deadly the SIGTERMs that ended theirs.

    Parameters
    ----------
    marks: what was done to workers.
    stories: what they did.
    terminated: the workers that SIGTERM ended.
    """
    moved = []
    for mark in marks:
        if mark.kind == "crash":
            steps = stories[mark.worker].steps
            mark = mark._replace(at=max(mark.at, steps[-1].at + 1 if steps else 0))
        elif mark.worker in terminated:
            mark = mark._replace(deadly=True)
        moved.append(mark)
    return moved


def exit_in_words(story: Story | None, ended: Exit | None, stopped: bool) -> str:
    """How a worker came to its end."""
    if stopped:
        return "was stopped by the lab when the run was over"
    if story is None or ended is None:
        return "never started"
    if story.ending is not None:
        return str(story.ending)
    words = {-signal.SIGKILL: KILLED, -signal.SIGTERM: "was killed by SIGTERM"}
    return words.get(ended.code, f"ended with {ended.code}, and its function did not")


def raised_at_once(story: Story) -> bool:
    """Whether a worker raised before its first step."""
    return story.ending is not None and story.ending.error is not None and not story.steps


def not_done(
    faults: Iterable[LiveFault], pending: Iterable[LiveFault], exits: Mapping[str, str], shifted: Iterable[str]
) -> tuple[str, ...]:
    """What was asked for and did not happen, a sentence each.

    Parameters
    ----------
    faults: what was to go wrong.
    pending: what was to go wrong later than the run lasted.
    exits: how each worker came to its end.
    shifted: the workers that have a clock of their own in the lab.
    """
    said = [f"not done: {fault.kind} of {fault.worker}, since the run was over before" for fault in pending]
    for fault in faults:
        if fault.kind == "kill" and fault.step is not None and exits[fault.worker] != KILLED:
            said.append(f"not done: {fault.worker} was not killed, since it took fewer than {fault.step} steps")
    if names := ", ".join(shifted):
        said.append(f"not done: clocks of {names} are as the machine's")
    return tuple(said)


def as_raised(kind: str, message: str) -> LabError:
    """An error of the lab as it was raised in a worker's process."""
    raised: type[LabError] = getattr(errors, kind, ScenarioError)
    return raised(message)
