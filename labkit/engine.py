"""What is enabled in a state, and what each choice leads to. It decides nothing: searches do.

A state is a tuple of small integers: the state of each store, the moment of each worker, and what is left of
each budget. Two states are the same tuple exactly when nothing that can matter tells them apart.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Iterable
from typing import NamedTuple

from labkit.actor import Ending
from labkit.budgets import Budgets
from labkit.codes import Codes
from labkit.errors import ScenarioError
from labkit.judge import Judge
from labkit.lab import Lab, Scenario
from labkit.machine import DEAD, Machine
from labkit.moment import JUMP, SIGNAL, Moment
from labkit.process import MAIN, Process
from labkit.runs import Runs
from labkit.schedule import FAULTS, Choice, Schedule
from labkit.sharing import Guard, refuse_shared_variables
from labkit.symmetry import Symmetry
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
    budgets: what may go wrong in one execution.
    seed: what everything random in workers and stores depends on.
    absolute: whether the time belongs to the state. Without it, a step that reads the clock raises `ClockWasRead`.
    apart: why all workers are told apart, or None to take those that do the same for one another; see `Symmetry`.
    """

    def __init__(
        self,
        scenario: Scenario,
        budgets: Budgets | None = None,
        *,
        seed: int = 0,
        absolute: bool = True,
        apart: str | None = "not asked for",
    ) -> None:
        if not callable(scenario):
            raise ScenarioError(f"a scenario is a function that takes a Lab, not {type(scenario).__name__}")
        try:
            inspect.signature(scenario).bind(None)
        except TypeError as error:
            raise ScenarioError("a scenario is called with one argument, a Lab: write `def scenario(lab):`") from error
        if not isinstance(seed, int):
            raise ScenarioError(f"seed is a number, not {seed!r}")
        self.budgets = budgets or Budgets()
        self._scenario, self._seed = scenario, seed
        self.world = World(seed, absolute)
        self._idle_labs: list[Lab] = []
        root = self._build()
        if not root.workers:
            raise ScenarioError("the scenario has no workers: call `lab.worker(name, function, ...)` in it")
        self.plans = list(root.workers.values())
        self.properties = tuple(root.properties)
        checks = [function for prop in root.properties for function in (prop.check, prop.remember) if function]
        self.world.deadlines = tuple(root.deadline_observers)
        self._guard = Guard([plan.function for plan in self.plans], checks)
        for plan in self.plans:
            for prop in root.properties:
                refuse_shared_variables(prop.name, prop.check, plan.name, (plan.function, *plan.arguments))
        start_stores = tuple(self.world.view)
        self.names = list(root.workers)
        count = len(self.names)
        self.first_worker = len(start_stores)  # its place in a state: what stands before are the stores
        runs = map(self._runs, self.names)
        self.symmetry = Symmetry(self.plans, runs, self._machine, self.first_worker, apart)
        self.machines = self.symmetry.machines
        self._budget = {kind: self.first_worker + count + place for place, kind in enumerate(("clock", *FAULTS))}
        self.codes = Codes(count)
        self.clock_code = self.codes.clock
        signals = sum(plan.signals for plan in self.plans)
        limits = {
            "clock": UNLIMITED if self.budgets.pauses is None else self.budgets.pauses,
            "crash": self.budgets.crashes,
            "lose": self.budgets.lost_replies,
            "signal": signals if self.budgets.signals is None else min(signals, self.budgets.signals),
            "jump": self.budgets.jumps,
            "failover": self.budgets.failovers,
        }
        if self.budgets.failovers:
            self.world.follow_with_a_replica(root.replica_lag)
        workers = (machine.start_number for machine in self.machines)
        self.start: State = (*start_stores, *workers, *(limits[kind] for kind in self._budget))
        self.judge = Judge(root.properties, self.world, self.machines, self.first_worker)

    # ---- what is enabled, and what it leads to

    def enabled(self, state: State) -> list[int]:
        """The numbers of the enabled choices: steps first, then the clock, then faults."""
        plans, codes = self.plans, self.codes
        living = [worker for worker in range(len(plans)) if state[self.first_worker + worker] >= 0]
        able = [(worker, actor) for worker in living for actor in self._able(state, worker)]
        found = [worker if actor == MAIN else codes.number("step", worker, actor) for worker, actor in able]
        # A spared worker is not paused: while it can step, time stands still.
        may_pass = not able or (state[self._budget["clock"]] and not any(plans[worker].spared for worker, _ in able))
        if living and may_pass and self._next_deadline(state) is not None:
            found.append(self.clock_code)
        if state[self._budget["crash"]]:
            found += [codes.number("crash", worker) for worker in living if not plans[worker].spared]
        if state[self._budget["lose"]]:
            exposed = [(worker, actor) for worker, actor in able if not plans[worker].spared]
            found += [codes.number("lose", *each) for each in exposed if self._can_lose(state, *each)]
        if state[self._budget["signal"]]:
            reachable = [worker for worker in living if plans[worker].signals]
            found += [codes.number("signal", worker) for worker in reachable if not self._had(state, worker, SIGNAL)]
        if state[self._budget["jump"]]:
            loose = [worker for worker in living if plans[worker].jump]
            found += [codes.number("jump", worker) for worker in loose if not self._had(state, worker, JUMP)]
        if state[self._budget["failover"]] and living:
            found.append(codes.failover)
        return found

    def _had(self, state: State, worker: int, word: object) -> bool:
        """Whether a living worker has been interrupted in this way before: each has it once."""
        return word in self.moment_of(state, worker).interrupted

    def take(self, state: State, code: int) -> Move:
        """What an enabled choice leads to."""
        if code == self.clock_code:
            return Move(code, 1, self._tick(state))
        if code < len(self.machines):
            return self._step(state, code, code, MAIN)
        if code == self.codes.failover:
            return Move(code, 1, self._failover(state))
        kind, worker, actor = self.codes.meaning(code)
        if kind == "step":
            return self._step(state, code, worker, actor)
        after = list(state)
        machine, index = self.machines[worker], self.first_worker + worker
        number = state[index]
        after[self._budget[kind]] -= 1
        if kind == "crash":
            after[index] = DEAD
        elif kind in ("signal", "jump"):
            after[index] = machine.interrupt(number, SIGNAL if kind == "signal" else JUMP)
        else:
            slot, request = machine.pending_of(number, actor).slot, self.moment_of(state, worker).operation_of(actor)[1]
            store = self.world.stores[slot]
            outcome = store.apply(state[slot], request, state[0])
            after[slot] = store.hang_up(outcome.state, getattr(request, "connection", ""))
            after[index] = machine.lose(number, actor)
        if after[index] < 0:
            self._hang_up(after, worker)
        return Move(code, 1, tuple(after))

    def moves(self, state: State) -> list[Move]:
        """Every enabled choice with what it leads to."""
        return [self.take(state, code) for code in self.enabled(state)]

    def is_end(self, enabled: Iterable[int]) -> bool:
        """Whether nothing but faults can still happen."""
        return all(map(self.codes.is_fault, enabled))

    def _step(self, state: State, code: int, worker: int, actor: int) -> Move:
        machine, index = self.machines[worker], self.first_worker + worker
        number = state[index]
        pending = machine.pending_of(number, actor)
        key = (number, actor, state[pending.slot], state[0])
        after = list(state)
        after[index], after[pending.slot] = machine.steps.get(key) or machine.step(key)
        if after[index] < 0:
            self._hang_up(after, worker)
        return Move(code, pending.cost, tuple(after))

    def _hang_up(self, after: list[int], worker: int) -> None:
        """The server drops the connections of a process that is gone."""
        for slot, store in enumerate(self.world.stores):
            after[slot] = store.hang_up(after[slot], f"{self.names[worker]}/")

    def _able(self, state: State, worker: int) -> tuple[int, ...]:
        """The actors of a living worker that can step."""
        return self.machines[worker].able(state[self.first_worker + worker], state)

    def _can_lose(self, state: State, worker: int, actor: int) -> bool:
        machine, number = self.machines[worker], self.number_of(state, worker)
        return machine.pending_of(number, actor).slot != 0  # the clock's replies do not travel

    def _next_deadline(self, state: State) -> int | None:
        """How long until a worker wakes, a key expires, or a deadline comes that lives in data."""
        waits = [store.deadline(state[slot]) for slot, store in enumerate(self.world.stores)]
        waits.append(self.world.declared_deadline(state))
        pairs = zip(state[self.first_worker :], self.machines, strict=False)
        waits += [machine.wakes(number, state) for number, machine in pairs if number >= 0]
        return min((wait for wait in waits if wait is not None), default=None)

    def _failover(self, state: State) -> State:
        """The state after a replica has taken over from the Redis server."""
        after = list(state)
        after[self._budget["failover"]] -= 1
        slot = self.world.slots["redis"]
        after[slot] = self.world.redis.failover(state[slot])
        return tuple(after)

    def _tick(self, state: State) -> State:
        """The state at the next deadline."""
        elapsed = self._next_deadline(state)
        assert elapsed is not None
        count = len(self.machines)
        workers = list(state[self.first_worker : self.first_worker + count])
        paused = any(number >= 0 and self._able(state, worker) for worker, number in enumerate(workers))
        after = [store.age(state[slot], elapsed) for slot, store in enumerate(self.world.stores)]
        after += [number if number < 0 else self.machines[w].age(number, elapsed) for w, number in enumerate(workers)]
        after += state[self.first_worker + count :]
        place = self._budget["clock"]
        if paused and after[place] != UNLIMITED:
            after[place] -= 1
        return tuple(after)

    # ---- choices and their numbers

    def choice(self, state: State, code: int) -> Choice:
        """The choice that a number stands for in a state in which it is enabled."""
        if code == self.clock_code:
            return Choice("clock")
        if code == self.codes.failover:
            return Choice("failover")
        kind, worker, actor = self.codes.meaning(code)
        return Choice(kind, self.name_of(state, worker, actor))

    def schedule(self, codes: Iterable[int]) -> Schedule:
        """The choices that numbers stand for, taken one after another from the start."""
        state, choices = self.start, []
        for code in codes:
            choices.append(self.choice(state, code))
            state = self.take(state, code).state
        return Schedule(choices)

    def name_of(self, state: State, worker: int, actor: int) -> str:
        """A worker's name, or that of one of its threads: `A/heartbeat`."""
        name = self.names[worker]
        return name if actor == MAIN else f"{name}/{self.moment_of(state, worker).situation.names[actor]}"

    def number_of(self, state: State, worker: int) -> int:
        """The number of a worker's moment in a state; negative once it takes no step again."""
        return state[self.first_worker + worker]

    def is_alive(self, state: State, worker: int) -> bool:
        """Whether a worker may still take a step."""
        return self.number_of(state, worker) >= 0

    def moment_of(self, state: State, worker: int) -> Moment:
        """The moment at which a living worker stands."""
        return self.machines[worker].moments[self.number_of(state, worker)]

    # ---- building and letting go

    def _build(self) -> Lab:
        lab = self._idle_labs.pop() if self._idle_labs else Lab(self.world)
        lab.rewind()
        with self.world.building():
            self._scenario(lab)
        return lab

    def _machine(self, runs: Runs) -> Machine:
        return Machine(runs, self.world.stores, self.world.slots, self.budgets.polls)

    def _runs(self, name: str) -> Runs:
        labs: dict[int, Lab] = {}

        def start() -> Process:
            lab = self._build()
            plan = lab.workers[name]
            process = Process(name, plan.code(), random.Random(f"{self._seed}:{name}"), plan.skew, plan.jump)
            labs[id(process)] = lab
            return process

        def release(process: Process) -> None:
            self._idle_labs.append(labs.pop(id(process)))

        def bury(process: Process) -> None:
            process.keep_for_ever()
            labs.pop(id(process)).retire()

        return Runs(name, start, release, bury, self.world.stores, self.world.slots)

    def raised(self) -> dict[str, Ending]:
        """The workers that ended with an exception in some schedule, and the first such ending of each."""
        pairs = zip(self.names, self.machines, strict=True)
        return {name + thread: ending for name, machine in pairs for thread, ending in machine.raised.items()}

    def sections(self) -> set[str]:
        """The critical sections that any worker enters."""
        return {section for machine in self.machines for section in machine.sections}

    def deepest(self) -> int:
        """The most steps that any worker took in one execution."""
        return max(machine.deepest for machine in self.machines)

    def is_cut(self, state: State) -> bool:
        """Whether an end is none: a worker was left alone while it polls, and might give up one day."""
        cut = False
        for worker, (machine, plan) in enumerate(zip(self.machines, self.plans, strict=True)):
            if self.is_alive(state, worker) and machine.is_idle(self.number_of(state, worker)) and not plan.forever:
                cut = machine.skipped_polls = True
        return cut

    def has_idle(self) -> bool:
        """Whether any worker was left alone while it polls."""
        return any(machine.is_idle(number) for machine in self.machines for number in range(len(machine.moments)))

    def left_waiting(self, state: State) -> dict[int, str]:
        """For each worker that has not ended, by its place, what it waits for."""
        found = {}
        for worker, machine in enumerate(self.machines):
            number = self.number_of(state, worker)
            if number >= 0:
                store, request = machine.moments[number].operation
                text = self.world.stores[self.world.slots[store]].describe(request).text
                found[worker] = f"polls in vain, then {text}" if machine.is_idle(number) else text
        return found

    def skipped_polls(self) -> list[str]:
        """The workers whose polling was cut short although the scenario does not say that they go on for ever."""
        pairs = zip(self.machines, self.plans, strict=True)
        return [plan.name for machine, plan in pairs if machine.skipped_polls and not plan.forever]

    def check_python_state(self) -> None:
        """`ScenarioError` when a worker or a check changed Python state that outlives a run."""
        self._guard.check()

    def close(self, collect: bool = True) -> None:
        """Let go of all processes; without `collect` they stay as a SIGKILL leaves them."""
        for machine in self.machines:
            machine.close(collect)
