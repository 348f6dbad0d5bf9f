"""What is enabled in a state, and what each choice leads to. It decides nothing: searches do.

A state is a tuple of small integers: the state of each store, the moment of each worker, and what is left of
each budget. Two states are the same tuple exactly when nothing that can matter tells them apart.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any, NamedTuple

from labkit.errors import ScenarioError
from labkit.lab import Lab, Scenario
from labkit.machine import DEAD, Machine
from labkit.process import Ending, Process
from labkit.properties import Property
from labkit.schedule import Choice
from labkit.sharing import GlobalsGuard
from labkit.world import World

State = tuple[int, ...]
UNLIMITED = -1


class Move(NamedTuple):
    """One enabled choice: its number, what it adds to the length of a trace (0 or 1), and the state after it."""

    code: int
    cost: int
    state: State


class Engine:
    """One scenario, ready to be walked or searched.

    Parameters
    ----------
    scenario: builds the world.
    crashes: how many workers may be killed in one execution.
    pauses: how often time may pass while a worker could step; None for as often as you like.
    seed: what everything random in workers and stores depends on.
    absolute: whether the time belongs to the state. Without it, a step that reads the clock raises `ClockWasRead`.
    """

    def __init__(
        self, scenario: Scenario, *, crashes: int = 0, pauses: int | None = 0, seed: int = 0, absolute: bool = True
    ) -> None:
        self._check_budgets(scenario, crashes, pauses)
        self._scenario, self._seed = scenario, seed
        self.world = World(seed, absolute)
        self._idle_labs: list[Lab] = []
        root = self._build()
        if not root.workers:
            raise ScenarioError("the scenario has no workers: call `lab.worker(name, function, ...)` in it")
        self.plans = list(root.workers.values())
        self.properties = root.properties
        self._guard = GlobalsGuard([plan.function for plan in self.plans])
        start_stores = tuple(self.world.view)
        self.machines = [self._machine(name, plan.spared) for name, plan in root.workers.items()]
        self.names = [machine.name for machine in self.machines]
        self._first_worker = len(start_stores)
        self._crashes = self._first_worker + len(self.machines)
        self._pauses = self._crashes + 1
        self.clock_code = 2 * len(self.machines)
        budgets = (crashes, UNLIMITED if pauses is None else pauses)
        self.start: State = (*start_stores, *(machine.start_number for machine in self.machines), *budgets)
        self._answers: dict[Any, tuple[str, ...]] = {}
        self._observed: dict[Any, Any] = {}

    # ---- what is enabled, and what it leads to

    def enabled(self, state: State) -> list[int]:
        """The numbers of the enabled choices: steps first, then the clock, then faults."""
        first, machines = self._first_worker, self.machines
        living = [code for code in range(len(machines)) if state[first + code] >= 0]
        steps = [code for code in living if not machines[code].left[state[first + code]]]
        found = list(steps)
        # A spared worker is not paused: while it can step, time stands still.
        may_pass = not steps or (state[self._pauses] and not any(machines[code].spared for code in steps))
        if living and may_pass and self._next_deadline(state) is not None:
            found.append(self.clock_code)
        if state[self._crashes]:
            found += [len(machines) + code for code in living if not machines[code].spared]
        return found

    def take(self, state: State, code: int) -> Move:
        """What an enabled choice leads to."""
        count = len(self.machines)
        if code < count:
            return self._step(state, code)
        if code == self.clock_code:
            return Move(code, 1, self._tick(state))
        after = list(state)
        after[self._first_worker + code - count] = DEAD
        after[self._crashes] -= 1
        return Move(code, 1, tuple(after))

    def moves(self, state: State) -> list[Move]:
        """Every enabled choice with what it leads to."""
        return [self.take(state, code) for code in self.enabled(state)]

    def is_end(self, enabled: Iterable[int]) -> bool:
        """Whether nothing but faults can still happen."""
        return all(len(self.machines) <= code < self.clock_code for code in enabled)

    def _step(self, state: State, code: int) -> Move:
        machine, index = self.machines[code], self._first_worker + code
        number = state[index]
        slot = machine.slot[number]
        key = (number, state[slot], state[0])
        after = list(state)
        after[index], after[slot] = machine.steps.get(key) or machine.step(key)
        return Move(code, machine.cost[number], tuple(after))

    def _next_deadline(self, state: State) -> int | None:
        """How long until a worker wakes or a key expires."""
        wait: int | None = None
        for slot, store in enumerate(self.world.stores):
            left = store.deadline(state[slot])
            if left is not None and (wait is None or left < wait):
                wait = left
        for number, machine in zip(state[self._first_worker :], self.machines, strict=False):
            if number >= 0 and (left := machine.left[number]) and (wait is None or left < wait):
                wait = left
        return wait

    def _tick(self, state: State) -> State:
        """The state at the next deadline."""
        elapsed = self._next_deadline(state)
        assert elapsed is not None
        numbers = state[self._first_worker : self._crashes]
        pairs = list(zip(self.machines, numbers, strict=True))
        paused = any(number >= 0 and not machine.left[number] for machine, number in pairs)
        pauses = state[self._pauses] - (paused and state[self._pauses] != UNLIMITED)
        stores = [store.age(state[slot], elapsed) for slot, store in enumerate(self.world.stores)]
        workers = [machine.age(number, elapsed) if number >= 0 else number for machine, number in pairs]
        return (*stores, *workers, state[self._crashes], pauses)

    # ---- choices and their numbers

    def choice(self, code: int) -> Choice:
        """The choice that a number stands for."""
        count = len(self.machines)
        if code == self.clock_code:
            return Choice("clock")
        return Choice("step" if code < count else "crash", self.names[code % count])

    def number_of(self, state: State, worker: int) -> int:
        """The number of a worker's moment in a state; negative once it takes no step again."""
        return state[self._first_worker + worker]

    # ---- properties

    def broken(self, state: State, end: bool) -> tuple[str, ...]:
        """The names of the properties that do not hold in a state; those `at_end` only at an end."""
        insides, key = self._view(state)
        answer = self._answers.get((key, end))
        if answer is None:
            asked = [p for p in self.properties if p.remember is None and (end or p.kind == "always")]
            with self.world.looking_at(state, insides):
                answer = tuple(prop.name for prop in asked if not prop.holds())
            self._answers[key, end] = answer
        return answer

    def broken_by(self, before: State, after: State) -> tuple[str, ...]:
        """The names of the remembering properties that a step between two states breaks."""
        names = []
        for prop in self.properties:
            if prop.remember is not None:
                values = self._observe(prop, before), self._observe(prop, after)
                with self.world.looking_at(after, self._view(after)[0]):
                    if not prop.holds(*values):
                        names.append(prop.name)
        return tuple(names)

    @property
    def remembers(self) -> bool:
        """Whether any property needs the observer's value before a step."""
        return any(prop.remember is not None for prop in self.properties)

    def _observe(self, prop: Property, state: State) -> Any:
        insides, key = self._view(state)
        known = (prop.name, key)
        if known not in self._observed:
            with self.world.looking_at(state, insides):
                self._observed[known] = prop.observe()
        return self._observed[known]

    def _view(self, state: State) -> tuple[dict[str, int], Any]:
        """What properties can see of a state, and a key for it: the stores and who is inside which section."""
        stores = state[: self._first_worker]
        if not any(machine.has_sections for machine in self.machines):
            return {}, stores
        insides: dict[str, int] = {}
        for code, machine in enumerate(self.machines):
            number = state[self._first_worker + code]
            for section in machine.sections[number] if number >= 0 else ():
                insides[section] = insides.get(section, 0) + 1
        return insides, (stores, tuple(sorted(insides.items())))

    # ---- building and letting go

    def _build(self) -> Lab:
        lab = self._idle_labs.pop() if self._idle_labs else Lab(self.world)
        lab._rewind()
        with self.world.building():
            self._scenario(lab)
        return lab

    def _machine(self, name: str, spared: bool) -> Machine:
        labs: dict[int, Lab] = {}

        def start() -> Process:
            lab = self._build()
            process = Process(name, lab.workers[name].code(), random.Random(f"{self._seed}:{name}"))
            labs[id(process)] = lab
            return process

        def release(process: Process) -> None:
            self._idle_labs.append(labs.pop(id(process)))

        return Machine(name, spared, start, release, self.world.stores, self.world.slots)

    def outcome(self, state: State) -> tuple[Any, ...]:
        """A state as plain, comparable data: what every store holds, and how every worker stands."""
        stores = tuple(store.contents(state[slot]) for slot, store in enumerate(self.world.stores) if slot)
        return stores, tuple(min(number, 0) for number in state[self._first_worker : self._crashes])

    def raised(self) -> dict[str, Ending]:
        """The workers that ended with an exception in some schedule, and the first such ending of each."""
        return {machine.name: machine.raised[0] for machine in self.machines if machine.raised}

    def check_globals(self) -> None:
        """`ScenarioError` when a worker changed a global variable."""
        self._guard.check()

    def close(self, collect: bool = True) -> None:
        """Let go of all processes; without `collect` they stay as a SIGKILL leaves them."""
        for machine in self.machines:
            machine.close(collect)

    @staticmethod
    def _check_budgets(scenario: object, crashes: object, pauses: object) -> None:
        if not callable(scenario):
            raise ScenarioError(f"a scenario is a function that takes a Lab, not {type(scenario).__name__}")
        if not isinstance(crashes, int) or isinstance(crashes, bool) or crashes < 0:
            raise ScenarioError(f"crashes is a number of crashes, 0 or more, not {crashes!r}")
        if pauses is not None and (not isinstance(pauses, int) or isinstance(pauses, bool) or pauses < 0):
            raise ScenarioError(f"pauses is a number of pauses, 0 or more, or None for any number, not {pauses!r}")
