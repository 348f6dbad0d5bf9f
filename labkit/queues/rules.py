"""What a visibility queue is created with, and what it tells of itself."""

from __future__ import annotations

from dataclasses import dataclass

from .message import check_range

LONGEST_VISIBILITY = 43_200  # seconds, as in SQS
LONGEST_RETENTION = 1_209_600  # seconds, as in SQS


@dataclass(frozen=True, slots=True)
class QueueRules:
    """What a queue is created with. All workers find the same rules in Redis, whatever they were deployed with.

    Parameters
    ----------
    visibility_timeout: seconds for which a received message is hidden, 0 to 43,200.
    retention: seconds after which the next receive drops a message instead of giving it, 60 to 1,209,600.
    max_receive_count: how often a message is delivered, 1 to 1,000, before the next receive moves it to the
        dead-letter queue, which has the longest retention; None for no end and no dead-letter queue.
    old_receipts: what the receipt handle of a delivery does once the message was received again. Systems disagree.

        "ignore": nothing, and the call succeeds (Dramatiq; for deletes Amazon SQS: "the message might not be deleted").
        Amazon's standard queues ignore deletes only: ChangeMessageVisibility with an old receipt changes the current
        delivery there, as under "delete".
        "delete": it counts like the latest one (moto; RSMQ, by message id; Celery on Redis; XACK). A late worker
        deletes or gives back what somebody else works on, and if that one then dies, nobody is left to do it.
        "error": `ReceiptHandleHasExpired` (ElasticMQ; FIFO queues of SQS refuse as soon as the timeout is over).
    """

    visibility_timeout: float = 30
    retention: float = 345_600
    max_receive_count: int | None = None
    old_receipts: str = "ignore"

    def __post_init__(self) -> None:
        check_range("visibility_timeout", self.visibility_timeout, 0, LONGEST_VISIBILITY)
        check_range("retention", self.retention, 60, LONGEST_RETENTION)
        if self.max_receive_count is not None:
            check_range("max_receive_count", self.max_receive_count, 1, 1_000, whole=True)
        if self.old_receipts not in ("ignore", "delete", "error"):
            raise ValueError(f"old_receipts is {self.old_receipts!r}; it must be 'ignore', 'delete' or 'error'")


@dataclass(frozen=True, slots=True)
class QueueAttributes:
    """What a queue's metrics are made of: four figures of now, and counters since the queue was created.

    Parameters
    ----------
    visible: messages that a receive would find.
    in_flight: messages that were received and are hidden.
    delayed: messages that were sent with a delay and are hidden still.
    oldest_message_age: seconds since the oldest message was sent; 0 without any.
    sent, received, deleted: messages; each delivery is received once more.
    redelivered: deliveries after a message's first. When received rises and sent does not, it is this that rises.
    dead_lettered, expired: messages that went to the dead-letter queue, or were dropped at the end of the retention.
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
