"""A worker as a machine: what it does next is a function of the replies it has had.

The worker's code runs once for each new history of replies and stops at its next operation; after that, the
history is a number and a step is a look-up. What is remembered here is exact, since a worker has no other
input: stores answer it, and time and chance are the lab's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

from labkit.errors import Nondeterminism
from labkit.moment import LOST, SIGNAL, Moment
from labkit.process import Ending, Lost, Process, Signal, Step
from labkit.stores.base import FOR_EVER, Store, fresh

# A worker that will take no step again is only its status.
FINISHED, RAISED, DEAD = -1, -2, -3
# How many stopped processes a machine keeps, so that going on costs no run from the start.
PARKED_PROCESSES = 32
LONGEST_REHEARSAL = 500


class Machine:
    """One worker's moments, numbered together with how long it still waits.

    A number stands for a moment and the microseconds until the worker wakes: 0 when it waits for nothing,
    `FOR_EVER` when only another worker can wake it. A moment at which the worker is polling is *idle*: a
    wake-up that would get the replies it had before changes nothing, so it is left out until one would differ.

    Parameters
    ----------
    name: the worker's name.
    start: makes a fresh process of the worker.
    release: told when a process came to its end, so that what it was built from can serve again.
    bury: keeps a killed process as it is, for ever.
    stores: the stores by slot, and the slot of each store's name.
    polls: after how many unchanged rounds a polling worker is idle.
    """

    def __init__(
        self,
        name: str,
        start: Callable[[], Process],
        release: Callable[[Process], None],
        bury: Callable[[Process], None],
        stores: Sequence[Store],
        slots: dict[str, int],
        polls: int,
    ) -> None:
        self.name = name
        self._start, self._release, self._bury = start, release, bury
        self._stores, self._slots, self._polls = stores, slots, polls
        # By number: the moment, the time until it wakes, the slot of the store it asks, what asking costs.
        self.moments: list[Moment] = []
        self.left: list[int] = []
        self.slot: list[int] = []
        self.cost: list[int] = []
        self.blocks: list[bool] = []
        self.idle: list[bool] = []
        self.raised: list[Ending] = []
        self.returned = False
        self.sections: set[str] = set()
        self.skipped_polls = False
        self.runs = self.deepest = 0
        # (number, state of the store, time) -> (number, state of the store)
        self.steps: dict[tuple[int, int, int], tuple[int, int]] = {}
        self._numbers: dict[tuple[int, int], int] = {}
        self._aged: dict[tuple[int, int], int] = {}
        self._parked: OrderedDict[int, Process] = OrderedDict()
        process, arrived, printed = self._begin()
        self.first = Moment(None, None, arrived, printed, pauses=self._pauses(arrived))
        self.start_number = self._arrive(self.first)
        self._park(self.first, process)

    # ---- going on

    def step(self, key: tuple[int, int, int]) -> tuple[int, int]:
        """Take the next operation of a numbered moment, for the first time on this state of the store."""
        number, state, now = key
        moment = self.moments[number]
        outcome = self._stores[self.slot[number]].apply(state, moment.operation.request, now)
        child = self.after(moment, outcome.reply, wrote=outcome.wrote)
        result = self.steps[key] = (self._arrive(child), outcome.state)
        return result

    def lose(self, number: int) -> int:
        """The number after the next operation took effect and its reply was lost."""
        return self._arrive(self.after(self.moments[number], LOST, wrote=True))

    def signal(self, number: int) -> int:
        """The number after SIGTERM reached the worker where it stands; what it waited for goes on."""
        moment = self.moments[number]
        child = self.after(moment, SIGNAL, wrote=True)
        same = not isinstance(child.arrived, Ending) and child.operation == moment.operation
        return self._number(child, self.left[number]) if same else self._arrive(child)

    def age(self, number: int, elapsed: int) -> int:
        """The number after time has passed."""
        left = self.left[number]
        if self.idle[number]:
            period = self._waits(self.moments[number]) or 1  # `sleep(0)` polls as fast as it can
            self.skipped_polls = self.skipped_polls or elapsed > left
            return self._number(self.moments[number], (left - elapsed) % period)
        if left <= 0:
            return number
        aged = self._aged.get((number, elapsed))
        if aged is None:
            aged = self._aged[number, elapsed] = self._number(self.moments[number], left - elapsed)
        return aged

    def after(self, moment: Moment, reply: object, wrote: bool) -> Moment:
        """The moment that follows a reply; runs the worker's code when this history is new."""
        known = (repr(reply), wrote)
        child = moment.after.get(known)
        if child is None:
            process = self._parked.pop(id(moment), None) or self._run_to(moment)
            arrived, printed = process.resume(_deliver(reply))
            child = moment.after[known] = Moment(moment, reply, arrived, printed, wrote, self._pauses(arrived))
            self._park(child, process)
        return child

    def would_differ(self, number: int, state: tuple[int, ...]) -> bool:
        """Whether an idle worker's next round would get another reply than the rounds before."""
        if self.comes(number, state):
            return True
        for operation, reply in self.moments[number].round:
            slot = self._slots[operation.store]
            if repr(self._stores[slot].apply(state[slot], operation.request, state[0]).reply) != reply:
                return True
        return False

    def comes(self, number: int, state: tuple[int, ...]) -> bool:
        """Whether what a blocking command waits for is there."""
        slot = self.slot[number]
        operation = self.moments[number].operation
        return self.blocks[number] and self._stores[slot].ready(state[slot], operation.request, state[0])

    # ---- numbers

    def _arrive(self, moment: Moment) -> int:
        """The number of a moment that the worker has just come to."""
        if isinstance(moment.arrived, Ending):
            if moment.arrived.killed:
                return DEAD
            if moment.arrived.error is None:
                self.returned = True
                return FINISHED
            if moment.arrived not in self.raised:
                self.raised.append(moment.arrived)
            return RAISED
        return self._number(moment, self._waits(moment))

    def _number(self, moment: Moment, left: int) -> int:
        number = self._numbers.get((id(moment), left))
        if number is None:
            number = self._numbers[id(moment), left] = len(self.moments)
            operation = moment.operation
            slot = self._slots[operation.store]
            self.moments.append(moment)
            self.left.append(left)
            self.slot.append(slot)
            self.cost.append(self._stores[slot].describe(operation.request).costs)
            self.deepest = max(self.deepest, moment.depth)
            self.blocks.append(operation.store != "clock" and self._waits(moment) != 0)
            self.idle.append(moment.repeats >= self._polls and moment.pauses)
            self.sections.update(moment.step.sections)
        return number

    def _pauses(self, arrived: Step | Ending) -> bool:
        if isinstance(arrived, Ending):
            return False
        store = self._stores[self._slots[arrived.operation.store]]
        is_sleep = arrived.operation.store == "clock" and arrived.operation.request[0] == "sleep"
        return is_sleep or store.waits(arrived.operation.request) > 0

    def _waits(self, moment: Moment) -> int:
        operation = moment.operation
        return self._stores[self._slots[operation.store]].waits(operation.request)

    # ---- processes

    def rehearse(self) -> None:
        """Run a long history once more; `Nondeterminism` when the worker does something else this time."""
        short = [moment for moment in self.moments if moment.depth <= LONGEST_REHEARSAL]
        moment = max(short, key=lambda moment: moment.depth, default=None)
        if moment is not None:
            self._let_go(self._run_to(moment))

    def close(self, collect: bool) -> None:
        """Let go of every stopped process; without `collect` they are kept as a SIGKILL leaves them."""
        for process in self._parked.values():
            if collect:
                self._let_go(process)
            else:
                self._bury(process)
        self._parked.clear()

    def _begin(self) -> tuple[Process, Step | Ending, str]:
        self.runs += 1
        process = self._start()
        return process, *process.resume()

    def _run_to(self, moment: Moment) -> Process:
        process, arrived, _ = self._begin()
        for count, point in enumerate(moment.path()):
            if point.parent is not None:
                arrived, _ = process.resume(_deliver(point.reply))
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

    def _park(self, moment: Moment, process: Process) -> None:
        if process.dead:
            self._release(process)
        elif isinstance(moment.arrived, Ending):
            self._bury(process)  # SIGTERM killed it: no clean-up
        else:
            self._parked[id(moment)] = process
            if len(self._parked) > PARKED_PROCESSES:
                self._let_go(self._parked.popitem(last=False)[1])

    def _let_go(self, process: Process) -> None:
        process.abandon()
        if process.dead:
            self._release(process)


def _deliver(reply: object) -> object:
    """What a process is given: its reply, or what happened instead of one."""
    if reply is LOST:
        return Lost()
    if reply is SIGNAL:
        return Signal()
    return fresh(reply)


__all__ = ["DEAD", "FINISHED", "FOR_EVER", "RAISED", "Machine"]
