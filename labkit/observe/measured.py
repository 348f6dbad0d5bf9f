"""The metrics of one execution: what they were at any moment, and how they rose."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from labkit.observe.evaluation import Vector, evaluate
from labkit.observe.meter import Meter
from labkit.observe.promql import parse
from labkit.observe.record import Record, records
from labkit.observe.series import EVERY, OFFSET, Series, scraped
from labkit.trace import Trace
from labkit.words import in_seconds

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


@dataclass(frozen=True, repr=False)
class Metrics:
    """Metrics, scraped on the lab's clock.

    Parameters
    ----------
    records: what they are derived from.
    meter: has followed all records.
    every: seconds between two scrapes.
    """

    records: tuple[Record, ...]
    meter: Meter
    every: float = EVERY

    @cached_property
    def series(self) -> Series:
        """What a Prometheus would have kept."""
        timeouts = dict(self.meter.timeout.values())
        queue = self.meter.queue
        return scraped(self.records, self.seconds, self.every, min(OFFSET, self.every), queue, timeouts.get((queue,)))

    @property
    def seconds(self) -> float:
        """When the execution was over."""
        return self.meter.now / 1e6

    def value(self, name: str, at: float | None = None, **labels: str) -> float:
        """The value of a metric, summed over the series that have these labels.

        Parameters
        ----------
        name: as it is exported, such as `labkit_messages_sent_total`.
        at: the second; the end, if none is given. It is exact, and does not wait for a scrape.
        labels: what series must have; all count, if none is given.
        """
        source = self.meter if at is None else Meter.of(self._until(at), self.meter.queue)
        found = source.samples(None if at is None else round(at * 1e6))
        return sum(
            sample.value for sample in found if sample.name == name and labels.items() <= dict(sample.labels).items()
        )

    def _until(self, at: float) -> tuple[Record, ...]:
        return tuple(record for record in self.records if record.seconds <= at)

    def query(self, expression: str, at: float | None = None) -> Vector | float:
        """The value of a PromQL expression at a second, the end if none is given; see `labkit.observe.promql`."""
        return evaluate(parse(expression), self.series, self.seconds if at is None else at)

    def over_time(self, expression: str, every: float = 60) -> list[tuple[float, float]]:
        """The value of a PromQL expression, summed over its series, again and again."""
        found = []
        for number in range(1, int(self.seconds // every) + 1):
            value = self.query(expression, number * every)
            found.append((number * every, sum(value.values()) if isinstance(value, dict) else value))
        return found

    def table(self, every: float = 60, **expressions: str) -> str:
        """PromQL expressions over time as text: a column for each, a row for each so many seconds."""
        columns = [self.over_time(expression, every) for expression in expressions.values()]
        rows = [["time", *(name.replace("_", " ") for name in expressions)]]
        for points in zip(*columns, strict=True):
            rows.append([in_seconds(points[0][0]), *(f"{value:.4g}" for _, value in points)])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
        return "\n".join(lines)

    def registry(self) -> CollectorRegistry:
        """A registry of prometheus-client that has these metrics as they were at the end."""
        from labkit.observe.prometheus import registry

        return registry(self.meter)

    def __repr__(self) -> str:
        found = [sample for sample in self.meter.samples() if not sample.name.endswith("_bucket")]
        names = [_shown(sample.name, sample.labels) for sample in found]
        width = max(map(len, names), default=0)
        return "\n".join(f"{name:<{width}}  {sample.value:g}" for name, sample in zip(names, found, strict=True))


def metrics(source: Trace | Iterable[Record], **options: Any) -> Metrics:
    """The metrics of a trace, or of records.

    Parameters
    ----------
    source: the trace, or its records.
    options: `queue` and `visibility_timeout`, as for `Meter`, where the records do not say them.
    """
    kept = records(source) if isinstance(source, Trace) else tuple(source)
    return Metrics(kept, Meter.of(source if isinstance(source, Trace) else kept, **options))


def _shown(name: str, labels: tuple[tuple[str, str], ...]) -> str:
    inner = ", ".join(f'{label}="{value}"' for label, value in labels)
    return f"{name}{{{inner}}}" if inner else name
