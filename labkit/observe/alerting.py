"""Which alert fires when over a trace, and which stays silent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.observe.record import Record, records
from labkit.observe.rules import Alert, Rule, load_rules, states
from labkit.observe.series import Series, scraped
from labkit.trace import Trace
from labkit.words import in_seconds

if TYPE_CHECKING:
    from labkit.plots.figure import Picture

_MARKS = {"worker.terminated": "SIGTERM", "worker.killed": "killed", "worker.drained": "drained"}


@dataclass(frozen=True, repr=False)
class Alerts:
    """The alerts of one execution.

    Parameters
    ----------
    rules: the rules that were evaluated.
    states: each time that a rule was active, by its name.
    series: what was scraped.
    marks: what happened to workers: second, worker and word.
    seconds: how long the execution was watched.
    """

    rules: tuple[Rule, ...]
    states: dict[str, list[Alert]]
    series: Series
    marks: tuple[tuple[float, str, str], ...]
    seconds: float

    @property
    def fired(self) -> dict[str, float]:
        """The rules that fired, each with the second at which it first did, the earliest first."""
        first = {
            name: min(alert.fired for alert in found if alert.fired is not None)
            for name, found in self.states.items()
            if any(alert.fired is not None for alert in found)
        }
        return dict(sorted(first.items(), key=lambda pair: pair[1]))

    @property
    def silent(self) -> tuple[str, ...]:
        """The rules that never fired."""
        return tuple(rule.name for rule in self.rules if rule.name not in self.fired)

    def table(self) -> str:
        """The alerts as text: a row for each rule."""
        rows = [("alert", "fires from", "to", "highest", "look at")]
        for rule in self.rules:
            found = [(alert.fired, alert) for alert in self.states[rule.name] if alert.fired is not None]
            for fired, alert in found:
                rows.append((rule.name, in_seconds(fired), in_seconds(alert.until), f"{alert.value:.3g}", rule.look))
            if not found:
                pending = "pending only" if self.states[rule.name] else "silent"
                rows.append((rule.name, pending, "", "", ""))
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        lines = [
            "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
        ]
        return "\n".join(lines)

    def timeline(self) -> Picture:
        """The alerts over time; see `labkit.plots.alerting`."""
        from labkit.plots.alerting import alert_timeline

        return alert_timeline(self)

    def __repr__(self) -> str:
        return self.table()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return self.timeline()._repr_mimebundle_() | {"text/plain": self.table()}


def alerts(
    source: Trace | Iterable[Record],
    rules: str | Path | Iterable[Rule] | None = None,
    tail: float = 300,
    visibility_timeout: float | None = None,
) -> Alerts:
    """Evaluate alert rules over an execution, on its own clock.

    Parameters
    ----------
    source: the trace, or its records.
    rules: a file of rules, or rules; the lab's own, if none are given.
    tail: for how many more seconds somebody watches when nothing happens any more, so that alerts end.
    visibility_timeout: seconds for which a received message is hidden, where no worker says `queue.ready`.
    """
    kept = records(source) if isinstance(source, Trace) else tuple(source)
    chosen = load_rules(rules) if rules is None or isinstance(rules, (str, Path)) else tuple(rules)
    until = (kept[-1].seconds if kept else 0.0) + tail
    series = scraped(kept, until, visibility_timeout=visibility_timeout)
    marks = [(record.seconds, record.worker, _MARKS[record.event]) for record in kept if record.event in _MARKS]
    seen: set[str] = set()
    for record in kept:
        if record.event == "worker.started" and record.seconds and record.worker not in seen:
            seen.add(record.worker)
            marks.append((record.seconds, record.worker, "polls"))
    return Alerts(chosen, states(chosen, series, until), series, tuple(sorted(marks)), until)
