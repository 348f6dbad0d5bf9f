"""Two other explorers of interleavings, on the same programs: frontrun (threads) and detangle (asyncio).

Each is used as its documentation says, in a process of its own (`peer_frontrun`, `peer_detangle`), and answers two
questions: what it finds with its default settings, which stop at the first violation and are bounded; and whether it
has gone through all schedules, without any bound on preemptions or delays.
"""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from labkit.processes.server import find_redis_server
from tests.benchmarks.cases import ARTICLE, FIVE, GUARD, NAIVE, SOUND, THREE, TTL, WAITING

PEERS = ("frontrun", "detangle")
HOW = {
    "frontrun": "threads on a real redis-server, whose commands it sees by key; it also interleaves on Python's memory",
    "detangle": "asyncio, a dictionary with one await per command (the waiting lock: fakeredis's asyncio client)",
}
EXPRESSED = (NAIVE, THREE, GUARD, WAITING, FIVE)
_EXPIRES = "a key that expires while its worker, awake, is paused"
CANNOT = {  # by peer and case
    ("frontrun", ARTICLE): f"a crash; {_EXPIRES} (the server's clock is not its own)",
    ("frontrun", TTL): f"{_EXPIRES} (the server's clock is not its own)",
    ("frontrun", SOUND): f"a crash; {_EXPIRES} (the server's clock is not its own)",
    ("detangle", ARTICLE): f"a crash that runs no `finally` (its own cancels tasks); {_EXPIRES}",
    ("detangle", TTL): _EXPIRES,
    ("detangle", SOUND): f"a crash that runs no `finally` (its own cancels tasks); {_EXPIRES}",
}
WITHOUT = {WAITING: "without the pause: "}


def missing(peer: str) -> str | None:
    """Why a peer cannot run here, in words, or None when it can."""
    try:
        importlib.metadata.version(peer)
    except importlib.metadata.PackageNotFoundError:
        return "skipped, not installed: `pip install -e '.[peers]'`"
    if peer == "frontrun" and find_redis_server() is None:
        return "skipped: there is no redis-server for it (system package `redis-server`)"
    return None


def reached(peer: str, seconds: float) -> dict[str, dict[str, Any]]:
    """What a peer reached on each program that it can express, in so many seconds per question."""
    command = [sys.executable, "-m", f"tests.benchmarks.peer_{peer}", str(seconds)]
    if peer == "frontrun":
        command = [sys.executable, "-m", "frontrun.cli", *command]  # it asks to be run like this
    answer = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    lines = [line for line in answer.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise SystemExit(f"{peer} gave no answer:\n{answer.stderr[-2_000:]}")
    found: dict[str, dict[str, Any]] = json.loads(lines[-1])
    return found


def describe(peer: str, case: str, found: dict[str, dict[str, Any]], one_get: float) -> str:
    """What a peer reached on one case, in words."""
    if case not in found:
        return f"not expressed: {CANNOT[peer, case]}"
    first, every = found[case]["first"], found[case]["all"]
    decided = first["outcome"] == "violated"
    what = (
        f"violated after {first['runs']:,} executions" if decided else f"no violation in {first['runs']:,} executions"
    )
    said = f"{what}, {_time(first, decided or first['done'], one_get)}"
    return f"{WITHOUT.get(case, '')}{said}; all: {every['runs']:,} executions, {_time(every, every['done'], one_get)}"


def _time(took: dict[str, Any], done: bool, one_get: float) -> str:
    return f"{took['seconds'] / one_get:,.0f} G" if done else f"not done after {took['seconds']:.0f} s"


def answer(programs: dict[str, Any], ask: Callable[[Any, bool], dict[str, Any]]) -> None:
    """Ask both questions about each program, and print the answers as one line of JSON; for the peers' processes."""
    print(json.dumps({name: {"first": ask(one, True), "all": ask(one, False)} for name, one in programs.items()}))
