"""`explore`: search every schedule of a scenario."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from labkit.commands.exit_codes import EXIT_CODES
from labkit.commands.parser import Commands, add_scenario_to
from labkit.commands.scenario_file import load_scenario
from labkit.reports import as_json, as_junit
from labkit.search.every_schedule import explore


def add_to(commands: Commands) -> None:
    """Declare the command and its arguments."""
    parser = commands.add_parser("explore", help="search every schedule within the budgets")
    parser.add_argument("--crashes", type=int, default=0, help="how many workers may be killed")
    parser.add_argument("--lost-replies", type=int, default=0, help="how many replies may be lost")
    parser.add_argument("--signals", type=int, help="how many workers may get SIGTERM (default: as declared)")
    parser.add_argument("--pauses", type=_pauses, default=0, help="how many pauses, or `any`")
    parser.add_argument("--jumps", type=int, default=0, help="how many wall clocks may jump")
    parser.add_argument("--failovers", type=int, default=0, help="how often a replica may take over")
    parser.add_argument("--max-states", type=int, default=500_000, help="how many states to see at most")
    parser.add_argument("--max-seconds", type=float, default=None, help="how much real time to use at most")
    parser.add_argument("--max-megabytes", type=float, help="how much memory the process may use at most")
    parser.add_argument(
        "--no-symmetry", dest="symmetry", action="store_false", help="tell workers apart that do the same"
    )
    parser.add_argument("--junit", type=Path, metavar="FILE", help="also write the verdict as JUnit XML")
    add_scenario_to(parser)
    parser.set_defaults(run_command=run_command)


def run_command(options: argparse.Namespace) -> int:
    """Search, and print the verdict."""
    verdict = explore(
        load_scenario(options.scenario),
        crashes=options.crashes,
        lost_replies=options.lost_replies,
        signals=options.signals,
        pauses=options.pauses,
        polls=options.polls,
        jumps=options.jumps,
        failovers=options.failovers,
        seed=options.seed,
        max_states=options.max_states,
        max_seconds=options.max_seconds,
        max_megabytes=options.max_megabytes,
        symmetry=options.symmetry,
    )
    if options.junit:
        options.junit.write_text(as_junit(verdict), encoding="utf-8")
    if options.json:
        print(json.dumps(as_json(verdict), indent=2))
    else:
        print(verdict)
        if verdict.violations:
            print("\nAs a regression test:\n")
            print(verdict.as_test(imported_from=options.scenario))
    return EXIT_CODES[verdict.outcome]


def _pauses(text: str) -> int | None:
    return None if text == "any" else int(text)
