"""A real database for a live run: an SQLite file, or a schema of the run's own on a PostgreSQL.

Transactions begin and end where they do in the lab: the first statement that writes begins one.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from labkit.errors import LabError, Unsupported
from labkit.processes.part import Part
from labkit.stores.sql import Result, Statement, is_write, show_result, show_statement
from labkit.stores.sql_connection import SqlConnection

PATIENCE = 60.0  # seconds that a writer waits for the others
# A string, or a placeholder: `?`, `:name`, or a per cent sign, which psycopg takes for one.
_PLACEHOLDER = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|\?|(?<!:):([A-Za-z_]\w*)|%|::")
# Executes a statement with its values.
Execute = Callable[[str, Any], Result]


class Session:
    """A driver's connection, opened when it is needed.

    A process that forks while it has one open endangers it: the child closes its own copy some day, and with SQLite the
    locks of the one, with PostgreSQL the session of the other are gone. So they are closed before.

    Parameters
    ----------
    open: opens a connection.
    run: executes a statement on it.
    """

    def __init__(self, open: Callable[[], Any], run: Callable[[Any, str, Any], Result]) -> None:
        self._open, self._run = open, run
        self._connection: Any = None

    def __call__(self, text: str, values: Any) -> Result:
        """Execute a statement."""
        if self._connection is None:
            self._connection = self._open()
        return self._run(self._connection, text, values)

    def close(self) -> None:
        """Close the connection; the next statement opens it again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class RealDatabase(Protocol):
    """Where the connections of a run go."""

    isolation: str
    sessions: list[Session]

    def connect(self) -> Execute:
        """A connection, outside of any transaction until it is told BEGIN."""

    def remove(self) -> None:
        """Take away all that the run made."""

    @property
    def version(self) -> str:
        """What it is, for people."""


class SqliteFile:
    """An SQLite file in the run's folder.

    Parameters
    ----------
    path: the file.
    """

    isolation = "serialisable, SQLite: one writer"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sessions: list[Session] = []
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA journal_mode = WAL")  # readers see what was last committed, and wait for nobody
        connection.close()

    def connect(self) -> Execute:
        self.sessions.append(Session(self._open, _run_on_sqlite))
        return self.sessions[-1]

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    def remove(self) -> None:
        """The file goes with its folder."""

    @property
    def version(self) -> str:
        return f"SQLite {sqlite3.sqlite_version}"


class PostgresqlSchema:
    """A schema of its own on a PostgreSQL, so that the run's tables meet nobody else's.

    Parameters
    ----------
    url: such as `postgresql://user@host/database`.
    schema: the schema's name.
    joins: whether the schema is there already; else it is made, and refused if it is there.
    """

    isolation = "PostgreSQL: as the server says, READ COMMITTED by default"

    def __init__(self, url: str, schema: str, joins: bool = False) -> None:
        self._url, self.schema = url, schema
        self.sessions: list[Session] = []
        self._psycopg = _psycopg()
        if not joins:
            try:
                self._execute(f"CREATE SCHEMA {schema}")
            except self._psycopg.errors.DuplicateSchema as error:
                raise LabError(f"schema {schema} is there already, and this run would drop it: name another") from error

    def connect(self) -> Execute:
        self.sessions.append(Session(self._open, _run_on_postgresql))
        return self.sessions[-1]

    def _open(self) -> Any:
        connection = self._psycopg.connect(self._url, autocommit=True)
        connection.execute(f"SET search_path TO {self.schema}")
        return connection

    def remove(self) -> None:
        """Drop the schema with all that is in it."""
        self._execute(f"DROP SCHEMA IF EXISTS {self.schema} CASCADE")

    @property
    def version(self) -> str:
        with self._psycopg.connect(self._url) as connection:
            return f"PostgreSQL {connection.info.server_version // 10_000}"

    def _execute(self, text: str) -> None:
        try:
            with self._psycopg.connect(self._url, autocommit=True) as connection:
                connection.execute(text)
        except self._psycopg.OperationalError as error:
            raise LabError(f"there is no PostgreSQL to run on: {' '.join(str(error).split())}") from error


class RealConnection(SqlConnection):
    """The lab's DB-API connection, on a real database.

    Parameters
    ----------
    part: this process's part in the run.
    """

    def __init__(self, part: Part) -> None:
        self._part = part
        self._execute: Execute | None = None
        self.isolation = part.database.isolation
        super().__init__(self._take_step)

    def _known_name(self) -> str:
        """A connection of a worker has transactions; those of the set-up and of observers have none."""
        return "worker" if self._part.mode == "working" else ""

    def _take_step(self, statement: Statement) -> Any:
        """Execute a statement, noted before and after; an error is given back, as the lab's database does."""
        part = self._part
        if part.mode == "playing":
            try:
                return part.played(statement.verb)
            except Exception as error:
                return error
        part.look_at("sql", statement.text if is_write(statement) else "")
        journal = part.journal_at_work
        number = journal.sent("sql", "command", show_statement(statement)) if journal is not None else 0
        reply = self._executed(statement)
        part.taped(statement.verb, reply)
        if journal is not None:
            failed = isinstance(reply, Exception)
            writes = ["sql"] if is_write(statement) and not failed else ()
            ends = ["transaction"] if statement.verb in ("COMMIT", "ROLLBACK") else ()
            reads = [] if statement.verb in ("BEGIN", "COMMIT", "ROLLBACK") else ["sql"]
            journal.got(number, show_result(statement, reply), reads, writes or ends)
        return reply

    def _executed(self, statement: Statement) -> Any:
        execute = self._execute = self._execute or self._part.database.connect()
        values: Any = statement.values
        if values and all(isinstance(value, tuple) and len(value) == 2 for value in values):
            values = dict(values)
        begins = statement.connection and is_write(statement) and not self.in_transaction
        try:
            if begins and statement.verb != "BEGIN":
                execute("BEGIN IMMEDIATE", ())
            return execute(statement.text, values)
        except Exception as error:  # whatever the driver raises is the worker's
            return error


def _run_on_sqlite(connection: sqlite3.Connection, text: str, values: Any) -> Result:
    cursor = connection.execute(text, values)
    columns = tuple(column[0] for column in cursor.description or ())
    rows = tuple(cursor.fetchall())
    return Result(rows, columns, cursor.rowcount, cursor.lastrowid)


def _run_on_postgresql(connection: Any, text: str, values: Any) -> Result:
    own = "BEGIN" if text.upper().startswith("BEGIN") else translated(text)
    cursor = connection.execute(own, values or None)
    columns = tuple(column.name for column in cursor.description or ())
    rows = tuple(cursor.fetchall()) if cursor.description else ()
    return Result(rows, columns, cursor.rowcount)


def real_database(url: str | None, folder: Path, name: str, joins: bool = False) -> RealDatabase:
    """The database of a run.

    Parameters
    ----------
    url: a PostgreSQL's; None for an SQLite file.
    folder: the run's folder.
    name: the run's name, made of letters and digits.
    joins: whether the run has made it already.
    """
    if url is None:
        return SqliteFile(folder / "database.sqlite")
    if not url.startswith(("postgresql://", "postgres://")):
        raise LabError("database_url is that of a PostgreSQL, postgresql://…; without one there is an SQLite file")
    return PostgresqlSchema(url, f"labkit_{name}", joins)


def translated(text: str) -> str:
    """A statement with psycopg's placeholders in the place of SQLite's."""

    def put(found: re.Match[str]) -> str:
        what = found[0]
        if what == "?":
            return "%s"
        if found[1]:
            return f"%({found[1]})s"
        return what.replace("%", "%%")

    return _PLACEHOLDER.sub(put, text)


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError as error:
        raise Unsupported("a PostgreSQL needs psycopg: pip install -e '.[postgresql]'") from error
    return psycopg
