"""The processes of a live run: forked, let go together, hit by faults, and gone when it is over."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from labkit.errors import LabError, Unsupported
from labkit.lab import Scenario
from labkit.processes.faults import KINDS, START, LiveFault
from labkit.processes.journal import FileSink, Journal
from labkit.processes.merging import Mark
from labkit.processes.part import Part
from labkit.processes.worker_process import die_with, work

TO_BUILD = 60.0  # seconds that all workers have to build the scenario, which was built once before
GRACE = 2.0  # seconds from SIGTERM to SIGKILL for workers that are stopped because the run is over


@dataclass
class Exit:
    """How a process ended.

    Parameters
    ----------
    at: when, in nanoseconds since 1970.
    code: its exit code; minus the signal that ended it.
    """

    at: int
    code: int


class Pipe:
    """Two ends, each of which is closed once: its number may be somebody else's afterwards."""

    def __init__(self) -> None:
        self.read, self.write = os.pipe()

    def close_write(self) -> None:
        """Close the end that is written to."""
        if self.write >= 0:
            os.close(self.write)
            self.write = -1

    def close(self) -> None:
        """Close both."""
        self.close_write()
        os.close(self.read)


class Crew:
    """The worker processes of one run.

    Parameters
    ----------
    scenario: builds the world.
    part: what each process is given, but for its journal.
    journals: where each worker's journal is.
    before_fork: closes what a fork must not take along.
    """

    def __init__(
        self, scenario: Scenario, part: Part, journals: Callable[[str], Path], before_fork: Callable[[], None]
    ) -> None:
        if not hasattr(os, "fork"):
            raise Unsupported("live runs fork their workers, which Windows cannot: use WSL, or Binder")
        self._scenario, self._part, self._journals = scenario, part, journals
        self._before_fork = before_fork
        self._fork = multiprocessing.get_context("fork")
        self.processes: dict[str, Any] = {}
        self.exits: dict[str, Exit] = {}
        self.marks: list[Mark] = []
        self._alive, self._go, self._ready = Pipe(), Pipe(), Pipe()  # `alive` is closed when this process is gone

    def start(self, name: str, ends: Mapping[int, int]) -> None:
        """Fork a worker; it builds the scenario and waits to be let go."""
        part = replace(self._part, touched=set())
        sink = FileSink(self._journals(name))

        def main() -> None:
            self._alive.close_write()
            self._go.close_write()
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that runs the whole
            die_with(self._alive.read)
            part.journal = Journal(name, sink, ends)
            work(self._scenario, part, self._wait_for_the_others)

        process = self._fork.Process(target=main, name=name, daemon=True)
        try:
            with warnings.catch_warnings():  # a notebook's kernel has threads; they hold nothing that a worker needs
                warnings.simplefilter("ignore", DeprecationWarning)
                sys.stdout.flush()
                self._before_fork()
                process.start()
        finally:
            sink.close()
        self.processes[name] = process

    def _wait_for_the_others(self) -> None:
        os.write(self._ready.write, b".")
        os.read(self._go.read, 1)

    def let_go(self, count: int) -> int:
        """Wait until so many workers are ready, or one is gone, and let all begin; returns when, in nanoseconds.

        `LabError` when one is neither within a minute.
        """
        ready, until = 0, time.monotonic() + TO_BUILD
        while ready < count and not self.notice_exits():
            if time.monotonic() > until:
                raise LabError(f"{count - ready} of {count} workers did not build the scenario within {TO_BUILD:g} s")
            if select.select([self._ready.read], [], [], 0.05)[0]:
                ready += len(os.read(self._ready.read, count))
        start = time.time_ns()  # before they are let go: this process may stand still just then
        self._go.close_write()
        return start

    def wait(self, seconds: float) -> None:
        """Wait until a process ends, or for so many seconds."""
        sentinels = [process.sentinel for name, process in self.processes.items() if name not in self.exits]
        if sentinels:
            multiprocessing.connection.wait(sentinels, timeout=seconds)
        else:
            time.sleep(seconds)
        self.notice_exits()

    def notice_exits(self) -> bool:
        """Note which processes have ended; returns whether any has."""
        for name, process in self.processes.items():
            if name not in self.exits and process.exitcode is not None:
                self.exits[name] = Exit(time.time_ns(), process.exitcode)
        return bool(self.exits)

    def hit(self, fault: LiveFault) -> None:
        """Send a fault's signal, if its worker still lives."""
        self.notice_exits()
        if fault.worker in self.processes and fault.worker not in self.exits:
            number = KINDS[fault.kind]
            kind = "crash" if fault.kind == "kill" else "signal"
            self.marks.append(Mark(time.time_ns(), fault.worker, kind, deadly=False))
            os.kill(self.processes[fault.worker].pid, number)

    def alive(self) -> list[str]:
        """The workers that have not ended."""
        self.notice_exits()
        return [name for name in self.processes if name not in self.exits]

    def stop(self, grace: float = GRACE) -> None:
        """End what still runs: SIGTERM, and SIGKILL for who does not listen."""
        for name in self.alive():
            os.kill(self.processes[name].pid, signal.SIGTERM)
        until = time.monotonic() + grace
        while self.alive() and time.monotonic() < until:
            self.wait(until - time.monotonic())
        self.kill()

    def kill(self) -> None:
        """End what still runs, at once."""
        for process in self.processes.values():
            if process.exitcode is None:
                process.kill()
            process.join()
        self.notice_exits()

    def close(self) -> None:
        """Nobody is left: let go of the pipes."""
        self.kill()
        for pipe in (self._alive, self._go, self._ready):
            pipe.close()


def steps_that_end(faults: list[LiveFault], worker: str) -> dict[int, int]:
    """The signals that a worker sends to itself, by the number of its steps."""
    return {fault.step: KINDS[fault.kind] for fault in faults if fault.worker == worker and fault.step is not None}


def started_later(faults: list[LiveFault]) -> set[str]:
    """The workers that start only when a fault says so."""
    return {fault.worker for fault in faults if fault.kind == START}
