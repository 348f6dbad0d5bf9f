"""`worker`: join a live run from another machine, or another terminal."""

from __future__ import annotations

import argparse

from labkit.commands.exit_codes import EXIT_CODES
from labkit.commands.parser import Commands
from labkit.commands.scenario_file import load_scenario
from labkit.processes.joining import join


def add_to(commands: Commands) -> None:
    """Declare the command and its arguments."""
    parser = commands.add_parser("worker", help="be one worker of a live run that was started elsewhere")
    parser.add_argument("scenario", help="FILE.py:function or package.module:function, the same as there")
    parser.add_argument("--redis", required=True, help="the run's server, as it is reached from here")
    parser.add_argument("--run", required=True, help="the run's id, as in live(…, run_id=…)")
    parser.add_argument("--name", required=True, help="the worker's name, one of live(…, elsewhere=[…])")
    parser.add_argument("--database-url", help="the run's PostgreSQL, as it is reached from here")
    parser.add_argument("--seconds", type=float, default=60, help="how long to wait for the run (default 60)")
    parser.set_defaults(run_command=run_command)


def run_command(options: argparse.Namespace) -> int:
    """Join, work, and leave."""
    scenario = load_scenario(options.scenario)
    join(scenario, options.redis, options.run, options.name, options.database_url, options.seconds)
    return EXIT_CODES["holds"]
