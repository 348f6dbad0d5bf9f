"""Notices a worker that uses real time without taking a step, and names its line."""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from labkit.errors import WorkerStuck
from labkit.source import learners_line

# Bound before anything replaces them: the watchdog lives in real time.
_real_monotonic, _real_process_time = time.monotonic, time.process_time

COMPUTED = 0.5  # of the patience, at least, is what an endless loop has computed; a busy machine lets it wait meanwhile
BLOCKED = 5  # times the patience is how long one that computes nothing may wait for the outside


class Watchdog:
    """A background thread that interrupts a worker which takes no step for `patience` seconds of real time.

    Parameters
    ----------
    patience: seconds of real time that a worker may use between two steps; five times as many if it computes nothing.
    """

    def __init__(self, patience: float = 5.0) -> None:
        self.patience = patience
        self._watched: tuple[str, int, float, float] | None = None  # who, thread, real and processor time at its start
        self._found: str | None = None
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()

    @contextmanager
    def watching(self, who: str) -> Iterator[None]:
        """Watch this thread while somebody's code runs in it; `WorkerStuck` when it has to be interrupted."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._patrol, name="labkit-watchdog", daemon=True)
            self._thread.start()
        before, self._found = self._watched, None
        self._watched = (who, threading.get_ident(), _real_monotonic(), _real_process_time())
        try:
            yield
        except KeyboardInterrupt:
            if self._found is None:
                raise  # the user's own
            found, self._found = self._found, None
            raise WorkerStuck(found) from None
        finally:
            self._watched = before

    def _patrol(self) -> None:
        while True:
            self._wake.wait(min(0.25, self.patience / 4))
            watched = self._watched
            if watched is None or self._found is not None:
                continue
            who, thread, started, computed = watched
            if not self._is_over(_real_monotonic() - started, _real_process_time() - computed):
                continue
            line = learners_line(sys._current_frames().get(thread))
            if self._watched is not watched:
                continue
            self._found = (
                f"{who} used {self.patience:g} seconds of real time without taking a step"
                + (f", at {line}" if line else "")
                + ". A step is a Redis request, a service call, a sleep or a clock read. Give endless loops a "
                "`time.sleep`, and wait with `time.sleep` or Redis: the lab's clock makes them free."
            )
            _interrupt(thread)

    def _is_over(self, waited: float, computed: float) -> bool:
        """Whether so many seconds, and so many of the processor's, are too much without a step."""
        if waited < self.patience:
            return False
        return computed >= COMPUTED * self.patience or waited >= BLOCKED * self.patience


def _interrupt(thread: int) -> None:
    # A program that was started in the background of a shell ignores SIGINT.
    if thread == threading.main_thread().ident and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.pthread_kill(thread, signal.SIGINT)  # also ends a blocking system call
    else:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(KeyboardInterrupt))


watchdog = Watchdog()
