"""Incident B, the deploy: an order's mail goes out twice and its stock is deducted twice, minutes after a deploy.

Old and new workers poll one queue. A handler sends the confirmation, then deducts the stock; a job may take longer than
its message stays hidden, and the old worker is told to stop, and killed when it does not.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import redis
from redis.exceptions import LockError

from labkit import Lab
from labkit.idempotency import Done, IdempotencyRecords, InProgress, ProcessedEvents, effect_key, transaction
from labkit.incidents.ladder import Fault, Fix, Incident
from labkit.lab import Service
from labkit.locks import AtomicLock
from labkit.queues import VisibilityQueue
from labkit.workers import Busy, Job, RetryPolicy, Worker

ORDER, LEASE, VISIBILITY, JOB_SECONDS = "order-1", 60, 30, 45
DEDUCT = "UPDATE stock SET pieces = pieces - 1"


class Shop:
    """What a worker does with an order, with the fixes that are in place.

    Parameters
    ----------
    lab: for the critical section.
    r, db: the worker's own connections to Redis and to the database.
    mail: the mail service.
    fixes: the names of the fixes.
    seconds: how long the work takes before its first effect.
    """

    def __init__(self, lab: Lab, r: redis.Redis, db: Any, mail: Service, fixes: frozenset[str], seconds: float) -> None:
        self.lab, self.r, self.db, self.mail, self.fixes, self.seconds = lab, r, db, mail, fixes, seconds

    def handle(self, job: Job) -> None:
        """Do an order; `Busy` when another worker is on it."""
        order = job.body["order_id"]
        if "record" in self.fixes:
            self.with_a_record(order, f"{job.worker_id}, attempt {job.attempt}")
        elif "key" not in self.fixes or self.is_first(order):
            self.with_a_lock(order)

    def is_first(self, order: str) -> bool:
        """Whether nobody has committed the order's key before."""
        with transaction(self.db):
            return ProcessedEvents(self.db).claim(order)

    def with_a_lock(self, order: str) -> None:
        """The effects, under a lock if that fix is in place."""
        if "lock" not in self.fixes:
            return self.work(order)
        lock = AtomicLock(self.r, f"lock:{order}", timeout=LEASE)
        if not lock.acquire(blocking=False):
            return self.another_is_on_it(order)
        try:
            self.work(order)
        finally:
            with suppress(LockError):
                lock.release()

    def with_a_record(self, order: str, owner: str) -> None:
        """The effects, under a claim that ends; the order is done once its record says so."""
        records = IdempotencyRecords(self.db)
        with transaction(self.db):
            answer = records.claim(order, owner, LEASE)
        if isinstance(answer, Done):
            return
        if isinstance(answer, InProgress):
            return self.another_is_on_it(order)
        self.work(order, lambda: records.complete(order, owner))

    def another_is_on_it(self, order: str) -> None:
        """A message whose order is busy is not done with."""
        if "busy" in self.fixes:
            raise Busy(f"another worker is on {order}")

    def work(self, order: str, complete: Any = None) -> None:
        """The effects: a mail, and a piece of stock; then the record, with the stock or after it."""
        with self.lab.section("order"):
            if self.seconds:
                time.sleep(self.seconds)
            key = effect_key(order, "confirm") if "provider key" in self.fixes else None
            self.mail.send(order, idempotency_key=key)
            with transaction(self.db):
                self.db.execute(DEDUCT)
                if complete is not None and "one transaction" in self.fixes:
                    complete()
            if complete is not None and "one transaction" not in self.fixes:
                with transaction(self.db):
                    complete()


def work(name: str, generation: str, shop: Shop, after: float = 0, rounds: int = 1) -> None:
    """A worker that takes what is there, and comes again some times."""
    for _ in range(rounds):
        if after:
            time.sleep(after)
        Worker(
            VisibilityQueue(shop.r, "orders"),
            shop.handle,
            worker_id=name,
            deployment_id=generation,
            ack="after" if "ack last" in shop.fixes else "before",
            keep_hidden=VISIBILITY if "heartbeat" in shop.fixes else None,
            drains="drain" in shop.fixes,
            retry=RetryPolicy(first_wait=VISIBILITY),
            wait=0,
        ).run(max_jobs=1, stop_when_empty=True)


def build(
    lab: Lab,
    fixes: frozenset[str],
    messages: int = 1,
    seconds: float = 0,
    rounds: int = 3,
    overlap: bool = True,
    deploy: bool = False,
    prompt: bool = False,
) -> None:
    """The world of the incident.

    Parameters
    ----------
    lab: where it is built.
    fixes: the names of the fixes in place.
    messages: how many messages there are for the one order.
    seconds: how long a job takes.
    rounds: how often a worker comes later and looks for what is left.
    overlap: whether a new worker polls while the old one does.
    deploy: whether the old worker gets SIGTERM.
    prompt: whether nothing goes wrong for which an order should have to wait.
    """
    r, db = lab.redis(), lab.sql()
    queue = VisibilityQueue.create(r, "orders", visibility_timeout=VISIBILITY)
    db.execute("CREATE TABLE stock (pieces INTEGER NOT NULL)")
    db.execute("INSERT INTO stock VALUES (10)")
    IdempotencyRecords(db).create()
    ProcessedEvents(db).create()
    for _ in range(messages):
        queue.send({"order_id": ORDER})
    mail = lab.service("mailer", deduplicates="provider key" in fixes)

    def pieces() -> int:
        return int(db.execute("SELECT pieces FROM stock").fetchone()[0])

    def worker(name: str, generation: str, *arguments: Any, **options: Any) -> None:
        shop = Shop(lab, lab.redis(), lab.sql(), mail, fixes, seconds)
        lab.worker(name, work, name, generation, shop, *arguments, **options)

    worker("old", "v1", signals=int(deploy))
    if overlap:
        worker("new", "v2", 1 if seconds or deploy else 0)
    worker("later", "v2", VISIBILITY + 5, rounds, spared=True)
    lab.deadlines(queue.deadlines)
    lab.always("one mail for the order", lambda: mail.count(ORDER) <= 1)
    lab.always("one piece of stock for the order", lambda: pieces() >= 9)
    lab.always("two workers are never on the order", lambda: lab.inside("order") <= 1)
    lab.at_end("the mail went out", lambda: mail.count(ORDER) >= 1)
    lab.at_end("the stock was deducted", lambda: pieces() <= 9)
    if seconds:
        lab.at_end("no message is delivered twice", lambda: queue.attributes().redelivered == 0)
    if prompt:
        began = time.time()
        lab.always("no order waits for a time-out", lambda: pieces() <= 9 or time.time() < began + VISIBILITY)


DEPLOY = Incident(
    name="the deploy",
    fixes=(
        Fix("ack last", "Delete the message when the work is done, and not when it begins."),
        Fix("lock", "A lock for the order, with an owner and a lease longer than the job."),
        Fix("busy", "A busy order is not a finished one: its message comes again."),
        Fix("drain", "On SIGTERM: take no other job, finish the one in hand, delete its message, leave."),
        Fix("heartbeat", "A thread keeps the message hidden while the job runs."),
        Fix("key", "Commit the order's key under a unique constraint first; go on only if the insert won."),
        Fix(
            "record",
            "A record in three states instead: claimed for a while, and done only when the work is.",
            replaces=("lock", "key"),
        ),
        Fix("one transaction", "Deduct the stock and complete the record in one transaction."),
        Fix("provider key", "Send the mail provider a key that is the same for each attempt."),
    ),
    faults=(
        Fault("sent twice", {}, {"messages": 2}),
        Fault("slow job", {}, {"seconds": JOB_SECONDS}),
        Fault("pause", {"pauses": 1}, {"rounds": 1, "overlap": False}),
        Fault("crash", {"crashes": 1}),
        Fault("lost reply", {"lost_replies": 1}),
        Fault("deploy", {"signals": 1}, {"deploy": True, "prompt": True}),
        Fault("deploy, kill", {"signals": 1, "crashes": 1}, {"deploy": True}),
    ),
    build=build,
)
