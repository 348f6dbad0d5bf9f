"""Arguments that several commands take, and how wrong use is reported."""

from __future__ import annotations

import argparse
import sys
from typing import TypeAlias

from labkit.commands.exit_codes import WRONG_USE

Commands: TypeAlias = "argparse._SubParsersAction[Parser]"  # the name that argparse gives to its commands


class Parser(argparse.ArgumentParser):
    """Ends with the exit code for wrong use."""

    def error(self, message: str) -> None:  # type: ignore[override]
        """Say what was wrong, and end."""
        self.print_usage(sys.stderr)
        self.exit(WRONG_USE, f"{self.prog}: {message}\n")


def add_scenario_to(parser: argparse.ArgumentParser) -> None:
    """The arguments of the commands that take a scenario."""
    parser.add_argument("scenario", help="FILE.py:function or package.module:function")
    parser.add_argument("--seed", type=int, default=0, help="what everything random depends on")
    parser.add_argument("--polls", type=int, default=3, help="unchanged rounds after which a poller is left alone")
    parser.add_argument("--json", action="store_true", help="print JSON")
