"""Turns a choice that was taken into the event that a trace shows."""

from __future__ import annotations

from typing import Any

from labkit.engine import Engine, Move, State
from labkit.moment import JUMP, LOST, SIGNAL, Moment
from labkit.trace import Event
from labkit.words import in_seconds


def event_of(engine: Engine, before: State, move: Move, number: int) -> Event:
    """What a choice did.

    Parameters
    ----------
    engine: where it was taken; made with absolute time.
    before: the state in which it was taken.
    move: the choice, and the state after it.
    number: its place in the schedule, from 1.
    """
    choice = engine.choice(before, move.code)
    if choice.kind == "clock":
        details = _time_passed(engine, before, move.state)
    elif choice.kind == "failover":
        details = _failed_over(engine, before, move.state)
    elif choice.kind == "crash":
        details = {"kind": "crash", "text": "is killed"}
    elif choice.kind in ("signal", "jump"):
        _, worker, actor = engine.codes.meaning(move.code)
        moment = engine.moment_of(before, worker)
        word, text = (SIGNAL, "gets SIGTERM") if choice.kind == "signal" else (JUMP, _jumped(engine, worker))
        after = engine.machines[worker].after(moment, actor, word, wrote=True)
        details = {"kind": choice.kind, "text": text, **_went_on(moment, actor, after)}
    else:
        details = _request(engine, before, move.code, lost=choice.kind == "lose")
    details = {"reply": "", "counts": True, **details}
    return Event(
        number=number,
        choice=choice,
        time=move.state[0],
        expiries=_expiries(engine, move.state),
        deadlines=_deadlines(engine, move.state),
        inside=_inside(engine, move.state),
        **details,
    )


def _time_passed(engine: Engine, before: State, after: State) -> dict[str, Any]:
    left = _expiries(engine, after)
    gone = tuple(sorted(key for key in _expiries(engine, before) if key not in left))
    ahead = _deadlines(engine, after)
    due = sorted(name for name in _deadlines(engine, before) if name not in ahead)
    text = f"{in_seconds((after[0] - before[0]) / 1e6)} pass" + (f"; due: {', '.join(due)}" if due else "")
    return {"kind": "clock", "text": text, "writes": gone}


def _failed_over(engine: Engine, before: State, after: State) -> dict[str, Any]:
    """A replica that took over: which keys are not as they were."""
    redis, slot = engine.world.redis, engine.world.slots["redis"]
    old, new = ({entry[0]: entry for entry in redis.contents(state[slot])} for state in (before, after))
    changed = sorted(key.decode(errors="backslashreplace") for key in old | new if old.get(key) != new.get(key))
    what = f"writes lost: {', '.join(changed)}" if changed else "no write is lost"
    return {"kind": "failover", "text": f"a replica takes over; {what}", "writes": tuple(changed)}


def _jumped(engine: Engine, worker: int) -> str:
    return f"its wall clock jumps by {engine.plans[worker].jump / 1e6:+g} s"


def _request(engine: Engine, before: State, code: int, lost: bool) -> dict[str, Any]:
    """A request of a worker: what it asked, what came back, and what the worker did then."""
    _, worker, actor = engine.codes.meaning(code)
    machine, moment = engine.machines[worker], engine.moment_of(before, worker)
    operation = moment.operation_of(actor)
    store = engine.world.stores[engine.world.slots[operation.store]]
    outcome = machine.answer(engine.number_of(before, worker), actor, before)
    shown = store.describe(operation.request)
    after = machine.after(moment, actor, LOST if lost else outcome.reply, wrote=lost or outcome.wrote)
    return {
        "kind": shown.kind,
        "store": operation.store,
        "text": shown.text,
        "reply": "the reply is lost" if lost else store.show_reply(operation.request, outcome.reply),
        "counts": lost or bool(shown.costs),
        "reads": outcome.reads,
        "writes": outcome.writes,
        "line": moment.step_of(actor).line,
        **_went_on(moment, actor, after),
    }


def _went_on(moment: Moment, actor: int, after: Moment) -> dict[str, Any]:
    """How the actor ended, if it did, and what the worker printed."""
    ending = dict(after.situation.endings).get(moment.situation.names[actor])
    return {"ending": ending, "printed": (moment.printed if moment.parent is None else "") + after.printed}


def _expiries(engine: Engine, state: State) -> dict[str, int]:
    """The keys that will vanish, with the time each has left."""
    found: dict[str, int] = {}
    for slot, store in enumerate(engine.world.stores):
        found.update(store.expiries(state[slot]))
    return found


def _deadlines(engine: Engine, state: State) -> dict[str, int]:
    """The named deadlines in data that are to come, with the time that is left until each."""
    return {name: left for name, left in engine.world.declared_deadlines(state) if name}


def _inside(engine: Engine, state: State) -> dict[str, tuple[str, ...]]:
    """The sections that each worker is in."""
    found = {}
    for worker, name in enumerate(engine.names):
        if engine.is_alive(state, worker) and (sections := engine.moment_of(state, worker).situation.sections):
            found[name] = sections
    return found
