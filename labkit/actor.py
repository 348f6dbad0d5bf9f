"""One thread of control inside a simulated process: a greenlet that runs code up to its next step.

Actors are greenlets because synchronous code then runs unchanged: a step is one switch to whoever
resumed the actor, and its reply is the switch back.
"""

from __future__ import annotations

import inspect
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import greenlet

from labkit.errors import LabError, ScenarioError
from labkit.source import Line, error_in_one_line, learners_line, raising_line

if TYPE_CHECKING:
    from labkit.process import Process


class Operation(NamedTuple):
    """What an actor asks for: one indivisible request to one store.

    Parameters
    ----------
    store: the store's name.
    request: the store's own form of the request; hashable, and equal when it means the same.
    """

    store: str
    request: Any


@dataclass(frozen=True, slots=True)
class Step:
    """An actor that stopped at its next step.

    Parameters
    ----------
    operation: what it asks for.
    line: the learner's line that asks.
    again: whether it has asked before and was interrupted: its wait goes on.
    """

    operation: Operation
    line: Line | None
    again: bool = False


@dataclass(frozen=True, slots=True)
class Ending:
    """An actor that came to its end.

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


class Jump:
    """Instead of a reply: the wall clock jumped, and the operation is still to be done."""


MOST_REFUSALS = 10


class Actor(greenlet.greenlet):  # type: ignore[misc]
    """One run of a function, in a process.

    Parameters
    ----------
    process: the process that it belongs to.
    name: what it is called among the process's actors; empty for the one that runs the worker's function.
    code: what it runs.
    """

    def __init__(self, process: Process, name: str, code: Callable[[], object]) -> None:
        super().__init__(self._body)
        self.process, self.name = process, name
        self.code = code
        self.thread: Any = None  # the `threading.Thread` that it is
        self._refusals = 0

    def _body(self, _: object) -> Ending:
        try:
            result = self.code()
            self._refuse_what_has_not_run(result)
        except (Exception, SystemExit, GeneratorExit) as error:
            if isinstance(error, LabError):
                raise  # the lab's own complaint is for the learner, not an outcome of the worker
            return Ending(error_in_one_line(error), raising_line(error.__traceback__))
        return Ending()

    def _refuse_what_has_not_run(self, result: object) -> None:
        if inspect.iscoroutine(result) or inspect.isgenerator(result):
            result.close()
        elif not inspect.isasyncgen(result):
            return
        raise ScenarioError(
            f"worker {self.process.name} only made a {type(result).__name__} object, and none of its code ran: workers "
            "are ordinary functions, without async and without yield"
        )

    def perform(self, operation: Operation) -> Any:
        """Take a step: called by the actor's own code, answered by whoever resumed it."""
        self.refuse_if_condemned()
        step = Step(operation, learners_line(sys._getframe(2)))
        while isinstance(reply := self._ask(step), (Signal, Jump)):
            if isinstance(reply, Signal):
                self._handle(signal.SIGTERM)
            else:
                self.process.skew += self.process.jump
            step = replace(step, again=True)
        return reply

    def _ask(self, message: Step | Ending) -> Any:
        self.refuse_if_condemned()
        parent = self.parent
        assert parent is not None
        return parent.switch(message)

    def refuse_if_condemned(self) -> None:
        """End an actor whose process is over; one that swallows its end again and again is stopped where it stands."""
        if self.process.condemned:
            self._refusals += 1
            while self._refusals > MOST_REFUSALS:
                assert self.parent is not None
                self.parent.switch(None)
            raise greenlet.GreenletExit

    def _handle(self, number: int) -> None:
        """Do what the worker's code wants done about a signal, in the middle of what it was doing."""
        handler = self.process.handlers.get(number, signal.SIG_DFL)
        if callable(handler):
            handler(number, sys._getframe(2))
        elif handler == signal.SIG_DFL:
            self._ask(Ending(killed=True))


def current_actor() -> Actor | None:
    """The actor that is running now, or None outside of any."""
    here = greenlet.getcurrent()
    if isinstance(here, Actor):
        here.refuse_if_condemned()
        return here
    return None
