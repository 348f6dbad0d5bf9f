"""What a trace says in words: one record for each thing that a worker logged, or that the lab saw happen to it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from labkit.interception import EPOCH
from labkit.observe.queue_requests import QueueRequests
from labkit.trace import Event, Trace

IDS = ("job_id", "event_id", "order_id", "worker_id", "deployment_id", "attempt")
_START = datetime.fromtimestamp(EPOCH, UTC)
_CALL = re.compile(r"[\w.-]+\.\w+\(([^,)]*)")  # `mail.send(order-1)`


@dataclass(frozen=True)
class Record:
    """One thing that happened.

    Parameters
    ----------
    time: microseconds since the lab's clock started; in a live run, since the run did.
    fields: what is said of it: `event`, the correlation ids, and whatever else.
    step: the number of the trace's event after which it was said; 0 outside of a trace.
    """

    time: int
    fields: Mapping[str, Any] = field(default_factory=dict)
    step: int = 0

    @property
    def event(self) -> str:
        """What happened, such as `job.started`."""
        return str(self.fields["event"])

    @property
    def worker(self) -> str:
        """Whom it concerns; empty where it concerns no worker."""
        return str(self.fields.get("worker_id") or "")

    @property
    def seconds(self) -> float:
        """The time in seconds."""
        return self.time / 1e6

    @property
    def timestamp(self) -> str:
        """The time as a log has it, on the lab's clock: `2026-01-01T09:00:33.000Z`."""
        return (_START + timedelta(microseconds=self.time)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def records(trace: Trace) -> tuple[Record, ...]:
    """All records of a trace, in order.

    What workers print as one line of JSON with an `event` is taken as it is; see `print_event`. The lab adds what
    no worker can log: that it was killed, told to stop, or raised, what it did outside, and which property broke. Of a
    worker that logs nothing of its jobs, they are read from what it asked its queue.
    """
    return tuple(_Reader(trace).read())


def print_event(event: Mapping[str, Any]) -> None:
    """Print an event as one line of JSON: `Worker(…, emit=print_event)` puts its log into the trace."""
    print(json.dumps(event, default=str))


class _Reader:
    """Goes through a trace, and remembers which job each worker has in hand."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.in_hand: dict[str, dict[str, Any]] = {}
        self.requests = QueueRequests()
        self.talking = {event.choice.process for event in trace.events if '"event": "job.' in event.printed}

    def read(self) -> Iterator[Record]:
        broken = [violation for violation in self.trace.violations if violation.number == 0]
        yield from (Record(0, {"event": "lab.violated", "invariant": violation.property}) for violation in broken)
        for event in self.trace.events:
            for fields in (*self.seen(event), *self.asked(event), *self.said(event), *self.violated(event)):
                yield Record(event.time, fields, event.number)

    def seen(self, event: Event) -> Iterator[dict[str, Any]]:
        """What the lab saw."""
        worker = event.choice.process
        if worker is None:
            if event.kind == "failover":
                yield {"event": "redis.failover"}
            return
        if event.kind == "call":
            applied = "effect.applied" if event.writes else "effect.deduplicated"
            key = _CALL.match(event.text)
            ids = self.in_hand.get(worker, {"worker_id": worker})
            yield {"event": applied, "effect": event.store, "key": key[1] if key else "", **ids}
        if event.kind == "signal":
            yield {"event": "worker.terminated", "worker_id": worker, "signal": "SIGTERM"}
        if event.kind == "crash":
            yield {"event": "worker.killed", "worker_id": worker, "signal": "SIGKILL"}
        elif event.ending is not None and event.ending.killed:
            yield {"event": "worker.killed", "worker_id": worker, "signal": "SIGTERM"}
        elif event.ending is not None and event.ending.error is not None:
            yield {"event": "worker.raised", "worker_id": event.worker, "error": event.ending.error}

    def asked(self, event: Event) -> Iterator[dict[str, Any]]:
        """What a worker that logs nothing of its jobs asked its queue."""
        for fields in self.requests.read(event):
            if event.choice.process not in self.talking:
                self._remember(fields)
                yield fields

    def said(self, event: Event) -> Iterator[dict[str, Any]]:
        """What the worker printed."""
        worker = event.choice.process or ""
        for line in event.printed.splitlines():
            fields = parse(line)
            fields.setdefault("worker_id", worker)
            self._remember(fields)
            yield fields

    def _remember(self, fields: dict[str, Any]) -> None:
        if fields["event"] in ("job.received", "job.started"):
            self.in_hand[str(fields["worker_id"])] = {name: fields[name] for name in IDS if name in fields}

    def violated(self, event: Event) -> Iterator[dict[str, Any]]:
        """Which properties do not hold from here on."""
        for violation in self.trace.violations:
            if violation.number == event.number:
                yield {"event": "lab.violated", "invariant": violation.property}


def parse(line: str) -> dict[str, Any]:
    """A line of a log as fields; what is no JSON object with an `event` becomes the `message` of one."""
    try:
        fields = json.loads(line)
    except ValueError:
        fields = None
    known = isinstance(fields, dict) and isinstance(fields.get("event"), str)
    return dict(fields) if known else {"event": "worker.printed", "message": line}
