"""A simulated process: a greenlet that runs a worker's code up to its next step.

Workers are greenlets because synchronous code then runs unchanged: a step is one switch to whoever
resumed the worker, and its reply is the switch back.
"""

from __future__ import annotations

import ctypes
import io
import random
import signal
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import greenlet

from labkit.errors import LabError
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
        self.connections = 0
        self.handlers: dict[int, Handler] = {}
        self._code = code

    def _body(self, _: object) -> Ending:
        try:
            self._code()
        except (Exception, SystemExit) as error:
            if isinstance(error, LabError):
                raise  # the lab's own complaint is for the learner, not an outcome of the worker
            return Ending(_one_line(error), raising_line(error.__traceback__))
        return Ending()

    def resume(self, reply: object = None) -> tuple[Step | Ending, str]:
        """Give the worker its reply and let it run to its next step.

        Returns the step or the ending, and what the worker printed on the way.
        Raises `WorkerStuck` when it uses seconds of real time without a step.
        """
        self.parent = greenlet.getcurrent()
        printed = io.StringIO()
        with redirect_stdout(printed), redirect_stderr(printed), watchdog.watching(self.name):
            try:
                arrived = self.switch(reply)
            except KeyboardInterrupt:
                watchdog.explain_interrupt()
                raise
        return arrived, printed.getvalue()

    def perform(self, operation: Operation) -> Any:
        """Take a step: called by the worker's own code, answered by whoever resumed it."""
        if self.condemned:
            raise greenlet.GreenletExit
        step = Step(operation, learners_line(sys._getframe(1)), tuple(self.sections))
        while isinstance(reply := self._ask(step), Signal):
            self._handle(signal.SIGTERM)
        return reply

    def _ask(self, message: Step | Ending) -> Any:
        if self.condemned:
            raise greenlet.GreenletExit
        parent = self.parent
        assert parent is not None
        return parent.switch(message)

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
        sink = io.StringIO()
        with redirect_stdout(sink), redirect_stderr(sink), suppress(BaseException):
            self.throw(greenlet.GreenletExit)  # whatever its clean-up raises happens to nobody
        if not self.dead:
            self.keep_for_ever()

    def keep_for_ever(self) -> None:
        """Keep a killed process as it is: collecting it would run its `finally` blocks, as no SIGKILL does."""
        if not self.dead:
            self.condemned = True
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))


def current_process() -> Process | None:
    """The simulated process that is running now, or None outside of any."""
    here = greenlet.getcurrent()
    if isinstance(here, Process):
        if here.condemned:
            raise greenlet.GreenletExit
        return here
    return None


def _one_line(error: BaseException) -> str:
    message = " ".join(str(error).split())
    return type(error).__name__ + (f": {message}" if message else "")
