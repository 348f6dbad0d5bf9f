"""The world of the exercises on idempotency: orders in a queue, a worker that may die, and one that comes later."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from redis.exceptions import LockError

from labkit.lab import Lab
from labkit.queues import VisibilityQueue
from labkit.workers import Busy

VISIBILITY = 30  # seconds for which a received order is hidden
DEDUCT = "UPDATE stock SET sold = sold + 1"

Handle = Callable[[str], object]


def work(queue: VisibilityQueue, handle: Handle, waits: Sequence[float]) -> None:
    """Look for an order after each of these waits, do it, and delete its message; a busy one's comes again."""
    for seconds in waits:
        if seconds:
            time.sleep(seconds)
        for message in queue.receive():
            with suppress(LockError, Busy):
                handle(message.body)
                queue.delete(message.receipt_handle)


def shop(lab: Lab, orders: Sequence[str]) -> Any:
    """A queue with these orders, and a stock of which nothing is sold; the lab's own connection to its database."""
    queue = VisibilityQueue.create(lab.redis(), "orders", visibility_timeout=VISIBILITY)
    for order in orders:
        queue.send(order)
    lab.deadlines(queue.deadlines)
    db = lab.sql()
    db.execute("CREATE TABLE stock (sold INTEGER NOT NULL)")
    db.execute("INSERT INTO stock VALUES (0)")
    return db


def staff(lab: Lab, handler: Callable[[], Handle], at_once: str = "A", looks: int = 1) -> None:
    """Workers that look at once, one order each, and one that comes later, to whom nothing happens.

    Parameters
    ----------
    lab: where they work.
    handler: makes a worker's handler, with connections of its own.
    at_once: the names of those that look at once, a letter each.
    looks: how often the one that comes later looks, each time when a message may be back.
    """
    for name in at_once:
        lab.worker(name, work, VisibilityQueue(lab.redis(), "orders"), handler(), [0])
    waits = [VISIBILITY] * looks
    lab.worker("later", work, VisibilityQueue(lab.redis(), "orders"), handler(), waits, spared=True)


def sold(db: Any) -> int:
    """How many pieces were deducted from the stock."""
    return int(db.execute("SELECT sold FROM stock").fetchone()[0])
