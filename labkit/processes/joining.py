"""A worker that joins a live run from another machine, or another terminal: it reaches the run through its Redis."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import redis

from labkit.errors import LabError
from labkit.lab import Scenario
from labkit.processes.journal import Journal
from labkit.processes.letters import ALIVE, Letters, packed_call, unpacked_tape
from labkit.processes.part import Part
from labkit.processes.real_sql import SqliteFile, real_database
from labkit.processes.worker_process import work
from labkit.stores.prefixing import Prefix
from labkit.stores.services import Call

_sleep = time.sleep
_BEAT = 1.0  # seconds between two signs of life
_PATIENCE = 2  # seconds from SIGTERM to SIGKILL when the run is over


class RedisSink:
    """Notes on the run's server; each is there before the worker goes on.

    Parameters
    ----------
    letters: the run's.
    worker: whose notes.
    lead: by how many nanoseconds the clock of the process that runs the whole is ahead of this one's.
    """

    def __init__(self, letters: Letters, worker: str, lead: int) -> None:
        self._letters, self._key, self._lead = letters, letters.key("journal", worker), lead

    def write(self, line: str) -> None:
        """Append a line, its time as the other clock would have it."""
        note = json.loads(line)
        # What a service did has its time from the process that runs the whole.
        own = ("at", "took_effect") if "lives" in note else ("at",)
        for name in own:
            if name in note:
                note[name] += self._lead
        self._letters.client.rpush(self._key, json.dumps(note))


class NoDatabase(SqliteFile):
    """What stands for an SQLite file that is on another machine."""

    def __init__(self) -> None:
        self.sessions = []

    def connect(self) -> Any:
        raise LabError("a worker that joins shares no SQLite file: give the run and the worker a --database-url")


def join(scenario: Scenario, redis_url: str, run: str, name: str, database_url: str | None, seconds: float) -> None:
    """Be one worker of a run that was started elsewhere with `live(…, run_id=…, elsewhere=[…])`.

    Parameters
    ----------
    scenario: the same as there.
    redis_url: the run's server, as it is reached from here.
    run: the run's id.
    name: the worker's.
    database_url: the run's PostgreSQL, as it is reached from here; None if the scenario uses no database.
    seconds: how long to wait for the run.

    Raises `LabError` when there is no such run, when it does not expect this worker, or when it has it already.
    """
    try:
        client = redis.Redis.from_url(redis_url)
        prefix = Prefix(client, f"labkit:{run}:".encode(), loads=False)
    except (redis.RedisError, ValueError, OSError) as error:
        raise LabError(f"there is no Redis server to join a run on: {error}") from error
    letters = Letters(client, run)
    tape = _tape(letters, run, seconds)
    expected = letters.read("expects")
    if name not in expected:
        raise LabError(f"run {run} expects {' and '.join(expected)} from elsewhere, not {name}")
    if not client.set(letters.key("taken", name), "1", nx=True):
        raise LabError(f"somebody else has joined run {run} as {name}")
    database = NoDatabase() if database_url is None else real_database(database_url, Path(), run, joins=True)
    lead = letters.lead() - letters.read("lead")
    part = Part(redis_url, prefix, database, _asker(letters))
    part.tape, part.journal = tape, Journal(name, RedisSink(letters, name, lead))
    _give_signs_of_life(letters, name)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C kills it, wherever it is, as any other crash would
    try:
        work(scenario, part, lambda: _wait(letters, name))
    finally:
        if letters.read(f"alive:{name}"):  # else the run has removed its letters, and nobody would this one
            letters.write(f"gone:{name}", time.time_ns() + lead)


def _tape(letters: Letters, run: str, seconds: float) -> list[tuple[str, Any]]:
    until = time.monotonic() + seconds
    while (text := letters.client.get(letters.key("tape"))) is None:
        if time.monotonic() > until:
            raise LabError(f"there is no run {run} on this server: start live(…, run_id={run!r}, elsewhere=[…])")
        _sleep(0.1)
    return unpacked_tape(text.decode() if isinstance(text, bytes) else str(text))


def _asker(letters: Letters) -> Any:
    def ask(service: str, deduplicates: bool, call: Call, worker: str) -> tuple[str, int]:
        """Let the process that runs the whole do it."""
        number = uuid.uuid4().hex
        letters.client.rpush(letters.key("calls"), packed_call(number, service, deduplicates, call, worker))
        answer, at = json.loads(letters.wait_for("answer", number))
        return answer, at

    return ask


def _wait(letters: Letters, name: str) -> None:
    letters.client.rpush(letters.key("ready"), name)
    letters.wait_for("go", name)


def _give_signs_of_life(letters: Letters, name: str) -> None:
    """Say every second that this process lives, and end when the run is over: nobody can join it then."""
    alive = letters.key(f"alive:{name}")

    def beat() -> None:
        while letters.client.exists(letters.key("tape")):
            letters.client.set(alive, "true", ex=ALIVE)
            _sleep(_BEAT)
        letters.client.expire(alive, _PATIENCE)
        os.kill(os.getpid(), signal.SIGTERM)
        letters.client.expire(alive, 2 * _PATIENCE)  # SIGTERM has not ended it: the run is to wait until SIGKILL has
        _sleep(_PATIENCE)
        os.kill(os.getpid(), signal.SIGKILL)

    letters.client.set(alive, "true", ex=ALIVE)
    threading.Thread(target=beat, name="signs-of-life", daemon=True).start()
