"""A worker as a machine: what it does next is a function of the replies it has had.

The worker's code runs once for each new history of replies and stops at its next operation; after that, the
history is a number and a step is a look-up. What is remembered here is exact, since a worker has no other
input: stores answer it, and time and chance are the lab's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

from labkit.errors import Nondeterminism
from labkit.process import Ending, Process, Step
from labkit.stores.base import Store, fresh

# A worker that will take no step again is only its status.
FINISHED, RAISED, DEAD = -1, -2, -3
# How many stopped processes a machine keeps, so that going on costs no run from the start.
KEPT_PROCESSES = 32


class Moment:
    """A point in a worker's life: the replies so far, and what it does next.

    Parameters
    ----------
    parent: the moment before the last reply, or None at the start.
    reply: the last reply.
    arrived: the step at which the worker stopped, or how it ended.
    printed: what it printed since the moment before.
    """

    __slots__ = ("after", "arrived", "parent", "printed", "reply")

    def __init__(self, parent: Moment | None, reply: object, arrived: Step | Ending, printed: str) -> None:
        self.parent = parent
        self.reply = reply
        self.arrived = arrived
        self.printed = printed
        self.after: dict[str, Moment] = {}

    @property
    def step(self) -> Step:
        """The step at which the worker stopped; only for moments that are no ending."""
        assert isinstance(self.arrived, Step)
        return self.arrived

    def path(self) -> list[Moment]:
        """The moments from the start to this one."""
        moments: list[Moment] = []
        moment: Moment | None = self
        while moment is not None:
            moments.append(moment)
            moment = moment.parent
        return moments[::-1]


class Machine:
    """One worker's moments, numbered together with how long it still sleeps.

    Parameters
    ----------
    name: the worker's name.
    spared: whether faults never hit it.
    start: makes a fresh process of the worker.
    release: told when a process came to its end, so that what it was built from can serve again.
    stores: the stores by slot, and the slot of each store's name.
    """

    def __init__(
        self,
        name: str,
        spared: bool,
        start: Callable[[], Process],
        release: Callable[[Process], None],
        stores: Sequence[Store],
        slots: dict[str, int],
    ) -> None:
        self.name, self.spared = name, spared
        self._start, self._release = start, release
        self._stores, self._slots = stores, slots
        # By number: the moment, the microseconds it still sleeps, the slot of the store it asks, what asking costs.
        self.moments: list[Moment] = []
        self.left: list[int] = []
        self.slot: list[int] = []
        self.cost: list[int] = []
        self.sections: list[tuple[str, ...]] = []
        self.has_sections = False
        self.raised: list[Ending] = []
        # (number, state of the store, time) -> (number, state of the store)
        self.steps: dict[tuple[int, int, int], tuple[int, int]] = {}
        self._numbers: dict[tuple[int, int], int] = {}
        self._aged: dict[tuple[int, int], int] = {}
        self._paused: OrderedDict[int, Process] = OrderedDict()
        self.runs = 0
        process, arrived, printed = self._begin()
        self.first = Moment(None, None, arrived, printed)
        self.start_number = self._number(self.first, 0)
        self._pause(self.first, process)

    def step(self, key: tuple[int, int, int]) -> tuple[int, int]:
        """Take the next operation of a numbered moment, for the first time on this state of the store."""
        number, state, now = key
        moment = self.moments[number]
        operation = moment.step.operation
        outcome = self._stores[self.slot[number]].apply(state, operation.request, now)
        child = self.after(moment, outcome.reply)
        sleeps = operation.request[1] if operation.store == "clock" and operation.request[0] == "sleep" else 0
        result = self.steps[key] = (self._number(child, sleeps), outcome.state)
        return result

    def after(self, moment: Moment, reply: object) -> Moment:
        """The moment that follows a reply; runs the worker's code when this history is new."""
        known = repr(reply)
        child = moment.after.get(known)
        if child is None:
            process = self._paused.pop(id(moment), None) or self._run_to(moment)
            arrived, printed = process.resume(fresh(reply))
            child = moment.after[known] = Moment(moment, reply, arrived, printed)
            self._pause(child, process)
        return child

    def age(self, number: int, elapsed: int) -> int:
        """The number after time has passed."""
        left = self.left[number]
        if not left:
            return number
        aged = self._aged.get((number, elapsed))
        if aged is None:
            aged = self._aged[number, elapsed] = self._number(self.moments[number], left - elapsed)
        return aged

    def rehearse(self) -> None:
        """Run the longest history once more; `Nondeterminism` when the worker does something else this time."""
        moment = max(self.moments, key=lambda moment: len(moment.path()), default=None)
        if moment is not None:
            self._let_go(self._run_to(moment))

    def close(self, collect: bool) -> None:
        """Let go of every stopped process; without `collect` they are kept as a SIGKILL leaves them."""
        for process in self._paused.values():
            if collect:
                self._let_go(process)
            else:
                process.keep_for_ever()
        self._paused.clear()

    def _number(self, moment: Moment, left: int) -> int:
        if isinstance(moment.arrived, Ending):
            if moment.arrived.error is None:
                return FINISHED
            if moment.arrived not in self.raised:
                self.raised.append(moment.arrived)
            return RAISED
        number = self._numbers.get((id(moment), left))
        if number is None:
            number = self._numbers[id(moment), left] = len(self.moments)
            step = moment.arrived
            slot = self._slots[step.operation.store]
            self.moments.append(moment)
            self.left.append(left)
            self.slot.append(slot)
            self.cost.append(self._stores[slot].describe(step.operation.request).costs)
            self.sections.append(step.sections)
            self.has_sections = self.has_sections or bool(step.sections)
        return number

    def _begin(self) -> tuple[Process, Step | Ending, str]:
        self.runs += 1
        process = self._start()
        return process, *process.resume()

    def _run_to(self, moment: Moment) -> Process:
        process, arrived, _ = self._begin()
        for count, point in enumerate(moment.path()):
            if point.parent is not None:
                arrived, _ = process.resume(fresh(point.reply))
            self._compare(count + 1, point.arrived, arrived)
        return process

    def _compare(self, count: int, before: Step | Ending, now: Step | Ending) -> None:
        if isinstance(before, Step) and isinstance(now, Step):
            if before.operation == now.operation:
                return
        elif before == now:
            return
        line = now.line or before.line
        raise Nondeterminism(
            f"worker {self.name} behaves differently when it is run again with the same replies: its step {count} was "
            f"{self._show(before)!r} and now is {self._show(now)!r}" + (f", at {line}" if line else "") + ". Look for "
            "a global or shared object that it changes, for iteration over a set, or for an unseeded random generator."
        )

    def _show(self, arrived: Step | Ending) -> str:
        if isinstance(arrived, Ending):
            return str(arrived)
        operation = arrived.operation
        return self._stores[self._slots[operation.store]].describe(operation.request).text

    def _pause(self, moment: Moment, process: Process) -> None:
        if process.dead:
            self._release(process)
            return
        self._paused[id(moment)] = process
        if len(self._paused) > KEPT_PROCESSES:
            self._let_go(self._paused.popitem(last=False)[1])

    def _let_go(self, process: Process) -> None:
        process.abandon()
        if process.dead:
            self._release(process)
