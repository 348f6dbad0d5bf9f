"""A DB-API connection whose statements, commits and rollbacks are steps; with sqlite3's words and habits."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

from labkit.actor import Lost
from labkit.errors import Unsupported
from labkit.process import current_process
from labkit.stores.sql import Result, Statement, is_write

Perform = Callable[[Statement], Any]
_OWN_CLOCK = re.compile(
    r"'now'|\bcurrent_(?:timestamp|date|time)\b|\b(?:random|randomblob|julianday|unixepoch)\s*\(\s*\d*\s*\)",
    re.IGNORECASE,
)
_CONTROL = ("PRAGMA", "ATTACH", "DETACH", "VACUUM", "SAVEPOINT", "RELEASE")


class SqlConnection:
    """A connection to the lab's SQLite database; give each worker its own.

    As with `sqlite3.connect`, the first statement that writes begins a transaction, `commit()` or `rollback()` ends
    it, and `with connection:` does either. A second writer waits until the first has ended its transaction.

    Parameters
    ----------
    perform: takes one statement and gives its result.
    """

    _shareable = True
    isolation = "serialisable, SQLite: one writer"
    autocommit = False

    def __init__(self, perform: Perform) -> None:
        self._perform = perform
        self.rewind()

    def rewind(self) -> None:
        """Be as new, for another run of a worker."""
        self._name: str | None = None
        self.in_transaction = False
        self._closed = False

    def execute(self, text: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> SqlCursor:
        """Execute one statement in a cursor of its own; one step."""
        return self.cursor().execute(text, values)

    def executemany(self, text: str, rows: Sequence[Sequence[Any]]) -> SqlCursor:
        """Execute one statement for each row of values; one step each."""
        return self.cursor().executemany(text, rows)

    def __getattr__(self, name: str) -> Any:
        return _not_there("connections", name)

    def __setattr__(self, name: str, value: object) -> None:
        if name in ("isolation_level", "autocommit", "row_factory", "text_factory"):
            raise Unsupported(f"the lab's connections do not take {name}: they begin, commit and answer as by default")
        object.__setattr__(self, name, value)

    def cursor(self) -> SqlCursor:
        """A cursor; no step."""
        return SqlCursor(self)

    def commit(self) -> None:
        """End the transaction and keep what it did; one step, or none when no transaction is open."""
        if self.in_transaction:
            self.request("COMMIT")

    def rollback(self) -> None:
        """End the transaction and undo what it did; one step, or none when no transaction is open."""
        if self.in_transaction:
            self.request("ROLLBACK")

    def close(self) -> None:
        """Close the connection; what is not committed is undone."""
        self.rollback()
        self._closed = True

    def __enter__(self) -> SqlConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()
        else:
            self.rollback()

    def request(self, text: str, values: tuple[Any, ...] = ()) -> Result:
        """Take one step; raises what sqlite3 would."""
        if self._closed:
            raise sqlite3.ProgrammingError("Cannot operate on a closed database.")
        statement = Statement(self._known_name(), text, values)
        if statement.verb in _CONTROL:
            raise Unsupported(f"the lab's database does not model {statement.verb}")
        if found := _OWN_CLOCK.search(text):
            raise Unsupported(
                f"{found[0]!r} is SQLite's own clock or chance, and not the lab's: give the statement a parameter, "
                "such as time.time()"
            )
        if statement.verb == "BEGIN" and not {"IMMEDIATE", "EXCLUSIVE"}.intersection(text.upper().split()):
            raise Unsupported(
                "the lab's database has one writer from the start: write BEGIN IMMEDIATE, not a plain BEGIN"
            )
        answer = self._perform(statement)
        if isinstance(answer, Lost):
            self.in_transaction = False
            raise sqlite3.OperationalError("the connection was lost; whether the statement took effect is unknown")
        if statement.verb in ("COMMIT", "ROLLBACK"):
            self.in_transaction = False
        elif statement.connection and is_write(statement):
            self.in_transaction = True
        if isinstance(answer, Exception):
            raise answer
        result: Result = answer
        return result

    def _known_name(self) -> str:
        if self._name is None:
            process = current_process()
            if process is None:
                return ""
            process.connections += 1
            self._name = f"{process.name}/{process.connections}"
        return self._name


class SqlCursor:
    """The rows of a statement.

    Parameters
    ----------
    connection: where its statements go.
    """

    arraysize = 1

    def __init__(self, connection: SqlConnection) -> None:
        self.connection = connection
        self._result = Result()
        self._next = 0

    @property
    def rowcount(self) -> int:
        """How many rows the last statement changed; -1 when it was none that changes rows."""
        return self._result.rowcount

    @property
    def lastrowid(self) -> int | None:
        """The row id of the last row that was inserted."""
        return self._result.lastrowid

    @property
    def description(self) -> tuple[tuple[Any, ...], ...] | None:
        """A 7-tuple for each column, of which only the name is known; None when there are no rows."""
        return tuple((name, *[None] * 6) for name in self._result.columns) or None

    def execute(self, text: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> SqlCursor:
        """Execute one statement; one step."""
        packed = tuple(sorted(values.items())) if isinstance(values, Mapping) else tuple(values)
        self._result = self.connection.request(text.strip().rstrip(";"), packed)
        self._next = 0
        return self

    def executemany(self, text: str, rows: Sequence[Sequence[Any]]) -> SqlCursor:
        """Execute one statement for each row of values; one step each."""
        for values in rows:
            self.execute(text, values)
        return self

    def setinputsizes(self, sizes: object) -> None:
        """Nothing, as in sqlite3."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Nothing, as in sqlite3."""

    def __getattr__(self, name: str) -> Any:
        return _not_there("cursors", name)

    def fetchone(self) -> Any:
        """The next row, or None."""
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int = 1) -> list[Any]:
        """The next rows."""
        rows = self._result.rows[self._next : self._next + size]
        self._next += len(rows)
        return list(rows)

    def fetchall(self) -> list[Any]:
        """All rows that are left."""
        return self.fetchmany(len(self._result.rows))

    def __iter__(self) -> Iterator[Any]:
        while (row := self.fetchone()) is not None:
            yield row

    def close(self) -> None:
        """Forget the rows."""
        self._result = Result()


def _not_there(what: str, name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise Unsupported(f"the lab's {what} have no {name!r}; they have what the DB-API asks for")
