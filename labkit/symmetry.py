"""Workers that are taken for one another: a state says where they stand, and which of them stands where is no matter.

Source: C. N. Ip, D. L. Dill, "Better verification through symmetry", Formal Methods in System Design 9 (1996). There a
program declares what is symmetric. Departure: here it is observed. Workers that begin alike share one machine, and each
history that any of them comes to is run with the code of all of them (`Runs.after`). So whatever tells a worker apart
(its name, an argument, what it draws at random, the name of a connection) is found out when it shows in what it does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter

from labkit.lab import WorkerPlan
from labkit.machine import Machine
from labkit.runs import Runs

State = tuple[int, ...]


class Symmetry:
    """Which workers of one engine are taken for one another.

    Parameters
    ----------
    plans: what the scenario says of each worker.
    runs: the runs of each worker.
    machine_of: makes a machine of runs.
    first_worker: the place of the first worker's moment in a state.
    apart: why all workers are told apart, in a few words; None to take those that do the same for one another.
    """

    def __init__(
        self,
        plans: Sequence[WorkerPlan],
        runs: Iterable[Runs],
        machine_of: Callable[[Runs], Machine],
        first_worker: int,
        apart: str | None,
    ) -> None:
        self._plans, self._runs, self._machine_of, self._first_worker = plans, list(runs), machine_of, first_worker
        self.machines: list[Machine] = []  # by worker; those taken for one another have the same one
        kinds = [(plan.options, own.first.situation) for plan, own in zip(plans, self._runs, strict=True)]
        self._group(kinds if apart is None else range(len(plans)))
        self.apart = self._why_apart() if apart is None and not self.groups else apart

    def tell_apart(self, why: str) -> None:
        """Give each worker a machine of its own, after `WorkersDiffer`; the search must start again."""
        self._group(range(len(self._plans)))
        self.apart = why

    def _group(self, kinds: Sequence[object]) -> None:
        """Give workers of one kind one machine."""
        leaders = [kinds.index(kind) for kind in kinds]
        self._members = [[other for other, its in enumerate(leaders) if its == leader] for leader in leaders]
        self.groups = [group for leader, group in enumerate(self._members) if group[0] == leader and len(group) > 1]
        for worker, group in enumerate(self._members):
            self._runs[worker].follow_with([self._runs[other] for other in group[1:] if group[0] == worker])
        machines = {leader: self._machine_of(self._runs[leader]) for leader in dict.fromkeys(leaders)}
        self.machines[:] = [machines[leader] for leader in leaders]
        # For each group: its places in a state, what takes its numbers from there, and their order. The order is one of
        # histories, not of numbers, so that a search that other processes take part in sees the same states.
        places = [[self._first_worker + worker for worker in group] for group in self.groups]
        ranks = [self.machines[group[0]].ranks.__getitem__ for group in self.groups]
        self._sorting = [(its, itemgetter(*its), rank) for its, rank in zip(places, ranks, strict=True)]

    def _why_apart(self) -> str:
        """What tells workers apart that the scenario gives the same function."""
        for worker, plan in enumerate(self._plans):
            for other, its in enumerate(self._plans[:worker]):
                if plan.function is its.function and plan.options == its.options:
                    one, two = self._runs[other], self._runs[worker]
                    return one.difference(one.first.situation, two, two.first.situation)
        return "no two workers have the same function and options"

    def __str__(self) -> str:
        return "on" if self.apart is None else f"off: {self.apart}"

    def members(self, worker: int) -> list[int]:
        """The workers that a worker is taken for, itself among them."""
        return self._members[worker]

    def canonical(self, state: State) -> State:
        """One and the same state for all that differ only in which of those workers is which."""
        if not self.groups:
            return state
        after = list(state)
        for places, numbers_of, rank in self._sorting:
            for place, number in zip(places, sorted(numbers_of(state), key=rank), strict=False):
                after[place] = number
        return tuple(after)
