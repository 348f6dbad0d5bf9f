"""`cases`: the gallery of public reports."""

from __future__ import annotations

import argparse

from labkit.cases.gallery import show_cases
from labkit.commands.parser import Commands


def add_to(commands: Commands) -> None:
    """Declare the command and its arguments."""
    parser = commands.add_parser("cases", help="public reports of such faults, each broken and mended")
    parser.add_argument("id", nargs="*", help="for example P17; all of them, if none is named")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run_command=run_command)


def run_command(options: argparse.Namespace) -> int:
    """Show one case, some, or the table of all."""
    return show_cases(options.id, options.json)
