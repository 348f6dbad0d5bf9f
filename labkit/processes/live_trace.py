"""What a live run left behind: a trace like any other, and what only a live run can tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from labkit.trace import Trace


@dataclass(frozen=True, repr=False)
class LiveTrace(Trace):
    """One execution by real processes: observed, not searched. It never says `holds`.

    Parameters
    ----------
    servers: what it ran on.
    attempts, effects: for each outside service, how often it was called, and how often that had an effect.
    exits: how each worker came to its end.
    looked_at: for each property, how it was looked at.
    looks: how often stores were looked at while it went on.
    notes: what a live run does not do although the scenario says it.
    seconds: how long it took.
    gathered: what `gather` answered.
    """

    servers: str = ""
    attempts: Mapping[str, int] = field(default_factory=dict)
    effects: Mapping[str, int] = field(default_factory=dict)
    exits: Mapping[str, str] = field(default_factory=dict)
    looked_at: Mapping[str, str] = field(default_factory=dict)
    looks: int = 0
    notes: tuple[str, ...] = ()
    seconds: float = field(default=0, compare=False)
    gathered: object = None

    @property
    def _shown(self) -> str:
        """What this run showed, in one sentence; the same text whenever everything held."""
        if self.violations:
            return f"Observed, not searched: {'; '.join(map(str, self.violations))}."
        if not self.stated:
            return "Observed, not searched; the scenario states no property."
        if not self.over:
            waiting = " and ".join(self.waiting)
            return f"Observed, not searched: nothing broke, but time was up before {waiting} ended; no end was judged."
        count = len(self.workers)
        processes = f"{count} process{'es' if count > 1 else ''}"
        return f"Observed, not searched: in this one run of {processes}, every property held."

    def observations(self) -> str:
        """How each property was looked at, what became of each worker, and what services were asked and did."""
        broken = {violation.property for violation in self.violations}
        lines = [self.headline, f"on {self.servers}", ""]
        for name, how in self.looked_at.items():
            lines.append(f"{'broken' if name in broken else 'held':<7} {name} (looked at {how})")
        lines += [f"{worker} {exit}" for worker, exit in self.exits.items()]
        for service, attempts in self.attempts.items():
            lines.append(f"{service}: {attempts} attempts, {self.effects.get(service, 0)} effects")
        return "\n".join([*lines, *self.notes])
