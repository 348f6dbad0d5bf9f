"""The command line: `python -m labkit explore FILE.py:scenario`, `replay FILE.py:scenario "A A B"`, `cases [ID]`,
and `ladder INCIDENT`; `live` and `staging` for real processes; `lab [FOLDER]`, `progress [FOLDER]` and
`reset NOTEBOOK` for the course.

Exit codes: 0 holds (or, for replay, nothing was violated), 1 violated, 2 undetermined, 3 wrong use.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from contextlib import suppress

from labkit.commands import cases, explore, lab, ladder, live, progress, replay, reset, staging, worker
from labkit.commands.exit_codes import WRONG_USE
from labkit.commands.parser import Parser
from labkit.errors import LabError
from labkit.reports import as_junit_error
from labkit.source import raising_line

COMMANDS = (
    explore,
    replay,
    cases,
    ladder,
    live,
    staging,
    worker,
    lab,
    progress,
    reset,
)


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    parser = Parser(prog="python -m labkit", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True, parser_class=Parser)
    for command in COMMANDS:
        command.add_to(commands)
    options = parser.parse_args(arguments)
    try:
        exit_code: int = options.run_command(options)
        sys.stdout.flush()
        return exit_code
    except BrokenPipeError:  # whoever reads what is printed, such as `head`, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except (Exception, SystemExit) as error:  # also what the scenario itself raises: it is no violation
        message = f"{type(error).__name__}: {error}"
        where = "" if isinstance(error, LabError) else f", at {raising_line(error.__traceback__)}"
        print(f"labkit: {message}{where}", file=sys.stderr)
        if getattr(options, "junit", None):
            with suppress(OSError):  # when the file cannot be written, that is what the message says
                options.junit.write_text(as_junit_error(options.scenario, message), encoding="utf-8")
        return WRONG_USE


if __name__ == "__main__":
    sys.exit(main())
