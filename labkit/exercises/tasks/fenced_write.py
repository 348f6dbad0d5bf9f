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
TOLD = "who was overtaken is told that it has not written"
WRITTEN = "what the newest holder wrote is there in the end"

Write = Callable[[redis.Redis, int, str], object]


def _work(r: redis.Redis, write: Write, alarm: Service) -> None:
    lock = FencedLock(r, "lock", timeout=LEASE)
    if lock.acquire(blocking=False):
        token = lock.fencing_token
        for turn in (1, 2):
            has_written = write(r, token, f"{token}.{turn}")
            if not has_written and lock.owned():
                alarm.call("nothing was returned" if has_written is None else "refused", turn=turn)


def _work_and_look(r: redis.Redis, write: Write, alarm: Service) -> None:
    lock = FencedLock(r, "lock", timeout=LEASE)
    if lock.acquire(blocking=False):
        is_overtaken = _number(r.get("report")) > lock.fencing_token + 1
        if write(r, lock.fencing_token, f"{lock.fencing_token}.1") and is_overtaken:
            alarm.call("told that it has written")


def _number(report: bytes | str | None) -> float:
    return float(report or 0)


def world(write: Write) -> Scenario:
    """Two workers whose fencing tokens will be 9 and 10; each writes twice."""

    def overtaken(lab: Lab) -> None:
        jobs, alarm = lab.redis(), lab.service("alarm")
        jobs.set("lock:token", 8)
        for name in "AB":
            lab.worker(name, _work, lab.redis(), write, alarm)
        lab.always(OWN, lambda: alarm.count() == 0)
        lab.always(OLD, lambda before, now: before <= now, lambda: _number(jobs.get("report")))
        lab.at_end(WRITTEN, lambda: jobs.get("report") in (b"9.2", b"10.2"))

    return overtaken


def told(write: Write) -> Scenario:
    """Two workers that look, before they write, whether a newer one has written."""

    def overtaken_and_told(lab: Lab) -> None:
        jobs, alarm = lab.redis(), lab.service("alarm")
        jobs.set("lock:token", 8)
        for name in "AB":
            lab.worker(name, _work_and_look, lab.redis(), write, alarm)
        lab.always(TOLD, lambda: alarm.count() == 0)

    return overtaken_and_told


def why_overtaken(trace: Trace) -> str:
    """What to look at when an old holder's write lands."""
    of_workers = [event for event in trace.events if event.store == "redis" and "lock" not in event.writes]
    looks = [event for event in of_workers if set(event.reads) - set(event.writes) or "script" in event.text]
    if not looks:
        return "A was overtaken, and its write lands after B's. Nobody compares the numbers."
    if not any(set(event.writes) - {"report"} for event in of_workers):
        return "A looks at the number, but nobody has written it down: who remembers the greatest one?"
    return "A was overtaken between its look at the number and its write. Looking and writing must be one step."


def why_refused(trace: Trace) -> str:
    """What to look at when a holder is refused."""
    alarm = next((event.text for event in trace.events if event.store == "alarm"), "")
    if "nothing was returned" in alarm:
        return "The holder is told nothing: write returned None. Return True when it has written, and False when not."
    if "turn=2" in alarm:
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


def writes_nothing(r: redis.Redis, number: int, text: str) -> bool:
    print("written:", text)
    return True


def says_true_always(r: redis.Redis, number: int, text: str) -> bool:
    solution(r, number, text)
    return True


def says_nothing(r: redis.Redis, number: int, text: str) -> None:
    solution(r, number, text)


def its_own_number_in_lua(r: redis.Redis, number: int, text: str) -> bool:
    script = """
        if tonumber(ARGV[1]) <= tonumber(redis.call('get', KEYS[1]) or '0') then return 0 end
        redis.call('mset', KEYS[1], ARGV[1], KEYS[2], ARGV[2])
        return 1"""
    return bool(r.eval(script, 2, "report:number", "report", number, text))


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
    worlds=[
        World(
            world,
            {
                OWN: why_refused,
                OLD: why_overtaken,
                WRITTEN: "A holder was told that it had written, and report has not what it wrote.",
            },
            {"pauses": 1},
        ),
        World(
            told,
            {TOLD: "One was overtaken and has not written, and you told it True. What does your transaction answer?"},
            {"pauses": 1},
        ),
    ],
    praise="The paused worker still believes in its lock. The report no longer does.",
    mistakes=[
        Mistake("no fence", (starter,), "Nobody compares the numbers"),
        Mistake("check-then-set", (looks_then_writes,), "between its look"),
        Mistake("9 is more than 10 as text", (compares_text,), "as a number, or as text"),
        Mistake("refuses the holder's second write", (refuses_its_own_number,), "is that too old"),
        Mistake("writes nothing", (writes_nothing,), "report has not what it wrote"),
        Mistake("says True whatever happened", (says_true_always,), "you told it True"),
        Mistake("returns nothing", (says_nothing,), "write returned None"),
        Mistake("refuses the second write, in Lua", (its_own_number_in_lua,), "is that too old"),
        Mistake("the number is never stored", (forgets_the_number,), "nobody has written it down"),
    ],
)
