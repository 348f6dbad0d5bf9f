"""Outside services of a live run: what was asked of them, and what took effect, in an SQLite file of the run's own."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from labkit.stores.services import Call

PATIENCE = 60.0  # seconds that a writer waits for the others
_SCHEMA = """
CREATE TABLE IF NOT EXISTS attempts (
    number INTEGER PRIMARY KEY, service TEXT NOT NULL, call_key TEXT NOT NULL, worker TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS effects (
    number INTEGER PRIMARY KEY, at INTEGER NOT NULL, service TEXT NOT NULL, call_key TEXT NOT NULL,
    idempotency_key TEXT, fields TEXT NOT NULL, once TEXT UNIQUE);
"""


class Effect(NamedTuple):
    """Something that a service did.

    Parameters
    ----------
    at: when, in nanoseconds since 1970.
    service: its name.
    call: what was asked.
    """

    at: int
    service: str
    call: Call


class Effects:
    """The services' memory, shared by all processes of a run; each opens it for itself.

    Where a service deduplicates, a unique constraint does: two calls with one idempotency key have one effect, however
    close together they come.

    Parameters
    ----------
    path: the SQLite file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened: sqlite3.Connection | None = None
        self._one_at_a_time = threading.Lock()  # a worker and its heartbeat

    @property
    def _database(self) -> sqlite3.Connection:
        if self._opened is None:
            self._opened = sqlite3.connect(self._path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
            self._opened.execute("PRAGMA journal_mode = WAL")
            self._opened.execute("PRAGMA synchronous = NORMAL")
            self._opened.executescript(_SCHEMA)
        return self._opened

    def call(self, service: str, deduplicates: bool, call: Call, worker: str) -> tuple[str, int]:
        """Ask a service for an effect; gives `done`, or `already done`, and when, in nanoseconds since 1970."""
        known = deduplicates and call.idempotency_key is not None
        once = f"{service}:{call.idempotency_key}" if known else None
        fields = json.dumps(call.fields)
        row = (service, call.key, call.idempotency_key, fields, once)
        # A handler of SIGTERM may raise in here: what is left open then would keep every other process out.
        with self._one_at_a_time, self._database:
            self._database.execute("BEGIN IMMEDIATE")
            self._database.execute(
                "INSERT INTO attempts (service, call_key, worker) VALUES (?, ?, ?)", (service, call.key, worker)
            )
            added = self._database.execute(
                "INSERT INTO effects (at, service, call_key, idempotency_key, fields, once) VALUES (?, ?, ?, ?, ?, ?) "
                "ON CONFLICT DO NOTHING",
                (at := time.time_ns(), *row),
            ).rowcount
        return "done" if added else "already done", at

    def all(self) -> tuple[Effect, ...]:
        """Every effect, in order."""
        rows = self._database.execute(
            "SELECT at, service, call_key, idempotency_key, fields FROM effects ORDER BY number"
        ).fetchall()
        return tuple(
            Effect(at, service, Call(key, idempotency, tuple((name, value) for name, value in json.loads(fields))))
            for at, service, key, idempotency, fields in rows
        )

    def attempts(self) -> dict[str, int]:
        """How often each service was called, whether or not it had an effect."""
        return dict(self._database.execute("SELECT service, COUNT(*) FROM attempts GROUP BY service").fetchall())

    def close(self) -> None:
        """Close this process's connection; it is opened again when it is needed. Before a fork it must be closed."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None


# Asks a service: its name, whether it deduplicates, the call, and who calls.
Ask = Callable[[str, bool, Call, str], tuple[str, int]]
