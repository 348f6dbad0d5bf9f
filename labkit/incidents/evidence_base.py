"""What every incident leaves behind: logs, spans, metrics and alerts of one execution."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from labkit.errors import LabError
from labkit.incidents.finding import Finding
from labkit.observe import Alerts, Logs, Metrics, Record, Spans, alerts, logs, metrics, records, spans
from labkit.observe.delivery import Delivery, deliveries
from labkit.trace import Trace

if TYPE_CHECKING:
    from labkit.plots.figure import Picture


class Evidence:
    """The evidence of one incident, the same on every machine.

    Parameters
    ----------
    trace: the execution.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """Everything that was said or seen."""
        return records(self.trace)

    @cached_property
    def deliveries(self) -> list[Delivery]:
        """Each delivery of each job."""
        return deliveries(self.records)

    @cached_property
    def _logs(self) -> Logs:
        return logs(self.records)

    @cached_property
    def _spans(self) -> Spans:
        return spans(self.trace)

    @cached_property
    def _metrics(self) -> Metrics:
        return metrics(self.trace)

    @property
    def twice(self) -> list[str]:
        """The jobs that were begun more than once, in the order in which that happened."""
        begun: dict[str, int] = {}
        for delivery in self.deliveries:
            if delivery.started is not None:
                begun[delivery.job] = begun.get(delivery.job, 0) + 1
        return [job for job, count in begun.items() if count > 1]

    @property
    def first(self) -> str:
        """The first job that was begun twice; `LabError` when there is none."""
        if not self.twice:
            raise LabError("no job was begun twice in this execution; name the job that you want to look at")
        return self.twice[0]

    def of(self, job: str) -> list[Delivery]:
        """The deliveries of one job."""
        return [delivery for delivery in self.deliveries if delivery.job == job]

    def logs(self, **fields: Any) -> Logs:
        """The log; with fields, the lines that have them, as in `logs(job_id="q-7838")`."""
        return self._logs.where(**fields) if fields else self._logs

    def spans(self, job: str | None = None) -> Spans:
        """The spans, of one job if it is named."""
        return self._spans if job is None else self._spans.of_job(job)

    def waterfall(self, job: str | None = None) -> Picture:
        """The spans of a job as a picture; of the first that was begun twice, if none is named."""
        return self.spans(job or self.first).waterfall()

    def metrics(self) -> Metrics:
        """The metrics."""
        return self._metrics

    def alerts(self) -> Alerts:
        """Which alert fires when."""
        return alerts(self.records)

    def timeline(self) -> Picture:
        """What happened to workers, laid over what happened to jobs."""
        from labkit.plots.deploy import deploy_timeline

        return deploy_timeline(self.trace)


__all__ = ["Evidence", "Finding"]
