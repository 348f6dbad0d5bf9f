"""A thread that keeps messages hidden while a worker has them, and tells when it could not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Self

from .checks import check_number


class HeartbeatLost(Exception):
    """A message could not be kept hidden: another worker may have it by now."""


class Heartbeat:
    """Hides messages anew every third of their visibility timeout, until they are let go or the `with` block is left.

    Guarantees: that a job may take longer than the visibility timeout, and that `check` passes only while the message
    is hidden by this process's clock: not after a failed beat, one that hangs, or a pause. A dead process keeps nothing
    hidden, so what it had still comes back.
    Does not: help a process that is paused between `check` and its effect, or between the receive and the heartbeat.
    Nor end before a beat that hangs: give the queue's client a time-out. Nor hear of another receiver where an old
    receipt changes the current delivery, as in standard queues of Amazon SQS: there it hides the message from both.
    Shown by `beating()` in tests/test_workers.py, A paused between the two: `A A A clock A A clock clock B B B B A`.

    Parameters
    ----------
    queue: has `change_visibility(receipt_handle, seconds)`.
    messages: those to keep hidden; they were received just now, and their time is counted from here.
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
        # By receipt handle: the clock before the last request that hid the message.
        self.hidden_at = dict.fromkeys((message.receipt_handle for message in self.held), time.monotonic())
        self.thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self.lock, self.stopped = threading.Lock(), threading.Event()

    def check(self, message: Any) -> None:
        """`HeartbeatLost` once a message was not kept hidden, and outside of the block; call it before each effect."""
        if (why := _why_unsafe(self, message.receipt_handle)) is not None:
            lost = self.lost.get(message.receipt_handle)
            raise HeartbeatLost(f"message {message.id!r} was not kept hidden: {why}") from lost

    def let_go(self, message: Any) -> None:
        """Keep a message no longer; to be called before it is settled."""
        with self.lock:  # an extension that is under way must not come after that
            self.held = [other for other in self.held if other is not message]

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self.thread.join()

    def _beat(self) -> None:
        while not self.stopped.wait(self.timeout / 3):
            with self.lock:
                self.held = [message for message in self.held if _extend(self, message)]


def _extend(heartbeat: Heartbeat, message: Any) -> bool:
    asked_at = time.monotonic()
    try:
        if heartbeat.queue.change_visibility(message.receipt_handle, heartbeat.timeout):
            heartbeat.hidden_at[message.receipt_handle] = asked_at
            return True
        raise HeartbeatLost("it was received again since")
    except Exception as error:  # whatever it was: from here on somebody else may have the message
        heartbeat.lost[message.receipt_handle] = error
        heartbeat.failed(message, error)
        return False


def _why_unsafe(heartbeat: Heartbeat, receipt_handle: str) -> object:
    if receipt_handle in heartbeat.lost:
        return heartbeat.lost[receipt_handle]
    if not heartbeat.thread.is_alive():
        return "no heartbeat"
    if time.monotonic() - heartbeat.hidden_at[receipt_handle] >= heartbeat.timeout:
        return f"not for its whole timeout, {heartbeat.timeout:g} seconds"
    return None
