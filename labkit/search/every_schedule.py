"""`explore`: a verdict on every schedule of a scenario, within stated budgets."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import nullcontext

from labkit.budgets import Budgets
from labkit.engine import Engine
from labkit.errors import Nondeterminism, ScenarioError
from labkit.execution import replay
from labkit.interception import intercepted
from labkit.lab import Scenario
from labkit.runs import WorkersDiffer
from labkit.search.breadth_first import BreadthFirst, Found
from labkit.search.fewest_switches import shortest_way
from labkit.search.limits import Limits
from labkit.search.other_ways import other_ways
from labkit.search.spread import Spread
from labkit.stores.clock import ClockWasRead
from labkit.trace import Trace
from labkit.verdict import Bounds, Verdict

_real_clock = time.perf_counter


def explore(
    scenario: Scenario,
    *,
    crashes: int = 0,
    lost_replies: int = 0,
    signals: int | None = None,
    pauses: int | None = 0,
    polls: int = 3,
    jumps: int = 0,
    failovers: int = 0,
    seed: int = 0,
    max_states: int = 500_000,
    max_seconds: float | None = None,
    max_megabytes: float | None = None,
    executor: Executor | None = None,
    symmetry: bool = True,
    others: int = 0,
) -> Verdict:
    """Search every schedule within the budgets, and answer with shortest counterexamples.

    Parameters
    ----------
    scenario: builds the world.
    crashes: how many workers may be killed in one execution, between any two of their steps.
    lost_replies: how many requests may take effect without their reply arriving; the client sees a time-out.
    signals: how many workers may get SIGTERM, among those added with `signals=1`; None for all of them.
    pauses: how often time may pass while a worker could step (that worker is paused); None for as often as you
        like. With 0, time passes only when no worker can step.
    polls: after how many unchanged rounds a polling worker is left alone until something would be new to it.
        If that cuts short a worker that is not `forever`, the outcome is `undetermined` at best. A round that is
        left out is not paused and loses no reply: where that matters, give more polls.
    jumps: how many workers' wall clocks may jump, among those added with `jump=SECONDS`.
    failovers: how often a replica may take over from Redis, without the last writes; see `lab.replica`.
    seed: what everything random in the workers depends on.
    max_states: how many distinct states to see at most; a search cut short is `undetermined` at best.
    max_seconds, max_megabytes: how much real time, and how much memory for the whole process, to use at most.
        Outcomes then depend on the machine; notebooks avoid it.
    executor: spreads the search over its processes, such as a `concurrent.futures.ProcessPoolExecutor` or a Dask
        client's `get_executor()`. The verdict is the same. They must be able to load the scenario: write it with
        `def` at the top level of a module, or install cloudpickle. Their memory is not counted.
    symmetry: whether workers are taken for one another that do the same whenever they have had the same replies. States
        that differ only in which of them is which then count as one. Outcomes and counterexamples are the same.
    others: for each violated property, up to how many more shortest counterexamples to give in `verdict.others`, each
        with another order of the workers' commands.

    Interrupting it (Ctrl-C, or the stop button) gives a verdict with what was found so far.
    """
    limits = Limits.of(max_states, max_seconds, max_megabytes)
    if executor is not None and not isinstance(executor, Executor):
        raise ScenarioError(
            f"executor is a concurrent.futures.Executor, not {type(executor).__name__}; a Dask client has one: "
            "client.get_executor()"
        )
    if not isinstance(others, int) or isinstance(others, bool) or others < 0:
        raise ScenarioError(f"others is a number of counterexamples, 0 or more, not {others!r}")
    budgets = Budgets(crashes, lost_replies, signals, pauses, polls, jumps, failovers)
    started = _real_clock()

    def search(engine: Engine) -> BreadthFirst:
        if executor is None:
            return BreadthFirst(engine, limits)
        return Spread(engine, limits, executor, scenario)

    # Other threads, such as those of an executor, need their turn while a spread search waits for them.
    with intercepted() if executor is None else nullcontext():
        try:
            return _explore(scenario, budgets, seed, search, symmetry, others, absolute=False, started=started)
        except ClockWasRead:
            # A step reads the clock as a value: from here on, the time belongs to the state.
            return _explore(scenario, budgets, seed, search, symmetry, others, absolute=True, started=started)


def _explore(
    scenario: Scenario,
    budgets: Budgets,
    seed: int,
    search: Callable[[Engine], BreadthFirst],
    symmetry: bool,
    others: int,
    absolute: bool,
    started: float,
) -> Verdict:
    apart = None if symmetry else "symmetry=False"
    with intercepted():
        engine = Engine(scenario, budgets, seed=seed, absolute=absolute, apart=apart)
    try:
        while True:
            try:
                found = search(engine).run()
                with intercepted():
                    return _verdict(scenario, engine, found, others, started)
            except WorkersDiffer as difference:
                with intercepted():
                    engine.symmetry.tell_apart(str(difference))
    finally:
        with intercepted():
            engine.close()


def _verdict(scenario: Scenario, engine: Engine, found: Found, others: int, started: float) -> Verdict:
    for machine in dict.fromkeys(engine.machines):
        machine.rehearse()
    engine.check_python_state()
    ways = _shortest_ways(engine, found, others)
    traces = {name: [_replayed(scenario, engine, name, way) for way in each] for name, each in ways.items()}
    violations = {name: each[0] for name, each in traces.items()}
    skipped, raised = engine.skipped_polls(), engine.raised()
    lost = tuple(name for name, machine in zip(engine.names, engine.machines, strict=True) if not machine.returned)
    finite = [plan.name for plan in engine.plans if not plan.forever]
    failed = bool(finite) and all(name in lost and name in raised for name in finite)
    return Verdict(
        _outcome(found, violations, skipped, failed),
        tuple(prop.name for prop in engine.properties),
        violations,
        len(found.depths),
        found.transitions,
        len(found.ends),
        _real_clock() - started,
        Bounds.of(engine, engine.world.seed),
        found.stopped,
        found.unvisited,
        raised,
        lost,
        tuple(sorted(engine.world.asked - engine.sections())) if found.stopped is None else (),
        tuple(skipped),
        _left_waiting(engine, found),
        _name_of(scenario),
        {name: tuple(each[1:]) for name, each in traces.items() if each[1:]},
    )


def _name_of(scenario: Scenario) -> str:
    """The scenario's name, if it has one that can be written down."""
    name = getattr(scenario, "__name__", "")
    return name if name.isidentifier() else "scenario"


def _left_waiting(engine: Engine, found: Found) -> dict[str, str]:
    """The workers that an execution left waiting at its end, and what for; the first such end tells."""
    waiting: dict[str, str] = {}
    for state in found.ends:
        for worker, what in engine.left_waiting(state).items():
            for other in engine.symmetry.members(worker):  # what befalls one befalls the others in other ends
                waiting.setdefault(engine.names[other], what)
    return waiting


def _outcome(found: Found, violations: dict[str, Trace], skipped: list[str], failed: bool) -> str:
    if violations:
        return "violated"
    # Workers that all fail break nothing, and do nothing: to call that `holds` would mislead.
    return "undetermined" if found.stopped is not None or skipped or not found.ends or failed else "holds"


def _shortest_ways(engine: Engine, found: Found, others: int) -> dict[str, list[list[int]]]:
    """For each violated property, in the scenario's order, a shortest way, and up to so many others."""
    ways = {}
    for prop in engine.properties:
        if prop.name in found.targets:
            length, targets = found.targets[prop.name]
            shown = shortest_way(engine, found.depths, length, targets)
            more = other_ways(engine, found.depths, length, targets, shown, others) if others else []
            ways[prop.name] = [shown, *more]
    return ways


def _replayed(scenario: Scenario, engine: Engine, name: str, codes: list[int]) -> Trace:
    """A counterexample, executed again before it is shown."""
    schedule = engine.schedule(codes)
    trace = replay(scenario, schedule, seed=engine.world.seed, polls=engine.budgets.polls)
    if all(broken.property != name for broken in trace.violations):
        raise Nondeterminism(f"the schedule {schedule} violated {name!r} in the search but not when replayed")
    return trace
