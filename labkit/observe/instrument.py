"""Counters, gauges and histograms as plain Python, with the names and rules of Prometheus.

Source: https://prometheus.io/docs/practices/naming/
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple


class Sample(NamedTuple):
    """One value at one moment.

    Parameters
    ----------
    name: the series' name; a histogram has `_bucket`, `_sum` and `_count`.
    labels: pairs of name and value, sorted by name.
    value: the value.
    """

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float


class Instrument:
    """A metric with all its series.

    Parameters
    ----------
    kind: `counter`, `gauge` or `histogram`.
    name: with the base unit as its suffix, and `_total` for a counter.
    says: what it counts or measures.
    labels: the names of its labels: never an id of a job or an order, since each value is a series of its own.
    buckets: upper ends of a histogram's buckets, in rising order.
    """

    def __init__(
        self, kind: str, name: str, says: str, labels: tuple[str, ...] = ("queue",), buckets: tuple[float, ...] = ()
    ) -> None:
        self.kind, self.name, self.says, self.labels, self.buckets = kind, name, says, labels, buckets
        self._values: dict[tuple[str, ...], float] = {}
        self._counts: dict[tuple[str, ...], list[int]] = {}

    def expect(self, *values: str) -> None:
        """Begin a series at zero: `rate` and `increase` see no rise in a series that begins with its first event."""
        self._values.setdefault(values, 0.0)
        if self.kind == "histogram":
            self._counts.setdefault(values, [0] * (len(self.buckets) + 1))

    def add(self, *values: str, by: float = 1) -> None:
        """Count something."""
        self.expect(*values)
        self._values[values] += by

    def set(self, value: float, *values: str) -> None:
        """Say how a gauge stands."""
        self._values[values] = value

    def observe(self, value: float, *values: str) -> None:
        """Count a value in its bucket."""
        self.add(*values, by=value)
        self._counts[values][bisect_left(self.buckets, value)] += 1

    def values(self) -> list[tuple[tuple[str, ...], float]]:
        """The labels' values of each series, and its value; of a histogram, the sum."""
        return sorted(self._values.items())

    @property
    def series(self) -> list[str]:
        """The names that its samples have."""
        return [self.name + suffix for suffix in ("_bucket", "_sum", "_count")] if self.buckets else [self.name]

    def samples(self) -> Iterator[Sample]:
        """The values now."""
        for values in sorted(self._values):
            labels = tuple(sorted(zip(self.labels, values, strict=True)))
            if not self.buckets:
                yield Sample(self.name, labels, self._values[values])
                continue
            total = 0
            for end, count in zip((*self.buckets, float("inf")), self._counts[values], strict=True):
                total += count
                yield Sample(f"{self.name}_bucket", tuple(sorted((*labels, ("le", bound(end))))), total)
            yield Sample(f"{self.name}_sum", labels, self._values[values])
            yield Sample(f"{self.name}_count", labels, total)


def bound(end: float) -> str:
    """The end of a bucket as Prometheus' client libraries write it."""
    return "+Inf" if end == float("inf") else str(float(end))
