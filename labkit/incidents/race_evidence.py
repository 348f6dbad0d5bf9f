"""What incident A left behind: two workers in one job, milliseconds apart, whenever there was much to do."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from labkit.incidents.evidence_base import Evidence
from labkit.incidents.finding import Finding
from labkit.incidents.traffic import Traffic
from labkit.observe import Logs, Span, Spans

if TYPE_CHECKING:
    from labkit.plots.figure import Picture

INCIDENT = Traffic()


class RaceEvidence(Evidence):
    """The evidence of the status race.

    `close_together` (logs), `inside` and `inside_together` (spans), `completions` and `failures_over_time` (metrics).
    """

    def close_together(self) -> Logs:
        """The log of the first job that two workers had: the same id, milliseconds apart, and no error."""
        lines = self.logs(job_id=self.first).where(
            event=("job.received", "status.read", "status.written", "api.replied")
        )
        return lines.only("time", "event", "job_id", "worker_id", "status")

    def inside_together(self) -> Finding:
        """When two workers were inside the completing code of one job, and when its status was written."""
        rows = []
        for job in self.twice:
            one, other = self._inside(job)[:2]
            written = min(r.time for r in self.records if r.event == "status.written" and r.fields["job_id"] == job)
            rows.append(
                {
                    "job": job,
                    "both inside": f"{other.start / 1e6:.3f} s to {one.end / 1e6:.3f} s",
                    "first write": f"{written / 1e6:.3f} s",
                    "second was inside": "before it" if other.start < written else "after it",
                }
            )
        before = sum(row["second was inside"] == "before it" for row in rows)
        says = f"In {before} of {len(rows)} jobs the second worker was inside before the first one wrote the status."
        return Finding("Were two workers inside the completing code at once?", tuple(rows), says)

    def inside(self, job: str | None = None) -> Picture:
        """The completing code of one job as a picture: who reads and who writes the status while both are inside."""
        found = [span for span in self.spans(job or self.first) if span.kind == "INTERNAL" or span.name == "events"]
        return Spans(tuple(found)).waterfall()

    def completions(self) -> Finding:
        """How far apart the two completions of one job were."""
        rows = []
        for job in self.twice:
            ended = [delivery for delivery in self.of(job) if delivery.ended is not None]
            one, other = sorted(ended, key=lambda delivery: delivery.ended or 0)[:2]
            gap = ((other.ended or 0) - (one.ended or 0)) / 1e3
            rows.append({"job": job, "first": one.worker, "second": other.worker, "apart": f"{gap:g} ms"})
        gaps = sorted(float(row["apart"].split()[0]) for row in rows)
        says = f"{len(rows)} jobs were completed twice, {gaps[0]:g} to {gaps[-1]:g} ms apart."
        return Finding("How far apart were the completions of one job?", tuple(rows), says)

    def failures_over_time(self, every: float = 10) -> Finding:
        """Jobs that were asked for, messages that were sent, and replies 500, in each stretch of time."""
        counted = [(int(record.seconds // every), record) for record in self.records if record.event in _COUNTED]
        sent = Counter(place for place, record in counted if record.event == "job.enqueued")
        failed = Counter(place for place, record in counted if record.fields.get("status") == 500)
        good = Counter(place for place, record in counted if record.fields.get("status") == 200)
        rows = tuple(
            {
                "from": f"{place * every:g} s",
                "messages sent": sent[place],
                "replies 200": good[place],
                "replies 500": failed[place],
            }
            for place in range(counted[-1][0] + 1)
        )
        busy = [place for place in failed if sent[place] + sent[place - 1] > 3 * every / INCIDENT.every]
        says = (
            f"{sum(failed.values())} replies were 500, {sum(failed[place] for place in busy)} of them during a burst."
        )
        return Finding("When does the API answer 500?", rows, says)

    def _inside(self, job: str) -> list[Span]:
        return [span for span in self.spans(job) if span.name == "section complete"]


_COUNTED = ("job.enqueued", "api.replied")
