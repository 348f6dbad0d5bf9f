"""What the stores hold in a state, in words that people read: keys and their time to live, rows, effects."""

from __future__ import annotations

from typing import Any, NamedTuple

from labkit.engine import Engine, State
from labkit.frames import LONGEST_VALUE
from labkit.stores.sql import SqlDatabase
from labkit.words import in_one_line, in_seconds, shorten

MOST_ROWS = 8


class Holding(NamedTuple):
    """One thing that a store holds.

    Parameters
    ----------
    store: the store's name.
    name: the key, the table, or what an effect is about.
    value: its content.
    left: the microseconds until it vanishes; None when it stays.
    """

    store: str
    name: str
    value: str
    left: int | None = None

    @property
    def ttl(self) -> str:
        """The time it has left, as text; empty when it stays."""
        return "" if self.left is None else f"{in_seconds(self.left / 1e6)} left"


def holdings(engine: Engine, state: State) -> list[Holding]:
    """Everything that the stores hold in a state: Redis first, then the database, then what services did."""
    found = []
    for name, slot in engine.world.slots.items():
        if name == "redis":
            entries = engine.world.redis.contents(state[slot])
            found += [Holding(name, _text(key), _redis_value(kind, value), left) for key, kind, value, left in entries]
        elif name == "sql":
            database = engine.world.stores[slot]
            assert isinstance(database, SqlDatabase)
            found += _tables(database, state[slot])
        elif name != "clock":
            calls = engine.world.stores[slot].contents(state[slot])
            keys = [call.key for call in calls]
            found += [Holding(name, in_one_line(key), _times(keys.count(key))) for key in dict.fromkeys(keys)]
    return found


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _tables(database: SqlDatabase, state: int) -> list[Holding]:
    """The committed rows, and what the open transaction has changed."""
    content = database.contents(state)
    found = [Holding("sql", name, _rows(columns, rows)) for name, columns, rows in database.tables(content.committed)]
    if content.owner and content.working is not None:
        before = database.tables(content.committed)
        changed = [
            f"{table[0]}: {_rows(*table[1:])}" for table in database.tables(content.working) if table not in before
        ]
        owner = content.owner.partition("/")[0]
        found.append(Holding("sql", f"(open transaction of {owner})", "; ".join(changed) or "nothing changed yet"))
    return found


def _rows(columns: tuple[str, ...], rows: tuple[tuple[Any, ...], ...]) -> str:
    shown = ", ".join(_row(columns, row) for row in rows[:MOST_ROWS])
    return _fitting(shown + (f", … ({len(rows)} rows)" if len(rows) > MOST_ROWS else "")) or "no rows"


def _row(columns: tuple[str, ...], row: tuple[Any, ...]) -> str:
    pairs = zip(columns, row, strict=True)
    return "(" + ", ".join(f"{column} {'NULL' if value is None else value}" for column, value in pairs) + ")"


def _redis_value(kind: str, value: Any) -> str:
    if kind == "string":
        return _fitting(_text(value))
    if kind == "list":
        return _fitting("[" + ", ".join(map(_text, value)) + "]")
    if kind == "hash":
        return _fitting("{" + ", ".join(f"{_text(field)}: {_text(part)}" for field, part in value) + "}")
    if kind == "set":
        return _fitting("{" + ", ".join(map(_text, value)) + "}")
    if kind == "zset":
        return _fitting(", ".join(f"{_text(member)} at {score:.15g}" for score, member in value))
    entries, _, groups, _ = value
    waiting = "".join(f"; group {_text(group[0])}: {len(group[4])} pending" for group in groups)
    return f"{len(entries)} {'entry' if len(entries) == 1 else 'entries'}{waiting}"


def _fitting(text: str) -> str:
    """A text that fits beside a name."""
    return shorten(text, LONGEST_VALUE)


def _text(value: bytes) -> str:
    return in_one_line(value.decode(errors="backslashreplace"))
