"""How much sooner a search is over that is spread over processes.

    python -m tests.benchmarks.spread [--processes NUMBER]

Prints the times of a search alone and of one that is spread, and the processor time of both: on a machine that
has other things to do, only the latter tells what to expect.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import resource
import time
from concurrent.futures import Executor, ProcessPoolExecutor
from typing import Any

from labkit import Verdict, explore
from tests.programs import naive_lock, retry_later, sound_completion, status_race

sound_fix_of_five = status_race(sound_completion, "ABCDE", retry=retry_later)
seven_locks = naive_lock("ABCDEFG")
CASES: list[tuple[str, Any, dict[str, Any]]] = [
    ("check-then-set lock, 7 workers that are told apart", seven_locks, {"symmetry": False}),
    ("sound fix, 5 workers, retry and relay, 2 crashes, 2 pauses", sound_fix_of_five, {"crashes": 2, "pauses": 2}),
]


def processor_time(of: int) -> float:
    """Seconds that this process, or its children that have ended, have computed."""
    used = resource.getrusage(of)
    return used.ru_utime + used.ru_stime


def timed(scenario: Any, budgets: dict[str, Any], executor: Executor | None = None) -> tuple[Verdict, float, float]:
    """A verdict, the seconds it took, and the processor time of this process in them."""
    started, used = time.perf_counter(), processor_time(resource.RUSAGE_SELF)
    verdict = explore(scenario, max_states=5_000_000, executor=executor, **budgets)
    return verdict, time.perf_counter() - started, processor_time(resource.RUSAGE_SELF) - used


def main() -> None:
    """Print three lines for each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=os.cpu_count(), metavar="NUMBER")
    processes = parser.parse_args().processes
    os.environ["LABKIT_PROGRESS"] = "0"
    for name, scenario, budgets in CASES:
        alone, seconds, used = timed(scenario, budgets)
        print(f"{name}: {alone.states:,} states, {alone.transitions:,} transitions: {alone.outcome}")
        print(f"  alone        {seconds:6.2f} s, processor {used:.2f} s")
        children = processor_time(resource.RUSAGE_CHILDREN)
        with ProcessPoolExecutor(processes) as pool:
            spread, sooner, here = timed(scenario, budgets, pool)
        there = processor_time(resource.RUSAGE_CHILDREN) - children
        same = dataclasses.replace(alone, seconds=0) == dataclasses.replace(spread, seconds=0)
        print(f"  {processes} processes  {sooner:6.2f} s, processor {here:.2f} s here and {there:.2f} s there", end="")
        print(f"; {seconds / sooner:.2f} times as fast; {'the same verdict' if same else 'ANOTHER VERDICT'}")


if __name__ == "__main__":
    main()
