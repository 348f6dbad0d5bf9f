"""Exercise: a write that an overtaken lock holder cannot make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import redis

from labkit.exercises.exercise import Mistake
from labkit.exercises.write_program import World, WriteProgram
from labkit.lab import Lab, Scenario, Service
from labkit.locks import FencedLock
from labkit.trace import Trace

LEASE = 30
OLD = "once a newer holder has written, no older one does"
OWN = "whoever holds the lock may write"

Write = Callable[[redis.Redis, int, str], object]


def _work(r: redis.Redis, write: Write, alarm: Service) -> None:
    lock = FencedLock(r, "lock", timeout=LEASE)
    if lock.acquire(blocking=False):
        for turn in (1, 2):
            if not write(r, lock.fencing_token, f"{lock.fencing_token}.{turn}") and lock.owned():
                alarm.call("a holder was refused")


def world(write: Write) -> Scenario:
    """Two workers whose fencing tokens will be 9 and 10; each writes twice."""

    def overtaken(lab: Lab) -> None:
        jobs, alarm = lab.redis(), lab.service("alarm")
        jobs.set("lock:token", 8)
        for name in "AB":
            lab.worker(name, _work, lab.redis(), write, alarm)
        lab.always(OWN, lambda: alarm.count() == 0)
        lab.always(OLD, lambda before, now: before <= now, lambda: float(jobs.get("report") or 0))

    return overtaken


def why_overtaken(trace: Trace) -> str:
    """What to look at when an old holder's write lands."""
    words = [event.text.split()[0] for event in trace.events if event.worker]
    if "GET" not in words:
        return "A was overtaken, and its write lands after B's. Nobody compares the numbers."
    if not any("SET report:number" in event.text for event in trace.events):
        return "A looks at the number, but nobody has written it down: who remembers the greatest one?"
    return "A was overtaken between its look at the number and its write. Looking and writing must be one step."


def why_refused(trace: Trace) -> str:
    """What to look at when a holder is refused."""
    refused = next((event for event in reversed(trace.events) if event.text.startswith("alarm")), trace.events[-1])
    written = [event for event in trace.events if event.worker == refused.worker and "SET report " in event.text]
    if written:
        return "The holder's second write is refused. It comes with the same number as the first: is that too old?"
    return "A holder of the lock is refused. Which number was it compared with, and how: as a number, or as text?"


def starter(r: redis.Redis, number: int, text: str) -> bool:
    r.set("report", text)
    return True


def solution(r: redis.Redis, number: int, text: str) -> bool:
    def change(pipe: Any) -> Any:
        if number < int(pipe.get("report:number") or 0):
            return False
        pipe.multi()
        pipe.set("report:number", number)
        pipe.set("report", text)
        return True

    return bool(r.transaction(change, "report:number", value_from_callable=True))


# ---- mistakes


def looks_then_writes(r: redis.Redis, number: int, text: str) -> bool:
    if number < int(r.get("report:number") or 0):
        return False
    r.mset({"report:number": number, "report": text})
    return True


def compares_text(r: redis.Redis, number: int, text: str) -> bool:
    def change(pipe: Any) -> Any:
        if str(number) < (pipe.get("report:number") or b"").decode():
            return False
        pipe.multi()
        pipe.set("report:number", number)
        pipe.set("report", text)
        return True

    return bool(r.transaction(change, "report:number", value_from_callable=True))


def refuses_its_own_number(r: redis.Redis, number: int, text: str) -> bool:
    def change(pipe: Any) -> Any:
        if number <= int(pipe.get("report:number") or 0):
            return False
        pipe.multi()
        pipe.set("report:number", number)
        pipe.set("report", text)
        return True

    return bool(r.transaction(change, "report:number", value_from_callable=True))


def forgets_the_number(r: redis.Redis, number: int, text: str) -> bool:
    def change(pipe: Any) -> Any:
        if number < int(pipe.get("report:number") or 0):
            return False
        pipe.multi()
        pipe.set("report", text)
        return True

    return bool(r.transaction(change, "report:number", value_from_callable=True))


fenced_write = WriteProgram(
    "fenced_write",
    "Write write(r, number, text): set the key report to the text and return True, unless a greater number was here.",
    names=["write"],
    starter=(starter,),
    solution=(solution,),
    hints=(
        "The place that is written must remember the greatest number that it has seen. Where could that be kept?",
        "Keep it in `report:number`. Comparing and writing must be one step: `r.transaction(change, 'report:number')`.",
        "`change(pipe)` returns False if number < int(pipe.get(…) or 0); else `pipe.multi()`, set both, return True.",
    ),
    worlds=[World(world, {OWN: why_refused, OLD: why_overtaken}, {"pauses": 1})],
    praise="The paused worker still believes in its lock. The report no longer does.",
    mistakes=[
        Mistake("no fence", (starter,), "Nobody compares the numbers"),
        Mistake("check-then-set", (looks_then_writes,), "between its look"),
        Mistake("9 is more than 10 as text", (compares_text,), "as a number, or as text"),
        Mistake("refuses the holder's second write", (refuses_its_own_number,), "is that too old"),
        Mistake("the number is never stored", (forgets_the_number,), "nobody has written it down"),
    ],
)
