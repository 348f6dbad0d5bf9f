"""Runs a worker's code: once for each new history of replies, and again only to go on from an old one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

from labkit.actor import Jump, Lost, Signal, Step
from labkit.errors import Nondeterminism
from labkit.moment import JUMP, LOST, SIGNAL, Link, Moment
from labkit.process import MAIN, Process, Situation
from labkit.stores.base import Store, fresh


class WorkersDiffer(Exception):
    """Workers that began alike do different things: the search must start again, and tell them apart."""


# How many stopped processes are kept, so that going on costs no run from the start.
PARKED_PROCESSES = 128


class Runs:
    """The runs of one worker.

    Parameters
    ----------
    name: the worker's name.
    start: makes a fresh process of the worker.
    release: told when a process came to its end, so that what it was built from can serve again.
    bury: keeps a killed process as it is, for ever.
    stores: the stores by slot, and the slot of each store's name.
    """

    def __init__(
        self,
        name: str,
        start: Callable[[], Process],
        release: Callable[[Process], None],
        bury: Callable[[Process], None],
        stores: Sequence[Store],
        slots: dict[str, int],
    ) -> None:
        self.name = name
        self._start, self._release, self._bury = start, release, bury
        self._stores, self._slots = stores, slots
        self.begun = 0  # how often the worker's code was started
        self._parked: OrderedDict[int, Process] = OrderedDict()
        self._followers: list[Runs] = []
        process = self._begin()
        situation, printed = process.resume()
        # The moment at which the worker takes its first step.
        self.first = Moment(None, MAIN, None, situation, printed, pauses=self._pauses(situation, MAIN))
        self._park(self.first, process)

    def follow_with(self, others: list[Runs]) -> None:
        """Let other workers, that began alike, follow wherever this one goes, instead of those that did before."""
        for other in self._followers:
            other.close(collect=True)
        for other in others:
            other._parked = OrderedDict((id(self.first), process) for process in other._parked.values())
        self._followers = others

    def after(self, moment: Moment, actor: int, reply: object, wrote: bool) -> Moment:
        """The moment that follows a reply to an actor; runs the worker's code when this history is new.

        `WorkersDiffer` when another worker that joined does something else.
        """
        known = (actor, repr(reply), wrote)
        child = moment.after.get(known)
        if child is None:
            process = self._parked.pop(id(moment), None) or self._run_to(moment)
            situation, printed = process.resume(_deliver(reply), actor)
            pauses = self._pauses(situation, actor)
            child = moment.after[known] = Moment(moment, actor, reply, situation, printed, wrote, pauses)
            self._park(child, process)
            for other in self._followers:
                other._follow(self, moment, child)
        return child

    def adopt(self, parent: Moment | None, link: Link) -> Moment:
        """The moment that another process describes; the worker's code need not run here for it.

        `Nondeterminism` when the code did something else here.
        """
        actor, reply, wrote, steps, rest = link
        situation = Situation(tuple(step and Step(step[0], None, step[1]) for step in steps), *rest)
        known = (actor, repr(reply), wrote)
        moment = self.first if parent is None else parent.after.get(known)
        if moment is None:
            assert parent is not None
            moment = Moment(parent, actor, reply, situation, "", wrote, self._pauses(situation, actor))
            parent.after[known] = moment
        else:
            self._compare(moment.depth + 1, situation, moment.situation)
        return moment

    def _follow(self, leader: Runs, moment: Moment, child: Moment) -> None:
        """Go from moment to moment as the leader did."""
        process = self._parked.pop(id(moment), None) or self._run_to(moment)
        situation, _ = process.resume(_deliver(child.reply), child.actor)
        if situation != child.situation:
            self._let_go(process)
            raise WorkersDiffer(leader.difference(child.situation, self, situation))
        self._park(child, process)

    def difference(self, situation: Situation, other: Runs, its: Situation) -> str:
        """How this worker and another differ that seemed to be alike, in a few words."""
        mine, theirs = self._show(situation), other._show(its)
        if mine != theirs:
            return f"{self.name} comes to {mine!r} and {other.name} to {theirs!r}"
        how = "at different places" if _outline(situation) == _outline(its) else "under other names"
        return f"{self.name} and {other.name} come to {mine!r} {how}"

    def standing_at(self, moment: Moment) -> Process:
        """A process that stands at a moment at which the worker has not ended, to be looked at and left as it is."""
        process = self._parked.get(id(moment))
        if process is None:
            process = self._run_to(moment)
            self._park(moment, process)
        return process

    def rehearse(self, moment: Moment) -> None:
        """Run a history once more; `Nondeterminism` when the worker does something else this time."""
        for runs in (self, *self._followers):
            runs._let_go(runs._run_to(moment))

    def close(self, collect: bool) -> None:
        """Let go of every stopped process; without `collect` they are kept as a SIGKILL leaves them."""
        for process in self._parked.values():
            if collect:
                self._let_go(process)
            else:
                self._bury(process)
        self._parked.clear()
        for other in self._followers:
            other.close(collect)

    def _pauses(self, situation: Situation, actor: int) -> bool:
        """Whether an actor's next operation waits, but not for ever."""
        step = None if situation.ending is not None else situation.steps[actor]
        if step is None:
            return False
        store, request = self._stores[self._slots[step.operation.store]], step.operation.request
        is_sleep = step.operation.store == "clock" and request[0] == "sleep"
        return is_sleep or store.waits(request) > 0

    def _begin(self) -> Process:
        self.begun += 1
        return self._start()

    def _run_to(self, moment: Moment) -> Process:
        process = self._begin()
        for count, point in enumerate(moment.path(), 1):
            situation, _ = (
                process.resume() if point.parent is None else process.resume(_deliver(point.reply), point.actor)
            )
            self._compare(count, point.situation, situation)
        return process

    def _compare(self, count: int, before: Situation, now: Situation) -> None:
        if _outline(before) == _outline(now):
            return
        old, new = self._show(before), self._show(now)
        stopped = [step for step in (*now.steps, *before.steps) if step is not None and step.line is not None]
        line = stopped[0].line if stopped else None
        raise Nondeterminism(
            f"worker {self.name} behaves differently when it is run again with the same replies: its step {count} was "
            f"{old!r} and now is {new!r}" + (f", at {line}" if line else "") + ". Look for "
            "a global or shared object that it changes, for iteration over a set, or for an unseeded random generator."
        )

    def _show(self, situation: Situation) -> str:
        if situation.ending is not None:
            return str(situation.ending)
        operations = [step.operation for step in situation.steps if step is not None]
        return " | ".join(
            self._stores[self._slots[operation.store]].describe(operation.request).text for operation in operations
        )

    def _park(self, moment: Moment, process: Process) -> None:
        if process.dead:
            self._release(process)
        elif moment.situation.ending is not None:
            self._bury(process)  # SIGTERM killed it: no clean-up
        else:
            self._parked[id(moment)] = process
            if len(self._parked) > PARKED_PROCESSES:
                self._let_go(self._parked.popitem(last=False)[1])

    def _let_go(self, process: Process) -> None:
        process.abandon()
        if process.dead:
            self._release(process)


def _outline(situation: Situation) -> object:
    """What must be the same when a worker runs again with the same replies."""
    operations = tuple(step and step.operation for step in situation.steps)
    return situation.ending or (operations, situation.names, situation.woken)


def _deliver(reply: object) -> object:
    """What a process is given: its reply, or what happened instead of one."""
    if reply is LOST:
        return Lost()
    if reply is SIGNAL:
        return Signal()
    if reply is JUMP:
        return Jump()
    return fresh(reply)
