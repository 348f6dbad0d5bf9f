"""What a worker is at, in the middle of an execution: what it does next, where in its code, with which variables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from labkit.execution import Walk
from labkit.frames import Frame, frames_of, function_of
from labkit.machine import DEAD, FINISHED
from labkit.process import MAIN
from labkit.words import in_seconds, shorten

LONGEST_STEP = 200  # characters of what a worker does next


class WorkerView(NamedTuple):
    """What one worker, or one of its threads, is at.

    Parameters
    ----------
    name: its name in schedules.
    place: its place in the scenario.
    status: `ready`, `waits`, or how it ended: `returned`, `killed`, `raised`.
    text: what it does next, what it waits for, or how it ended, in a few words.
    frames: the functions it is in, from the outermost to the innermost; once it has ended, its own function.
    sections: the critical sections it is inside.
    """

    name: str
    place: int
    status: str
    text: str
    frames: tuple[Frame, ...] = ()
    sections: tuple[str, ...] = ()


def at_line(view: WorkerView) -> str:
    """Where a worker stands in its code, as text to follow what it does; empty when it stands nowhere."""
    if not view.frames or not view.frames[-1].current:
        return ""
    frame = view.frames[-1]
    return f" ({frame.function}, line {frame.current}" + (f": {frame.line})" if frame.line else ")")


def look_at_worker(walk: Walk, worker: int) -> Iterator[WorkerView]:
    """What a worker and its threads are at."""
    engine = walk.engine
    number, name = engine.number_of(walk.state, worker), engine.names[worker]
    if number < 0:
        yield _ended(walk, worker, name, number)
        return
    machine, moment = engine.machines[worker], engine.moment_of(walk.state, worker)
    process = machine.runs.standing_at(moment)
    able = machine.able(number, walk.state)
    for pending in machine.pending[number]:
        actor = pending.actor
        operation = moment.operation_of(actor)
        text = shorten(engine.world.stores[pending.slot].describe(operation.request).text, LONGEST_STEP)
        if actor in able:
            status, text = "ready", f"next {text}" if pending.cost else f"next: {text}"
        elif pending.left > 0:
            status, text = "waits", f"waits for another {in_seconds(pending.left / 1e6)}"
        else:
            status, text = "waits", "polls, and would learn nothing new" if pending.idle else f"waits: {text}"
        sections = moment.situation.sections if actor == MAIN else ()
        frames = frames_of(process.frame_of(actor))
        yield WorkerView(engine.name_of(walk.state, worker, actor), worker, status, text, frames, sections)


def _ended(walk: Walk, worker: int, name: str, number: int) -> WorkerView:
    """A worker that takes no step again; its function is still there to be read."""
    frames = tuple(function_of(walk.engine.plans[worker].function))
    if number == FINISHED:
        return WorkerView(name, worker, "returned", "has returned", frames)
    if number == DEAD:
        return WorkerView(name, worker, "killed", "was killed", frames)
    endings = [event.ending for event in walk.events if event.worker == name and event.ending is not None]
    return WorkerView(name, worker, "raised", str(endings[-1]) if endings else "raised an exception", frames)
