"""A shop's workers over some minutes of business with a deploy in the middle, to be run and watched.

It takes thousands of steps, far too many to be searched; `labkit.incidents.deploy` is the small one for that.
"""

from __future__ import annotations

import signal
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import redis
from redis.exceptions import LockError

from labkit import Lab, Trace, run
from labkit.idempotency import Done, IdempotencyRecords, InProgress, transaction
from labkit.lab import Service
from labkit.locks import AtomicLock, CheckThenSetLock, UnownedLock
from labkit.locks.lock import Lock
from labkit.observe import print_event
from labkit.queues import Message, VisibilityQueue
from labkit.workers import Busy, Job, RetryPolicy, Worker

OLD, NEW = ("old-1", "old-2"), ("new-1", "new-2")
V1, V2 = "release-41", "release-42"
QUEUE = "orders"


class CacheKeyLock(CheckThenSetLock, UnownedLock):
    """The "lock" of `if not cache.has(key): cache.set(key, ttl)`, given back with a plain DEL."""


LOCKS: Mapping[str, type[Lock]] = {"cache key": CacheKeyLock, "atomic": AtomicLock}


@dataclass(frozen=True)
class Production:
    """Orders come in, two old workers do them, and two new ones replace the old; a scenario.

    Each order gets a mail when its job begins; when the job ends, a piece of stock is deducted and a push message sent.

    Parameters
    ----------
    orders: how many there are.
    every: seconds between two.
    sent_twice: of how many orders one is sent again, by a client that did not wait; 0 for none.
    sent_again: how many orders later that is; 0 for at once.
    job_seconds: how long a job takes, a fifth more or less.
    slow_every: of how many orders one takes longer; 0 for none.
    slow_seconds: how long that one takes.
    first_job_seconds: how long the first job of each new worker takes, as its caches are cold; 0 for no difference.
    visibility_timeout: seconds for which a received message is hidden.
    old_receipts: what deleting with an old receipt does; see `labkit.queues.QueueRules`.
    poll: seconds between two looks at an empty queue; 0 for long polling.
    ready: when the new workers poll, in seconds since the start; 0 when they never come.
    deploy: when the old workers get SIGTERM; 0 for never.
    grace_period: seconds from SIGTERM to SIGKILL.
    on_sigterm: what the old workers do: `drain`, `ignore` it and go on, or `die`.
    ack: when a message is deleted, `after` the job or `before` it.
    heartbeat: whether a thread keeps the message hidden meanwhile.
    lock: a lock for each order: none, the `cache key` of the incident, or an `atomic` one.
    lock_seconds: its lease.
    lock_wait: how many seconds a worker waits for it.
    idempotent: whether each order has a record in the database: claimed, then done.
    """

    orders: int = 80
    every: float = 6
    sent_twice: int = 0
    sent_again: int = 0
    job_seconds: float = 10
    slow_every: int = 0
    slow_seconds: float = 45
    first_job_seconds: float = 0
    visibility_timeout: float = 60
    old_receipts: str = "delete"
    poll: float = 0
    ready: float = 241
    deploy: float = 243
    grace_period: float = 30
    on_sigterm: str = "drain"
    ack: str = "after"
    heartbeat: bool = False
    lock: str = ""
    lock_seconds: float = 30
    lock_wait: float = 0
    idempotent: bool = False

    def __call__(self, lab: Lab) -> None:
        """Build the world."""
        r, db = lab.redis(), lab.sql()
        rules = {"visibility_timeout": self.visibility_timeout, "old_receipts": self.old_receipts}
        queue = VisibilityQueue.create(r, QUEUE, **rules)
        db.execute("CREATE TABLE stock (pieces INTEGER NOT NULL)")
        db.execute("INSERT INTO stock VALUES (1000)")
        IdempotencyRecords(db).create()
        lab.worker("api", sell, lab.redis(), self, spared=True)
        push = lab.service("push")
        for name in OLD + (NEW if self.ready else ()):
            shop = Shop(self, name, lab.redis(), lab.sql(), lab.mail, push, lab.section)
            lab.worker(name, shop.open, forever=True, signals=int(name in OLD))
        began = time.time()
        lab.deadlines(queue.deadlines)
        lab.deadlines(lambda: [began + self.deploy, began + self.deploy + self.grace_period])
        mail, names = lab.mail, {order_of(number) for number in range(1, self.orders + 1)}
        lab.always("at most one mail for each order", lambda: len({call.key for call in mail.calls}) == len(mail.calls))
        lab.at_end("a push message for each order", lambda: names <= {call.key for call in push.calls})

    def run(self, seed: int = 0) -> Trace:
        """Execute it; another seed draws other orders of what happens at the same moment."""
        said, killed = (" ".join(f"{kind}:{name}" for name in OLD) for kind in ("signal", "crash"))
        faults = {self.deploy: said, self.deploy + self.grace_period: killed} if self.deploy else {}
        return run(self, seed=seed, faults=faults)

    def but(self, **changes: Any) -> Production:
        """The same with some parameters changed."""
        return replace(self, **changes)

    def seconds(self, order: str) -> float:
        """How long the job of an order takes."""
        if self.slow_every and int(order.rpartition("-")[2]) % self.slow_every == 0:
            return self.slow_seconds
        return round(self.job_seconds * (0.8 + zlib.crc32(order.encode()) % 41 / 100), 2)


def order_of(number: int) -> str:
    """The id of an order, by its number from 1."""
    return f"ord-{100 + number}"


def sell(r: redis.Redis, plan: Production) -> None:
    """The API: it writes down each order as a message with its ids."""
    queue = VisibilityQueue(r, QUEUE)
    print_event({"event": "queue.ready", "queue": QUEUE, "visibility_timeout": plan.visibility_timeout})
    for number in range(1, plan.orders + 1):
        again = number - plan.sent_again
        numbers = [number, again] if plan.sent_twice and again > 0 and again % plan.sent_twice == 0 else [number]
        for one in numbers:
            ids = {"job_id": f"q-{7800 + one}", "event_id": f"evt-{900 + one}", "order_id": order_of(one)}
            queue.send(ids)
            print_event({"event": "job.enqueued", "queue": QUEUE, **ids})
        time.sleep(plan.every)


class Shop:
    """What a worker does with orders.

    Parameters
    ----------
    plan: how things are done.
    name: the worker's name.
    r, db: its own connections to Redis and to the database.
    mail, push: outside services.
    section: marks the critical section, for pictures.
    """

    def __init__(
        self,
        plan: Production,
        name: str,
        r: redis.Redis,
        db: Any,
        mail: Service,
        push: Service,
        section: Callable[[str], AbstractContextManager[None]],
    ) -> None:
        self.plan, self.name, self.r, self.db, self.mail, self.push = plan, name, r, db, mail, push
        self.section = section
        self.is_new = name in NEW
        self.jobs = 0

    def open(self) -> None:
        """A worker's life."""
        plan, place = self.plan, (OLD + NEW).index(self.name)
        if plan.on_sigterm == "ignore":
            signal.signal(signal.SIGTERM, lambda *_: None)
        # One worker starts after the other, as in a rolling deploy; without a difference, all would poll at once.
        time.sleep(plan.ready * self.is_new + (place % 2) * plan.poll * 0.6)
        self.emit({"event": "worker.started", "worker_id": self.name, "deployment_id": self.release})
        Worker(
            PolledQueue(self.r, QUEUE, plan.poll),
            self.handle,
            worker_id=self.name,
            deployment_id=self.release,
            ack=plan.ack,
            keep_hidden=plan.visibility_timeout if plan.heartbeat else None,
            drains=plan.on_sigterm == "drain",
            retry=RetryPolicy(first_wait=15),
            wait=plan.poll or 20,
            emit=self.emit,
        ).run()

    @property
    def release(self) -> str:
        """Which release the worker belongs to."""
        return V2 if self.is_new else V1

    def emit(self, event: dict[str, Any]) -> None:
        """Log an event of this queue."""
        print_event({**event, "queue": QUEUE})

    def handle(self, job: Job) -> None:
        """Do an order."""
        order = job.body["order_id"]
        self.jobs += 1
        cold = self.plan.first_job_seconds if self.is_new and self.jobs == 1 else 0
        with self.locked(job, order):
            if self.plan.idempotent:
                self.once(job, order, cold)
            else:
                self.work(order, cold)
        job.log("job.finished")

    @contextmanager
    def locked(self, job: Job, order: str) -> Iterator[None]:
        """The order's lock, if there is one; `Busy` when another worker has it."""
        if not self.plan.lock:
            yield
            return
        name = f"processing:order:{order}"
        lock = LOCKS[self.plan.lock](self.r, name, timeout=self.plan.lock_seconds, sleep=0.5)
        wait = self.plan.lock_wait
        if not lock.acquire(blocking=bool(wait), blocking_timeout=wait or None):
            job.log("lock.timeout" if wait else "lock.busy", lock=name, ttl=self.plan.lock_seconds)
            raise Busy(f"another worker has {name}")
        job.log("lock.acquired", lock=name, ttl=self.plan.lock_seconds)
        try:
            yield
        finally:
            try:
                lock.release()
                job.log("lock.released", lock=name)
            except LockError:
                job.log("lock.release_refused", lock=name)

    def once(self, job: Job, order: str, cold: float) -> None:
        """The order under a claim in the database; nothing when it was done before."""
        records, owner = IdempotencyRecords(self.db), f"{self.name}, attempt {job.attempt}"
        with transaction(self.db):
            answer = records.claim(order, owner, 2 * self.plan.visibility_timeout)
        if isinstance(answer, Done):
            job.log("idempotency.conflict", state="completed")
        elif isinstance(answer, InProgress):
            job.log("idempotency.conflict", state="in_progress")
            raise Busy(f"another worker is on {order}")
        else:
            self.work(order, cold, lambda: records.complete(order, owner))

    def work(self, order: str, cold: float, complete: Callable[[], object] = lambda: None) -> None:
        """Mail, work, stock, push."""
        with self.section(order):
            self.mail.send(order)
            time.sleep(cold or self.plan.seconds(order))
            with transaction(self.db):
                self.db.execute("UPDATE stock SET pieces = pieces - 1")
                complete()
            self.push.call(order)


@dataclass(frozen=True)
class PolledQueue:
    """The queue as a worker has it, with short polling where that is wanted.

    Parameters
    ----------
    client, name: as for `VisibilityQueue`.
    poll: seconds between two looks; 0 for the queue's own long polling.
    """

    client: redis.Redis
    name: str
    poll: float

    def receive(self, wait: float) -> list[Message]:
        """Take a message; when there is none, nothing after a wait."""
        messages = VisibilityQueue(self.client, self.name).receive(wait=0 if self.poll else wait)
        if self.poll and not messages:
            time.sleep(self.poll)
        return messages

    def delete(self, receipt_handle: str) -> bool:
        """Delete a message that is done."""
        return VisibilityQueue(self.client, self.name).delete(receipt_handle)

    def change_visibility(self, receipt_handle: str, seconds: float) -> bool:
        """Hide a message for longer, or give it back."""
        return VisibilityQueue(self.client, self.name).change_visibility(receipt_handle, seconds)
