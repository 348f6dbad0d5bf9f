"""How long a click in the stepper takes, as multiples of one plain `fakeredis.FakeRedis.get` in the same run.

    python -m tests.benchmarks.clicks

Steps through counterexamples of both incidents and of the gallery, click by click. A click first answers with the state
(buttons, code, variables, keys, properties) and then draws the picture. The unit is called G; the last line says how
many G 200 milliseconds are on this machine: a click should stay below that.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable

from labkit import Trace, explore
from labkit.cases import CASES, Case
from labkit.incidents import DEPLOY, STATUS_RACE
from labkit.plots.lanes_svg import lanes_svg
from labkit.widgets import Stepper, Tuner
from tests.benchmarks.cases import unit
from tests.programs import article_fix, naive


def seconds(action: Callable[[], object]) -> float:
    """The processor time that something takes: on a machine with other things to do, only that says what to expect."""
    started = time.process_time()
    action()
    return time.process_time() - started


class Clicks:
    """The time that clicks take, and how much of it the picture does."""

    def __init__(self) -> None:
        self.whole: list[float] = []
        self.drawing: list[float] = []

    def through(self, trace: Trace) -> None:
        """Step through an execution."""
        stepper = Stepper.of(trace)
        while stepper.play.ahead:
            self.whole.append(seconds(stepper.redo))
            drawn = stepper.play.trace
            self.drawing.append(seconds(lambda drawn=drawn: lanes_svg(drawn)))

    def row(self, name: str, one_get: float) -> str:
        """What they took."""
        states = [whole - drawn for whole, drawn in zip(self.whole, self.drawing, strict=True)]
        figures = (statistics.median(states), statistics.median(self.whole), max(self.whole))
        return f"{name:36}{len(self.whole):>8}" + "".join(f"{taken / one_get:>12,.0f}" for taken in figures)


def cases() -> dict[str, list[Trace]]:
    """Executions to step through."""
    found = {"two workers, one job": [explore(naive), explore(article_fix, crashes=1, pauses=1)]}
    found["gallery"] = [explore(case.broken, **case.budgets) for case in CASES.values() if isinstance(case, Case)]
    for incident in (STATUS_RACE, DEPLOY):
        found[incident.name] = [incident.explore(set(), fault.name) for fault in incident.faults]
    return {name: [trace for one in verdicts for trace in one.violations.values()] for name, verdicts in found.items()}


def main() -> None:
    """Print the table."""
    os.environ["LABKIT_PROGRESS"] = "0"
    one_get = unit()
    print(f"{'stepping through':36}{'clicks':>8}{'state, G':>12}{'click, G':>12}{'slowest, G':>12}")
    Clicks().through(explore(naive).counterexample)  # type: ignore[arg-type]  # what only the first picture pays
    for name, traces in cases().items():
        clicks = Clicks()
        for trace in traces:
            clicks.through(trace)
        print(clicks.row(name, one_get))
    tuner, times = Tuner(), []
    for name, values in {"visibility_timeout": (60, 120), "job_seconds": (20, 60, 120), "heartbeat": (1, 0)}.items():
        for value in values:
            times.append(seconds(lambda name=name, value=value: tuner.set(**{name: value})))
    median, slowest = statistics.median(times) / one_get, max(times) / one_get
    print(f"{'moving a slider of the tuner':36}{len(times):>8}{'':>12}{median:>12,.0f}{slowest:>12,.0f}")
    print(f"200 ms are {0.2 / one_get:,.0f} G")


if __name__ == "__main__":
    main()
