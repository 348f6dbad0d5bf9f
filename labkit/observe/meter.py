"""Metrics from records, as they come: what a queue, its workers, their locks and their records would export."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from labkit.observe.delivery import Deliveries, Delivery
from labkit.observe.instrument import Instrument, Sample
from labkit.observe.record import Record, parse, records
from labkit.trace import Trace

# The boundaries that OpenTelemetry advises end at 10 s: with jobs of 45 s and messages hidden for 30 s, a percentile
# would read 10 for ever. These lie around the visibility timeouts that one meets.
SECONDS = (0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 15, 20, 25, 30, 45, 60, 90, 120, 300)

UNKNOWN = "unknown"  # the label of a line that does not say what its event is about
_RESULTS = {"lock.acquired": "acquired", "lock.busy": "busy", "lock.timeout": "timeout", "lock.error": "error"}
_OUTCOMES = ("done", "failed", "busy")


class Meter:
    """Follows records, and knows every metric at any moment.

    Parameters
    ----------
    queue: the name of the queue, where records do not say it.
    visibility_timeout: seconds for which a received message is hidden, where no `queue.ready` says it.
    clock: gives the time in microseconds on the records' clock, for what grows by itself; else it is the last record's.
    """

    def __init__(
        self,
        queue: str = "jobs",
        visibility_timeout: float | None = None,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self.queue, self.clock = queue, clock
        self.now = 0
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._deliveries = Deliveries(queue)
        self._hidden: dict[str, int] = {}  # by job, until when its latest delivery is hidden
        self._sent: dict[str, list[int]] = {}  # by job, when its messages were sent that are not settled
        self._given_back: set[str] = set()
        self._queue_of: dict[str, str] = {}
        self._timeouts: dict[str, float] = {}
        self._acquired: dict[tuple[str, str], int] = {}
        self._releases: set[str] = set()
        self._make()
        self._expect(queue, visibility_timeout)

    @classmethod
    def of(cls, source: Trace | Iterable[Record], queue: str = "", visibility_timeout: float | None = None) -> Meter:
        """A meter that has followed a whole trace, or records."""
        kept = records(source) if isinstance(source, Trace) else tuple(source)
        meter = cls(queue or queue_of(kept), visibility_timeout)
        for record in kept:
            meter.take(record)
        if isinstance(source, Trace) and source.events:
            meter.now = source.events[-1].time
        return meter

    def _make(self) -> None:
        def counter(name: str, says: str, *labels: str) -> Instrument:
            return Instrument("counter", f"labkit_{name}_total", says, labels or ("queue",))

        def gauge(name: str, says: str) -> Instrument:
            return Instrument("gauge", f"labkit_{name}", says)

        def histogram(name: str, says: str, *labels: str) -> Instrument:
            return Instrument("histogram", f"labkit_{name}_seconds", says, labels or ("queue",), SECONDS)

        self.sent = counter("messages_sent", "Messages that producers sent.")
        self.received = counter("messages_received", "Messages that workers received, each delivery counted.")
        self.redelivered = counter(
            "messages_redelivered", "Deliveries of what was not settled in time, nor given back."
        )
        self.acked = counter("messages_acked", "Messages that workers deleted; stale: too late.", "queue", "result")
        self.released = counter("messages_released", "Messages that workers gave back.")
        self.dead = counter("messages_dead_lettered", "Messages that became dead letters.")
        self.processed = counter("jobs_processed", "Jobs whose handler ended.", "queue", "outcome")
        self.overlaps = counter("job_overlaps", "Jobs that a worker began to work on while another did.")
        self.duration = histogram("job_duration", "How long handlers took; of killed ones nothing is known.")
        self.wait = histogram("job_wait", "How long messages waited for their first delivery.")
        self.effects = counter("effects", "Calls to outside services.", "effect", "result")
        self.lock = counter("lock_acquire", "Attempts to take a lock.", "lock", "result")
        self.lock_wait = histogram("lock_wait", "How long workers waited for a lock.", "lock")
        self.lock_hold = histogram("lock_hold", "How long workers held a lock.", "lock")
        self.lock_lost = counter("lock_lost", "Leases that ended while their holder worked.", "lock")
        self.foreign = counter("lock_release_not_owned", "Releases of a lock that was another's by then.", "lock")
        self.fenced = counter("fenced_writes_rejected", "Writes with an old fencing token.", "lock")
        self.conflicts = counter("idempotency_conflicts", "Attempts that met another's record.", "queue", "state")
        self.replies = counter("api_replies", "Replies of the API.", "status")
        self.deployments = counter("deployments", "Releases that began to run after the first.")
        self.violations = counter("violations", "Properties that broke; in the lab alone.", "invariant")
        self.depth = gauge("queue_messages", "Messages that can be received now.")
        self.in_flight = gauge("messages_in_flight", "Messages that are hidden, since somebody works on them.")
        self.oldest = gauge("queue_oldest_message_age_seconds", "Age of the oldest message that is not settled.")
        self.running = gauge("jobs_in_progress", "Jobs in the hands of workers.")
        self.several = gauge("jobs_on_several_workers", "Jobs that more than one worker works on now.")
        self.timeout = gauge("queue_visibility_timeout_seconds", "For how long a received message is hidden.")
        self.last = gauge("last_processed_timestamp_seconds", "When the last job was done.")

    @property
    def instruments(self) -> list[Instrument]:
        """Every metric, by name."""
        return sorted((one for one in vars(self).values() if isinstance(one, Instrument)), key=lambda one: one.name)

    def _expect(self, queue: str, visibility_timeout: float | None) -> None:
        for one in (self.sent, self.received, self.redelivered, self.released, self.dead, self.overlaps):
            one.expect(queue)
        for result in ("ok", "stale", "error"):
            self.acked.expect(queue, result)
        for outcome in _OUTCOMES:
            self.processed.expect(queue, outcome)
        for state in ("completed", "in_progress", "expired"):
            self.conflicts.expect(queue, state)
        for histogram in (self.duration, self.wait):
            histogram.expect(queue)
        self.deployments.expect(queue)
        if visibility_timeout is not None:
            self._timeouts[queue] = visibility_timeout
            self.timeout.set(visibility_timeout, queue)

    def emit(self, event: Mapping[str, Any]) -> None:
        """Follow an event as it happens, in a live run: `Worker(…, emit=meter.emit)`; any thread may call it."""
        self.take(Record(round((time.monotonic() - self._began) * 1e6), event))

    def follow(self, stream: Iterable[Record | Mapping[str, Any] | str]) -> None:
        """Follow a stream to its end: records, events as they happen, or lines of a log such as a process prints."""
        for one in stream:
            if isinstance(one, Record):
                self.take(one)
            else:
                self.emit(parse(one) if isinstance(one, str) else one)

    def take(self, record: Record) -> None:
        """Follow one record."""
        with self._lock:
            self.now = max(self.now, record.time)
            before = self._deliveries.of(record.worker, record.fields.get("job_id"))
            idle = before is not None and not before.in_work
            ended = self._deliveries.take(record)
            queue = str(record.fields.get("queue", self._queue_of.get(str(record.fields.get("job_id")), self.queue)))
            for delivery in ended:
                self._end(delivery)
            if idle and before is not None and before.in_work and self._deliveries.elsewhere(before):
                self.overlaps.add(before.queue)
            self._deploy(record, queue)
            for count in (self._of_messages, self._of_locks, self._of_the_rest):
                count(record, queue)

    def _deploy(self, record: Record, queue: str) -> None:
        release = record.fields.get("deployment_id")
        if release and release not in self._releases:
            if self._releases:
                self.deployments.add(queue)
            self._releases.add(str(release))

    def _of_messages(self, record: Record, queue: str) -> None:
        job, fields = str(record.fields.get("job_id")), record.fields
        if record.event == "queue.ready":
            self._expect(queue, fields.get("visibility_timeout"))
        elif record.event == "job.enqueued":
            self.sent.add(queue)
            self._sent.setdefault(job, []).append(record.time)
            self._queue_of[job] = queue
        elif record.event == "job.received":
            self._receive(record, job, queue)
        elif record.event == "job.acked":
            self.acked.add(queue, str(fields.get("result", "ok")))
            if fields.get("result", "ok") == "ok":
                self._settle(job)
        elif record.event == "job.released":
            self.released.add(queue)
            self._hidden.pop(job, None)
            self._given_back.add(job)
        elif record.event == "job.dead_lettered":
            self.dead.add(queue)
            self._settle(job)

    def _receive(self, record: Record, job: str, queue: str) -> None:
        self.received.add(queue)
        self._queue_of[job] = queue
        if (record.fields.get("attempt") or 1) > 1:
            self.redelivered.add(queue, by=job not in self._given_back)
        elif job in self._sent:
            self.wait.observe((record.time - self._sent[job][0]) / 1e6, queue)
        self._given_back.discard(job)
        self._sent.setdefault(job, [record.time])
        self._hidden[job] = record.time + round(1e6 * self._timeouts.get(queue, float(2**40)))

    def _settle(self, job: str) -> None:
        if self._sent.get(job):
            self._sent[job].pop(0)
        if not self._sent.get(job):
            self._sent.pop(job, None)
            self._hidden.pop(job, None)

    def _end(self, delivery: Delivery) -> None:
        if delivery.started is None or delivery.outcome not in _OUTCOMES or delivery.ended is None:
            return
        self.processed.add(delivery.queue, delivery.outcome)
        self.duration.observe((delivery.ended - delivery.started) / 1e6, delivery.queue)
        if delivery.outcome == "done":
            self.last.set(delivery.ended / 1e6, delivery.queue)

    def _of_locks(self, record: Record, queue: str) -> None:
        if not record.event.startswith(("lock.", "fenced.")):
            return
        name, fields = str(record.fields.get("lock", "lock")), record.fields
        label = name.rpartition(":")[0] or name  # `processing:order:123` is one of very many; `processing:order` is not
        if record.event in _RESULTS:
            for result in _RESULTS.values():
                self.lock.expect(label, result)
            self.lock.add(label, _RESULTS[record.event])
            if "waited" in fields:
                self.lock_wait.observe(float(fields["waited"]), label)
        if record.event == "lock.acquired":
            self._acquired[record.worker, name] = record.time
            for one in (self.foreign, self.lock_lost, self.fenced):
                one.expect(label)
        if record.event in ("lock.released", "lock.lost", "lock.release_refused"):
            since = self._acquired.pop((record.worker, name), None)
            if since is not None:
                self.lock_hold.observe((record.time - since) / 1e6, label)
        more = {"lock.lost": self.lock_lost, "lock.release_refused": self.foreign, "fenced.write_rejected": self.fenced}
        if record.event in more:
            more[record.event].add(label)

    def _of_the_rest(self, record: Record, queue: str) -> None:
        fields = record.fields
        if record.event == "idempotency.conflict":
            self.conflicts.add(queue, str(fields.get("state", "completed")))
        elif record.event.startswith("effect.") and record.event != "effect.attempted":
            effect = str(fields.get("effect", UNKNOWN))
            for result in ("applied", "deduplicated"):
                self.effects.expect(effect, result)
            self.effects.add(effect, record.event.partition(".")[2])
        elif record.event == "api.replied":
            self.replies.add(str(fields.get("status", UNKNOWN)))
        elif record.event == "lab.violated":
            self.violations.add(str(fields.get("invariant", UNKNOWN)))

    def samples(self, now: int | None = None) -> list[Sample]:
        """Every value, by name, at a moment in microseconds; that of the clock, if none is given."""
        with self._lock:
            self._refresh(now if now is not None else self.clock() if self.clock else self.now)
            return [sample for one in self.instruments for sample in one.samples()]

    def _refresh(self, now: int) -> None:
        """Bring what grows or shrinks by itself up to date."""
        running = self._deliveries.running
        jobs: dict[tuple[str, str], set[str]] = {}
        for delivery in (one for one in running if one.is_working):
            jobs.setdefault((delivery.queue, delivery.job), set()).add(delivery.worker)
        for (queue,), _ in self.sent.values():
            own = {job: times for job, times in self._sent.items() if self._queue_of.get(job, queue) == queue}
            hidden = sum(self._hidden.get(job, 0) > now for job in own)
            self.depth.set(sum(map(len, own.values())) - hidden, queue)
            self.in_flight.set(hidden, queue)
            oldest = min((times[0] for times in own.values()), default=now)
            self.oldest.set((now - oldest) / 1e6, queue)
            self.running.set(sum(delivery.queue == queue for delivery in running), queue)
            self.several.set(sum(len(names) > 1 for (of, _), names in jobs.items() if of == queue), queue)


def queue_of(kept: Iterable[Record]) -> str:
    """The name of the queue that records speak of first."""
    return next((str(record.fields["queue"]) for record in kept if "queue" in record.fields), "jobs")
