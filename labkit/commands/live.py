"""`live`: run a scenario for real."""

from __future__ import annotations

import argparse
import json

from labkit.commands.exit_codes import EXIT_CODES
from labkit.commands.parser import Commands
from labkit.commands.scenario_file import load_scenario
from labkit.processes.live_run import live
from labkit.reports import as_json


def add_to(commands: Commands) -> None:
    """Declare the command and its arguments."""
    parser = commands.add_parser("live", help="run a scenario once, as processes on real servers")
    parser.add_argument("scenario", help="FILE.py:function or package.module:function")
    parser.add_argument("--redis-url", help="a server; without it one is started for the length of the run")
    parser.add_argument("--database-url", help="a PostgreSQL; without it there is an SQLite file")
    parser.add_argument("--seconds", type=float, default=30, help="how long it may take (default 30)")
    parser.add_argument("--crashes", type=int, default=0, help="how many workers are killed, at random")
    parser.add_argument("--seed", type=int, default=0, help="which ones, and when")
    parser.add_argument("--elsewhere", nargs="*", default=[], metavar="NAME", help="workers that join it; see `worker`")
    parser.add_argument("--run", help="the id by which they find it")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run_command=run_command)


def run_command(options: argparse.Namespace) -> int:
    """Run, and print the trace. The exit code is 0 when nothing was seen to break, which is not `holds`."""
    trace = live(
        load_scenario(options.scenario),
        options.redis_url,
        options.database_url,
        seconds=options.seconds,
        crashes=options.crashes,
        seed=options.seed,
        elsewhere=options.elsewhere,
        run_id=options.run,
    )
    if options.json:
        told = {"exits": trace.exits, "attempts": trace.attempts, "effects": trace.effects, "servers": trace.servers}
        print(json.dumps({**as_json(trace), **told}, indent=2))
    else:
        print(f"{trace.table()}\n\n{trace.observations()}")
    if trace.violations:
        return EXIT_CODES["violated"]
    return EXIT_CODES["holds" if trace.over else "undetermined"]
