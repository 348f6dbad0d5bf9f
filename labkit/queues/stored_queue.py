"""A visibility queue as an operator has it: created, looked at, and sent its dead letters again."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self, cast

import redis

from . import visibility_scripts as scripts
from .errors import (
    MessageNotInflight,
    QueueDoesNotExist,
    QueueNameExists,
    ReceiptHandleHasExpired,
    ReceiptHandleIsInvalid,
)
from .message import text
from .rules import LONGEST_RETENTION, LONGEST_VISIBILITY, QueueAttributes, QueueRules

_REFUSALS: dict[str, tuple[type[Exception], str]] = {
    "QueueDoesNotExist": (QueueDoesNotExist, "nobody has created it; call VisibilityQueue.create"),
    "NoDeadLetters": (QueueDoesNotExist, "it has no dead-letter queue; create it with max_receive_count"),
    "ReceiptHandleIsInvalid": (ReceiptHandleIsInvalid, "it never gave out this receipt handle"),
    "ReceiptHandleHasExpired": (ReceiptHandleHasExpired, "the message was received again since"),
    "MessageNotInflight": (MessageNotInflight, "the message is visible again, deleted, or a dead letter"),
    "TooLong": (ValueError, f"seconds must end no later than {LONGEST_VISIBILITY:,} seconds after the receive"),
}


@dataclass(frozen=True)
class StoredQueue:
    """What `VisibilityQueue` can do besides delivering messages.

    Parameters
    ----------
    client: the Redis that holds the queue.
    name: 1 to 80 letters, digits, `-` and `_`.
    """

    client: redis.Redis
    name: str
    most_messages: ClassVar[int] = 10  # of one receive, as in SQS
    longest_wait: ClassVar[float] = 20  # seconds, as in SQS

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not re.fullmatch("[A-Za-z0-9_-]{1,80}", self.name):
            raise ValueError(f"name is {self.name!r}; it must have 1 to 80 letters, digits, hyphens and underscores")

    @classmethod
    def create(cls, client: redis.Redis, name: str, **rules: Any) -> Self:
        """Create a queue by `QueueRules`, or find it; `QueueNameExists` when it is there with other rules."""
        known = [rule.name for rule in fields(QueueRules)]
        if unknown := sorted(set(rules) - set(known)):
            raise TypeError(f"create does not know {', '.join(unknown)}; a queue's rules are {', '.join(known)}")
        queue, wanted = cls(client, name), QueueRules(**rules)
        times = [milliseconds(wanted.visibility_timeout), milliseconds(wanted.retention)]
        values = [*times, wanted.max_receive_count or 0, wanted.old_receipts]
        found = [text(value) for value in queue.run(scripts.CREATE, *values, milliseconds(LONGEST_RETENTION))]
        if found != list(map(str, values)):
            raise QueueNameExists(f"queue {name!r} has other rules, times in milliseconds: {found}, not {values}")
        return queue

    @property
    def dead_letters(self) -> Self:
        """The queue that takes what was received too often."""
        return type(self)(self.client, f"{self.name}-dead-letters")

    def redrive(self) -> int:
        """Send the visible dead letters again, as new messages with new ids; returns how many."""
        return int(self.run(scripts.REDRIVE, now())[0])

    def attributes(self) -> QueueAttributes:
        """What the queue's metrics are made of."""
        visible, in_flight, delayed, age, *counters = map(int, self.run(scripts.ATTRIBUTES, now()))
        return QueueAttributes(visible, in_flight, delayed, age / 1_000, *counters)

    def deadlines(self) -> dict[str, float]:
        """When each message becomes visible, or became so: seconds since 1970 by its id."""
        found = cast(Any, self.client.zrange(f"queue:{self.name}:visible_at", 0, -1, withscores=True))
        return {text(id): score / 1_000 for id, score in found}

    def run(self, script: str, *arguments: object) -> list[Any]:
        """Run one of the queue's scripts, as one step."""
        answer = cast(Any, self.client.register_script(script))([f"queue:{self.name}"], arguments)
        if not isinstance(answer, list):
            error, why = _REFUSALS[text(answer)]
            raise error(f"queue {self.name!r}: {why}")
        return answer


def now() -> int:
    """The caller's clock, in milliseconds since 1970."""
    return round(time.time() * 1_000)


def milliseconds(seconds: float) -> int:
    """Seconds as the scripts count them."""
    return round(seconds * 1_000)
