"""Metrics over time: what a Prometheus that scrapes would have kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from labkit.observe.meter import Meter, queue_of
from labkit.observe.record import Record

EVERY, OFFSET = 15.0, 5.0  # seconds between two scrapes, and when the first one is
Labels = tuple[tuple[str, str], ...]


@dataclass
class Series:
    """Every series of every metric, as pairs of seconds and value in rising order.

    Parameters
    ----------
    kept: the samples, by the metric's name and labels.
    every, offset: seconds between two scrapes, and at which second the first one is.
    end: the second of the last scrape.
    """

    kept: dict[str, dict[Labels, list[tuple[float, float]]]] = field(default_factory=dict)
    every: float = EVERY
    offset: float = OFFSET
    end: float = 0.0

    def scrape(self, source: Meter, seconds: float) -> None:
        """Keep what a meter says at a moment."""
        for name, labels, value in source.samples(round(seconds * 1e6)):
            self.kept.setdefault(name, {}).setdefault(labels, []).append((seconds, value))
        self.end = seconds


def scraped(
    kept: Iterable[Record],
    until: float,
    every: float = EVERY,
    offset: float = OFFSET,
    queue: str = "",
    visibility_timeout: float | None = None,
) -> Series:
    """What is scraped while records come.

    Parameters
    ----------
    kept: the records, in order.
    until: seconds after which nothing more is scraped.
    every: seconds between two scrapes.
    offset: when the first one is. Scrapes and evaluations of rules should not fall on one moment: versions of
        Prometheus disagree on whether a range has its left end.
    queue, visibility_timeout: as for `Meter`.
    """
    records = tuple(kept)
    source, series = Meter(queue or queue_of(records), visibility_timeout), Series(every=every, offset=offset)
    waiting = iter([*records, None])
    record = next(waiting)
    for number in range(int(max(until - offset, 0) // every) + 1):
        seconds = offset + number * every
        while record is not None and record.seconds <= seconds:
            source.take(record)
            record = next(waiting)
        series.scrape(source, seconds)
    return series
