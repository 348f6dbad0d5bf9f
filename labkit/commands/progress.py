"""`progress`: which exercises pass."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from labkit.commands.parser import Commands
from labkit.course.folder import default_folder
from labkit.course.progress import as_text, progress


def add_to(commands: Commands) -> None:
    """Declare the command and its arguments."""
    parser = commands.add_parser("progress", help="which exercises of the course you have passed")
    parser.add_argument("folder", nargs="?", type=Path, help="your copy of the course (default: here, or beside here)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run_command=run_command)


def run_command(options: argparse.Namespace) -> int:
    """Print the table of exercises."""
    standings = progress(options.folder or default_folder())
    print(json.dumps([asdict(one) for one in standings], indent=2) if options.json else as_text(standings))
    return 0
