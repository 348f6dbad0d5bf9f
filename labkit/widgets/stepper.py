"""The stepper: the learner is the scheduler."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import replace

import ipywidgets as ipw

from labkit.budgets import BUDGET_OF, Budgets
from labkit.errors import ScenarioError
from labkit.lab import Scenario
from labkit.play import Play
from labkit.plots.lanes_svg import lanes_svg
from labkit.schedule import FAULTS, Choice, Schedule
from labkit.trace import MOST_DRAWN, Event, Trace
from labkit.verdict import Verdict
from labkit.widgets.marks import dye, label_of, meaning_of
from labkit.widgets.scene import scene
from labkit.widgets.shown import LIVE, Shown, bar, button, label, static
from labkit.words import in_seconds, shorten, steps

MOST_SAID = 120  # characters of a command, and of its reply
NO_STEP = '<div class="lk-empty">The lane diagram grows here, with each step that you choose.</div>'


class Stepper(Shown):
    """A scenario whose scheduler you are: buttons for what can happen next, and a view of what every worker sees.

    Parameters
    ----------
    scenario: builds the world; your own, too.
    schedule: where to begin.
    goal: what to reach, in a sentence.
    breaks: the property whose violation is the goal; with a goal and without this, any property.
    crashes, lost_replies, signals, pauses, polls, jumps, failovers: what you may choose, as for `explore`.
    seed: as for `explore`.

    Raises `ScenarioError` when the scenario states no property of that name, and `ScheduleError` when the schedule does
    not fit the scenario.
    """

    def __init__(
        self,
        scenario: Scenario,
        schedule: Schedule | str = "",
        goal: str = "",
        breaks: str | None = None,
        *,
        crashes: int = 0,
        lost_replies: int = 0,
        signals: int | None = None,
        pauses: int | None = 0,
        polls: int = 3,
        jumps: int = 0,
        failovers: int = 0,
        seed: int = 0,
    ) -> None:
        super().__init__("stepper")
        budgets = Budgets(crashes, lost_replies, signals, pauses, polls, jumps, failovers)
        self.play = Play(scenario, schedule, budgets, seed)
        self._has_goal, self._breaks = bool(goal or breaks), breaks
        if breaks is not None:
            self.play.check_stated(breaks)
        self.goal = goal or (f"Break the property “{breaks}”." if breaks else "")
        self._buttons: dict[Choice, ipw.Button] = {}
        self._workers = [view.name for view in self.play.workers if "/" not in view.name]
        self._steps, self._faults = bar([label("Who goes next?")]), bar([label("What goes wrong?")])
        self._undo = button("↶ undo", self._does(self.play.undo), tooltip="Take back the last step.")
        self._redo = button("↷ redo", self._does(self.play.redo), tooltip="Take the step again that was undone.")
        self._reset = button("⟲ reset", self._does(self.play.reset), tooltip="Back to the beginning; redo leads on.")
        self.scene, self.picture, self.result = ipw.HTML(), ipw.HTML(), ipw.HTML()
        self.picture.add_class("lk-picture")
        self.box = ipw.Text(description="schedule", placeholder="paste a schedule, such as A B clock A")
        self._load = button("load", self._does(self._paste), tooltip="Begin anew and take the steps in the box.")
        head = ipw.HTML(f'<div class="lk-goal"><strong>Goal:</strong> {html.escape(self.goal)}</div>')
        self.show(
            *([head] if self.goal else []),
            self._steps,
            self._faults,
            bar([label("Back and again"), self._undo, self._redo, self._reset]),
            self.status,
            self.result,
            self.scene,
            self.picture,
            bar([self.box, self._load]),
        )
        for choice in self._usual():
            self._button_for(choice)
        self._faults.layout.display = "flex" if len(self._faults.children) > 1 else "none"
        self._refresh()

    @classmethod
    def of(cls, found: Verdict | Trace, goal: str = "", breaks: str | None = None) -> Stepper:
        """A stepper at the beginning of an execution that was found: `redo` leads through it.

        Parameters
        ----------
        found: a verdict, for its counterexample, or the trace of a run, a replay or a counterexample.
        goal, breaks: as for the stepper.

        Raises `ScenarioError` when there is nothing to step through, and `TypeError` on anything else.
        """
        trace = found.counterexample if isinstance(found, Verdict) else found
        if not isinstance(found, (Verdict, Trace)):
            raise TypeError(f"a verdict or a trace has something to step through, not {type(found).__name__}")
        if trace is None:
            raise ScenarioError("the verdict has no counterexample to step through")
        if trace.origin is None:
            raise ScenarioError("nobody knows which scenario this trace is of: give the stepper the scenario itself")
        scenario, seed, polls = trace.origin
        if isinstance(found, Verdict):
            budgets = dict(vars(found.bounds.budgets))
        else:
            kinds = [choice.kind for choice in trace.schedule]
            budgets = {"pauses": None, "polls": polls}
            budgets |= {option: kinds.count(kind) for kind, option in BUDGET_OF.items()}
        made = cls(scenario, "", goal, breaks, seed=seed, **budgets)
        made.load(trace.schedule)
        return made

    def load(self, schedule: Schedule | str) -> None:
        """Stand at the beginning of a schedule, through which `redo` leads; `ScheduleError` when it does not fit."""
        self.play.paste(schedule)
        self.play.reset()
        self._refresh()

    # ---- what can be chosen

    def choose(self, choice: Choice | str) -> None:
        """Do what a click on the button of a choice does."""
        wanted = Choice.parse(choice) if isinstance(choice, str) else choice
        self._does(lambda: self.play.take(wanted))()

    def undo(self) -> None:
        """Do what a click on the button does."""
        self._undo.click()

    def redo(self) -> None:
        """Do what a click on the button does."""
        self._redo.click()

    def reset(self) -> None:
        """Do what a click on the button does."""
        self._reset.click()

    def paste(self, schedule: Schedule | str) -> None:
        """Do what pasting a schedule and a click on `load` does."""
        self.box.value = str(schedule)
        self._load.click()

    @property
    def buttons(self) -> dict[str, ipw.Button]:
        """The buttons, by the choice that each takes."""
        return {str(choice): made for choice, made in self._buttons.items()}

    def _usual(self) -> list[Choice]:
        """What there is a button for from the beginning on."""
        usual = [Choice("step", name) for name in self._workers] + [Choice("clock")]
        for kind in FAULTS:
            if self.play.left(kind) != 0:
                usual += [Choice(kind)] if kind == "failover" else [Choice(kind, name) for name in self._workers]
        never = [choice for choice in usual if choice.is_fault and "spared" in self.play.why_not(choice)]
        return [choice for choice in usual if choice not in never]

    def _button_for(self, choice: Choice) -> ipw.Button:
        if choice not in self._buttons:
            made = button(label_of(choice, self._workers), self._does(lambda: self.play.take(choice)))
            box = self._faults if choice.is_fault else self._steps
            if choice.kind == "step":
                made.add_class("lk-step")
                dye(made, self._workers.index(choice.process or ""))
            self._buttons[choice] = made
            box.children = (*box.children, made)
        return self._buttons[choice]

    def _does(self, action: Callable[[], object]) -> Callable[..., None]:
        def act() -> None:
            action()
            self._refresh()

        return self.guarded(act)

    def _paste(self) -> None:
        self.play.paste(self.box.value.strip())

    # ---- what is seen

    def _refresh(self) -> None:
        """Show the state: what answers the click comes first."""
        play = self.play
        possible = play.choices
        for choice in (*possible, *self._buttons):
            made = self._button_for(choice)
            made.disabled = choice not in possible
            why = f" Not now: {play.why_not(choice)}." if made.disabled else ""
            made.tooltip = meaning_of(choice) + why
        schedule, ahead = play.schedule, play.ahead
        self._undo.disabled, self._redo.disabled = not schedule, not ahead
        self._reset.disabled = not schedule
        self.box.value = str(schedule)
        self.say(*self._state())
        self.scene.value = scene(play)
        self.result.value = self._outcome()
        trace = play.trace
        if not trace.events:
            self.picture.value = NO_STEP
        elif len(trace.events) <= MOST_DRAWN:
            self.picture.value = lanes_svg(trace)
        else:
            self.picture.value = static(trace.table())

    def _state(self) -> tuple[str, str]:
        """What happened last, in a sentence, and whether that is good or bad."""
        play, count = self.play, len(self.play.schedule)
        broken = [prop.name for prop in play.properties if prop.broken_at == count]
        if count:
            event = play.trace.events[-1]
            what = f"Step {count}, at {in_seconds(play.seconds)}: {event.worker or 'clock'}: {said(event)}."
            if event.ending is not None:
                what += f" {event.worker} {shorten(str(event.ending), MOST_SAID)}."
        elif broken:
            return f"The set-up breaks {' and '.join(map(repr, broken))}, before anybody steps.", "bad"
        else:
            what = "Nothing has happened yet: you are the scheduler. Choose who steps."
        if self.is_reached:
            reached = [self._breaks] if self._breaks is not None else broken or play.broken
            return f"{what} Goal reached: {' and '.join(map(repr, reached))} is broken.", "good"
        if broken:
            return f"{what} This breaks {' and '.join(map(repr, broken))}.", "bad"
        if play.is_over:
            again = " The goal is not reached: undo, and try another order." if self._has_goal else ""
            return f"{what} Nothing more can happen.{again}", "calm"
        return what, "calm"

    @property
    def is_reached(self) -> bool:
        """Whether the goal is reached."""
        wanted = self._breaks
        return self._has_goal and any(wanted in (None, name) for name in self.play.broken)

    def _outcome(self) -> str:
        """Your schedule beside the shortest one, once the goal is reached."""
        if not self.is_reached:
            return ""
        name = self._breaks or self.play.broken[0]
        own = up_to_violation(self.play.trace, name)
        if not own.events:
            return ""  # the set-up did it, and nobody else
        verdict = self.play.explore()
        best = verdict.violations.get(name)
        if best is None:
            return f"<p>Yours: {steps(own.length)}. The search did not find it in {verdict.states:,} states.</p>"
        said = f"yours: {steps(own.length)}; the shortest: {steps(best.length)}"
        praise = (
            "Nobody can do it in fewer." if own.length <= best.length else "There is a shorter way. Can you find it?"
        )
        cards = "".join(_card(title, trace) for title, trace in (("yours", own), ("the shortest", best)))
        more = f'<details><summary>Side by side, step by step</summary><div class="lk-grid">{cards}</div></details>'
        lines = "".join(
            f'<tr><th scope="row">{title}</th><td class="lk-mono">{html.escape(str(trace.schedule))}</td></tr>'
            for title, trace in (("yours", own), ("the shortest", best))
        )
        more = f'<table class="lk-table">{lines}</table>{more}'
        return f'<div class="lk-say lk-good"><strong>{said}.</strong> {praise}{more}</div>'

    # ---- where no view can be

    @property
    def text(self) -> str:
        """The state as plain text."""
        goal = [f"Goal: {self.goal}"] if self.goal else []
        return "\n".join([f"Stepper: you are the scheduler. {LIVE}", *goal, str(self.play)])

    @property
    def static_html(self) -> str:
        """The state as HTML, with the picture."""
        trace = self.play.trace
        return static(self.text, trace.lanes().html if 0 < len(trace.events) <= MOST_DRAWN else "")


def up_to_violation(trace: Trace, name: str) -> Trace:
    """The part of an execution that ends with the violation of a property."""
    number = next(broken.number for broken in trace.violations if broken.property == name)
    kept = tuple(broken for broken in trace.violations if broken.number <= number)
    return Trace(trace.workers, trace.events[:number], kept, trace.over and number == len(trace.events))


def said(event: Event) -> str:
    """What happened, in a few words, however long the values are."""
    short = replace(event, text=shorten(event.text, MOST_SAID), reply=shorten(event.reply, MOST_SAID))
    return short.summary


def _card(title: str, trace: Trace) -> str:
    rows = "".join(
        f'<tr><th scope="row">{event.number}</th><td>{html.escape(event.worker or "")}</td>'
        f'<td class="lk-mono">{html.escape(said(event))}</td></tr>'
        for event in trace.events
    )
    schedule = html.escape(str(trace.schedule))
    return (
        f'<div class="lk-card"><span class="lk-title">{title}</span> <span class="lk-mono">{schedule}</span>'
        f'<table class="lk-table">{rows}</table></div>'
    )
