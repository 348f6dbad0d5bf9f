"""What a run and the workers that join it from elsewhere tell each other, as keys on the run's Redis."""

from __future__ import annotations

import ast
import builtins
import json
import sqlite3
import time
from typing import Any

import redis

from labkit.errors import LabError, ScenarioError
from labkit.processes.part import Part
from labkit.stores.prefixing import as_bytes
from labkit.stores.services import Call
from labkit.stores.sql import Result

ALIVE = 10  # seconds for which a sign of life counts: long enough for some to come late
_TURN = 2  # seconds for which one request waits
_ERROR, _RESULT = "!error", "!result"


class Letters:
    """The keys of one run that are the lab's, and not the scenario's.

    Parameters
    ----------
    client: a client of the run's server.
    run_id: the run's name.
    """

    def __init__(self, client: redis.Redis, run_id: str) -> None:
        self.client, self._prefix = client, f"labkit-letters:{run_id}:"

    def key(self, *parts: str) -> bytes:
        """A key's name."""
        return (self._prefix + ":".join(parts)).encode()

    def all(self) -> list[bytes]:
        """Those that are there."""
        return [as_bytes(key) for key in self.client.scan_iter(match=f"{self._prefix}*", count=1_000)]

    def burn(self) -> None:
        """Remove them all."""
        for key in self.all():
            self.client.unlink(key)

    def write(self, name: str, value: object) -> None:
        """Leave a value there, which JSON can say."""
        self.client.set(self.key(name), json.dumps(value))

    def read(self, name: str) -> Any:
        """The value that was left there; None when there is none."""
        found: Any = self.client.get(self.key(name))
        return None if found is None else json.loads(found)

    def wait_for(self, *parts: str) -> Any:
        """Take the next value out of a list, and wait for as long as it takes."""
        while True:  # in turns: a client's socket times out after five seconds, unless it is told otherwise
            found: Any = self.client.blpop([self.key(*parts)], timeout=_TURN)
            if found is not None:
                return found[1]

    def lead(self) -> int:
        """By how many nanoseconds the server's clock is ahead of this machine's."""
        before = time.time_ns()
        seconds, microseconds = self.client.time()
        return (seconds * 1_000_000 + microseconds) * 1_000 - (before + time.time_ns()) // 2


def packed_tape(part: Part) -> str:
    """The record of a set-up as text, which is read back without running anything."""
    text = repr([(word, _plain(reply)) for word, reply in part.tape])
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError) as error:
        raise ScenarioError(f"a reply to the scenario's set-up cannot be sent to other machines: {error}") from error
    return text


def unpacked_tape(text: str) -> list[tuple[str, Any]]:
    """The record of a set-up from its text."""
    return [(word, _whole(reply)) for word, reply in ast.literal_eval(text)]


def packed_call(number: str, service: str, deduplicates: bool, call: Call, worker: str) -> str:
    """A request to a service as text."""
    return json.dumps([number, service, deduplicates, call.key, call.idempotency_key, call.fields, worker])


def unpacked_call(text: str | bytes) -> tuple[str, str, bool, Call, str]:
    """A request to a service from its text."""
    number, service, deduplicates, key, idempotency_key, fields, worker = json.loads(text)
    return number, service, deduplicates, Call(key, idempotency_key, tuple(map(tuple, fields))), worker


def _plain(reply: Any) -> Any:
    if isinstance(reply, Exception):
        return {_ERROR: (type(reply).__name__, str(reply))}
    return {_RESULT: tuple(reply)} if isinstance(reply, Result) else reply


def _whole(reply: Any) -> Any:
    if isinstance(reply, dict) and _ERROR in reply:
        name, message = reply[_ERROR]
        places: tuple[Any, ...] = (redis.exceptions, sqlite3, builtins)
        kind = next((getattr(place, name) for place in places if hasattr(place, name)), LabError)
        return kind(message)
    return Result(*reply[_RESULT]) if isinstance(reply, dict) and _RESULT in reply else reply
