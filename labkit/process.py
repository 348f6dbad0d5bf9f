"""A simulated process: a worker's function, and the threads that it starts. They share memory and fate."""

from __future__ import annotations

import ctypes
import io
import logging
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from itertools import count
from types import FrameType
from typing import Any

import greenlet

from labkit import errors
from labkit.actor import Actor, Ending, Operation, Step, current_actor
from labkit.errors import LabError
from labkit.watchdog import watchdog

MAIN = 0  # the place of the actor that runs the worker's function
Handler = Callable[[int, Any], object] | int | None


@dataclass(frozen=True, slots=True)
class Situation:
    """Where a process stands: what each of its actors does next.

    Parameters
    ----------
    steps: by place, the step at which an actor stopped; None where there is none (any more).
    since: by place, a number that changes when the actor stops anew.
    names: by place, what the actor is called; empty for the one that runs the worker's function.
    woken: by place, whether what the actor waits for in memory is there.
    endings: the names of the actors that ended on the way here, and how; a process ends with its first actor.
    sections: the critical sections that the process is inside.
    """

    steps: tuple[Step | None, ...]
    since: tuple[int, ...]
    names: tuple[str, ...]
    woken: tuple[bool, ...]
    endings: tuple[tuple[str, Ending], ...] = ()
    sections: tuple[str, ...] = ()

    @property
    def actors(self) -> list[int]:
        """The places of the actors that have not ended."""
        return [place for place, step in enumerate(self.steps) if step is not None]

    @property
    def ending(self) -> Ending | None:
        """How the process ended, or None while it goes on."""
        return dict(self.endings).get("")


class Process:
    """One run of a worker's code.

    Parameters
    ----------
    name: the worker's name.
    code: the worker's function, with its arguments bound.
    chance: the source of everything random in this worker.
    skew: how many microseconds its wall clock is ahead of the lab's.
    jump: by how many microseconds it jumps, if it does.
    """

    def __init__(
        self, name: str, code: Callable[[], object], chance: random.Random, skew: int = 0, jump: int = 0
    ) -> None:
        self.name = name
        self.chance = chance
        self.skew, self.jump = skew, jump
        self.sections: list[str] = []
        self.condemned = False
        self.complaint: LabError | None = None
        self.connections = 0
        self.handlers: dict[int, Handler] = {}
        self.awaited: list[Any] = []  # the locks that actors wait for, in the order in which they first were
        self.before_end: Callable[[], None] = _nothing
        self._actors: list[Actor | None] = [Actor(self, "", lambda: self._main(code))]
        self._steps: list[Step | None] = [None]
        self._since = [0]
        self._stops = 0
        self._endings: list[tuple[str, Ending]] = []

    def _main(self, code: Callable[[], object]) -> object:
        try:
            return code()
        finally:
            if not self.condemned:
                self.before_end()

    def resume(self, reply: object = None, place: int = MAIN) -> tuple[Situation, str]:
        """Give an actor its reply and let it run to its next step.

        Returns where the process then stands, and what it printed on the way.
        Raises `WorkerStuck` when it uses seconds of real time without a step.
        """
        printed = io.StringIO()
        self._endings = []
        running.append(self)
        try:
            with (
                _logs_into(printed),
                redirect_stdout(printed),
                redirect_stderr(printed),
                watchdog.watching(f"worker {self.name}"),
            ):
                self._let_run(place, reply)
        finally:
            running.pop()
        if self.complaint is not None:
            raise self.complaint
        situation = self._situation()
        if situation.ending is not None and not situation.ending.killed:
            self.abandon()  # threads that are left (daemons) end with it
        return situation, printed.getvalue()

    def _let_run(self, place: int, reply: object) -> None:
        actor = self._actors[place]
        assert actor is not None
        actor.parent = greenlet.getcurrent()
        arrived = actor.switch(reply)
        self._stops += 1
        self._since[place] = self._stops
        self._steps[place] = arrived if isinstance(arrived, Step) else None
        if isinstance(arrived, Ending):
            self._endings.append((actor.name, arrived))
            if place != MAIN:
                self._actors[place] = None

    def _situation(self) -> Situation:
        waits = [None if step is None else self._awaited(step.operation) for step in self._steps]
        return Situation(
            tuple(self._steps),
            tuple(self._since),
            tuple(actor.name if actor is not None else "" for actor in self._actors),
            tuple(thing is not None and not thing.locked() for thing in waits),
            tuple(self._endings),
            tuple(self.sections),
        )

    def start(self, name: str, code: Callable[[], object]) -> None:
        """Start another actor in this process; it runs at once, up to its first step."""
        place = next((place for place, actor in enumerate(self._actors) if actor is None), len(self._actors))
        if place == len(self._actors):
            self._actors.append(None)
            self._steps.append(None)
            self._since.append(0)
        taken = {actor.name for actor in self._actors if actor is not None}
        unique = next(other for number in count(1) if (other := name + str(number) * (number > 1)) not in taken)
        self._actors[place] = Actor(self, unique, code)
        self._let_run(place, None)

    def place_of(self, actor: Actor) -> int:
        """The place of an actor among those of the process."""
        return self._actors.index(actor)

    def frame_of(self, place: int) -> FrameType | None:
        """The innermost frame of an actor that has stopped at a step; None when there is none."""
        actor = self._actors[place]
        return None if actor is None else actor.gr_frame

    def wait_for(self, lock: Any, microseconds: int) -> bool:
        """Let the actor that runs now wait until a lock in memory is free; whether it is, or the time is over."""
        if not any(lock is other for other in self.awaited):
            self.awaited.append(lock)
        number = next(number for number, other in enumerate(self.awaited) if other is lock)
        return bool(self.perform(Operation("clock", ("wait", microseconds, number))))

    def _awaited(self, operation: Operation) -> Any:
        """The lock that an operation waits for, if it does."""
        is_wait = operation.store == "clock" and operation.request[0] == "wait"
        return self.awaited[operation.request[2]] if is_wait else None

    def perform(self, operation: Operation) -> Any:
        """Take a step as the actor that runs now."""
        actor = current_actor()
        assert actor is not None
        return actor.perform(operation)

    @property
    def dead(self) -> bool:
        """Whether nothing of it can run any more."""
        return all(actor is None or actor.dead for actor in self._actors)

    def abandon(self) -> None:
        """Let go of a process that a search no longer needs; nothing it still does can take effect."""
        self.condemned = True
        sink = io.StringIO()
        for actor in self._left():
            actor.parent = greenlet.getcurrent()
            with redirect_stdout(sink), redirect_stderr(sink), suppress(BaseException):
                actor.throw(greenlet.GreenletExit)  # whatever its clean-up raises happens to nobody
        if not self.dead:
            self.keep_for_ever()

    def keep_for_ever(self) -> None:
        """Keep a killed process as it is: collecting it would run its `finally` blocks, as no SIGKILL does."""
        self.condemned = True
        for actor in self._left():
            actor.code = _nothing
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(actor))

    def _left(self) -> list[Actor]:
        """The actors that have begun and not ended."""
        return [actor for actor in self._actors if actor is not None and actor and not actor.dead]


@contextmanager
def _logs_into(printed: io.StringIO) -> Iterator[None]:
    """Catch what the root logger's handlers write to the console: they hold the stream that they were made with."""
    consoles = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
    caught = [
        (handler, handler.stream)
        for handler in logging.root.handlers
        if isinstance(handler, logging.StreamHandler) and handler.stream in consoles
    ]
    for handler, _ in caught:
        handler.stream = printed
    try:
        yield
    finally:
        for handler, stream in caught:
            handler.stream = stream


def _nothing() -> None:
    """What a process that is over still has to do."""


def current_process() -> Process | None:
    """The simulated process that is running now, or None outside of any."""
    actor = current_actor()
    return None if actor is None else actor.process


running: list[Process] = []  # the process whose code runs now, if any, at the end


def _blame_the_running(error: LabError) -> None:
    """Note an error that the code of a worker, or a thread that it started, may swallow."""
    if running and running[-1].complaint is None:
        running[-1].complaint = error


errors.witness = _blame_the_running
