"""Queues on Redis as they are found in production, each with what it guarantees and what it does not.

They know redis-py and nothing else: copy this folder into a project of your own and it works there. Each says what it
guarantees, what it does not, and which schedule of which scenario in `tests/test_queues.py` shows it.
"""

from .errors import (
    InvalidMessageContents,
    MessageNotInflight,
    MessageTooLong,
    QueueDoesNotExist,
    QueueError,
    QueueNameExists,
    ReceiptHandleHasExpired,
    ReceiptHandleIsInvalid,
)
from .message import Message
from .pop_queue import PopQueue
from .reliable_queue import ReliableQueue
from .rules import QueueAttributes, QueueRules
from .stream_queue import StreamQueue
from .visibility_queue import VisibilityQueue

__all__ = [
    "InvalidMessageContents",
    "Message",
    "MessageNotInflight",
    "MessageTooLong",
    "PopQueue",
    "QueueAttributes",
    "QueueDoesNotExist",
    "QueueError",
    "QueueNameExists",
    "QueueRules",
    "ReceiptHandleHasExpired",
    "ReceiptHandleIsInvalid",
    "ReliableQueue",
    "StreamQueue",
    "VisibilityQueue",
]
