"""A thread that keeps messages hidden while a worker has them, and tells when it could not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, Self

from .checks import check_number


class HeartbeatLost(Exception):
    """A message could not be kept hidden: another worker may have it by now."""


class Heartbeat:
    """Hides messages anew every third of their visibility timeout, until they are let go or the `with` block is left.

    Guarantees: that a job may take longer than the visibility timeout, and that one that calls `check` hears of a
    failure. A dead process keeps nothing hidden, so what it had still comes back.
    Does not: help a process that is paused as a whole. Its thread is paused with it, and its job may wake up first and
    pass `check`.
    Shown by a job of 45 s, a visibility timeout of 30 s, and a pause; see `tests/test_workers.py`.

    Parameters
    ----------
    queue: has `change_visibility(receipt_handle, seconds)`.
    messages: those to keep hidden; they were received just now.
    timeout: the visibility timeout in seconds.
    failed: called, in the thread, with a message that could not be kept and the reason.
    """

    def __init__(
        self, queue: Any, messages: Iterable[Any], timeout: float, failed: Callable[[Any, Exception], object]
    ) -> None:
        check_number("timeout", timeout, 0.001)
        self.queue, self.timeout, self.failed = queue, timeout, failed
        self.held = list(messages)
        self.lost: dict[str, Exception] = {}
        self.lock, self.stopped = threading.Lock(), threading.Event()

    def check(self, message: Any) -> None:
        """`HeartbeatLost` once a message could not be kept hidden."""
        error = self.lost.get(message.receipt_handle)
        if error is not None or not self.thread.is_alive():
            raise HeartbeatLost(f"message {message.id!r} was not kept hidden: {error or 'no heartbeat'}") from error

    def let_go(self, message: Any) -> None:
        """Keep a message no longer; to be called before it is settled."""
        with self.lock:  # an extension that is under way must not come after that
            self.held = [other for other in self.held if other is not message]

    def __enter__(self) -> Self:
        self.thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self.thread.join()

    def _beat(self) -> None:
        while not self.stopped.wait(self.timeout / 3):
            with self.lock:
                self.held = [message for message in self.held if self._extend(message)]

    def _extend(self, message: Any) -> bool:
        try:
            if self.queue.change_visibility(message.receipt_handle, self.timeout):
                return True
            raise HeartbeatLost("it was received again since")
        except Exception as error:  # whatever it was: from here on somebody else may have the message
            self.lost[message.receipt_handle] = error
            self.failed(message, error)
            return False
