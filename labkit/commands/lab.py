"""`lab`: the course in JupyterLab, on a copy that is the learner's own."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from labkit.commands.parser import Commands
from labkit.course.folder import DEFAULT, default_folder, make_folder
from labkit.course.notebooks import course_notebooks


def add_to(commands: Commands) -> None:
    """Declare the command and its arguments."""
    parser = commands.add_parser("lab", help="open the course in JupyterLab, on a copy of your own")
    parser.add_argument("folder", nargs="?", type=Path, help=f"your copy (default: this one, or {DEFAULT})")
    parser.add_argument("--no-browser", action="store_true", help="start JupyterLab, but open no browser")
    parser.add_argument("--copy-only", action="store_true", help="make the copy, and start nothing")
    parser.set_defaults(run_command=run_command)


def run_command(options: argparse.Namespace) -> int:
    """Make or complete the copy, and open JupyterLab on it until it is closed."""
    folder: Path = options.folder or default_folder()
    added = make_folder(folder)
    kept = len(course_notebooks()) - len(added)
    print(f"{folder}: {len(added)} notebooks copied" + (f", {kept} of yours left as they are." if kept else "."))
    if options.copy_only:
        return 0
    command = [sys.executable, "-m", "jupyterlab", course_notebooks()[0].name]
    command += ["--no-browser"] if options.no_browser else []
    # The kernel must find the package that this command belongs to, also when it is not installed.
    package = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    os.chdir(folder)
    sys.stdout.flush()
    # In place of this process: a signal to it reaches JupyterLab, and nothing waits beside it.
    os.execve(sys.executable, command, {**os.environ, "PYTHONPATH": path})
