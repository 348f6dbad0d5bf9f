"""`replay`: execute one schedule of a scenario."""

from __future__ import annotations

import argparse
import json

from labkit.commands.exit_codes import EXIT_CODES
from labkit.commands.parser import Commands, add_scenario_to
from labkit.commands.scenario_file import load_scenario
from labkit.execution import replay
from labkit.reports import as_json


def add_to(commands: Commands) -> None:
    """Declare the command and its arguments."""
    parser = commands.add_parser("replay", help="execute one schedule")
    add_scenario_to(parser)
    parser.add_argument("schedule", help='for example "A A B clock crash:A"')
    parser.add_argument("--redis-url", help="also send the requests to this server, and compare every reply")
    parser.add_argument("--source", action="store_true", help="show the line of code beside each step")
    parser.set_defaults(run_command=run_command)


def run_command(options: argparse.Namespace) -> int:
    """Replay, and print the trace."""
    scenario = load_scenario(options.scenario)
    trace = replay(scenario, options.schedule, seed=options.seed, polls=options.polls, redis_url=options.redis_url)
    if options.json:
        print(json.dumps(as_json(trace), indent=2))
    else:
        print(trace.table(source=options.source))
        if trace.comparison is not None:
            print(trace.comparison)
    if trace.violations:
        return EXIT_CODES["violated"]
    return EXIT_CODES["holds" if trace.over else "undetermined"]
