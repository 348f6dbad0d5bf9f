"""What a program runs on while brute force executes it: fakeredis, a real SQLite file, effects, time, SIGTERM.

Nothing here comes from the lab. A worker that wants to do something shared tells the scheduler what, and when that
could be done; the scheduler answers `go`, `lose` (do it, and its reply is lost) or `signal` (SIGTERM has come).
"""

import functools
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import greenlet
import redis
from fakeredis import FakeServer
from fakeredis._clients._sync import FakeRedisConnection
from redis.backoff import NoBackoff
from redis.driver_info import DriverInfo
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry

_QUIET = {
    "driver_info": DriverInfo(name=None, lib_version=None),  # otherwise every connection looks up its version
    "maint_notifications_config": MaintNotificationsConfig(enabled=False),
    "retry": Retry(NoBackoff(), 0),
}
START = 1_000_000  # seconds; small, so that floats stay exact to the microsecond
SECOND = 1_000_000
TABLE = "CREATE TABLE job (key TEXT PRIMARY KEY, value INTEGER)"
FIRST_ROW = "INSERT INTO job VALUES ('x', 0)"
ROWS = "SELECT key, value FROM job ORDER BY key"


class Time:
    now = 0  # microseconds

    @classmethod
    def seconds(cls):
        return START + cls.now / SECOND


def always():
    return True


@dataclass
class Want:
    """What a worker wants to do next.

    Parameters
    ----------
    what: the request, for comparisons.
    ready: whether it could be done now.
    until, period: when a wait is over and how long it is, in microseconds; None and 0 for what does not end by itself.
    counts: whether it adds to the length of an execution.
    travels: whether there is a reply that can be lost.
    """

    what: Any
    ready: Callable[[], bool] | None = always
    until: int | None = None
    period: int = 0
    counts: bool = True
    travels: bool = True


class World:
    """One worker: what its program may use besides redis-py, and what the scheduler knows of it."""

    def __init__(self, stage, name):
        self.name, self.stage = name, stage
        self.database = stage.server.dbs[0]
        self.client = stage.client(name)
        self.db = _Database(self)
        self.status, self.want = "running", None
        self.sections, self.handler, self.signalled = [], None, False
        self.log, self.last_round, self.unchanged = [], None, 0
        self.news = None  # in a poll without end: whether another round would see something new
        self.greenlet = None

    def begin(self, program):
        """Run the program up to its first request."""
        self.greenlet = greenlet.greenlet(lambda: program(self.client, self))
        self.signals = getattr(program, "signals", False)
        self.advance()

    def advance(self, *answer):
        """Give the answer, and run the program up to its next request."""
        try:
            self.want = self.greenlet.switch(*answer)
        except (Exception, SystemExit):
            self.over("raised")
            return
        if self.greenlet.dead:
            self.over("finished")
        elif self.want.period:
            this_round = self.want.what, tuple(self.log)
            self.unchanged = self.unchanged + 1 if this_round == self.last_round else 0
            self.last_round = this_round

    def over(self, status):
        """The process is gone, and its connections with it."""
        self.status = status
        self.db.hang_up()

    def ask(self, want):
        """Called by the program: wait for the scheduler's answer."""
        while (answer := greenlet.getcurrent().parent.switch(want)) == "signal":
            self.log.append("signal")
            self.handler()
        return answer

    def heard(self, want, reply):
        """A round is what a worker asks and hears between two waits."""
        if want.period and reply is None:
            self.log.clear()
        else:
            self.log.append((want.what, repr(reply)))

    # what programs may call

    def effect(self, key):
        want = Want(("effect", key))
        answer = self.ask(want)
        self.stage.effects.append(key)
        self.heard(want, answer)
        if answer == "lose":
            raise TimeoutError("lost")

    def sleep(self, seconds):
        period = round(seconds * SECOND)
        want = Want(("sleep", period), None, Time.now + period, period, counts=False, travels=False)
        want.ready = lambda: want.until <= Time.now
        self.ask(want)
        self.heard(want, None)

    @contextmanager
    def polling(self, what, key):
        """Mark a loop that waits for a key to be `there` or `gone`, for a `row`, or for an `item` of a list."""
        self.news = functools.partial(self._is, what, key)
        yield
        self.news = None

    def _is(self, what, key):
        if what == "row":
            return bool(self.db.look("SELECT 1 FROM job WHERE key = ?", (key,)))
        return (key.encode() in self.database._dict) == (what != "gone")

    @contextmanager
    def section(self, name):
        self.sections.append(name)
        try:
            yield
        finally:
            self.sections.remove(name)

    def on_sigterm(self, handler):
        self.handler = handler


class _Database:
    """A connection of sqlite3 whose statements are requests; what it waits for is asked of the real connections."""

    def __init__(self, world):
        self._world = world
        self._real = None

    @property
    def is_open(self):
        """Whether a transaction is open on it."""
        return self._real is not None and self._real.in_transaction

    def execute(self, text, values=()):
        waits = not text.startswith("SELECT")
        return self._request(Want((text, values), self._may_write if waits else always), text, values)

    def commit(self):
        self._end("COMMIT")

    def rollback(self):
        self._end("ROLLBACK")

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.commit()
        else:
            self.rollback()

    def look(self, text, values=()):
        """What this connection would see, without a request."""
        return self._connection().execute(text, values).fetchall()

    def hang_up(self):
        if self._real is not None:
            self._real.rollback()

    def _end(self, text):
        if self.is_open:
            self._request(Want(text), text, ())

    def _may_write(self):
        others = (world.db for world in self._world.stage.worlds.values() if world.db is not self)
        return not any(other.is_open for other in others)

    def _request(self, want, text, values):
        answer = self._world.ask(want)
        cursor = self._connection().execute(text, values)
        self._world.heard(want, (cursor.rowcount, answer))
        if answer == "lose":
            self._real.rollback()  # the server does, when the connection is gone
            raise sqlite3.OperationalError("lost")
        return cursor

    def _connection(self):
        if self._real is None:
            self._real = self._world.stage.sqlite(self._world.name)
        return self._real


class _Wire(FakeRedisConnection):
    """A connection that asks the scheduler before each request, and may lose its reply."""

    def __init__(self, *args, worker, **kwargs):
        super().__init__(*args, **kwargs)
        self._worker = worker
        self._want, self._answer, self._timed_out = None, "go", False

    @property
    def _world(self):
        return stage().worlds[self._worker]

    def on_connect_check_health(self, check_health=True):
        """A handshake is no request of the program."""

    def _ask(self, what):
        blocks = what[0] == "BLPOP"
        self._want = self._blocking(*what) if blocks else Want(what)
        if greenlet.getcurrent().parent is not None:  # else no worker asks
            self._answer = self._world.ask(self._want)
        self._timed_out = blocks and not self._has(what[1])

    def _has(self, key):
        return key.encode() in self._world.database._dict  # Redis keeps no empty list

    def _blocking(self, name, key, seconds):
        period = round(seconds * SECOND)
        want = Want((name, key, seconds), None, Time.now + period if period else None, period)
        want.ready = lambda: self._has(key) or (period and want.until <= Time.now)
        return want

    def send_command(self, *args, **kwargs):
        self._ask(args)
        if not self._timed_out:  # fakeredis would wait in real time
            super().send_packed_command(self.pack_command(*args), check_health=False)

    def send_packed_command(self, command, check_health=True):
        self._ask(("packed", repr(command)))
        super().send_packed_command(command, check_health)

    def read_response(self, *args, **kwargs):
        lost, self._answer = self._answer == "lose", "go"
        if lost:
            self._world.heard(self._want, "lost")
            raise redis.TimeoutError("lost")
        reply = None if self._timed_out else super().read_response(*args, **kwargs)
        self._world.heard(self._want, reply)
        return reply


class Stage:
    """The stores that all workers share. Building them costs more than an execution, so they are used again."""

    def __init__(self):
        self.server = FakeServer()
        self._clients, self._sqlite = {}, {}
        self._folder = tempfile.TemporaryDirectory()
        self.worlds, self.effects = {}, []

    def client(self, name):
        if name not in self._clients:
            options = {"server": self.server, "client_class": redis.Redis, "version": (8,), "server_type": "redis"}
            pool = redis.ConnectionPool(connection_class=_Wire, worker=name, **options, **_QUIET)
            self._clients[name] = redis.Redis(connection_pool=pool)
        return self._clients[name]

    def sqlite(self, name):
        """A worker's connection to a file with a write-ahead log: one writer, and readers see what is committed."""
        if name not in self._sqlite:
            path = Path(self._folder.name, "jobs.sqlite")
            made = self._sqlite[name] = sqlite3.connect(path, timeout=0, isolation_level="IMMEDIATE")
            made.execute("PRAGMA journal_mode = WAL")
            made.execute("PRAGMA synchronous = OFF")
            if len(self._sqlite) == 1:
                made.execute(TABLE)
                made.execute(FIRST_ROW)
                made.commit()
        return self._sqlite[name]

    def rewind(self):
        """Be as new, for the next execution."""
        Time.now = 0
        self.worlds.clear()
        self.effects.clear()
        for client in self._clients.values():
            client.connection_pool.disconnect()
        with self.server.lock:
            self.server.dbs[0].clear()
        if self._sqlite:
            for connection in self._sqlite.values():
                connection.rollback()
            connection.execute("DELETE FROM job")
            connection.execute(FIRST_ROW)
            connection.commit()

    def rows(self):
        """The committed rows; and, while a transaction is open, whose it is and what it sees."""
        if not self._sqlite:
            return (("x", 0),), None
        owners = [world for world in self.worlds.values() if world.db.is_open]
        others = [world for world in self.worlds.values() if world not in owners]
        committed = tuple(others[0].db.look(ROWS))
        return committed, (owners[0].name, tuple(owners[0].db.look(ROWS))) if owners else None


@functools.cache
def stage():
    """The one stage of this process."""
    return Stage()
