"""The counterexample browser: every violation that a search found, by property, to be stepped through."""

from __future__ import annotations

import html

import ipywidgets as ipw

from labkit.trace import Trace
from labkit.verdict import Verdict
from labkit.widgets.shown import LIVE, Shown, static
from labkit.widgets.stepper import Stepper
from labkit.words import steps


class Browser(Shown):
    """The violations of a verdict.

    Parameters
    ----------
    verdict: what `explore` answered; with `others=N` it has more than one counterexample for a property.

    Raises `TypeError` on anything else.
    """

    def __init__(self, verdict: Verdict) -> None:
        if not isinstance(verdict, Verdict):
            raise TypeError(f"a browser shows what `explore` returns, a verdict, not {type(verdict).__name__}")
        super().__init__("browser")
        self.verdict = verdict
        self.found: list[tuple[str, Trace]] = [
            (name, trace)
            for name, shortest in verdict.violations.items()
            for trace in (shortest, *verdict.others.get(name, ()))
        ]
        head = ipw.HTML(f'<div class="lk-goal"><strong>{html.escape(verdict.headline)}</strong></div>')
        if not self.found:
            self.show(head, self.status)
            self.say("There is no counterexample to look at.")
            return
        labels = [f"{name}: {steps(trace.length)}: {trace.schedule}" for name, trace in self.found]
        self.list = ipw.Select(options=list(zip(labels, range(len(labels)), strict=True)), rows=min(8, len(labels) + 1))
        self.list.layout = {"width": "auto", "max_width": "100%"}
        self.list.observe(self.guarded(self._open), "value")
        self.stepper = Stepper.of(verdict)
        self.show(head, self.list, self.status, self.stepper.view)
        self._open()

    def _open(self) -> None:
        name, trace = self.found[self.list.value]
        self.stepper.load(trace.schedule)
        if trace.events:
            self.say(f"{name}: broken after {len(trace.events)} choices. Press redo to step through.")
        else:
            self.say(f"{name}: broken by the set-up, before anybody steps.")

    @property
    def text(self) -> str:
        """The violations as plain text."""
        lines = [f"Counterexamples. {self.verdict.headline}"]
        lines += [f"  {name}: {steps(trace.length)}: {trace.schedule}" for name, trace in self.found]
        return "\n".join([*lines, LIVE] if self.found else lines)

    @property
    def static_html(self) -> str:
        """The violations, each with its picture, closed until it is asked for."""
        pictures = "".join(
            f"<details><summary>{html.escape(name)}</summary>{trace.lanes().html}</details>"
            for name, trace in self.found
        )
        return static(self.text, pictures)
