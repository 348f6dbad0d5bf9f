"""What incident B left behind: enough to rule out each wrong hypothesis, and to find what remains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from labkit.incidents.evidence_base import Evidence
from labkit.incidents.finding import Finding
from labkit.incidents.production import NEW, OLD, Production
from labkit.observe import Logs
from labkit.observe.delivery import Delivery
from labkit.trace import Event

# Jobs of 7 s, but the first one of each new worker takes 90 s; messages are hidden for 30 s. The old workers ignore
# SIGTERM, poll on, and are killed half a minute later. The only defence is the cache key `processing:order:…`.
INCIDENT = Production(
    orders=65,
    every=8.5,
    job_seconds=7,
    first_job_seconds=90,
    visibility_timeout=30,
    poll=5,
    ready=301,
    deploy=330,
    grace_period=30,
    on_sigterm="ignore",
    lock="cache key",
)
_COUNTED: dict[str, tuple[str, dict[str, str]]] = {
    "sent": ("labkit_messages_sent_total", {}),
    "received": ("labkit_messages_received_total", {}),
    "redelivered": ("labkit_messages_redelivered_total", {}),
    "acknowledged": ("labkit_messages_acked_total", {"result": "ok"}),
}
_P95 = "histogram_quantile(0.95, sum by (le) (rate(labkit_job_duration_seconds_bucket[2m])))"
_BAD = ("job.failed", "worker.raised", "lock.error", "heartbeat.failed")


class DeployEvidence(Evidence):
    """The evidence of the deploy.

    Each method is a question that somebody asked that night: `publishes_per_order` (did the API, or a double click,
    send it twice?), `exceptions` and `gaps` (did the application retry?), `transactions` (was it the database?),
    `lock_history` (did the cache key protect us?), `moments` and `after_the_deploy`, `queue_metrics`, `effects`; and
    `two_lines` of the log.
    """

    @property
    def orders(self) -> dict[str, str]:
        """The order of each job that was begun more than once."""
        return {job: str(self.of(job)[0].ids["order_id"]) for job in self.twice}

    def two_lines(self) -> Logs:
        """The two lines of the log that tell the story of the first job that was begun twice."""
        lines = self.logs(event="job.started", job_id=self.first)
        return lines.only("time", "event", "job_id", "event_id", "order_id", "worker_id", "deployment_id", "attempt")

    def publishes_per_order(self) -> Finding:
        """How often the API published each order that was done twice, and how many orders it published twice at all."""
        published = Counter(record.fields["order_id"] for record in self.records if record.event == "job.enqueued")
        events = Counter(record.fields["event_id"] for record in self.records if record.event == "job.enqueued")
        mails = self._counted("mail")
        rows = tuple(
            {"order": order, "publishes": published[order], "deliveries": len(self.of(job)), "mails": mails[order]}
            for job, order in self.orders.items()
        )
        often = sum(count > 1 for count in (*published.values(), *events.values()))
        says = f"{len(published)} orders were published; {often or 'none'} of them more than once."
        return Finding("How often did the API publish the orders that were done twice?", rows, says)

    def exceptions(self) -> Finding:
        """What went wrong in the application, as far as it noticed."""
        bad = [record for record in self.records if record.event in _BAD]
        released = sum(record.event == "job.released" for record in self.records)
        rows = tuple(
            {"time": record.timestamp, "event": record.event, "worker": record.worker, **record.fields}
            for record in bad
        )
        handled = sum(delivery.started is not None for delivery in self.deliveries)
        says = (
            f"{len(bad) or 'No'} exception in {handled} runs of the handler; {released or 'no'} message was given back."
        )
        return Finding("Which exceptions would have made the application try again?", rows, says)

    def gaps(self) -> Finding:
        """How long after a delivery the next one of the same job came."""
        rows, gaps = [], []
        for job in self.twice:
            found = self.of(job)
            for one, other in pairwise(found):
                gap = (other.received - one.received) / 1e6
                gaps.append(gap)
                rows.append(
                    {
                        "job": job,
                        "first": f"{one.worker} at {one.received / 1e6:.2f} s",
                        "again": f"{other.worker} at {other.received / 1e6:.2f} s",
                        "gap": f"{gap:.2f} s",
                        "ended": "first was done" if (one.ended or 0) <= other.received else "first still works",
                    }
                )
                if one.outcome == "killed":
                    rows[-1]["ended"] = "first was killed"
        timeout = self.metrics().value("labkit_queue_visibility_timeout_seconds")
        shortest = f"The shortest gap is {min(gaps):.2f} s." if gaps else "No message was delivered again."
        says = f"The queue hides a message for {timeout:g} s. {shortest}"
        return Finding("How long after a delivery did the next one come?", tuple(rows), says)

    def transactions(self) -> Finding:
        """What the database did for the orders that were done twice."""
        rows = []
        for job, order in self.orders.items():
            for delivery in self.of(job):
                own = [event for event in self._during(delivery) if event.store == "sql"]
                updates = [event for event in own if event.text.startswith("UPDATE")]
                rows.append(
                    {
                        "order": order,
                        "worker": delivery.worker,
                        "attempt": delivery.attempt,
                        "stock": ", ".join(event.reply for event in updates) or "not reached",
                        "committed": sum(event.text == "COMMIT" for event in own),
                        "rolled back": sum(event.text == "ROLLBACK" for event in own),
                    }
                )
        back = sum(event.text == "ROLLBACK" for event in self._sql())
        committed = sum(event.text == "COMMIT" for event in self._sql())
        says = f"{committed} transactions were committed, {back or 'none'} was rolled back; each is one worker's."
        return Finding("What did the database do for the orders that were done twice?", tuple(rows), says)

    def lock_history(self, job: str | None = None) -> Finding:
        """What happened to the cache key of an order that was done twice, the first one if none is named."""
        order = self.orders[job or self.first]
        key = f"processing:order:{order}"
        rows = []
        holder: str | None = None
        for event in self.trace.events:
            if event.kind == "clock" and key in event.writes:
                rows.append({"time": f"{event.time / 1e6:.2f} s", "who": "Redis", "what": "the key expires"})
            elif event.kind == "command" and event.text.split()[1:2] == [key]:
                what = f"{event.text} -> {event.reply}"
                if event.text.startswith("SET"):
                    holder = event.worker
                elif event.text.startswith("DEL") and event.reply != "0" and holder != event.worker:
                    what += f" (it was {holder}'s)"
                rows.append({"time": f"{event.time / 1e6:.2f} s", "who": str(event.worker), "what": what})
        held = {str(row["who"]) for row in rows if str(row["what"]).startswith("SET")}
        says = f"{' and '.join(sorted(held))} each found the key free, and each took it."
        return Finding(f"Did {key} protect the order?", tuple(rows), says)

    def after_the_deploy(self) -> Finding:
        """When jobs were begun again, counted from the first new worker's first look at the queue."""
        ready = min(
            record.seconds for record in self.records if record.event == "worker.started" and record.worker in NEW
        )
        rows = []
        for job in self.twice:
            for delivery in self.of(job)[1:]:
                rows.append(
                    {
                        "job": job,
                        "begun again": f"{delivery.received / 1e6:.2f} s",
                        "after the deploy": f"{delivery.received / 1e6 - ready:.2f} s",
                        "by": delivery.worker,
                    }
                )
        last = self.trace.events[-1].time / 1e6
        says = f"The new release polls from {ready:g} s on. Nothing else was begun again, from 0 to {last:g} s."
        return Finding("When were jobs begun again?", tuple(rows), says)

    def moments(self) -> Finding:
        """What happened to the workers."""
        words = {
            "worker.started": "polls",
            "worker.terminated": "is told to stop (SIGTERM)",
            "worker.killed": "is killed (SIGKILL)",
        }
        rows = [
            {"time": f"{record.seconds:.2f} s", "worker": record.worker, "what": words[record.event]}
            for record in self.records
            if record.event in words
        ]
        for name in OLD:
            told = next(r.time for r in self.records if r.event == "worker.terminated" and r.worker == name)
            since = [d for d in self.deliveries if d.worker == name and d.received > told]
            rows.append({"time": f"{told / 1e6:.2f} s", "worker": name, "what": f"and takes {len(since)} more jobs"})
        rows.sort(key=lambda row: float(row["time"].split()[0]))
        return Finding(
            "What happened to the workers?", tuple(rows), "Old and new workers polled the queue side by side."
        )

    def queue_metrics(self, every: float = 60) -> Finding:
        """What happened to messages in each minute, and how long jobs take, against the visibility timeout."""
        found, rows = self.metrics(), []
        before = dict.fromkeys(_COUNTED, 0.0)
        for number in range(1, int(found.seconds // every) + 1):
            at = number * every
            now = {word: found.value(name, at, **labels) for word, (name, labels) in _COUNTED.items()}
            row: dict[str, Any] = {"to": f"{at:g} s"}
            row |= {word: f"{now[word] - before[word]:g}" for word in _COUNTED}
            row["oldest message"] = f"{found.value('labkit_queue_oldest_message_age_seconds', at):g} s"
            p95 = found.query(_P95, at)
            row["95th percentile"] = f"{next(iter(p95.values())):.3g} s" if isinstance(p95, dict) and p95 else "-"
            rows.append(row)
            before = now
        timeout = found.value("labkit_queue_visibility_timeout_seconds")
        sent, received = (found.value(_COUNTED[word][0]) for word in ("sent", "received"))
        says = f"{sent:g} messages were sent, {received:g} received. The queue hides a message for {timeout:g} s."
        return Finding("What happened to messages, and how long did jobs take?", tuple(rows), says)

    def effects(self, job: str | None = None) -> Finding:
        """When each effect of a job happened, beside the acknowledgement."""
        rows = []
        for delivery in self.of(job or self.first):
            for event in self._during(delivery):
                if event.kind == "call":
                    rows.append((event.time, event.number, delivery, event.store))
                elif event.store == "sql" and event.text.startswith("UPDATE stock"):
                    rows.append((event.time, event.number, delivery, "stock"))
            for record in delivery.records:
                if record.event == "job.acked":
                    rows.append((record.time, record.step, delivery, f"ack: {delivery.settled}"))
        shown = tuple(
            {"time": f"{time / 1e6:.2f} s", "worker": delivery.worker, "attempt": delivery.attempt, "what": what}
            for time, _, delivery, what in sorted(rows, key=lambda row: row[1])
        )
        first, ack = (next(row for row in shown if str(row["what"]).startswith(word)) for word in ("mail", "ack"))
        says = f"The first mail goes out at {first['time']}, the first acknowledgement at {ack['time']}."
        return Finding("When did each effect happen, beside the acknowledgement?", shown, says)

    def _during(self, delivery: Delivery) -> Iterator[Event]:
        """What a worker did from a delivery to the last that was said of it; by steps, since many share a moment."""
        first, last = delivery.records[0].step, delivery.records[-1].step
        return (
            event
            for event in self.trace.events
            if first < event.number <= last and event.choice.process == delivery.worker
        )

    def _sql(self) -> list[Event]:
        return [event for event in self.trace.events if event.store == "sql"]

    def _counted(self, effect: str) -> Counter[str]:
        applied = (record for record in self.records if record.event == "effect.applied")
        return Counter(str(record.fields["key"]) for record in applied if record.fields["effect"] == effect)
