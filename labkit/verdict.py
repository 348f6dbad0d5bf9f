"""What a search says, and no more than it knows."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from labkit.actor import Ending
from labkit.budgets import Budgets
from labkit.engine import Engine
from labkit.trace import Trace


@dataclass(frozen=True)
class Bounds:
    """What a search covered.

    Parameters
    ----------
    workers: how many workers the scenario has.
    budgets: what might go wrong in one execution.
    seed: what everything random in the workers depends on.
    signalled: how many workers might get SIGTERM.
    spared: the workers that no fault could hit.
    polled: whether a polling worker was left alone until something would be new to it.
    identical: groups of workers that were taken for one another, since they did the same in every history.
    symmetry: `on` when there are any, else `off: ` and why not, in a few words.
    reads_time: whether workers look at the time while nobody told the clock of times that live in data.
    """

    workers: int
    budgets: Budgets
    seed: int = 0
    signalled: int = 0
    spared: tuple[str, ...] = ()
    polled: bool = False
    identical: tuple[tuple[str, ...], ...] = ()
    symmetry: str = "off"
    reads_time: bool = False

    @classmethod
    def of(cls, engine: Engine, seed: int) -> Bounds:
        """The bounds of an engine."""
        declared = sum(plan.signals for plan in engine.plans)
        signals = engine.budgets.signals
        signalled = declared if signals is None else min(declared, signals)
        spared = tuple(plan.name for plan in engine.plans if plan.spared)
        identical = tuple(tuple(engine.names[worker] for worker in group) for group in engine.symmetry.groups)
        polled, symmetry = engine.has_idle(), str(engine.symmetry)
        told = engine.world.absolute and not engine.world.deadlines
        return cls(len(engine.machines), engine.budgets, seed, signalled, spared, polled, identical, symmetry, told)

    @property
    def counted(self) -> str:
        """How states were counted, to stand after their number; empty when there is nothing to say."""
        groups = [f"{', '.join(names[:-1])} and {names[-1]}" for names in self.identical]
        return f" ({'; '.join(groups)} are interchangeable)" if groups else ""

    def __str__(self) -> str:
        budgets = self.budgets
        spared = f" ({', '.join(self.spared)} spared)" if self.spared else ""
        parts = [_number(self.workers, "worker") + spared, _at_most(budgets.crashes, "crash")]
        if budgets.lost_replies:
            parts.append(_at_most(budgets.lost_replies, "lost reply"))
        if self.signalled:
            parts.append(_at_most(self.signalled, "signal"))
        if budgets.jumps:
            parts.append(_at_most(budgets.jumps, "clock jump"))
        if budgets.failovers:
            parts.append(_at_most(budgets.failovers, "failover"))
        parts.append("any number of pauses" if budgets.pauses is None else _at_most(budgets.pauses, "pause"))
        if self.polled:
            parts.append(f"pollers left alone after {_number(budgets.polls, 'unchanged round')}")
        return ", ".join(parts)


@dataclass(frozen=True)
class Verdict:
    """The answer of `explore`.

    Parameters
    ----------
    outcome: `violated`, `holds` (within the bounds) or `undetermined`.
    properties: the names of all properties, in the scenario's order.
    violations: for each violated property, a shortest execution that shows it.
    states, transitions: how many distinct states were seen, and how many choices were followed.
    ends: how many of the states are ends of an execution.
    seconds: the real time that the search took.
    bounds: what was searched.
    stopped: why the search was cut short; None when it was not.
    unvisited: how many states were seen but not followed up.
    raised: workers that ended with an exception in some execution, and how.
    never_returned: workers that did not return in any execution.
    unknown_sections: sections that properties ask about and no worker enters.
    skipped_polls: workers that were left polling although they might have given up.
    waiting: workers that some execution left waiting at its end, and what for.
    scenario: the scenario's name.
    others: for each violated property, more of its shortest counterexamples, if they were asked for.
    """

    outcome: str
    properties: tuple[str, ...]
    violations: Mapping[str, Trace]
    states: int
    transitions: int
    ends: int
    seconds: float
    bounds: Bounds
    stopped: str | None = None
    unvisited: int = 0
    raised: Mapping[str, Ending] = field(default_factory=dict)
    never_returned: tuple[str, ...] = ()
    unknown_sections: tuple[str, ...] = ()
    skipped_polls: tuple[str, ...] = ()
    waiting: Mapping[str, str] = field(default_factory=dict)
    scenario: str = "scenario"
    others: Mapping[str, tuple[Trace, ...]] = field(default_factory=dict)

    @property
    def counterexample(self) -> Trace | None:
        """The execution that violates the first violated property, or None."""
        return next(iter(self.violations.values()), None)

    @property
    def headline(self) -> str:
        """The outcome and its bounds, in one sentence."""
        if self.outcome == "holds":
            return f"{self.bounds}: holds in all {self.states:,} states{self.bounds.counted}."
        if self.outcome == "violated":
            names = " and ".join(repr(name) for name in self.violations)
            return f"{self.bounds}: violated: {names}."
        return f"{self.bounds}: undetermined: {self._why()}"

    @property
    def complete(self) -> bool:
        """Whether the search went through everything within its bounds, so that what it did not violate holds."""
        return self.stopped is None and not self.skipped_polls and self.ends > 0

    def _why(self) -> str:
        if self.stopped is not None:
            return f"the search was cut short ({self.stopped}); {self.unvisited:,} states seen were not followed up."
        if self.skipped_polls:
            who = " and ".join(self.skipped_polls)
            return (
                f"{who} polled without news, and was left alone after {_number(self.bounds.budgets.polls, 'round')}. "
                "Raise `polls`, or say `forever=True` if it never gives up."
            )
        if self.ends:
            return "every worker raised an exception in every execution, so what they should do was never seen."
        return "no execution reached an end, so nothing was judged there. Does every worker wait for something?"

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know besides the headline."""
        notes = [f"{name} {ending} in {_how_often(name, self.never_returned)}." for name, ending in self.raised.items()]
        notes += [
            f"Nobody ever enters the section {name!r} that a property asks about." for name in self.unknown_sections
        ]
        if self.outcome == "holds" and self.bounds.reads_time:
            notes.append(
                "Workers read the clock, or how long an entry was idle. The lab's clock goes to the ends of sleeps, "
                "time-outs and times to live; if a time that matters lives in data, tell it with lab.deadlines."
            )
        notes += [f"{name} may be left waiting: {what}." for name, what in self.waiting.items()]
        if not self.properties:
            notes.append("The scenario states no property, so there was nothing to violate.")
        left = [name for name in self.properties if name not in self.violations]
        if self.violations and left:
            names = ", ".join(map(repr, left))
            notes.append(f"Held in all states: {names}." if self.complete else f"Undetermined: {names}: {self._why()}")
        elif self.violations and self.stopped is not None:
            notes.append(f"The search was cut short ({self.stopped}).")
        return tuple(notes)

    def replay_line(self, trace: Trace) -> str:
        """A line of Python that executes a counterexample again."""
        seed = f", seed={self.bounds.seed}" if self.bounds.seed else ""
        seed += f", polls={self.bounds.budgets.polls}" if self.bounds.budgets.polls != Budgets.polls else ""
        return f'replay({self.scenario}, "{trace.schedule}"{seed})'

    def assert_holds(self) -> None:
        """Raise `AssertionError`, with the counterexample, unless every property holds within the bounds."""
        if self.outcome != "holds":
            raise AssertionError(repr(self))

    def as_test(self, imported_from: str | None = None) -> str:
        """The counterexamples as regression tests to paste.

        Parameters
        ----------
        imported_from: where the scenario lives, as `FILE.py:name` or `package.module:name`; None to import nothing.
        """
        lines, taken = [], set[str]()
        if imported_from is not None:
            module = imported_from.rpartition(":")[0].removesuffix(".py").strip("./").replace("/", ".")
            lines += ["from labkit import replay", f"from {module} import {self.scenario}"]
        for name, trace in self.violations.items():
            title = re.sub(r"\W+", "_", name.lower()).strip("_") or "property"
            while title in taken:  # two names may differ in nothing that a function's name can show
                title += "_too"
            taken.add(title)
            lines += ["", "", f"def test_{title}():", f"    trace = {self.replay_line(trace)}"]
            lines += ["    assert not trace.violations, trace.table()"]
        return "\n".join(lines).strip("\n")

    def __repr__(self) -> str:
        parts = [self.headline, *self.notes]
        for name, trace in self.violations.items():
            parts += ["", f"{name}: broken by a schedule of length {trace.length}", "  " + self.replay_line(trace)]
            parts += ["", trace.table()]
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        mark = {"violated": "✗", "holds": "✓", "undetermined": "?"}[self.outcome]
        rows = [f"<p><strong>{mark} {html.escape(self.headline)}</strong></p>"]
        rows += [f"<p>{html.escape(note)}</p>" for note in self.notes]
        for name, trace in self.violations.items():
            rows.append(f"<p>{html.escape(name)}: broken by a schedule of length {trace.length}</p>")
            rows.append(f"<pre>{html.escape(self.replay_line(trace))}</pre>")
            rows.append(trace.lanes()._repr_html_())
        return "\n".join(rows)


def _how_often(worker: str, never_returned: tuple[str, ...]) -> str:
    return "every execution in which it came to its end" if worker in never_returned else "some executions"


def _number(count: int, noun: str) -> str:
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + ("es" if noun.endswith("sh") else "s")
    return f"{count} {noun if count == 1 else plural}"


def _at_most(count: int, noun: str) -> str:
    return f"at most {_number(count, noun)}" if count else f"no {noun}"
