"""One delivery of a job to a worker, from the records about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from labkit.observe.record import IDS, Record

_OUTCOMES = {"job.finished": "done", "job.acked": "done", "job.failed": "failed", "job.busy": "busy"}
_NO_WORK = ("job.", "lock.acquire", "lock.busy", "lock.timeout", "lock.error", "idempotency.", "heartbeat.")
_GONE = ("worker.killed", "worker.raised", "worker.stopped", "worker.drained")


@dataclass
class Delivery:
    """A job in a worker's hands; times are microseconds.

    Parameters
    ----------
    ids: the correlation ids; see `labkit.workers.Job.correlation`.
    queue: where it came from.
    received: when the worker got the message.
    started, ended: when the work began and ended; None while it did not.
    outcome: `done`, `failed`, `busy` (somebody else had it), `killed` (with its worker), `released`, or `open`.
    in_work: whether the handler does what it is there for; one that waits for a lock, or is turned away, does not.
    settled: what became of the message: `ok`, `stale` (somebody else had received it since), `error`; empty for none.
    records: what was said of it.
    """

    ids: dict[str, Any]
    queue: str
    received: int
    started: int | None = None
    ended: int | None = None
    outcome: str = "open"
    settled: str = ""
    in_work: bool = False
    records: list[Record] = field(default_factory=list)

    @property
    def job(self) -> str:
        """The job's id."""
        return str(self.ids.get("job_id"))

    @property
    def worker(self) -> str:
        """Who has it."""
        return str(self.ids.get("worker_id"))

    @property
    def attempt(self) -> int:
        """How often the message had been delivered, this time included."""
        return int(self.ids.get("attempt") or 1)

    @property
    def is_working(self) -> bool:
        """Whether the work itself is going on."""
        return self.in_work and self.ended is None

    @property
    def is_running(self) -> bool:
        """Whether the work has begun and not ended."""
        return self.started is not None and self.ended is None


class Deliveries:
    """Follows records as they come, and keeps each delivery.

    Parameters
    ----------
    queue: the name of the queue, where records do not say it.
    """

    def __init__(self, queue: str = "jobs") -> None:
        self.queue = queue
        self.all: list[Delivery] = []
        self._open: dict[tuple[str, str], Delivery] = {}
        self._current: dict[str, Delivery] = {}  # the delivery that each worker had to do with last

    def take(self, record: Record) -> list[Delivery]:
        """Follow one record; returns the deliveries that it ended."""
        if record.event in _GONE:
            return self._end_all(record)
        job, worker = record.fields.get("job_id"), record.worker
        if record.event == "job.received":
            ids = {name: record.fields.get(name) for name in IDS}
            delivery = Delivery(ids, str(record.fields.get("queue", self.queue)), record.time, records=[record])
            self.all.append(delivery)
            self._open[worker, str(job)] = self._current[worker] = delivery
            return []
        known = self._open.get((worker, str(job))) if job is not None else self._current.get(worker)
        if known is None:
            return []
        known.records.append(record)
        turned_away = record.event.startswith(_NO_WORK) and record.event not in ("lock.acquired", "job.finished")
        known.in_work = known.in_work or (known.is_running and not turned_away)
        if record.event == "job.started":
            known.started = record.time
            self._current[worker] = known
        if record.event == "job.acked":
            known.settled = str(record.fields.get("result", "ok"))
        ends = record.event in _OUTCOMES and known.is_running
        if ends or (record.event == "job.released" and known.started is None):
            known.ended, known.outcome = record.time, _OUTCOMES.get(record.event, "released")
            return [known]
        return []

    def _end_all(self, record: Record) -> list[Delivery]:
        ended = []
        for (worker, _), delivery in list(self._open.items()):
            if worker == record.worker and delivery.ended is None:
                delivery.ended = record.time
                delivery.outcome = "killed" if record.event in ("worker.killed", "worker.raised") else "done"
                delivery.records.append(record)
                ended.append(delivery)
        self._open = {key: delivery for key, delivery in self._open.items() if key[0] != record.worker}
        self._current.pop(record.worker, None)
        return ended

    def elsewhere(self, delivery: Delivery) -> list[Delivery]:
        """The deliveries of the same job that other workers work on at this moment."""
        return [
            other
            for (worker, job), other in self._open.items()
            if job == delivery.job and worker != delivery.worker and other.is_working
        ]

    @property
    def running(self) -> list[Delivery]:
        """What is being worked on at this moment."""
        return [delivery for delivery in self._open.values() if delivery.is_running]

    def of(self, worker: str, job: object = None) -> Delivery | None:
        """The open delivery of a job to a worker, or the one it had to do with last."""
        return self._current.get(worker) if job is None else self._open.get((worker, str(job)))


def deliveries(records: tuple[Record, ...]) -> list[Delivery]:
    """The deliveries that records tell of, in the order in which they were received."""
    followed = Deliveries()
    for record in records:
        followed.take(record)
    return followed.all
