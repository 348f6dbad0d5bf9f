"""The safer flow in seven steps, as the article of incident B writes it down, and the flow that holds.

1 receive the message and log its ids · 2 record the idempotency key, atomically · 3 if it was there, leave safely ·
4 take a lock on the resource, where one is needed · 5 do the effects · 6 store the result · 7 acknowledge, last.

Two orders for one product: the lock is on the product, the key is the order's.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import redis

from labkit import Lab
from labkit.idempotency import Done, IdempotencyRecords, InProgress, ProcessedEvents, effect_key, transaction
from labkit.lab import Service
from labkit.locks import AtomicLock
from labkit.queues import VisibilityQueue
from labkit.workers import Busy, Job, RetryPolicy, Worker

PRODUCT, LEASE, VISIBILITY = "lamp", 30, 30
ORDERS = ("order-1", "order-2")
DEDUCT = "UPDATE stock SET pieces = pieces - 1"


class AsWritten:
    """The seven steps in their order; the worker does the first and the last.

    Parameters
    ----------
    r, db: the worker's own connections to Redis and to the database.
    mail: the mail service.
    """

    def __init__(self, r: redis.Redis, db: Any, mail: Service) -> None:
        self.r, self.db, self.mail = r, db, mail

    def handle(self, job: Job) -> None:
        """Steps 2 to 6."""
        order = job.body["order_id"]
        with transaction(self.db):
            if not ProcessedEvents(self.db).claim(order):  # 2 and 3
                return
        with self.lock():  # 4
            self.mail.send(order)  # 5
            with transaction(self.db):
                self.db.execute(DEDUCT)  # 5 and 6

    def lock(self) -> AtomicLock:
        """The lock on the product: whoever finds it taken comes again later."""
        lock = AtomicLock(self.r, f"lock:{PRODUCT}", timeout=LEASE, blocking=False, raise_on_release_error=False)
        return lock


class Corrected(AsWritten):
    """The same effects: the lock first, a claim that ends, the result with the effect, a key for the mail service."""

    def handle(self, job: Job) -> None:
        """The steps in the order that holds."""
        order, owner = job.body["order_id"], f"{job.worker_id}, attempt {job.attempt}"
        records = IdempotencyRecords(self.db)
        with self.lock():
            with transaction(self.db):
                answer = records.claim(order, owner, LEASE)
            if isinstance(answer, Done):
                return
            if isinstance(answer, InProgress):
                raise Busy(f"another worker is on {order}")
            self.mail.send(order, idempotency_key=effect_key(order, "confirm"))
            with transaction(self.db):
                self.db.execute(DEDUCT)
                records.complete(order, owner)


def work(name: str, flow: AsWritten, after: float = 0, rounds: int = 1) -> None:
    """A worker that takes one message, or comes later for what is left."""
    for _ in range(rounds):
        if after:
            time.sleep(after)
        queue = VisibilityQueue(flow.r, "orders")
        retry = RetryPolicy(first_wait=VISIBILITY)
        jobs = 1 if rounds == 1 else len(ORDERS)
        Worker(queue, flow.handle, worker_id=name, retry=retry, wait=0).run(max_jobs=jobs, stop_when_empty=True)


def build(lab: Lab, flow: type[AsWritten]) -> None:
    """The world: two orders for one product, two workers, and one that comes later."""
    r, db = lab.redis(), lab.sql()
    queue = VisibilityQueue.create(r, "orders", visibility_timeout=VISIBILITY)
    db.execute("CREATE TABLE stock (pieces INTEGER NOT NULL)")
    db.execute("INSERT INTO stock VALUES (10)")
    ProcessedEvents(db).create()
    IdempotencyRecords(db).create()
    mail = lab.service("mailer", deduplicates=True)
    for order in ORDERS:
        queue.send({"order_id": order})
    for name in "AB":
        lab.worker(name, work, name, flow(lab.redis(), lab.sql(), mail))
    lab.worker("later", work, "later", flow(lab.redis(), lab.sql(), mail), VISIBILITY + 5, 3, spared=True)
    lab.deadlines(queue.deadlines)
    for order in ORDERS:
        lab.always(f"one mail for {order}", partial(_mailed_once, mail, order))
        lab.at_end(f"the mail for {order} went out", partial(mail.count, order))
    lab.at_end("a piece of stock for each order", lambda: db.execute("SELECT pieces FROM stock").fetchone()[0] == 8)


def _mailed_once(mail: Service, order: str) -> bool:
    return mail.count(order) <= 1


def as_written(lab: Lab) -> None:
    """The seven steps as they are written down."""
    build(lab, AsWritten)


def corrected(lab: Lab) -> None:
    """The flow that holds."""
    build(lab, Corrected)
