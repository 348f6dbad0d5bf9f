"""Numbers that belong together, although each is set in a place of its own."""

from __future__ import annotations

from dataclasses import dataclass, fields

from .checks import check_number

NEAR = 0.8  # a 95th percentile beyond this share of the visibility timeout leaves too many jobs beyond the whole


@dataclass(frozen=True)
class Timings:
    """The durations of a system of workers, all in seconds; to be checked at start-up, or in a test.

    Parameters
    ----------
    job_p95: what 95 of 100 jobs do not exceed, measured.
    visibility_timeout: how long a received message is hidden.
    lock_ttl: how long a lock is held when nobody releases it.
    grace_period: from SIGTERM to SIGKILL.
    retry_budget: from the first attempt to the last: `RetryPolicy.total_wait()`.
    dedup_retention: how long an idempotency key is kept.
    max_redelivery_age: how old a message can be when it is delivered once more, from dead letters too.
    receive_wait: how long a receive waits for a message.
    extended: whether a heartbeat extends the visibility timeout, and a renewal the lock, while a job runs.
    """

    job_p95: float
    visibility_timeout: float
    lock_ttl: float
    grace_period: float
    retry_budget: float
    dedup_retention: float
    max_redelivery_age: float
    receive_wait: float = 0
    extended: bool = False

    def __post_init__(self) -> None:
        for each in fields(self):
            if each.name != "extended":
                check_number(each.name, getattr(self, each.name))

    def problems(self) -> list[str]:
        """What does not fit together, a sentence each; none when the numbers agree."""
        job, hidden, lock, drain = (
            self.job_p95,
            self.visibility_timeout,
            self.lock_ttl,
            self.job_p95 + self.receive_wait,
        )
        grace, tries, kept, old = self.grace_period, self.retry_budget, self.dedup_retention, self.max_redelivery_age
        jobs, hides, locks = (
            f"jobs take {_s(job)}",
            f"messages are hidden for {_s(hidden)}",
            f"the lock lasts {_s(lock)}",
        )
        extendable = [
            (job > hidden, f"{jobs}, {hides}: they are delivered again before they end"),
            (NEAR * hidden < job <= hidden, f"{jobs}, {hides}: slower ones are delivered again"),
            (job > lock, f"{jobs}, {locks}: another worker takes it before they end"),
        ]
        fixed = [
            (grace < drain, f"to drain takes {_s(drain)}, the grace period {_s(grace)}: jobs are killed midway"),
            (tries <= lock, f"retries end after {_s(tries)}, {locks}: they give up before a dead worker's is free"),
            (kept < old, f"idempotency keys last {_s(kept)}, messages come back for {_s(old)}: old jobs are done anew"),
        ]
        return [sentence for broken, sentence in ([] if self.extended else extendable) + fixed if broken]


def _s(seconds: float) -> str:
    return f"{seconds:,.9g} s"
