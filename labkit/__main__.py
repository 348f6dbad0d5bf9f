"""The command line: `python -m labkit explore FILE.py:scenario`, `replay FILE.py:scenario "A A B"`, `cases [ID]`,
and `ladder INCIDENT`.

Exit codes: 0 holds (or, for replay, nothing was violated), 1 violated, 2 undetermined, 3 wrong use.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import sys
from contextlib import suppress
from pathlib import Path

from labkit.cases.gallery import show_cases
from labkit.errors import LabError, ScenarioError
from labkit.execution import replay
from labkit.incidents import INCIDENTS
from labkit.lab import Scenario
from labkit.reports import as_json, as_junit, as_junit_error
from labkit.search.every_schedule import explore
from labkit.source import raising_line

EXIT_CODES = {"holds": 0, "violated": 1, "undetermined": 2}
WRONG_USE = 3


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        self.print_usage(sys.stderr)
        self.exit(WRONG_USE, f"{self.prog}: {message}\n")


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        if options.command == "cases":
            return show_cases(options.id, options.json)
        if options.command == "ladder":
            print(INCIDENTS[options.incident].climb())
            return EXIT_CODES["holds"]
        scenario = load_scenario(options.scenario)
        return _explore(scenario, options) if options.command == "explore" else _replay(scenario, options)
    except (Exception, SystemExit) as error:  # also what the scenario itself raises: it is no violation
        message = f"{type(error).__name__}: {error}"
        where = "" if isinstance(error, LabError) else f", at {raising_line(error.__traceback__)}"
        print(f"labkit: {message}{where}", file=sys.stderr)
        if getattr(options, "junit", None):
            with suppress(OSError):  # when the file cannot be written, that is what the message says
                options.junit.write_text(as_junit_error(options.scenario, message), encoding="utf-8")
        return WRONG_USE


def load_scenario(place: str) -> Scenario:
    """The scenario at `FILE.py:name` or `package.module:name`; `ScenarioError` says what is missing."""
    where, colon, name = place.rpartition(":")
    if not colon or not where:
        raise ScenarioError(f"{place!r} names no scenario; write FILE.py:function or package.module:function")
    try:
        module = _module_from(Path(where)) if where.endswith(".py") else importlib.import_module(where)
    except LabError:
        raise
    except Exception as error:
        raise ScenarioError(f"{where} cannot be loaded: {type(error).__name__}: {error}") from error
    if not hasattr(module, name):
        raise ScenarioError(f"{where} has no {name!r}")
    scenario: Scenario = getattr(module, name)
    return scenario


def _module_from(path: Path) -> object:
    if not path.is_file():
        raise ScenarioError(f"there is no file {path}")
    sys.path.insert(0, str(path.resolve().parent))  # as when Python runs the file itself
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _explore(scenario: Scenario, options: argparse.Namespace) -> int:
    verdict = explore(
        scenario,
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


def _replay(scenario: Scenario, options: argparse.Namespace) -> int:
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


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m labkit", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True, parser_class=_Parser)
    searching = commands.add_parser("explore", help="search every schedule within the budgets")
    searching.add_argument("--crashes", type=int, default=0, help="how many workers may be killed")
    searching.add_argument("--lost-replies", type=int, default=0, help="how many replies may be lost")
    searching.add_argument(
        "--signals", type=int, default=None, help="how many workers may get SIGTERM (default: as declared)"
    )
    searching.add_argument("--pauses", type=_pauses, default=0, help="how many pauses, or `any`")
    searching.add_argument("--jumps", type=int, default=0, help="how many wall clocks may jump")
    searching.add_argument("--failovers", type=int, default=0, help="how often a replica may take over")
    searching.add_argument("--max-states", type=int, default=500_000, help="how many states to see at most")
    searching.add_argument("--max-seconds", type=float, default=None, help="how much real time to use at most")
    searching.add_argument("--max-megabytes", type=float, help="how much memory the process may use at most")
    searching.add_argument(
        "--no-symmetry", dest="symmetry", action="store_false", help="tell workers apart that do the same"
    )
    searching.add_argument("--junit", type=Path, metavar="FILE", help="also write the verdict as JUnit XML")
    replaying = commands.add_parser("replay", help="execute one schedule")
    gallery = commands.add_parser("cases", help="public reports of such faults, each broken and mended")
    gallery.add_argument("id", nargs="*", help="for example P17; all of them, if none is named")
    gallery.add_argument("--json", action="store_true", help="print JSON")
    climbing = commands.add_parser("ladder", help="the fixes of an incident, one after another, against every fault")
    climbing.add_argument("incident", choices=list(INCIDENTS))
    for command in (searching, replaying):
        command.add_argument("scenario", help="FILE.py:function or package.module:function")
        command.add_argument("--seed", type=int, default=0, help="what everything random depends on")
        command.add_argument("--polls", type=int, default=3, help="unchanged rounds after which a poller is left alone")
        command.add_argument("--json", action="store_true", help="print JSON")
    replaying.add_argument("schedule", help='for example "A A B clock crash:A"')
    replaying.add_argument("--redis-url", help="also send the requests to this server, and compare every reply")
    replaying.add_argument("--source", action="store_true", help="show the line of code beside each step")
    return parser


def _pauses(text: str) -> int | None:
    return None if text == "any" else int(text)


if __name__ == "__main__":
    sys.exit(main())
