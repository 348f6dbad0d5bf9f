"""One public report of a fault, as a scenario that shows it and one in which it is mended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from labkit import Lab, Verdict, explore
from labkit.lab import Scenario


@dataclass(frozen=True)
class Case:
    """A report, reduced to a small program.

    Parameters
    ----------
    id: `P17` for a public report, `000-a` for a hole in an article's own fix.
    title: the project and what happened there.
    sources: where it was reported; empty for the articles.
    mechanism: why it happens, in one sentence.
    fix: what mends it, in one sentence.
    broken, fixed: the program as it was, and mended; both state the same properties.
    budgets: what may go wrong, as for `explore`; the same for both.
    known: the length of the shortest schedule known before, or None.
    longer: why the lab's is longer, where it is.
    """

    id: str
    title: str
    sources: tuple[str, ...]
    mechanism: str
    fix: str
    broken: Scenario
    fixed: Scenario
    budgets: Mapping[str, Any] = field(default_factory=dict)
    known: int | None = None
    longer: str = ""

    def explore(self) -> Result:
        """Search the broken and the fixed program within the same bounds."""
        return Result(self, explore(self.broken, **self.budgets), explore(self.fixed, **self.budgets))


@dataclass(frozen=True)
class Inexpressible:
    """A report that the lab cannot express, and why: it is listed, and never faked.

    Parameters
    ----------
    id, title, sources: as for a `Case`.
    reason: what the lab lacks.
    """

    id: str
    title: str
    sources: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Result:
    """What the search said of a case.

    Parameters
    ----------
    case: the case.
    broken, fixed: the verdicts.
    """

    case: Case
    broken: Verdict
    fixed: Verdict

    @property
    def length(self) -> int | None:
        """The length of the shortest violation of the broken program; None when there is none."""
        return min((trace.length for trace in self.broken.violations.values()), default=None)

    @property
    def is_as_told(self) -> bool:
        """Whether the broken program is violated, no later than known unless explained, and the fixed one holds."""
        late = self.case.known is not None and (self.length or 0) > self.case.known and not self.case.longer
        return self.broken.outcome == "violated" and self.fixed.outcome == "holds" and not late


def in_both(build: Any) -> tuple[Scenario, Scenario]:
    """The broken and the fixed scenario of a builder that is told which: `build(lab, fixed)`."""

    def broken(lab: Lab) -> None:
        build(lab, False)

    def fixed(lab: Lab) -> None:
        build(lab, True)

    broken.__name__, fixed.__name__ = f"{build.__name__}_broken", f"{build.__name__}_fixed"
    return broken, fixed
