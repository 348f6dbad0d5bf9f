"""What one process did, written down as it happens: a file of JSON lines that survives a SIGKILL.

A request is noted before it is sent and again when its reply is there; each note is one `write` to a file that is
opened for appending, so that what a killed worker did up to then is never lost. Only the machine itself could lose it.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from labkit.errors import Unsupported
from labkit.source import Line, learners_line


class Sink(Protocol):
    """Where notes go."""

    def write(self, line: str) -> None:
        """Keep one line, for good, before this returns."""


class FileSink:
    """A file of this machine.

    Parameters
    ----------
    path: the file; it is made if it is not there.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, line: str) -> None:
        """Append a line with one system call: no buffer of this process has it afterwards."""
        os.write(self._file, line.encode() + b"\n")

    def close(self) -> None:
        """Close it in this process; one that was forked before has its own."""
        os.close(self._file)


class Journal:
    """The notes of one process.

    Parameters
    ----------
    worker: the worker's name.
    sink: where they go.
    ends: a signal that the process sends to itself after so many steps, by their number.
    """

    def __init__(self, worker: str, sink: Sink, ends: Mapping[int, int] | None = None) -> None:
        self.worker, self._sink, self._ends = worker, sink, dict(ends or {})
        self._done = 0
        self._numbers = itertools.count(1)
        self._main, self._process = threading.main_thread(), os.getpid()

    def sent(self, store: str, kind: str, text: str, counts: bool = True) -> int:
        """Note a request that is about to be sent; returns its number."""
        number = next(self._numbers)
        line = learners_line(sys._getframe(1))
        self._note(
            "sent",
            number=number,
            actor=self._actor(),
            store=store,
            kind=kind,
            text=text,
            counts=counts,
            line=None if line is None else [line.function, line.number, line.text, line.file],
        )
        return number

    def got(
        self, number: int, reply: str, reads: Iterable[str] = (), writes: Iterable[str] = (), **more: object
    ) -> None:
        """Note the reply to a request, the keys that it looked at and changed, and anything else."""
        self._note("got", number=number, reply=reply, reads=[*reads], writes=[*writes], **more)
        self._done += 1
        if self._done in self._ends:
            self._note("signalled", signal=self._ends[self._done])
            os.kill(os.getpid(), self._ends[self._done])

    def void(self, number: int) -> None:
        """Note that a request was none after all: nobody will see it."""
        self._note("void", number=number)

    def complained(self, message: str, kind: str) -> None:
        """Note what the lab itself has to say; of a child of the worker's process too."""
        self._process = os.getpid()
        self._note("complained", message=message, kind=kind)

    def entered(self, section: str) -> None:
        """Note that a critical section begins."""
        self._note("entered", section=section)

    def left(self, section: str) -> None:
        """Note that a critical section ends."""
        self._note("left", section=section)

    def printed(self, text: str) -> None:
        """Note what the worker printed."""
        self._note("printed", text=text)

    def ended(self, error: str | None, line: Line | None) -> None:
        """Note that the worker's function returned, or what it raised and where."""
        where = None if line is None else [line.function, line.number, line.text, line.file]
        self._note("ended", error=error, line=where)

    def _note(self, what: str, **fields: object) -> None:
        if os.getpid() != self._process:
            raise Unsupported("it forks, and what its child does would be told as its own; add a worker instead")
        self._sink.write(json.dumps({"what": what, "at": time.time_ns(), **fields}))

    def _actor(self) -> str:
        """The worker, or its thread that runs now."""
        thread = threading.current_thread()
        if thread is self._main:
            return self.worker
        plain = "".join(letter if letter.isalnum() or letter in "_.-" else "-" for letter in thread.name)
        return f"{self.worker}/{plain.strip('-') or 'thread'}"


def notes_of(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The notes of a journal, in order; a last line that was cut short is left out."""
    for line in lines:
        try:
            note: dict[str, Any] = json.loads(line)
        except ValueError:
            return
        yield note


def line_of(parts: list[Any] | None) -> Line | None:
    """A line of code as it was noted."""
    return None if parts is None else Line(*parts)
