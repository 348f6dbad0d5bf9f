"""`reset`: a notebook of the course as it was, with the learner's version kept beside it."""

from __future__ import annotations

import argparse
from pathlib import Path

from labkit.commands.parser import Commands
from labkit.course.folder import default_folder, reset


def add_to(commands: Commands) -> None:
    """Declare the command and its arguments."""
    parser = commands.add_parser("reset", help="put a notebook back as it was; yours is kept under another name")
    parser.add_argument("notebook", help="its path, its name, or its number, such as 03")
    parser.add_argument("folder", nargs="?", type=Path, help="your copy of the course (default: here, or beside here)")
    parser.set_defaults(run_command=run_command)


def run_command(options: argparse.Namespace) -> int:
    """Reset one notebook, and say where the learner's is now."""
    fresh, kept = reset(options.notebook, options.folder or default_folder())
    print(f"{fresh} is as it was." + (f" Yours is {kept}." if kept != fresh else ""))
    return 0
