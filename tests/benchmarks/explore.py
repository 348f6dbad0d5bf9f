"""How long `explore` takes, as multiples of one plain `fakeredis.FakeRedis.get` in the same run.

    python -m tests.benchmarks.explore

Machines differ, so nothing here is in seconds; the unit is called G.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import fakeredis

from labkit import Lab, explore
from tests.programs import article_fix, naive, naive_lock, sound_fix

CASES: list[tuple[str, Callable[[Lab], None], dict[str, int], int | None]] = [
    ("naive completion, 2 workers", naive, {}, None),
    ("article's fix, 2 workers, 1 crash, 1 pause", article_fix, {"crashes": 1, "pauses": 1}, None),
    ("sound fix with a retry, 1 crash, 1 pause", sound_fix, {"crashes": 1, "pauses": 1}, None),
    ("check-then-set lock, 3 workers, all schedules", naive_lock("ABC"), {}, 5_000),
    ("check-then-set lock, 4 workers, all schedules", naive_lock("ABCD"), {}, None),
]


def unit() -> float:
    """Seconds of one plain GET, the median of several rounds."""
    client = fakeredis.FakeRedis(server=fakeredis.FakeServer())
    rounds = []
    for _ in range(7):
        started = time.perf_counter()
        for _ in range(2_000):
            client.get("key")
        rounds.append((time.perf_counter() - started) / 2_000)
    return statistics.median(rounds)


def main() -> None:
    """Print one table."""
    explore(naive)  # what only the first search pays: imports and caches of the libraries
    one_get = unit()
    print(f"{'scenario':48}{'outcome':>14}{'states':>8}{'transitions':>13}{'G':>8}  allowed")
    for name, scenario, budgets, allowed in CASES:
        verdicts = [explore(scenario, **budgets) for _ in range(5)]
        verdict = min(verdicts, key=lambda verdict: verdict.seconds)
        taken = round(verdict.seconds / one_get)
        row = f"{name:48}{verdict.outcome:>14}{verdict.states:>8,}{verdict.transitions:>13,}{taken:>8,}"
        print(row + (f"  {allowed:,}" if allowed else ""))


if __name__ == "__main__":
    main()
