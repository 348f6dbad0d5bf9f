"""A worker as a machine: what it does next is a function of the replies it has had.

The worker's code runs once for each new history of replies and stops at its next operation; after that, the
history is a number and a step is a look-up. What is remembered here is exact, since a worker has no other
input: stores answer it, and time and chance are the lab's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from labkit.actor import Ending
from labkit.moment import INTERRUPTIONS, LOST, READ_THE_CLOCK, SIGNAL, Asked, Moment
from labkit.process import MAIN
from labkit.runs import Runs
from labkit.stores.base import FOR_EVER, Outcome, Store

# A worker that will take no step again is only its status.
FINISHED, RAISED, DEAD = -1, -2, -3
LONGEST_REHEARSAL = 500


class Pending(NamedTuple):
    """What one actor of a worker is about to do.

    Parameters
    ----------
    actor: its place in the process.
    left: the microseconds until it wakes: 0 when it waits for nothing, `FOR_EVER` when only another can wake it.
    slot: the slot of the store that it asks.
    cost: what asking adds to the length of a trace.
    blocks: whether it is a command that waits for something in the store.
    woken: whether what it waits for in the worker's memory is there.
    idle: whether it polls, and is left alone until its next round would bring something new.
    """

    actor: int
    left: int
    slot: int
    cost: int
    blocks: bool
    woken: bool
    idle: bool

    @property
    def is_free(self) -> bool:
        """Whether it can step, whatever the stores hold."""
        return self.woken or (not self.left and not self.idle)

    @property
    def may_be_able(self) -> bool:
        """Whether it can step when the stores hold the right thing."""
        return self.blocks or (self.idle and not self.left)


class Machine:
    """One worker's moments, numbered together with how long each of its actors still waits.

    A moment at which an actor is polling is *idle*: a wake-up that would get the replies it had before changes
    nothing, so it is left out until one would differ.

    Parameters
    ----------
    runs: runs the worker's code.
    stores: the stores by slot, and the slot of each store's name.
    polls: after how many unchanged rounds a polling worker is idle.
    """

    def __init__(
        self,
        runs: Runs,
        stores: Sequence[Store],
        slots: dict[str, int],
        polls: int,
    ) -> None:
        self.runs = runs
        self._stores, self._slots, self._polls = stores, slots, polls
        # By number: the moment, how long its actors wait (and last, what is left of a wait while a signal's handler
        # takes steps of its own), what they are about to do, and which of them can step.
        self.moments: list[Moment] = []
        self.waits: list[tuple[int, ...]] = []
        self.pending: list[tuple[Pending, ...]] = []
        # And an order in which numbers stand for the same in every process.
        self.ranks: dict[int, tuple[int, tuple[int, ...]]] = {end: (end, ()) for end in (FINISHED, RAISED, DEAD)}
        self._free: list[tuple[int, ...]] = []
        self._unsure: list[tuple[Pending, ...]] = []
        self.raised: dict[str, Ending] = {}  # by what follows the worker's name: nothing, or `/thread`
        self.returned = False
        self.sections: set[str] = set()
        self.skipped_polls = False
        self.deepest = 0
        # (number, actor, state of the store, time) -> (number, state of the store)
        self.steps: dict[tuple[int, int, int, int], tuple[int, int]] = {}
        self._numbers: dict[tuple[int, tuple[int, ...]], int] = {}
        self._aged: dict[tuple[int, int], int] = {}
        self._last_steps: list[tuple[int, int, int, int]] = []  # those with which an actor ended
        self.start_number = self._arrive(runs.first, {})

    # ---- going on

    def step(self, key: tuple[int, int, int, int]) -> tuple[int, int]:
        """Let an actor take its next operation, for the first time on this state of the store."""
        number, actor, state, now = key
        outcome = self._answer(number, actor, state, now)
        result = self.steps[key] = (self._go_on(number, actor, outcome.reply, outcome.wrote), outcome.state)
        if result[0] < 0 or self.moments[result[0]].situation.endings:
            self._last_steps.append(key)
        return result

    def tell_again(self) -> None:
        """Forget how actors ended and who was left polling, so that it is found again where it happens again."""
        self.raised, self.returned, self.skipped_polls = {}, False, False
        self._aged.clear()
        for key in self._last_steps:
            del self.steps[key]
        self._last_steps.clear()

    def answer(self, number: int, actor: int, state: tuple[int, ...]) -> Outcome:
        """What an actor's next operation does."""
        return self._answer(number, actor, state[self.pending_of(number, actor).slot], state[0])

    def _answer(self, number: int, actor: int, state: int, now: int) -> Outcome:
        pending, request = self.pending_of(number, actor), self.moments[number].operation_of(actor).request
        outcome = self._stores[pending.slot].apply(state, request, now)
        return replace(outcome, reply=True) if pending.woken else outcome

    def lose(self, number: int, actor: int) -> int:
        """The number after an actor's next operation took effect and its reply was lost."""
        return self._go_on(number, actor, LOST, wrote=True)

    def interrupt(self, number: int, word: object) -> int:
        """The number after something hit the worker where it stands; what it waited for goes on."""
        return self._go_on(number, MAIN, word, wrote=True)

    def _go_on(self, number: int, actor: int, reply: object, wrote: bool) -> int:
        moment, before = self.moments[number], self.pending_of(number, actor)
        child = self.after(moment, actor, reply, wrote)
        interrupted = before.left if reply is SIGNAL else self.waits[number][-1]
        if child.situation.ending is not None:
            return self._arrive(child, {})
        waits = {
            pending.actor: pending.left
            for pending in self.pending[number]
            if child.situation.since[pending.actor] == moment.situation.since[pending.actor]
        }
        step = child.situation.steps[actor]
        if step is not None and step.again:
            waits[actor] = before.left if reply in INTERRUPTIONS else interrupted
            interrupted = 0
        return self._arrive(child, waits, interrupted)

    def age(self, number: int, elapsed: int) -> int:
        """The number after time has passed."""
        aged = self._aged.get((number, elapsed))
        if aged is None:
            left = (self._left_after(number, pending, elapsed) for pending in self.pending[number])
            interrupted = self.waits[number][-1]
            interrupted = interrupted if interrupted <= 0 else max(0, interrupted - elapsed)
            aged = self._aged[number, elapsed] = self.number(self.moments[number], (*left, interrupted))
        return aged

    def _left_after(self, number: int, pending: Pending, elapsed: int) -> int:
        if pending.idle:
            period = self._waits(self.moments[number], pending.actor) or 1  # `sleep(0)` polls as fast as it can
            self.skipped_polls = self.skipped_polls or elapsed > pending.left
            return (pending.left - elapsed) % period
        return pending.left if pending.left <= 0 else pending.left - elapsed

    def after(self, moment: Moment, actor: int, reply: object, wrote: bool) -> Moment:
        """The moment that follows a reply to an actor."""
        return self.runs.after(moment, actor, reply, wrote)

    # ---- who can step

    def able(self, number: int, state: tuple[int, ...]) -> tuple[int, ...]:
        """The actors that can step."""
        unsure = self._unsure[number]
        if not unsure:
            return self._free[number]
        found = [pending.actor for pending in unsure if self._is_able(number, pending, state)]
        return tuple(sorted((*self._free[number], *found)))

    def _is_able(self, number: int, pending: Pending, state: tuple[int, ...]) -> bool:
        if pending.left:
            return self.comes(number, pending, state)
        return self._would_differ(number, pending, state)

    def wakes(self, number: int, state: tuple[int, ...]) -> int | None:
        """How long until an actor wakes by itself and sees something new; None when none will."""
        wait: int | None = None
        for pending in self.pending[number]:
            # The wake-up of an idle worker matters only when it would see something new.
            matters = pending.left > 0 and (not pending.idle or self._would_differ(number, pending, state))
            if matters and (wait is None or pending.left < wait):
                wait = pending.left
        return wait

    def comes(self, number: int, pending: Pending, state: tuple[int, ...]) -> bool:
        """Whether what a blocking command waits for is there."""
        request = self.moments[number].operation_of(pending.actor).request
        return pending.blocks and self._stores[pending.slot].ready(state[pending.slot], request, state[0])

    def _would_differ(self, number: int, pending: Pending, state: tuple[int, ...]) -> bool:
        """Whether an idle actor's next round would get another reply than the rounds before."""
        if self.comes(number, pending, state):
            return True
        moment = self.moments[number]
        if any(asked.operation == READ_THE_CLOCK for asked in moment.round):
            return self._try_a_round(moment, pending.actor, state)
        for asked in moment.round:
            if asked.operation.store != "clock":
                slot = self._slots[asked.operation.store]
                reply = self._stores[slot].apply(state[slot], asked.operation.request, state[0]).reply
                if repr(reply) != asked.reply:
                    return True
        return False

    def _try_a_round(self, moment: Moment, actor: int, state: tuple[int, ...]) -> bool:
        """Whether a round that depends on the time would go another way now; the worker's code runs it, for nothing."""
        before, point = moment.round, moment
        reply: object = self._in_vain(moment, actor, state)
        for expected in before:
            point = self.after(point, actor, reply, wrote=False)
            if point.situation.steps[actor] is None:
                return True
            operation = point.operation_of(actor)
            slot = self._slots[operation.store]
            outcome = self._stores[slot].apply(state[slot], operation.request, state[0])
            asked = Asked(operation, repr(outcome.reply), expected.timed)
            if outcome.wrote or not asked.is_like(expected):
                return True
            reply = outcome.reply
        point = self.after(point, actor, reply, wrote=False)
        return not point.pauses

    def _in_vain(self, moment: Moment, actor: int, state: tuple[int, ...]) -> object:
        """What an actor gets when its wait ends without bringing anything."""
        operation = moment.operation_of(actor)
        slot = self._slots[operation.store]
        return self._stores[slot].apply(state[slot], operation.request, state[0]).reply

    def pending_of(self, number: int, actor: int) -> Pending:
        """What an actor is about to do."""
        found = self.pending[number]
        return found[0] if actor == MAIN else next(pending for pending in found if pending.actor == actor)

    def is_idle(self, number: int) -> bool:
        """Whether an actor is left alone while it polls."""
        return any(pending.idle for pending in self.pending[number])

    # ---- numbers

    def _arrive(self, moment: Moment, waits: dict[int, int], interrupted: int = 0) -> int:
        """The number of a moment that the worker has just come to; `waits` has what is left of longer waits."""
        for name, ending in moment.situation.endings:
            if ending.error is not None:
                self.raised.setdefault(name and f"/{name}", ending)
        end = moment.situation.ending
        if end is None:
            left = (waits.get(actor, self._waits(moment, actor)) for actor in moment.situation.actors)
            return self.number(moment, (*left, interrupted))
        if end.killed:
            return DEAD
        self.returned = self.returned or end.error is None
        return FINISHED if end.error is None else RAISED

    def number(self, moment: Moment, waits: tuple[int, ...]) -> int:
        """The number of a moment, together with how long each of its actors still waits; see `waits`."""
        number = self._numbers.get((id(moment), waits))
        if number is None:
            number = self._numbers[id(moment), waits] = len(self.moments)
            pairs = zip(moment.situation.actors, waits, strict=False)
            pending = tuple(self._pending(moment, actor, left) for actor, left in pairs)
            self.waits.append(waits)
            self.moments.append(moment)
            self.ranks[number] = moment.rank, waits
            self.pending.append(pending)
            self._free.append(tuple(one.actor for one in pending if one.is_free))
            self._unsure.append(tuple(one for one in pending if one.may_be_able and not one.is_free))
            self.deepest = max(self.deepest, moment.depth)
            self.sections.update(moment.situation.sections)
        return number

    def _pending(self, moment: Moment, actor: int, left: int) -> Pending:
        operation = moment.operation_of(actor)
        slot = self._slots[operation.store]
        return Pending(
            actor,
            left,
            slot,
            cost=self._stores[slot].describe(operation.request).costs,
            blocks=operation.store != "clock" and self._waits(moment, actor) != 0,
            woken=moment.situation.woken[actor],
            idle=actor == moment.actor and moment.pauses and moment.repeats >= self._polls,
        )

    def _waits(self, moment: Moment, actor: int) -> int:
        operation = moment.operation_of(actor)
        return self._stores[self._slots[operation.store]].waits(operation.request)

    # ---- processes

    def rehearse(self) -> None:
        """Run a long history once more; `Nondeterminism` when the worker does something else this time."""
        short = [moment for moment in self.moments if moment.depth <= LONGEST_REHEARSAL]
        moment = max(short, key=lambda moment: moment.depth, default=None)
        if moment is not None:
            self.runs.rehearse(moment)

    def close(self, collect: bool) -> None:
        """Let go of every stopped process; without `collect` they are kept as a SIGKILL leaves them."""
        self.runs.close(collect)


__all__ = ["DEAD", "FINISHED", "FOR_EVER", "RAISED", "Machine"]
