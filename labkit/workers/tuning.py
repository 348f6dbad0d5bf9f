"""How long a received message should be hidden: duplicates against recovery, from how long jobs take."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from .checks import check_number

BEATS = 3  # in a visibility timeout; see `Heartbeat`


@dataclass(frozen=True)
class Tuning:
    """What one visibility timeout means, without and with a heartbeat.

    Parameters
    ----------
    timeout: the visibility timeout in seconds.
    duplicates, duplicates_with_heartbeat: executions beyond the first, in 1,000 jobs.
    recovery, recovery_with_heartbeat: seconds from the crash of a worker that alone has a job until another has it, on
        average; at worst it is the timeout itself.
    """

    timeout: float
    duplicates: float
    duplicates_with_heartbeat: float
    recovery: float
    recovery_with_heartbeat: float


def tune(
    durations: Sequence[float], timeouts: Iterable[float] | None = None, *, paused: float = 0.01, pause: float = 10
) -> list[Tuning]:
    """What each of several visibility timeouts would mean for jobs that take as long as these did.

    Assumes that a worker is free whenever a message is visible, that each attempt takes as long as the first, that a
    crash hits any moment of work alike, and that the first to finish deletes the message. Where old receipts are
    ignored, a job that is longer than the timeout is worse off than here: it comes back until it is a dead letter.

    Parameters
    ----------
    durations: seconds that jobs took, measured, or as `log_normal` makes them.
    timeouts: seconds; if None, 25 from half the median to four times the 95th percentile.
    paused: the share of jobs whose worker stands still once, heartbeat and all, 0 to 1.
    pause: for how many seconds it does.
    """
    if not durations:
        raise ValueError("durations is empty; at least one job must have been measured")
    for seconds in durations:
        check_number("a duration", seconds, 0.001)
    check_number("paused", paused, 0, 1)
    check_number("pause", pause)
    chosen = list(_around(durations) if timeouts is None else timeouts)
    if not chosen:
        raise ValueError("timeouts is empty; name at least one")
    for timeout in chosen:
        check_number("a timeout", timeout, 0.001)
    return [_tuning(durations, timeout, paused, pause) for timeout in chosen]


def log_normal(p50: float, p95: float, count: int = 1_000) -> list[float]:
    """So many durations, evenly spread over the log-normal distribution with this median and 95th percentile."""
    check_number("p50", p50, 0.001)
    check_number("p95", p95, p50)
    check_number("count", count, 1, whole=True)
    normal = NormalDist()
    spread = math.log(p95 / p50) / normal.inv_cdf(0.95)
    return [p50 * math.exp(spread * normal.inv_cdf((place + 0.5) / count)) for place in range(count)]


def percentile(durations: Sequence[float], share: float) -> float:
    """What this share of the durations, above 0 and up to 1, does not exceed: the nearest rank."""
    if not durations:
        raise ValueError("durations is empty; at least one job must have been measured")
    check_number("share", share, 0, 1)
    if not share:
        raise ValueError("share is 0; it must be above 0, such as 0.95 for the 95th percentile")
    return sorted(durations)[math.ceil(share * len(durations)) - 1]


def _around(durations: Sequence[float]) -> list[float]:
    low, high = percentile(durations, 0.5) / 2, percentile(durations, 0.95) * 4
    return [float(f"{low * (high / low) ** (place / 24):.3g}") for place in range(25)]


def _tuning(durations: Sequence[float], timeout: float, paused: float, pause: float) -> Tuning:
    count, beat = len(durations), timeout / BEATS
    longer = min(pause, timeout)  # in a longer pause, whoever has the message next ends first
    alone = sum(
        (1 - paused) * _redeliveries(job, timeout) + paused * _redeliveries(job + longer, timeout) for job in durations
    )
    kept = sum(paused * _time_since_beat_beyond(timeout - pause, job, beat) / job for job in durations)
    worked_alone = [min(job, timeout) for job in durations]  # after that, another has the job already
    waited = sum(worked**2 / 2 for worked in worked_alone)
    kept_waited = sum(_sum_since_beat(job, beat) for job in durations)
    recovery, kept_recovery = timeout - waited / sum(worked_alone), timeout - kept_waited / sum(durations)
    return Tuning(timeout, 1_000 * alone / count, 1_000 * kept / count, recovery, kept_recovery)


def _redeliveries(job: float, timeout: float) -> int:
    """How often a message is visible again before a job of this length ends."""
    return math.ceil(job / timeout) - 1


def _time_since_beat_beyond(limit: float, job: float, beat: float) -> float:
    """For how many seconds of a job the last beat is longer ago than a limit: a pause that begins then is too long."""
    beats, rest = divmod(job, beat)
    limit = max(limit, 0)
    return beats * max(beat - limit, 0) + max(rest - limit, 0)


def _sum_since_beat(job: float, beat: float) -> float:
    """The time since the last beat, added up over a job."""
    beats, rest = divmod(job, beat)
    return (beats * beat**2 + rest**2) / 2
