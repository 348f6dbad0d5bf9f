"""A simulated process: a greenlet that runs a worker's code up to its next step.

Workers are greenlets because synchronous code then runs unchanged: a step is one switch to whoever
resumed the worker, and its reply is the switch back.
"""

from __future__ import annotations

import ctypes
import inspect
import io
import logging
import random
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import greenlet

from labkit import errors
from labkit.errors import LabError, ScenarioError
from labkit.source import Line, learners_line, raising_line
from labkit.watchdog import watchdog


class Operation(NamedTuple):
    """What a worker asks for: one indivisible request to one store.

    Parameters
    ----------
    store: the store's name.
    request: the store's own form of the request; hashable, and equal when it means the same.
    """

    store: str
    request: Any


@dataclass(frozen=True, slots=True)
class Step:
    """A worker that stopped at its next step.

    Parameters
    ----------
    operation: what it asks for.
    line: the learner's line that asks.
    sections: the critical sections that the worker is inside.
    """

    operation: Operation
    line: Line | None
    sections: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ending:
    """A worker that came to its end.

    Parameters
    ----------
    error: `TypeName: message` of the exception that ended it, or None when it returned.
    line: the line that raised, or None.
    killed: whether a signal that it does not handle ended it.
    """

    error: str | None = None
    line: Line | None = None
    killed: bool = False

    def __str__(self) -> str:
        if self.killed:
            return "was killed by SIGTERM"
        if self.error is None:
            return "returned"
        return f"raised {self.error}" + (f" ({self.line})" if self.line else "")


class Lost:
    """Instead of a reply: the operation took effect, and nothing more is heard of it."""


class Signal:
    """Instead of a reply: SIGTERM arrived, and the operation is still to be done."""


MOST_REFUSALS = 10
Handler = Callable[[int, Any], object] | int | None


class Process(greenlet.greenlet):  # type: ignore[misc]
    """One run of a worker's code.

    Parameters
    ----------
    name: the worker's name.
    code: the worker's function, with its arguments bound.
    chance: the source of everything random in this worker.
    """

    def __init__(self, name: str, code: Callable[[], object], chance: random.Random) -> None:
        super().__init__(self._body)
        self.name = name
        self.chance = chance
        self.sections: list[str] = []
        self.condemned = False
        self.complaint: LabError | None = None
        self.connections = 0
        self._refusals = 0
        self.handlers: dict[int, Handler] = {}
        self._code = code

    def _body(self, _: object) -> Ending:
        try:
            result = self._code()
            self._refuse_what_has_not_run(result)
        except (Exception, SystemExit, GeneratorExit) as error:
            if isinstance(error, LabError):
                raise  # the lab's own complaint is for the learner, not an outcome of the worker
            return Ending(_one_line(error), raising_line(error.__traceback__))
        return Ending()

    def _refuse_what_has_not_run(self, result: object) -> None:
        if inspect.iscoroutine(result) or inspect.isgenerator(result):
            result.close()
        elif not inspect.isasyncgen(result):
            return
        raise ScenarioError(
            f"worker {self.name} only made a {type(result).__name__} object, and none of its code ran: workers are "
            "ordinary functions, without async and without yield"
        )

    def resume(self, reply: object = None) -> tuple[Step | Ending, str]:
        """Give the worker its reply and let it run to its next step.

        Returns the step or the ending, and what the worker printed on the way.
        Raises `WorkerStuck` when it uses seconds of real time without a step.
        """
        self.parent = greenlet.getcurrent()
        printed = io.StringIO()
        running.append(self)
        try:
            with (
                _logs_into(printed),
                redirect_stdout(printed),
                redirect_stderr(printed),
                watchdog.watching(f"worker {self.name}"),
            ):
                arrived = self.switch(reply)
        finally:
            running.pop()
        if self.complaint is not None:
            raise self.complaint
        return arrived, printed.getvalue()

    def perform(self, operation: Operation) -> Any:
        """Take a step: called by the worker's own code, answered by whoever resumed it."""
        self.refuse_if_condemned()
        step = Step(operation, learners_line(sys._getframe(1)), tuple(self.sections))
        while isinstance(reply := self._ask(step), Signal):
            self._handle(signal.SIGTERM)
        return reply

    def _ask(self, message: Step | Ending) -> Any:
        self.refuse_if_condemned()
        parent = self.parent
        assert parent is not None
        return parent.switch(message)

    def refuse_if_condemned(self) -> None:
        """End a process that is over; one that swallows its end again and again is stopped where it stands."""
        if self.condemned:
            self._refusals += 1
            while self._refusals > MOST_REFUSALS:
                assert self.parent is not None
                self.parent.switch(None)
            raise greenlet.GreenletExit

    def _handle(self, number: int) -> None:
        """Do what the worker's code wants done about a signal, in the middle of what it was doing."""
        handler = self.handlers.get(number, signal.SIG_DFL)
        if callable(handler):
            handler(number, sys._getframe(2))
        elif handler == signal.SIG_DFL:
            self._ask(Ending(killed=True))

    def abandon(self) -> None:
        """Let go of a process that a search no longer needs; nothing it still does can take effect."""
        if self.dead or not self:
            return
        self.condemned = True
        self.parent = greenlet.getcurrent()
        sink = io.StringIO()
        with redirect_stdout(sink), redirect_stderr(sink), suppress(BaseException):
            self.throw(greenlet.GreenletExit)  # whatever its clean-up raises happens to nobody
        if not self.dead:
            self.keep_for_ever()

    def keep_for_ever(self) -> None:
        """Keep a killed process as it is: collecting it would run its `finally` blocks, as no SIGKILL does."""
        if not self.dead:
            self.condemned = True
            self._code = _nothing
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))


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
    here = greenlet.getcurrent()
    if isinstance(here, Process):
        here.refuse_if_condemned()
        return here
    return None


running: list[Process] = []  # the process whose code runs now, if any, at the end


def _blame_the_running(error: LabError) -> None:
    """Note an error that the code of a worker, or a thread that it started, may swallow."""
    if running and running[-1].complaint is None:
        running[-1].complaint = error


errors.witness = _blame_the_running


def _one_line(error: BaseException) -> str:
    message = " ".join(str(error).split())
    return type(error).__name__ + (f": {message}" if message else "")
