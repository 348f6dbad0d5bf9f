"""What every table here shares: a connection, the mark of its parameters; and how a transaction ends."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

MARKS = ("?", "%s")


class Table:
    """A table in a database that the caller is connected to.

    Parameters
    ----------
    connection: a DB-API connection to SQLite or PostgreSQL; it belongs to one worker.
    placeholder: how its driver marks a parameter: `?` (sqlite3), or `%s` (psycopg, pg8000).

    Raises `ValueError` for a connection in autocommit mode: there each statement stays, whatever is rolled back later.
    """

    SCHEMA = ""

    def __init__(self, connection: Any, placeholder: str = "?") -> None:
        if placeholder not in MARKS:
            raise ValueError(f"placeholder is {' or '.join(MARKS)}, not {placeholder!r}: see the driver's paramstyle")
        refuse_autocommit(connection)
        self.connection, self.placeholder = connection, placeholder

    def create(self) -> None:
        """Create the table unless it is there; once, before any worker starts."""
        self.execute(self.SCHEMA)

    def execute(self, text: str, *values: object) -> Any:
        """Execute a statement whose parameters are written `?`; returns the cursor."""
        cursor = self.connection.cursor()
        cursor.execute(text.replace("?", self.placeholder), values)
        return cursor


@contextmanager
def transaction(connection: Any) -> Iterator[None]:
    """Commit what was done in the block, or undo it when the block raises.

    Drivers disagree on what `with connection:` does (psycopg 3 closes it); this is the same with each. Raises
    `ValueError` for a connection in autocommit mode.
    """
    refuse_autocommit(connection)
    try:
        yield
    except BaseException:
        connection.rollback()
        raise
    connection.commit()


def refuse_autocommit(connection: Any) -> None:
    """`ValueError` for a connection in autocommit mode, as its driver says so."""
    mode = getattr(connection, "autocommit", None)  # of sqlite3 from Python 3.12 on: True, False, or a third
    by_level = isinstance(connection, sqlite3.Connection) and connection.isolation_level is None
    if mode is True or (by_level and mode is not False):
        raise ValueError(
            "connection is in autocommit mode, where nothing can be rolled back; connect with autocommit=False, "
            "and sqlite3 without isolation_level=None"
        )
