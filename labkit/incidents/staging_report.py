"""What staging runs showed, beside what a search and chance say of the same program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from labkit import LiveTrace, Sample, Verdict
from labkit.incidents.staging_world import TWICE, Staging
from labkit.search.sampling import interval_of_share


@dataclass(frozen=True)
class RunFigures:
    """One run.

    Parameters
    ----------
    pending: jobs whose status is not `completed`.
    lost, twice: jobs whose event never went out, or more than once.
    extra: events beyond the first of each job.
    recognised: events that went out again, and that the bus knew by their id.
    answers_500: the API's answers that a job is done and its status says otherwise.
    most_writers: how often the status of one job was written and committed as `completed`, at most.
    several_writers: jobs whose status was written so by more than one.
    lock_timeouts: how often a worker found a job's lock taken.
    redelivered: deliveries of messages beyond the first.
    killed, drained: workers that were killed, and that finished what they had begun when they were told to stop.
    over: whether all was done when the run ended.
    seconds: how long it took.
    """

    pending: int
    lost: int
    twice: int
    extra: int
    recognised: int
    answers_500: int
    most_writers: int
    several_writers: int
    lock_timeouts: int
    redelivered: int
    killed: int
    drained: int
    over: bool
    seconds: float

    @property
    def broken(self) -> list[str]:
        """What should not have happened, in words."""
        seen = {
            "jobs are left pending": self.pending,
            "events are lost": self.lost,
            "events go out twice": self.twice,
            "the API answers 500": self.answers_500,
            "several workers complete one job": self.several_writers,
        }
        return [name for name, count in seen.items() if count]


@dataclass(frozen=True, repr=False)
class StagingReport:
    """What staging runs showed.

    Its text has no figures of the runs: those are in `table()`.

    Parameters
    ----------
    world: what ran.
    kills: how many workers were killed in each run.
    runs: the figures of each.
    verdicts: what the explorer says of one job and two workers, by what may go wrong.
    sample: how often random schedules of that show a fault.
    last: the trace of the last run, with all its views: `last.spans()` shows who had which job.
    """

    world: Staging
    kills: int
    runs: tuple[RunFigures, ...]
    verdicts: Mapping[str, Verdict]
    sample: Sample
    last: LiveTrace = field(compare=False)

    @property
    def broken(self) -> list[str]:
        """What should not have happened in any run, in words."""
        return list(dict.fromkeys(name for run in self.runs for name in run.broken))

    @property
    def outcome(self) -> str:
        """`violated`, `nothing seen`, or `unfinished` when some run did not come to its end."""
        return "violated" if self.broken else "nothing seen" if all(run.over for run in self.runs) else "unfinished"

    @property
    def hits(self) -> int:
        """In how many runs an event went out twice."""
        return sum(run.twice > 0 for run in self.runs)

    def __repr__(self) -> str:
        world = self.world
        locked = "with its lock" if world.lock else "its lock taken away"
        faults = [f"{self.kills} killed"] * bool(self.kills) + ["a deploy midway"] * world.deploy
        head = f"{world.program}, {locked}: " + ", ".join(
            [f"{world.jobs} jobs, each asked for twice", f"{world.workers} worker processes", *faults]
        )
        runs = f"in {len(self.runs)} runs" if len(self.runs) > 1 else "in 1 run"
        seen = "; ".join(self.broken) or "no job pending, no event lost, none twice, no 500, one writer for each status"
        lines = [f"{head}.", f"  Observed {runs}, not searched: {seen}."]
        if self.outcome == "unfinished":
            lines.append("  Not every run came to its end in time.")
        lines.append("  Searched with 1 job and 2 workers:")
        lines += [f"    {name}: {_said(verdict)}" for name, verdict in self.verdicts.items()]
        share = self.sample.rate(TWICE)
        low, high = self.sample.interval(TWICE)
        lines.append(
            f"  Of {self.sample.executions} random schedules of that, without faults, {share:.1%} show an event twice "
            f"(95 % interval {low:.1%} to {high:.1%})."
        )
        return "\n".join(lines)

    def table(self) -> str:
        """The figures of each run, and how likely a run is to show an event twice."""
        names = [each.name for each in fields(RunFigures) if each.name != "over"]
        rows = [["run", *(name.replace("_", " ") for name in names)]]
        for number, run in enumerate(self.runs, 1):
            values = [getattr(run, name) for name in names]
            rows.append([str(number), *(f"{each:.1f}" if isinstance(each, float) else str(each) for each in values)])
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        jobs, twice = len(self.runs) * self.world.jobs, sum(run.twice for run in self.runs)
        return "\n".join(
            [
                *lines,
                f"runs with an event twice: {_share(self.hits, len(self.runs))}",
                f"jobs with an event twice: {_share(twice, jobs)}",
            ]
        )


def _share(hits: int, trials: int) -> str:
    low, high = interval_of_share(hits, trials)
    return f"{hits} of {trials:,}: {hits / trials:.1%} (95 % interval {low:.1%} to {high:.1%})"


def _said(verdict: Verdict) -> str:
    if not verdict.violations:
        return f"{verdict.outcome}, {verdict.states:,} states"
    return "; ".join(f"violated: {name}, in {trace.length} steps" for name, trace in verdict.violations.items())
