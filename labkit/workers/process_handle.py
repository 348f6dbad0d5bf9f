"""A worker in an operating-system process of its own."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Sequence
from typing import Any


class ProcessHandle:
    """A command as a process, in the words of `multiprocessing.Process`.

    Parameters
    ----------
    name: the worker's name, for the log.
    command: the program and its arguments.
    options: as for `subprocess.Popen`, for example `stdin=subprocess.PIPE`.
    """

    def __init__(self, name: str, command: Sequence[str], **options: Any) -> None:
        self.name, self.command, self.options = name, tuple(command), options
        self._process: subprocess.Popen[Any] | None = None

    @property
    def process(self) -> subprocess.Popen[Any]:
        """The process; `RuntimeError` before `start`."""
        if self._process is None:
            raise RuntimeError(f"worker {self.name} was not started")
        return self._process

    def start(self) -> None:
        """Let it run; `RuntimeError` when it was started before, `OSError` when there is no such program."""
        if self._process is not None:
            raise RuntimeError(f"worker {self.name} was started before; make another handle")
        self._process = subprocess.Popen(self.command, **self.options)

    def terminate(self) -> None:
        """Send it SIGTERM; nothing happens when it has ended."""
        self.process.terminate()

    def kill(self) -> None:
        """Send it SIGKILL; nothing happens when it has ended."""
        self.process.kill()

    def is_alive(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def join(self, timeout: float | None = None) -> None:
        """Wait until it has ended, or for so many seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout)
