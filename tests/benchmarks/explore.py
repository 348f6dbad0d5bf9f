"""How long `explore` takes, as multiples of one plain `fakeredis.FakeRedis.get` in the same run.

    python -m tests.benchmarks.explore [--others SECONDS] [--growth FILE.png] [--profile]

Machines differ, so nothing here is in seconds; the unit is called G. `--others` also gives, with so many seconds for
each question, what one would do without merging states (every schedule depth first, threads), and two other explorers
(`pip install -e '.[peers]'`) on the programs that they can express. `--growth` draws how cost grows with workers and
steps, beside the number of schedules. `--profile` says where the time goes.
"""

from __future__ import annotations

import argparse
import os

from labkit import explore
from labkit.search.limits import memory_in_use
from tests.benchmarks import growth, others, peers, profiles
from tests.benchmarks.cases import CASES, Case, unit
from tests.programs import naive, naive_lock


def row(case: Case, one_get: float) -> str:
    """What one search took, the fastest of three."""
    verdict = min((explore(case.scenario, **case.budgets) for _ in range(3)), key=lambda verdict: verdict.seconds)
    taken = verdict.seconds / one_get
    text = f"{case.name:50}{verdict.outcome:>10}{verdict.states:>9,}{verdict.transitions:>13,}{taken:>8,.0f}"
    return text + f"{case.allowed or '':>9}{verdict.transitions / taken:>7.1f}{memory_in_use():>6.0f}"


def table(one_get: float, seconds: float | None) -> None:
    """The cases, one row each; with `seconds`, what others reach in them below each row."""
    reached = {}
    if seconds:
        print(f"Others, with {seconds:g} s for each question:")
        print("  depth-first: every schedule on the search's own tables, with no states merged")
        print(f"  threads: 3 of them, check-then-set lock: {others.threads(seconds)}")
        for peer in peers.PEERS:
            absent = peers.missing(peer)
            print(f"  {peer}: {absent or peers.HOW[peer]}", flush=True)
            if absent is None:
                reached[peer] = peers.reached(peer, seconds)
        print()
    print(f"{'scenario':50}{'outcome':>10}{'states':>9}{'transitions':>13}{'G':>8}{'allowed':>9}{'per G':>7}{'MB':>6}")
    for case in CASES:
        print(row(case, one_get))
        if seconds:
            print(f"  depth-first  {others.depth_first(case.scenario, case.budgets, seconds, one_get)}", flush=True)
        for peer, found in reached.items():
            print(f"  {peer:13}{peers.describe(peer, case.name, found, one_get)}")


def main() -> None:
    """Print the table, and what else was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--others", type=float, metavar="SECONDS")
    parser.add_argument("--growth", metavar="FILE.png")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    os.environ["LABKIT_PROGRESS"] = "0"
    explore(naive)  # what only the first search pays: imports and caches of the libraries
    one_get = unit()
    table(one_get, options.others)
    if options.growth:
        found = growth.curves(one_get)
        growth.table(found)
        growth.plot(found, options.growth)
        print(f"\nThe picture is in {options.growth}.")
    if options.profile:
        profiles.profile(naive_lock("ABCDE"))


if __name__ == "__main__":
    main()
