"""`ladder`: the fixes of an incident against every fault."""

from __future__ import annotations

import argparse

from labkit.commands.exit_codes import EXIT_CODES
from labkit.commands.parser import Commands
from labkit.incidents import INCIDENTS


def add_to(commands: Commands) -> None:
    """Declare the command and its arguments."""
    parser = commands.add_parser("ladder", help="the fixes of an incident, one after another, against every fault")
    parser.add_argument("incident", choices=list(INCIDENTS))
    parser.set_defaults(run_command=run_command)


def run_command(options: argparse.Namespace) -> int:
    """Climb the ladder, and print its table."""
    print(INCIDENTS[options.incident].climb())
    return EXIT_CODES["holds"]
