"""The inside of a worker's process: it builds the scenario afresh, waits for the start, and does its own part."""

from __future__ import annotations

import io
import logging
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable

from labkit.errors import LabError, ScenarioError
from labkit.lab import Scenario
from labkit.processes.journal import Journal
from labkit.processes.live_lab import LiveLab, LiveWorld
from labkit.processes.part import Part
from labkit.source import error_in_one_line, raising_line
from labkit.words import in_seconds

_real_sleep = time.sleep


class Printed(io.TextIOBase):
    """Where a worker's prints go: into its journal.

    Parameters
    ----------
    journal: the worker's.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if text:
            self._journal.printed(text)
        return len(text)


def work(scenario: Scenario, part: Part, wait: Callable[[], object]) -> None:
    """Be one worker, from the first line of the scenario to the last of its function.

    Parameters
    ----------
    scenario: builds the world, once more, for this process alone.
    part: with the journal of this worker.
    wait: called when it is ready; returns when it is time to begin.
    """
    journal = part.journal
    assert journal is not None
    _be_a_process_of_its_own(journal)
    try:
        part.play()
        lab = LiveLab(LiveWorld(part, effects=lambda name: (), inside=lambda name: 0))
        scenario(lab)
        if journal.worker not in lab.workers:
            raise ScenarioError(f"the scenario has no worker {journal.worker}; it has {', '.join(lab.workers)}")
        code = lab.workers[journal.worker].code()
        part.work()
        wait()
        _run(code, journal)
    except LabError as error:  # the lab's own complaint is for the learner
        journal.complained(f"worker {journal.worker}: {error}", type(error).__name__)
    except Exception as error:
        where = raising_line(error.__traceback__)
        journal.complained(f"worker {journal.worker}: {type(error).__name__}: {error}, at {where}", "ScenarioError")


def _run(code: Callable[[], object], journal: Journal) -> None:
    try:
        result = code()
    except LabError:
        raise
    except BaseException as error:  # whatever it is, it ends the worker
        journal.ended(error_in_one_line(error), raising_line(error.__traceback__))
    else:
        if hasattr(result, "__await__") or hasattr(result, "__anext__") or hasattr(result, "send"):
            raise ScenarioError("none of its code ran: workers are ordinary functions, without async and without yield")
        journal.ended(None, None)


def _be_a_process_of_its_own(journal: Journal) -> None:
    """Leave behind what a fork inherits: signal handlers, the state of chance, and where prints and logs go."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    random.seed()
    before = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
    sys.stdout = sys.stderr = Printed(journal)
    for handler in logging.root.handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream in before:
            handler.stream = sys.stdout
    time.sleep = _noted_sleep(journal)  # type: ignore[assignment]


def _noted_sleep(journal: Journal) -> Callable[[float], None]:
    """`time.sleep`, as long as ever, but that it is a step."""

    def sleep(seconds: float) -> None:
        number = journal.sent("clock", "sleep", f"wakes after {in_seconds(seconds)}", counts=False)
        _real_sleep(seconds)
        journal.got(number, "")

    return sleep


def die_with(pipe: int) -> None:
    """End this process when the other end of a pipe is closed: the process that started it is gone."""

    def watch() -> None:
        os.read(pipe, 1)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()
