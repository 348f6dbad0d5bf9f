"""One SQLite database as a table: every statement, commit and rollback runs once on each content.

The rule is SQLite's, for transactions begun with BEGIN IMMEDIATE: one writer. The first statement of a connection
that writes begins a transaction; until it ends, other writers wait, and readers see what was last committed.
Verdicts are therefore about serialisable transactions; the anomalies of READ COMMITTED need a real PostgreSQL.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any, NamedTuple

from labkit.stores.base import FOR_EVER, Description, Interned, Outcome
from labkit.words import in_one_line

# A table as plain data: its name, and its rows with their row ids. Schema statements come first.
Content = tuple[tuple[str, ...], tuple[tuple[str, tuple[Any, ...]], ...]]
_WRITES = ("INSERT", "UPDATE", "DELETE", "REPLACE", "CREATE", "DROP", "ALTER", "BEGIN")


class Statement(NamedTuple):
    """A request to the database.

    Parameters
    ----------
    connection: the connection's name: the worker's, and a number; empty for set-up and observers.
    text: the statement, or `COMMIT` or `ROLLBACK`.
    values: its parameters, in order, or as pairs of name and value.
    """

    connection: str
    text: str
    values: tuple[Any, ...] = ()

    @property
    def verb(self) -> str:
        """The statement's first word, in capitals."""
        return self.text.split(None, 1)[0].upper() if self.text.split() else ""


class Result(NamedTuple):
    """What a statement gave: rows, the names of their columns, how many rows it changed, and the last row id."""

    rows: tuple[tuple[Any, ...], ...] = ()
    columns: tuple[str, ...] = ()
    rowcount: int = -1
    lastrowid: int | None = None


class _State(NamedTuple):
    """What is committed; and, while a transaction is open, whose it is and what it sees."""

    committed: Content
    owner: str = ""
    working: Content | None = None


class SqlDatabase:
    """SQLite states, numbered by content."""

    def __init__(self) -> None:
        self._states = Interned()
        self._outcomes: dict[tuple[int, Statement], Outcome] = {}
        self._connection = sqlite3.connect(":memory:", isolation_level=None)
        self._loaded: Content | None = None
        self.start = self._states.number(_State(((), ())))

    def apply(self, state: int, request: Statement, now: int) -> Outcome:
        known = (state, request)
        outcome = self._outcomes.get(known)
        if outcome is None:
            outcome = self._outcomes[known] = self._execute(self._states.values[state], request)
        return outcome

    def _execute(self, state: _State, request: Statement) -> Outcome:
        own = bool(state.owner) and state.owner == request.connection
        if request.verb in ("COMMIT", "ROLLBACK"):
            return self._end(state, own, keep=request.verb == "COMMIT")
        if request.verb == "BEGIN":
            if own:
                error = sqlite3.OperationalError("cannot start a transaction within a transaction")
                return Outcome(error, self._states.number(state))
            after = _State(state.committed, request.connection, state.committed)
            return Outcome(Result(), self._states.number(after), writes=("transaction",))
        before = state.working if own and state.working is not None else state.committed
        reply, content = self._run(before, request)
        if not is_write(request):
            return Outcome(reply, self._states.number(state), reads=("sql",))
        # The first writing statement takes the write lock, even when it fails or changes no row.
        owner = request.connection
        after = _State(state.committed, owner, content) if owner else _State(content)
        wrote = ("sql",) if content != before else ("transaction",) if not own else ()
        return Outcome(reply, self._states.number(after), reads=("sql",), writes=wrote)

    def _end(self, state: _State, own: bool, keep: bool) -> Outcome:
        if not own:
            return Outcome(Result(), self._states.number(state))
        assert state.working is not None
        after = _State(state.working if keep else state.committed)
        return Outcome(Result(), self._states.number(after), writes=("transaction",))

    def _run(self, content: Content, request: Statement) -> tuple[Any, Content]:
        self._load(content)
        values: Any = request.values
        if values and all(isinstance(value, tuple) and len(value) == 2 for value in values):
            values = dict(values)
        try:
            cursor = self._connection.execute(request.text, values)
            rows = tuple(cursor.fetchall())
        except sqlite3.Error as error:
            return error, content
        columns = tuple(column[0] for column in cursor.description or ())
        result = Result(rows, columns, cursor.rowcount, cursor.lastrowid)
        if not is_write(request):
            return result, content
        self._loaded = None
        after = self._dump()
        self._loaded = after
        return result, after

    def _load(self, content: Content) -> None:
        if self._loaded == content:
            return
        self._connection.close()
        self._connection = sqlite3.connect(":memory:", isolation_level=None)
        schema, tables = content
        for text in schema:
            self._connection.execute(text)
        for name, rows in tables:
            columns = self._columns(name)
            marks = ", ".join("?" * len(columns))
            self._connection.executemany(f"INSERT INTO {_quoted(name)} ({', '.join(columns)}) VALUES ({marks})", rows)
        self._loaded = content

    def _dump(self) -> Content:
        """The content in an order that depends on nothing but itself."""
        objects = self._connection.execute(
            "SELECT sql, name, type FROM sqlite_master "
            "WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
        ).fetchall()
        tables = sorted(name for _, name, kind in objects if kind == "table")
        contents = tuple((name, tuple(self._connection.execute(self._select(name)).fetchall())) for name in tables)
        return tuple(text for text, _, _ in objects), contents

    def _select(self, table: str) -> str:
        columns = self._columns(table)
        return f"SELECT {', '.join(columns)} FROM {_quoted(table)} ORDER BY {columns[0]}"

    def _columns(self, table: str) -> list[str]:
        """A table's columns, after its row id where that is none of them: rows keep theirs when they are put back."""
        info = self._connection.execute(f"PRAGMA table_info({_quoted(table)})").fetchall()
        names = [_quoted(row[1]) for row in info]
        is_row_id = any(row[5] and row[2].upper() == "INTEGER" for row in info)
        (text,) = self._connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        return names if is_row_id or "WITHOUT ROWID" in text.upper() else ["rowid", *names]

    def tables(self, content: Content) -> list[tuple[str, tuple[str, ...], tuple[tuple[Any, ...], ...]]]:
        """The tables of a content, for people: each with its name, its columns, and its rows."""
        self._load(content)
        found = []
        for name, _ in content[1]:
            cursor = self._connection.execute(f"SELECT * FROM {_quoted(name)}")
            rows = tuple(cursor.fetchall())
            found.append((name, tuple(column[0] for column in cursor.description), rows))
        return found

    def waits(self, request: Statement) -> int:
        return FOR_EVER if request.connection and is_write(request) else 0

    def ready(self, state: int, request: Statement, now: int) -> bool:
        owner = self._states.values[state].owner
        return not owner or owner == request.connection

    def hang_up(self, state: int, connection: str) -> int:
        content: _State = self._states.values[state]
        owner = content.owner
        gone = owner.startswith(connection) if connection.endswith("/") else owner == connection
        return self._states.number(_State(content.committed)) if owner and connection and gone else state

    def age(self, state: int, elapsed: int) -> int:
        return state

    def deadline(self, state: int) -> int | None:
        return None

    def describe(self, request: Statement) -> Description:
        return Description("command", show_statement(request))

    def show_reply(self, request: Statement, reply: Any) -> str:
        return show_result(request, reply)

    def expiries(self, state: int) -> Mapping[str, int]:
        return {}

    def contents(self, state: int) -> Any:
        return self._states.values[state]

    portable = contents

    def adopt(self, portable: Any) -> int:
        return self._states.number(portable)


def show_statement(request: Statement) -> str:
    """A statement for people, with its values."""
    first, *rest = " ".join(request.text.split()).split("?")
    values = [*map(repr, request.values), *"?" * len(rest)]
    return first + "".join(value + part for value, part in zip(values, rest, strict=False))


def show_result(request: Statement, reply: Any) -> str:
    """What a statement gave, for people."""
    if isinstance(reply, Exception):
        return in_one_line(f"{type(reply).__name__}: {reply}")
    if request.verb in ("INSERT", "UPDATE", "DELETE", "REPLACE"):
        return f"{reply.rowcount} row{'s' * (reply.rowcount != 1)}"
    return ", ".join(map(str, reply.rows)) if reply.columns else "ok"


def is_write(request: Statement) -> bool:
    """Whether a statement begins a transaction, as one that may change something does."""
    text = request.text.upper()
    return request.verb in _WRITES or (request.verb == "WITH" and any(f"{word} " in text for word in _WRITES))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
