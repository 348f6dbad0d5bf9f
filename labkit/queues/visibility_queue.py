"""A queue whose messages are hidden while somebody works on them, and come back when nobody deletes them.

Times are the caller's: a client whose clock runs ahead takes messages that others still work on, and one that is paused
between its clock and its request hides its messages for less long than it thinks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from . import visibility_scripts as scripts
from .errors import ReceiptHandleIsInvalid
from .message import Message, behind, check_range, decode, encode, longest_block, text
from .rules import LONGEST_VISIBILITY
from .stored_queue import StoredQueue, milliseconds, now


@dataclass(frozen=True)
class VisibilityQueue(StoredQueue):
    """A queue with a visibility timeout, with the words, limits and defaults of Amazon SQS.

    Guarantees: a message is delivered until it is deleted, was received `max_receive_count` times, or is too old.
    Does not: deliver it once. Who works for longer than the visibility timeout shares the message with the next
    receiver. Nor know of failures: it counts deliveries, and buries a message that is still being worked on.
    Shown by `overtaken(VisibilityQueue)` in tests/test_queues.py, B comes when A is slow: `A A A clock B B B`.
    Source: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference
    """

    def send(self, body: object, delay: float = 0) -> str:
        """Add a message: what JSON can say, up to 1,048,576 bytes of it, visible after a delay of 0 to 900 seconds.

        Returns its id. When the reply is lost, the message may have been sent; to send again can make it two.
        """
        check_range("delay", delay, 0, 900)
        encoded = encode(body)
        return text(self.run(scripts.SEND, now(), milliseconds(delay), encoded)[0])

    def receive(self, max_messages: int = 1, wait: float = 0, visibility_timeout: float | None = None) -> list[Message]:
        """Take messages and hide them from everybody else for a while; what became visible first comes first.

        Parameters
        ----------
        max_messages: at most so many, 1 to 10.
        wait: at most so many seconds to wait for the first message, 0 to 20.
        visibility_timeout: seconds to hide these messages for, instead of the queue's own.

        To find nothing changes nothing. After a crash or a lost reply, messages stay hidden until the timeout is over.
        """
        check_range("max_messages", max_messages, 1, self.most_messages, whole=True)
        check_range("wait", wait, 0, self.longest_wait)
        if visibility_timeout is not None:
            check_range("visibility_timeout", visibility_timeout, 0, LONGEST_VISIBILITY)
        timeout, left = -1 if visibility_timeout is None else milliseconds(visibility_timeout), milliseconds(wait)
        while True:
            moment = now()
            given, *rest = self.run(scripts.RECEIVE, moment, max_messages, timeout)
            if given or left <= 0:
                return [_message(self.name, *parts) for parts in given]
            news, *first = map(int, rest)
            block = min(left, milliseconds(longest_block(self.client)), *(time - moment for time in first))
            # News are for all who wait: who comes too late for the message returns with nothing.
            left = 0 if self.client.xread({f"queue:{self.name}:news": f"{news}-0"}, block=block) else left - block

    def delete(self, receipt_handle: str) -> bool:
        """Delete a message that is done (elsewhere: acknowledge it); returns whether this call deleted it."""
        return bool(self.run(scripts.DELETE, *_parse(self.name, receipt_handle))[0])

    def change_visibility(self, receipt_handle: str, seconds: float) -> bool:
        """Hide a message for 0 to 43,200 seconds from now: a heartbeat, or with 0 to give it back.

        Returns False when somebody else has received it and old receipts are ignored. (Standard queues of Amazon SQS do
        not ignore them here: an old receipt changes the current delivery.) Raises `MessageNotInflight` when it is too
        late, and `ValueError` past 43,200 seconds since the receive.
        """
        check_range("seconds", seconds, 0, LONGEST_VISIBILITY)
        times = now(), milliseconds(seconds), milliseconds(LONGEST_VISIBILITY)
        return bool(self.run(scripts.CHANGE_VISIBILITY, *_parse(self.name, receipt_handle), *times)[0])


def _message(name: str, id: Any, body: Any, count: int, sent_at: Any) -> Message:
    return Message(decode(body), f"{name}/{text(id)}/{count}", text(id), count, float(sent_at) / 1_000)


def _parse(name: str, receipt_handle: str) -> tuple[str, int]:
    id, _, count = behind(name, receipt_handle).partition("/")
    if not id or not re.fullmatch("[1-9][0-9]{0,8}", count):
        raise ReceiptHandleIsInvalid(f"queue {name!r} never gave out the receipt handle {receipt_handle!r}")
    return id, int(count)
