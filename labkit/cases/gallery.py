"""Runs cases and shows what came out: as a table, as JSON, or one of them in full."""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tqdm import tqdm

from labkit.cases import CASES, Case, Inexpressible, Result
from labkit.errors import ScenarioError
from labkit.words import shorten

TITLE = 58  # characters of a title in the table


def show_cases(ids: list[str], as_json: bool) -> int:
    """Print cases; returns 0 when each is as told, and 1 when one is not.

    Parameters
    ----------
    ids: which ones; one is shown in full, none means all.
    as_json: whether for machines.
    """
    in_any_case = {name.lower(): case for name, case in CASES.items()}
    unknown = [name for name in ids if name.lower() not in in_any_case]
    if unknown:
        raise ScenarioError(f"there is no case {', '.join(unknown)}; there are {', '.join(CASES)}")
    chosen = [in_any_case[name.lower()] for name in ids] or list(CASES.values())
    quiet = os.environ.get("LABKIT_PROGRESS") == "0" or len(chosen) == 1
    bar = tqdm(chosen, unit=" case", leave=False, disable=quiet or None)
    results = [case.explore() if isinstance(case, Case) else case for case in bar]
    if as_json:
        print(json.dumps([_row(result) for result in results], indent=2))
    elif len(results) == 1:
        print(in_full(results[0]))
    else:
        print(table(results))
    return 0 if all(isinstance(result, Inexpressible) or result.is_as_told for result in results) else 1


def table(results: Iterable[Result | Inexpressible]) -> str:
    """One row for each case, and a line of totals."""
    rows = [_row(result) for result in results]
    heads = ("id", "title", "broken", "length", "known", "s", "fixed", "states", "s")
    lines = ["{:8}{:{}}{:14}{:>7}{:>7}{:>6}  {:13}{:>9}{:>6}".format(*heads[:2], TITLE + 2, *heads[2:])]
    for row in rows:
        start = f"{row['id']:8}{shorten(row['title'], TITLE):{TITLE + 2}}"
        if "reason" in row:
            lines.append(f"{start}not expressible: {row['reason']}")
            continue
        broken = f"{row['broken']:14}{row['length'] or '':>7}{row['known'] or '':>7}{row['broken_seconds']:>6.1f}"
        fixed = f"{row['fixed']:13}{row['states']:>9,}{row['fixed_seconds']:>6.1f}"
        lines.append(f"{start}{broken}  {fixed}" + ("" if row["as_told"] else "  <-- not as told"))
    told = [row for row in rows if row.get("as_told")]
    searched = [row for row in rows if "reason" not in row]
    seconds = sum(row["broken_seconds"] + row["fixed_seconds"] for row in searched)
    lines.append(f"\n{len(told)} of {len(searched)} cases are as told, in {seconds:.0f} s of searching.")
    return "\n".join(lines)


def in_full(result: Result | Inexpressible) -> str:
    """A case with its sources, its mechanism, the shortest violation step by step, and what holds once it is mended."""
    if isinstance(result, Inexpressible):
        return _paragraphs(f"{result.id}  {result.title}", *result.sources, f"Not expressible: {result.reason}")
    case = result.case
    head = _paragraphs(f"{case.id}  {case.title}", *case.sources, case.mechanism, f"Mended by: {case.fix}")
    longer = f"\nKnown with length {case.known}; longer here: {case.longer}" if case.longer else ""
    # A scenario's own name is that of a function that nobody can import.
    broken = replace(result.broken, scenario=f'CASES["{case.id}"].broken')
    to_replay = "To replay a schedule:\n  from labkit import replay\n  from labkit.cases import CASES"
    return f"{head}\n\nBroken: {broken}{longer}\n\n{to_replay}\n\nFixed: {result.fixed}"


def _paragraphs(*texts: str) -> str:
    return "\n".join(textwrap.fill(text, 120) for text in texts)


def _row(result: Result | Inexpressible) -> dict[str, Any]:
    if isinstance(result, Inexpressible):
        return {"id": result.id, "title": result.title, "sources": list(result.sources), "reason": result.reason}
    counterexample = result.broken.counterexample
    return {
        "id": result.case.id,
        "title": result.case.title,
        "sources": list(result.case.sources),
        "broken": result.broken.outcome,
        "length": result.length,
        "known": result.case.known,
        "schedule": str(counterexample.schedule) if counterexample else None,
        "violated": list(result.broken.violations),
        "broken_seconds": result.broken.seconds,
        "fixed": result.fixed.outcome,
        "states": result.fixed.states,
        "bounds": str(result.fixed.bounds),
        "fixed_seconds": result.fixed.seconds,
        "as_told": result.is_as_told,
    }
