"""SIGTERM and SIGHUP end a live run as Ctrl-C does: what it made is removed first."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Leave a block by an exception when this process is told to end, and let the signal end it afterwards.

    Handlers that somebody has set stay as they are, and outside of the main thread nothing changes.
    """
    ours: list[int] = []
    if threading.current_thread() is threading.main_thread():
        ours = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) is signal.SIG_DFL]
    came = []

    def end(number: int, _: object) -> NoReturn:
        came.append(number)
        for each in ours:
            signal.signal(each, signal.SIG_IGN)  # a second one would interrupt the removing
        raise SystemExit(128 + number)

    for each in ours:
        signal.signal(each, end)
    try:
        yield
    finally:
        for each in ours:
            signal.signal(each, signal.SIG_DFL)
        if came:
            os.kill(os.getpid(), came[0])
