"""Schedule Parsons: cards with steps, to be put into an order that makes a failure."""

from __future__ import annotations

import html
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import ipywidgets as ipw

from labkit.budgets import Budgets
from labkit.errors import ScenarioError, ScheduleError
from labkit.lab import Scenario
from labkit.play import Play
from labkit.plots.lanes_svg import lanes_svg
from labkit.schedule import Choice, Schedule
from labkit.search.every_schedule import explore
from labkit.widgets.marks import dye, glyph
from labkit.widgets.shown import LIVE, Shown, bar, button, static
from labkit.words import shorten

MOST_SHUFFLES = 50
MOST_CHARACTERS = 120  # of a step on its card
UNTRIED = '<div class="lk-empty">When you try an order, what the lab makes of it is drawn here.</div>'


@dataclass(frozen=True)
class Card:
    """One step on a card.

    Parameters
    ----------
    choice: what the scheduler chooses.
    text: what happens then, in the schedule that the card was taken from.
    """

    choice: Choice
    text: str

    def __str__(self) -> str:
        return f"{self.choice.worker or 'clock'}: {shorten(self.text, MOST_CHARACTERS)}"


class Parsons(Shown):
    """Cards to be put in order. Any order counts in which the lab comes to the failure.

    Parameters
    ----------
    scenario: builds the world.
    cards: the steps, in an order that can be executed; as text such as `A A B clock`, or as a list. If None, those of
        the shortest schedule that breaks the property.
    breaks: the property whose violation is the goal.
    goal: what to reach, in a sentence.
    crashes, lost_replies, signals, pauses, polls, jumps, failovers, seed: as for `explore`.

    Raises `ScenarioError` when nothing breaks the property, and `ScheduleError` when the cards cannot be executed.
    """

    def __init__(
        self,
        scenario: Scenario,
        cards: Sequence[str] | str | None = None,
        breaks: str = "",
        goal: str = "",
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
        super().__init__("parsons")
        self._play = Play(scenario, "", Budgets(crashes, lost_replies, signals, pauses, polls, jumps, failovers), seed)
        self._play.check_stated(breaks)
        self.breaks, self.goal = breaks, goal or f"Put the steps into an order that breaks “{breaks}”."
        self._names = [view.name for view in self._play.workers if "/" not in view.name]
        self.cards = self._deal(cards)
        self.order: list[int] = []  # the cards that lie in the order, by their place in `cards`
        self.picked: int | None = None
        self.is_solved = False
        count = len(self.cards)
        self.pool = [self._slot(lambda p=place: self._add(p)) for place in range(count)]  # type: ignore[misc]
        self.slots = [self._slot(lambda p=place: self._pick(p)) for place in range(count)]  # type: ignore[misc]
        self.up = button("▲ up", self._does(lambda: self._move(-1)), tooltip="Move the picked card up.")
        self.down = button("▼ down", self._does(lambda: self._move(1)), tooltip="Move the picked card down.")
        self.remove = button("✕ remove", self._does(self._remove), tooltip="Put the picked card back.")
        self.clear = button("⟲ clear", self._does(self._clear), tooltip="Put all cards back.")
        self.try_it = button("try this order", self._does(self._try), tooltip="Let the lab execute this order.")
        self.try_it.add_class("lk-step")
        self.picture = ipw.HTML(UNTRIED)
        self.picture.add_class("lk-picture")
        columns = bar(
            [self._column("cards: click to add", self.pool), self._column("your order: click to pick", self.slots)]
        )
        columns.add_class("lk-columns")
        head = ipw.HTML(f'<div class="lk-goal"><strong>Goal:</strong> {html.escape(self.goal)}</div>')
        controls = bar([self.up, self.down, self.remove, self.clear, self.try_it])
        self.show(head, columns, controls, self.status, self.picture)
        self._refresh()
        self.say("Add cards to your order, then try it. Not every card must be used.")

    def _deal(self, cards: Sequence[str] | str | None) -> list[Card]:
        """The cards in an order that gives nothing away; the same on every run."""
        if cards is None:
            found = explore(self._play.scenario, seed=self._play.seed, **vars(self._play.budgets)).violations
            if self.breaks not in found:
                raise ScenarioError(
                    f"no schedule within these budgets breaks {self.breaks!r}; give cards, or more budget"
                )
            wanted = found[self.breaks].schedule
        else:
            wanted = Schedule.parse(cards if isinstance(cards, str) else " ".join(cards))
        if not wanted:
            why = "give the steps that break it" if cards is not None else f"the set-up breaks {self.breaks!r}"
            raise ScenarioError(f"there is nothing to put in order: {why}")
        self._play.paste(wanted)
        dealt = [Card(event.choice, event.text) for event in self._play.trace.events]
        chance = random.Random(str(wanted))
        for _ in range(MOST_SHUFFLES):
            chance.shuffle(dealt)
            if not self._execute(dealt)[0]:
                break
        return dealt

    # ---- what can be done

    def put(self, order: Sequence[int]) -> None:
        """Lay these cards, by their place in `cards`, as the order; `ScheduleError` for a card twice or none."""
        if sorted(set(order)) != sorted(order) or not set(order) <= set(range(len(self.cards))):
            raise ScheduleError(f"an order names each card once, from 0 to {len(self.cards) - 1}, not {order!r}")
        self.order, self.picked = list(order), None
        self._refresh()

    def attempt(self) -> bool:
        """Do what a click on the button does; whether the order makes the failure."""
        self.try_it.click()
        return self.is_solved

    def _add(self, card: int) -> None:
        if card in self.order:
            return  # the second of two quick clicks
        self.order.append(card)
        self.picked = len(self.order) - 1
        self.say(f"{self.cards[card]} is number {len(self.order)} of your order.")

    def _pick(self, place: int) -> None:
        self.picked = place
        self.say(f"Picked number {place + 1}: {self.cards[self.order[place]]}. Move it, or remove it.")

    def _move(self, by: int) -> None:
        if self.picked is None:
            raise ScheduleError("pick a card of your order first")
        other = self.picked + by
        if not 0 <= other < len(self.order):
            return
        self.order[self.picked], self.order[other] = self.order[other], self.order[self.picked]
        self.picked = other
        self.say(f"{self.cards[self.order[other]]} is now number {other + 1}.")

    def _remove(self) -> None:
        if self.picked is None:
            raise ScheduleError("pick a card of your order first")
        card = self.order.pop(self.picked)
        self.picked = min(self.picked, len(self.order) - 1) if self.order else None
        self.say(f"{self.cards[card]} is back among the cards.")

    def _clear(self) -> None:
        self.order, self.picked = [], None
        self.say("All cards are back.")

    def _try(self) -> None:
        """Let the lab execute the order, and say what it made of it."""
        if not self.order:
            raise ScheduleError("your order is empty: add a card first")
        self.is_solved, said = self._execute([self.cards[number] for number in self.order])
        self.say(said, "good" if self.is_solved else "bad")
        trace = self._play.trace
        self.picture.value = lanes_svg(trace) if trace.events else UNTRIED

    def _execute(self, cards: Sequence[Card]) -> tuple[bool, str]:
        """Take the steps until one goes another way than its card says, or the property breaks; whether it did."""
        play = self._play
        play.paste("")
        for place, card in enumerate(cards, 1):
            if why := play.why_not(card.choice):
                return False, f"Number {place}, {card}, is not possible there: {why}."
            event = play.take(card.choice)
            if event.text != card.text and event.kind not in ("clock", "failover"):
                play.undo()
                return False, f"Number {place}: in this order {event.worker} does something else: {event.summary}."
            if self.breaks in play.broken:
                return True, f"That is it: after {place} steps, {self.breaks!r} is broken."
        return False, f"All {len(cards)} steps are possible, and {self.breaks!r} still holds. Try another order."

    # ---- what is seen

    def _does(self, action: Callable[[], object]) -> Callable[..., None]:
        def act() -> None:
            action()
            self._refresh()

        return self.guarded(act)

    def _slot(self, action: Callable[[], object]) -> ipw.Button:
        made = button("", self._does(action))
        made.add_class("lk-card-button")
        return made

    @staticmethod
    def _column(title: str, slots: list[ipw.Button]) -> ipw.VBox:
        column = ipw.VBox([ipw.HTML(f'<span class="lk-quiet">{title}</span>'), *slots])
        column.add_class("lk-column")
        return column

    def _refresh(self) -> None:
        for place, made in enumerate(self.pool):
            self._label(made, None if place in self.order else place, "· · ·")
        for place, made in enumerate(self.slots):
            self._label(made, self.order[place] if place < len(self.order) else None, f"{place + 1}.", f"{place + 1}. ")
            (made.add_class if place == self.picked else made.remove_class)("lk-picked")
        for made in (self.up, self.down, self.remove):
            made.disabled = self.picked is None
        self.clear.disabled = self.try_it.disabled = not self.order

    def _label(self, made: ipw.Button, card: int | None, empty: str, before: str = "") -> None:
        made.disabled = card is None
        made.style.button_color = made.style.text_color = None
        if card is None:
            made.description = made.tooltip = empty
            return
        shown = self.cards[card]
        process = shown.choice.process
        mark = "" if process is None else f"{glyph(self._names.index(process))} "
        made.description = made.tooltip = f"{before}{mark}{shown}"
        if process is not None:
            dye(made, self._names.index(process))

    # ---- where no view can be

    @property
    def text(self) -> str:
        """The cards as plain text."""
        return "\n".join([f"Goal: {self.goal} {LIVE}", *(f"  [ ] {card}" for card in self.cards)])

    @property
    def static_html(self) -> str:
        """The cards as HTML."""
        return static(self.text)
