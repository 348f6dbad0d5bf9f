"""`staging`: the staging test of incident A, with real processes on a real redis-server, beside what a search says."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from labkit.commands.exit_codes import EXIT_CODES
from labkit.commands.parser import Commands
from labkit.incidents import StagingReport, staging
from labkit.incidents.staging_world import PROGRAMS

_OUTCOMES = {"violated": "violated", "nothing seen": "holds", "unfinished": "undetermined"}


def add_to(commands: Commands) -> None:
    """Declare the command and its arguments."""
    parser = commands.add_parser("staging", help="the staging test of incident A, for real and searched")
    parser.add_argument("program", nargs="*", help=f"{', '.join(PROGRAMS)}; all of them, if none is named")
    parser.add_argument("--jobs", type=int, default=100, help="each is asked for twice (default 100)")
    parser.add_argument("--workers", type=int, default=10, help="worker processes (default 10)")
    parser.add_argument("--runs", type=int, default=1, help="how often it is done (default 1)")
    parser.add_argument("--kills", type=int, default=0, help="workers that are killed in each run, at random")
    parser.add_argument("--deploy", action="store_true", help="new workers replace the old ones midway")
    parser.add_argument("--seconds", type=float, default=60, help="how long a run may take (default 60)")
    parser.add_argument("--seed", type=int, default=0, help="which workers are killed, and when")
    lock = parser.add_mutually_exclusive_group()
    lock.add_argument("--lock", dest="lock", action="store_true", default=True, help="with the lock (default)")
    lock.add_argument("--without-lock", dest="lock", action="store_false", help="with the lock taken away")
    parser.add_argument("--redis-url", help="a server; without it one is started for the length of each run")
    parser.add_argument("--database-url", help="a PostgreSQL; without it there is an SQLite file")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run_command=run_command)


def run_command(options: argparse.Namespace) -> int:
    """Run the programs one after another.

    The exit code is 1 when anything broke in any run, 2 when a run did not come to its end, and otherwise 0: nothing
    was seen, which is not `holds`.
    """
    names = ("jobs", "workers", "runs", "kills", "deploy", "seconds", "seed", "lock", "redis_url", "database_url")
    settings = {name: getattr(options, name) for name in names}
    reports = []
    for program in options.program or PROGRAMS:
        reports.append(staging(program, **settings))
        if not options.json:
            print(f"{reports[-1]}\n\n{reports[-1].table()}\n", flush=True)
    if options.json:
        print(json.dumps([as_json(report) for report in reports], indent=2))
    outcomes = [report.outcome for report in reports]
    worst = next(name for name in ("violated", "unfinished", "nothing seen") if name in outcomes)
    return EXIT_CODES[_OUTCOMES[worst]]


def as_json(report: StagingReport) -> dict[str, object]:
    """A report as plain data."""
    return {
        "program": report.world.program,
        "lock": report.world.lock,
        "outcome": report.outcome,
        "broken": report.broken,
        "runs": [asdict(run) for run in report.runs],
        "searched": {
            name: {
                "outcome": verdict.outcome,
                "states": verdict.states,
                "violations": {broken: str(trace.schedule) for broken, trace in verdict.violations.items()},
            }
            for name, verdict in report.verdicts.items()
        },
        "random schedules": {"executions": report.sample.executions, "hits": dict(report.sample.hits)},
    }
