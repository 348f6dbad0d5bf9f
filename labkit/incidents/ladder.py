"""Fixes against faults: which fix helps against what, which one only moves the fault, and that each is needed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from labkit import Lab, Verdict, explore
from labkit.errors import ScenarioError
from labkit.lab import Scenario


@dataclass(frozen=True)
class Fix:
    """One change to the program.

    Parameters
    ----------
    name: its name, as it is given to the incident.
    says: what it does, in one sentence.
    replaces: fixes that are taken out again when this one is added.
    """

    name: str
    says: str
    replaces: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fault:
    """One kind of thing that goes wrong.

    Parameters
    ----------
    name: its name, as it heads a column.
    budgets: what may go wrong in one execution, as for `explore`.
    world: what is different in the world that the incident builds.
    """

    name: str
    budgets: Mapping[str, Any] = field(default_factory=dict)
    world: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Incident:
    """A program with every fix a parameter.

    Parameters
    ----------
    name: what happened.
    fixes: the fixes, in the order in which they are usually added.
    faults: what goes wrong, one at a time.
    build: builds the world with a set of fixes: `build(lab, fixes, **world)`.
    """

    name: str
    fixes: tuple[Fix, ...]
    faults: tuple[Fault, ...]
    build: Callable[..., None]

    def __post_init__(self) -> None:
        names = [fix.name for fix in self.fixes]
        for twice in {name for name in names if names.count(name) > 1}:
            raise ScenarioError(f"{self.name} has two fixes called {twice!r}")
        for place, fix in enumerate(self.fixes):
            for unknown in sorted(set(fix.replaces) - set(names[:place])):
                raise ScenarioError(f"fix {fix.name!r} replaces {unknown!r}, not one of {names[:place]} before it")
        if not self.faults:
            raise ScenarioError(f"{self.name} has no faults to search; plain concurrency is one: Fault('concurrency')")

    def fault(self, name: str) -> Fault:
        """The fault of that name; `ScenarioError` lists those there are."""
        for fault in self.faults:
            if fault.name == name:
                return fault
        raise ScenarioError(f"{self.name} knows no fault {name!r}; it knows {[fault.name for fault in self.faults]}")

    def scenario(self, fixes: Collection[str], fault: str) -> Scenario:
        """The incident with these fixes and the world of a fault, for `explore`, `replay` and the rest."""
        known = [fix.name for fix in self.fixes]
        unknown = [fixes] if isinstance(fixes, str) else sorted(set(fixes) - set(known))
        if unknown:
            raise ScenarioError(f"{self.name} knows no fix {', '.join(map(repr, unknown))}; it knows {known}")
        chosen, world = frozenset(fixes), self.fault(fault).world

        def scenario(lab: Lab) -> None:
            self.build(lab, chosen, **world)

        return scenario

    def explore(self, fixes: Collection[str], fault: str) -> Verdict:
        """Search the incident with these fixes against one fault."""
        return explore(self.scenario(fixes, fault), **self.fault(fault).budgets)

    def rung(self, count: int) -> tuple[str, ...]:
        """The fixes in place when the first so many have been added; `ScenarioError` when there are not so many."""
        if not isinstance(count, int) or not 0 <= count <= len(self.fixes):
            raise ScenarioError(f"{self.name} has rungs 0 to {len(self.fixes)}, not {count!r}")
        added = self.fixes[:count]
        replaced = {name for fix in added for name in fix.replaces}
        return tuple(fix.name for fix in added if fix.name not in replaced)

    @property
    def corrected(self) -> tuple[str, ...]:
        """The fixes of the highest rung."""
        return self.rung(len(self.fixes))

    def climb(self) -> Ladder:
        """Search every rung, the fixes added one after another, against every fault."""
        rungs = [self.rung(count) for count in range(len(self.fixes) + 1)]
        return Ladder(
            self, {(rung, fault.name): self.explore(rung, fault.name) for rung in rungs for fault in self.faults}
        )

    def ablate(self) -> Iterator[tuple[str, str | None, Verdict]]:
        """Take each fix out of the corrected program.

        Yields its name, the first fault that breaks the rest (None when none does), and the verdict there.
        """
        for missing in self.corrected:
            rest = [name for name in self.corrected if name != missing]
            for fault in self.faults:
                verdict = self.explore(rest, fault.name)
                if verdict.outcome == "violated":
                    yield missing, fault.name, verdict
                    break
            else:
                yield missing, None, verdict


@dataclass(frozen=True)
class Ladder:
    """The fix ladder: a verdict for each rung and fault.

    Parameters
    ----------
    incident: what was searched.
    cells: the verdicts, by the fixes of the rung and the fault's name.
    """

    incident: Incident
    cells: Mapping[tuple[tuple[str, ...], str], Verdict]

    @property
    def rungs(self) -> list[tuple[str, ...]]:
        """The sets of fixes, from none to all."""
        return list(dict.fromkeys(rung for rung, _ in self.cells))

    def cell(self, fixes: int, fault: str) -> Verdict:
        """The verdict with the first so many fixes against a fault; `ScenarioError` for a cell that there is not."""
        return self.cells[self.incident.rung(fixes), self.incident.fault(fault).name]

    def __repr__(self) -> str:
        """The ladder as text: a row for each rung; a violated cell has the length of its shortest schedule."""
        heads = [fault.name for fault in self.incident.faults]
        titles = ["no fix", *(f"+ {fix.name}" for fix in self.incident.fixes)]
        rows = [["", *heads]]
        rows += [
            [title, *(word(self.cells[rung, head]) for head in heads)]
            for title, rung in zip(titles, self.rungs, strict=True)
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows)
        return "\n".join(line.rstrip() for line in lines)


def word(verdict: Verdict) -> str:
    """A verdict in one word, with the length of the shortest violation."""
    if verdict.outcome != "violated":
        return verdict.outcome
    return f"broken in {min(trace.length for trace in verdict.violations.values())}"
