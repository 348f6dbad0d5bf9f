"""What a queue's metrics are made of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueueAttributes:
    """What a queue's metrics are made of; the first four are of now, the others count since the queue was created.

    Parameters
    ----------
    visible: messages that a receive would find.
    in_flight: messages that were received and are hidden.
    delayed: messages that were sent with a delay and are still hidden.
    oldest_message_age: seconds since the oldest message was sent, or 0 without any.
    sent, received, deleted: messages; each delivery is received once more.
    redelivered: deliveries after a message's first. Received rising while sent is flat means redelivery.
    dead_lettered, expired: messages that were moved to the dead-letter queue, or dropped at the end of the retention.
    """

    visible: int
    in_flight: int
    delayed: int
    oldest_message_age: float
    sent: int
    received: int
    redelivered: int
    deleted: int
    dead_lettered: int
    expired: int
