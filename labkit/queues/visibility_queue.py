"""A queue whose messages are hidden while somebody works on them, and come back when nobody deletes them."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Any, cast

import redis

from . import visibility_scripts as scripts
from .errors import (
    MessageNotInflight,
    QueueDoesNotExist,
    QueueNameExists,
    ReceiptHandleHasExpired,
    ReceiptHandleIsInvalid,
)
from .message import Message, behind, check_range, decode, encode, longest_block, text
from .queue_attributes import QueueAttributes

LONGEST_VISIBILITY = 43_200  # seconds, as in SQS
LONGEST_RETENTION = 1_209_600  # seconds, as in SQS
OLD_RECEIPTS = ("ignore", "delete", "error")
_COUNTERS = ("sent", "received", "redelivered", "deleted", "dead_lettered", "expired")  # as `QueueAttributes` has them
_QUEUE_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")


@dataclass(frozen=True)
class VisibilityQueue:
    """A queue with a visibility timeout, with the words and limits of Amazon SQS.

    Guarantees: a message that was sent is delivered again and again until it is deleted, has been received
    `max_receive_count` times, or is older than the retention. Does not guarantee that it is delivered once: whoever
    works for longer than the visibility timeout shares the message with the next receiver, and nobody is told.
    Receive count counts deliveries, not failures: a message can become a dead letter while it is being worked on.

    Times are read from the caller's clock: a client whose clock runs ahead takes messages that others still
    work on, and one that is paused between reading the clock and the request hides its messages for less long.

    Parameters
    ----------
    client: the Redis that holds the queue.
    name: 1 to 80 letters, digits, `-` and `_`.
    """

    client: redis.Redis
    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _QUEUE_NAME.fullmatch(self.name):
            raise ValueError(f"name is {self.name!r}; it must have 1 to 80 letters, digits, hyphens and underscores")

    @classmethod
    def create(
        cls,
        client: redis.Redis,
        name: str,
        *,
        visibility_timeout: float = 30,
        retention: float = 345_600,
        max_receive_count: int | None = None,
        old_receipts: str = "ignore",
    ) -> VisibilityQueue:
        """Create a queue, or find it when it is there with the same attributes.

        Parameters
        ----------
        visibility_timeout: seconds for which a received message is hidden, 0 to 43,200.
        retention: seconds after which an undeleted message is dropped, 60 to 1,209,600.
        max_receive_count: how often a message is delivered, 1 to 1,000, before the next receive moves it to the
            dead-letter queue NAME-dead-letters, whose retention is the longest; None for no end.
        old_receipts: what the receipt handle of an earlier delivery does once the message was received again.
            Systems disagree. "ignore": nothing, and the call succeeds (SQS: "might not be deleted"; Dramatiq).
            "delete": it counts like the latest (moto; RSMQ, which deletes by message id; Celery on Redis; XACK):
            a late worker deletes a message that another one still works on, and when that one dies, nobody is left.
            "error": `ReceiptHandleHasExpired` (ElasticMQ; SQS FIFO even refuses once the timeout is over).

        Raises `QueueNameExists` when there is a queue of this name with other attributes.
        """
        check_range("visibility_timeout", visibility_timeout, 0, LONGEST_VISIBILITY)
        check_range("retention", retention, 60, LONGEST_RETENTION)
        if max_receive_count is not None:
            check_range("max_receive_count", max_receive_count, 1, 1_000, whole=True)
        if old_receipts not in OLD_RECEIPTS:
            raise ValueError(f"old_receipts is {old_receipts!r}; it must be one of {', '.join(OLD_RECEIPTS)}")
        queue = cls(client, name)
        wanted = [_ms(visibility_timeout), _ms(retention), max_receive_count or 0, old_receipts]
        found = [text(value) for value in queue._run(scripts.CREATE, *wanted, _ms(LONGEST_RETENTION))]
        if found != list(map(str, wanted)):
            names = "visibility_timeout and retention in milliseconds, max_receive_count, old_receipts"
            raise QueueNameExists(f"queue {name!r} has other attributes ({names}): {found}, not {wanted}")
        return queue

    @property
    def dead_letters(self) -> VisibilityQueue:
        """The queue that takes what was received too often."""
        return VisibilityQueue(self.client, f"{self.name}-dead-letters")

    def send(self, body: object, delay: float = 0) -> str:
        """Add a message; returns its id.

        Parameters
        ----------
        body: anything that JSON can say, up to 1,048,576 bytes of it.
        delay: seconds until it becomes visible, 0 to 900.

        When the reply is lost, the message may have been sent: to send again can make it two.
        """
        check_range("delay", delay, 0, 900)
        encoded = encode(body)
        return text(self._run(scripts.SEND, _now(), _ms(delay), encoded)[0])

    def receive(self, max_messages: int = 1, wait: float = 0, visibility_timeout: float | None = None) -> list[Message]:
        """Take messages, those that became visible first in front, and hide them from everybody else for a while.

        Parameters
        ----------
        max_messages: at most so many, 1 to 10.
        wait: at most so many seconds to wait for the first message, 0 to 20.
        visibility_timeout: seconds to hide these messages for, instead of the queue's own.

        Finding nothing changes nothing. After a crash or a lost reply, messages stay hidden until the timeout is over.
        """
        check_range("max_messages", max_messages, 1, 10, whole=True)
        check_range("wait", wait, 0, 20)
        if visibility_timeout is not None:
            check_range("visibility_timeout", visibility_timeout, 0, LONGEST_VISIBILITY)
        left = _ms(wait)
        while True:
            news, *first = map(int, self._run(scripts.LOOK)) if wait else (0, 0)  # without waiting, just try
            now = _now() if first else 0  # an empty queue is empty at any time
            hidden_for = first[0] - now if first else LONGEST_VISIBILITY * 1_000
            messages = self._take(now, max_messages, visibility_timeout) if hidden_for <= 0 else []
            if messages or left <= 0:
                return messages
            block = min(left, hidden_for if hidden_for > 0 else left, _ms(longest_block(self.client)))
            left = 0 if self._hears_news(news, block) else left - block

    def delete(self, receipt_handle: str) -> bool:
        """Delete a message that is done (elsewhere: acknowledge); returns whether this call deleted it.

        Until another receive the handle works, even after the visibility timeout; from then on see `old_receipts`.
        """
        return bool(self._run(scripts.DELETE, *self._parse(receipt_handle))[0])

    def change_visibility(self, receipt_handle: str, seconds: float) -> bool:
        """Hide a message for some seconds from now, 0 to 43,200; 0 gives it back. A heartbeat calls this in time.

        Returns False when the handle is an old one that is ignored: the message is somebody else's now.
        Raises `MessageNotInflight` when it is too late, and `ValueError` past 43,200 seconds since the receive.
        """
        check_range("seconds", seconds, 0, LONGEST_VISIBILITY)
        handle = self._parse(receipt_handle)
        return bool(self._run(scripts.CHANGE_VISIBILITY, *handle, _now(), _ms(seconds), _ms(LONGEST_VISIBILITY))[0])

    def redrive(self) -> int:
        """Send the visible dead letters again, as new messages with new ids; returns how many."""
        return int(self._run(scripts.REDRIVE, _now())[0])

    def attributes(self) -> QueueAttributes:
        """What the queue's metrics are made of."""
        visible, in_flight, delayed, age, *counters = map(int, self._run(scripts.ATTRIBUTES, _now(), *_COUNTERS))
        return QueueAttributes(visible, in_flight, delayed, age / 1_000, *counters)

    def deadlines(self) -> list[float]:
        """When each message becomes visible, or became so, in seconds since 1970."""
        found = cast(Any, self.client.zrange(f"{self._key}:visible_at", 0, -1, withscores=True))
        return [score / 1_000 for _, score in found]

    @property
    def _key(self) -> str:
        return f"queue:{self.name}"

    def _take(self, now: int, most: int, visibility_timeout: float | None) -> list[Message]:
        timeout = -1 if visibility_timeout is None else _ms(visibility_timeout)
        return [
            Message(decode(body), f"{self.name}/{text(id)}/{count}", text(id), int(count), float(sent_at) / 1_000)
            for id, body, count, sent_at in self._run(scripts.RECEIVE, now, most, timeout)
        ]

    def _hears_news(self, latest: int, milliseconds: int) -> bool:
        """Whether a message was sent, or given back, before so much time has passed."""
        return bool(self.client.xread({f"{self._key}:news": f"{latest}-0"}, block=milliseconds))

    def _parse(self, receipt_handle: str) -> tuple[str, int]:
        id, _, count = behind(self.name, receipt_handle).partition("/")
        if not id or not re.fullmatch("[1-9][0-9]{0,8}", count):
            raise ReceiptHandleIsInvalid(f"queue {self.name!r} never gave out the receipt handle {receipt_handle!r}")
        return id, int(count)

    def _run(self, script: str, *arguments: object) -> list[Any]:
        answer = cast(Any, self.client.register_script(script))([self._key], arguments)
        if not isinstance(answer, list):
            error, why = _REFUSALS[text(answer)]
            raise error(f"queue {self.name!r}: {why}")
        return answer


_REFUSALS: dict[str, tuple[type[Exception], str]] = {
    "QueueDoesNotExist": (QueueDoesNotExist, "nobody has created it; call VisibilityQueue.create"),
    "NoDeadLetters": (QueueDoesNotExist, "it has no dead-letter queue; create it with max_receive_count"),
    "ReceiptHandleIsInvalid": (ReceiptHandleIsInvalid, "it never gave out this receipt handle"),
    "ReceiptHandleHasExpired": (ReceiptHandleHasExpired, "the message was received again since this receipt"),
    "MessageNotInflight": (MessageNotInflight, "the message is visible again, deleted, or a dead letter"),
    "TooLong": (ValueError, f"seconds must end no later than {LONGEST_VISIBILITY:,} seconds after the receive"),
}


def _now() -> int:
    return round(time.time() * 1_000)


def _ms(seconds: float) -> int:
    return round(seconds * 1_000)
