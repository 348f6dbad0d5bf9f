"""Spans from records: who sent a job, who received it, who worked on it, and what that work consisted of.

Names follow OpenTelemetry's semantic conventions for messaging (1.44, in development); what these have no name for is
called `labkit.…`. All spans of one job share a trace, so that two deliveries of it stand under one producer.
Source: https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from labkit.observe.delivery import Delivery, deliveries
from labkit.observe.record import Record, records
from labkit.observe.span import Moment, Span, ids
from labkit.trace import Trace

if TYPE_CHECKING:
    from labkit.plots.figure import Picture

SYSTEM = "labkit"
_CLIENT_CALLS = ("effect.applied", "effect.deduplicated")
_SETTLED = {"job.acked": "ack", "job.released": "nack", "job.extended": "extend", "job.dead_lettered": "nack"}


@dataclass(frozen=True, repr=False)
class Spans(Sequence[Span]):
    """Spans, in the order in which they began.

    Parameters
    ----------
    all: the spans.
    """

    all: tuple[Span, ...]

    @overload
    def __getitem__(self, index: int) -> Span: ...
    @overload
    def __getitem__(self, index: slice) -> Spans: ...
    def __getitem__(self, index: int | slice) -> Span | Spans:
        return Spans(self.all[index]) if isinstance(index, slice) else self.all[index]

    def __len__(self) -> int:
        return len(self.all)

    def __iter__(self) -> Iterator[Span]:
        return iter(self.all)

    def of_job(self, job_id: str) -> Spans:
        """The spans of one job."""
        return Spans(tuple(span for span in self.all if span.attributes.get("messaging.message.id") == job_id))

    def named(self, word: str) -> Spans:
        """The spans whose name begins with a word, such as `process`."""
        return Spans(tuple(span for span in self.all if span.name.split()[0] == word))

    def waterfall(self) -> Picture:
        """The spans as a picture; see `labkit.plots.span_rows`."""
        from labkit.plots.span_rows import waterfall

        return waterfall(self)

    def export(self, exporter: Any = None) -> int:
        """Send the spans through the OpenTelemetry SDK; to the console, if nothing else is given.

        Parameters
        ----------
        exporter: an OpenTelemetry `SpanExporter`, such as `labkit.observe.otlp("http://127.0.0.1:4318")`.

        Returns how many were sent: those of killed workers are not, as in real life.
        """
        from labkit.observe.open_telemetry import console, export

        return export(self, console() if exporter is None else exporter)

    def __repr__(self) -> str:
        rows = [
            f"{span.start / 1e6:>9.3f} s  {span.seconds:>8.3f} s  {span.worker:<8}  {'  ' * span.depth}{span.name}"
            + (f"  attempt {attempt}" if (attempt := span.attributes.get("labkit.message.delivery_count")) else "")
            + (f"  {span.error}" if span.error else "")
            for span in self.all
        ]
        return "\n".join(["    start        took      who       span", *rows])


def spans(source: Trace | Iterable[Record], seed: int = 0) -> Spans:
    """The spans of a trace, or of records.

    Parameters
    ----------
    source: the trace; of records alone, critical sections are not known.
    seed: what the spans' ids depend on.
    """
    kept = records(source) if isinstance(source, Trace) else tuple(source)
    builder = _Builder(seed)
    for record in kept:
        if record.event == "job.enqueued":
            builder.send(record)
    for delivery in deliveries(kept):
        builder.receive(delivery)
    if isinstance(source, Trace):
        builder.look_inside(source)
    return Spans(tuple(sorted(builder.all, key=lambda span: span.start)))


class _Builder:
    """Makes spans one after another."""

    def __init__(self, seed: int) -> None:
        self.all: list[Span] = []
        self.producers: dict[str, list[Span]] = {}
        self.firsts: dict[str, int] = {}  # of each job, how many first deliveries there were
        self.trace_ids: dict[str, int] = {}
        self.jobs: dict[int, str] = {}  # of each span
        self.steps: dict[int, tuple[int, int]] = {}  # of spans that steps lie in: behind which, and up to which
        self._trace_ids, self._span_ids = ids(seed, "trace", 128), ids(seed, "span", 64)

    def add(self, name: str, kind: str, worker: str, job: str, start: int, end: int, **more: Any) -> Span:
        if job not in self.trace_ids:
            self.trace_ids[job] = next(self._trace_ids)
        span = Span(name, kind, worker, self.trace_ids[job], next(self._span_ids), start, end, **more)
        self.all.append(span)
        self.jobs[id(span)] = job
        return span

    def send(self, record: Record) -> None:
        job, queue = str(record.fields.get("job_id")), str(record.fields.get("queue", "jobs"))
        attributes = _attributes("send", "send", queue, record.fields)
        # Who sends a job once more sends it for the same reason: both messages belong to one trace.
        first = self.producers.get(job, [None])[0]
        end = max(record.time, record.time + round(1e6 * record.fields.get("took", 0)))
        span = self.add(
            f"send {queue}",
            "PRODUCER",
            record.worker,
            job,
            record.time,
            end,
            attributes=attributes,
            records=[record],
            links=(first,) if first else (),
        )
        self.producers.setdefault(job, []).append(span)

    def receive(self, delivery: Delivery) -> None:
        job, queue, fields = delivery.job, delivery.queue, delivery.records[0].fields
        senders = [span for span in self.producers.get(job, []) if span.start <= delivery.received]
        # A job that was sent twice has two first deliveries, the second of them most likely of its second message.
        self.firsts[job] = self.firsts.get(job, 0) + (delivery.attempt == 1)
        place = self.firsts[job] - 1 if delivery.attempt == 1 else 0
        producer = senders[min(place, len(senders) - 1)] if senders else None
        links = (producer,) if producer else ()
        self.add(
            f"receive {queue}",
            "CLIENT",
            delivery.worker,
            job,
            delivery.received,
            delivery.received,
            parent=producer,
            attributes=_attributes("receive", "receive", queue, fields),
            records=[record for record in delivery.records if record.event == "job.received"],
        )
        if delivery.started is None:
            return
        end = delivery.ended if delivery.ended is not None else delivery.records[-1].time
        inside = [one for one in delivery.records if one.event not in ("job.received", *_SETTLED)]
        failed = [one for one in delivery.records if one.event == "job.failed"]
        process = self.add(
            f"process {queue}",
            "CONSUMER",
            delivery.worker,
            job,
            delivery.started,
            end,
            parent=producer,
            links=links,
            attributes=_attributes("process", "process", queue, fields),
            records=inside,
            lost=delivery.outcome in ("killed", "open"),
            error=str(failed[0].fields.get("error", "error")).partition(":")[0] if failed else "",
        )
        last = max(one.step for one in inside)
        settled = [one.step - 1 for one in delivery.records if one.event in _SETTLED]
        self.steps[id(process)] = delivery.records[0].step, max(last, settled[0] if settled else 0)
        if delivery.outcome == "killed":
            process.error = "killed"
        process.moments = [_moment(one) for one in inside if one.event not in ("job.started", *_CLIENT_CALLS)]
        for record in delivery.records:
            self._part(record, process, queue)

    def _part(self, record: Record, process: Span, queue: str) -> None:
        """A call or a settlement, as a span of its own."""
        fields, worker, job = record.fields, record.worker, str(record.fields.get("job_id"))
        if record.event in _CLIENT_CALLS:
            attributes = {"labkit.effect": fields["effect"], "labkit.effect.key": fields["key"]}
            attributes |= _ids(fields) | {"labkit.effect.applied": record.event == "effect.applied"}
            name = str(fields["effect"])
        elif record.event in _SETTLED:
            operation = _SETTLED[record.event]
            attributes = _attributes("settle", operation, queue, fields)
            attributes["labkit.settle.result"] = str(fields.get("result", "ok"))
            name = f"{operation} {queue}"
        else:
            return
        error = "stale" if fields.get("result") == "stale" else ""
        more: dict[str, Any] = {"parent": process, "attributes": attributes, "records": [record], "error": error}
        self.add(name, "CLIENT", worker, job, record.time, record.time, **more)
        if record.event in _CLIENT_CALLS:
            process.records = [other for other in process.records if other is not record]

    def look_inside(self, trace: Trace) -> None:
        """Critical sections as spans, and what was asked of stores within them."""
        for worker in trace.workers:
            if all(span.worker != worker for span in self.all):
                self._life(trace, worker)
        for stay in _stays(trace):
            parent = self._around(stay.worker, stay.first + 1, stay.last)
            job, ids = (self.jobs[id(parent)], parent.attributes) if parent else (f"{stay.worker} {stay.section}", {})
            known = {name: ids[name] for name in _NAMES.values() if name in ids}
            span = self.add(
                f"section {stay.section}",
                "INTERNAL",
                stay.worker,
                job,
                stay.start,
                stay.end,
                parent=parent,
                attributes={"labkit.section": stay.section, **known},
                lost=stay.how != "left",
                error="killed" if stay.how == "killed" else "",
            )
            self.steps[id(span)] = stay.first, stay.last
        for event in trace.events:
            home = self._around(event.choice.process or "", event.number, event.number)
            if event.kind == "command" and event.choice.kind in ("step", "lose") and home is not None:
                said = {"db.query.text": event.text, "labkit.reply": event.reply, "labkit.writes": bool(event.writes)}
                home.moments.append(Moment(event.time, event.text.split()[0], said))

    def _around(self, worker: str, first: int, last: int) -> Span | None:
        """The innermost of a worker's spans that has all these steps of the trace."""
        for span in reversed(self.all):
            begun, ended = self.steps.get(id(span), (0, 0))
            if span.worker == worker and begun < first and last <= ended:
                return span
        return None

    def _life(self, trace: Trace, worker: str) -> None:
        """A worker that logs nothing, as one span, with a span for each call that it makes."""
        steps = [event for event in trace.events if event.choice.process == worker]
        if not steps:
            return
        crashed = any(event.kind == "crash" for event in steps)
        error = next((step.ending.error for step in steps if step.ending is not None and step.ending.error), "")
        more: dict[str, Any] = {"lost": crashed, "error": "killed" if crashed else error.partition(":")[0]}
        life = self.add(f"run {worker}", "INTERNAL", worker, f"run {worker}", steps[0].time, steps[-1].time, **more)
        self.steps[id(life)] = 0, steps[-1].number
        for event in steps:
            if event.kind == "call":
                said = {"labkit.effect": event.store, "labkit.effect.applied": bool(event.writes)}
                job, name = f"run {worker}", event.store
                self.add(name, "CLIENT", worker, job, event.time, event.time, parent=life, attributes=said)


class _Stay(NamedTuple):
    """A worker's stay in a section, in time and in steps: those behind the first, up to the last, are in it."""

    worker: str
    section: str
    start: int
    end: int
    first: int
    last: int
    how: str  # `left`, `killed` in it, or `open` when the trace ends


def _stays(trace: Trace) -> Iterator[_Stay]:
    open_: dict[tuple[str, str], tuple[int, int]] = {}
    for place, event in enumerate(trace.events):
        now = {(worker, name) for worker, names in event.inside.items() for name in names}
        for key in sorted(set(open_) - now):
            gone = event.kind == "crash" or (event.ending is not None and event.ending.killed)
            how = "killed" if gone and event.choice.process == key[0] else "left"
            start, first = open_.pop(key)
            yield _Stay(*key, start, event.time, first, event.number, how)
        # What is there after the first event may have been there before it.
        entered = event.time, event.number if place else 0
        open_ |= {key: entered for key in sorted(now) if key not in open_}
    for key, (start, first) in sorted(open_.items()):
        yield _Stay(*key, start, trace.events[-1].time, first, trace.events[-1].number, "open")


def _attributes(kind: str, operation: str, queue: str, fields: Any) -> dict[str, Any]:
    return {
        "messaging.system": SYSTEM,
        "messaging.operation.type": kind,
        "messaging.operation.name": operation,
        "messaging.destination.name": queue,
        **_ids(fields),
    }


_NAMES = {
    "job_id": "messaging.message.id",
    "event_id": "labkit.idempotency.key",
    "order_id": "labkit.order.id",
    "worker_id": "messaging.client.id",
    "deployment_id": "deployment.id",
    "attempt": "labkit.message.delivery_count",
}


def _ids(fields: Any) -> dict[str, Any]:
    """The correlation ids by their names in spans."""
    return {name: fields[own] for own, name in _NAMES.items() if fields.get(own) is not None}


def _moment(record: Record) -> Moment:
    said = {name: value for name, value in record.fields.items() if name not in ("event", *_NAMES)}
    return Moment(record.time, record.event, said)
