"""Every schedule, executed from the start, with no caching: the independent judge of the search.

It shares no code with the lab's engine: it has its own greenlets, its own connection class, its own clock and
its own idea of what is enabled. Programs are functions of a redis-py client and a world with `effect(key)` and
`sleep(seconds)`.
"""

import contextlib

import greenlet
import redis
from fakeredis import FakeServer
from fakeredis._clients._sync import FakeRedisConnection
from fakeredis._core._database import Database
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

TWICE, MISSING = "no effect happens twice", "x exists at the end"


class _Time:
    now = 0  # microseconds

    @classmethod
    def seconds(cls):
        return START + cls.now / 1e6


def _in_worker():
    return greenlet.getcurrent().parent is not None


class _Wire(FakeRedisConnection):
    """A connection that asks the scheduler before each request, and may lose its reply."""

    _asked = _lost = False

    def on_connect_check_health(self, check_health=True):
        """A handshake is no request of the program."""

    def _ask(self):
        if _in_worker():
            self._lost = greenlet.getcurrent().parent.switch(("request", None)) == "lose"

    def send_command(self, *args, **kwargs):
        self._ask()
        self._asked = True
        try:
            super().send_command(*args, **kwargs)
        finally:
            self._asked = False

    def send_packed_command(self, command, check_health=True):
        if not self._asked:
            self._ask()
        super().send_packed_command(command, check_health)

    def read_response(self, *args, **kwargs):
        if self._lost:
            self._lost = False
            raise redis.TimeoutError("lost")
        return super().read_response(*args, **kwargs)


class _Execution:
    def __init__(self, programs, crashes, pauses, lost):
        _Time.now = 0
        self.server = FakeServer()
        self.database = self.server.dbs[0]
        self.effects = []
        self.crashes, self.pauses, self.lost = crashes, pauses, lost
        self.length = 0
        self.first_twice = None
        self.names = list(programs)
        self.status = dict.fromkeys(self.names, "running")
        self.wake = dict.fromkeys(self.names, 0)
        self.pending = {}
        self.greenlets = {}
        for name, program in programs.items():
            client = self._client()
            self.greenlets[name] = greenlet.greenlet(lambda client=client, program=program: program(client, self))
            self._advance(name, None)

    def _client(self):
        options = {"server": self.server, "client_class": redis.Redis, "version": (8,), "server_type": "redis"}
        return redis.Redis(connection_pool=redis.ConnectionPool(connection_class=_Wire, **options, **_QUIET))

    # what programs may call
    def effect(self, key):
        answer = greenlet.getcurrent().parent.switch(("effect", key))
        self.effects.append(key)
        if self.first_twice is None and self.effects.count(key) > 1:
            self.first_twice = self.length
        if answer == "lose":
            raise TimeoutError("lost")

    def sleep(self, seconds):
        greenlet.getcurrent().parent.switch(("sleep", round(seconds * 1e6)))

    def _advance(self, name, answer):
        try:
            self.pending[name] = self.greenlets[name].switch(answer) if answer else self.greenlets[name].switch()
        except Exception:
            self.status[name] = "raised"
            return
        if self.greenlets[name].dead:
            self.status[name] = "finished"
        elif self.pending[name][0] == "sleep":
            self.wake[name] = _Time.now + self.pending[name][1]

    def enabled(self):
        live = [name for name in self.names if self.status[name] == "running"]
        ready = [name for name in live if self.wake[name] <= _Time.now]
        choices = [("step", name) for name in ready]
        if live and self._deadlines(live) and (not ready or self.pauses > 0):
            choices.append(("clock", None))
        if self.crashes:
            choices += [("crash", name) for name in live]
        if self.lost:
            choices += [("lose", name) for name in ready if self.pending[name][0] != "sleep"]
        return choices

    def _deadlines(self, live):
        keys = [round((item.expireat - START) * 1e6) for item in self.database._dict.values() if item.expireat]
        return [at for at in keys + [self.wake[name] for name in live] if at > _Time.now]

    def take(self, kind, name):
        counts = kind != "step" or self.pending[name][0] != "sleep"
        self.length += counts
        if kind == "crash":
            self.crashes -= 1
            self.status[name] = "crashed"
        elif kind == "clock":
            live = [one for one in self.names if self.status[one] == "running"]
            if any(self.wake[one] <= _Time.now for one in live):
                self.pauses -= 1
            _Time.now = min(self._deadlines(live))
            for key in [key for key, item in self.database._dict.items() if item.expireat]:
                if round((self.database._dict[key].expireat - START) * 1e6) <= _Time.now:
                    del self.database._dict[key]
                    with self.server.lock:
                        self.database.notify_watch(key)  # as Redis does, and fakeredis does not
        else:
            self.lost -= kind == "lose"
            self._advance(name, kind if kind == "lose" else None)

    def outcome(self):
        keys = []
        for key, item in sorted(self.database._dict.items()):
            left = round((item.expireat - START) * 1e6) - _Time.now if item.expireat else None
            keys.append((key, item.value, left))
        return tuple(keys), tuple(self.effects), tuple(self.status[name] for name in self.names)


def judged(programs, crashes, pauses, lost, monkeypatch, cap):
    """Execute every schedule: the set of final outcomes, and the length of the shortest violation of each property.

    None when there are more than `cap` schedules.
    """
    for module in ("fakeredis._socket._base", "fakeredis._helpers"):
        monkeypatch.setattr(f"{module}.time", type("clock", (), {"time": staticmethod(_Time.seconds)}))
    monkeypatch.setattr(Database, "expired", lambda self, item: False)  # expiry is taken care of above
    found, shortest, kept, todo = set(), {}, [], [()]
    while todo:
        prefix = todo.pop()
        execution = _Execution(programs, crashes, pauses, lost)
        kept.append(execution)  # a greenlet that is collected would run its finally blocks
        if len(kept) > cap:
            _let_go(kept)
            return None
        place = 0
        while choices := execution.enabled():
            if place < len(prefix):
                pick = prefix[place]
            else:
                pick = 0
                todo += [(*prefix, other) for other in range(1, len(choices))]
                prefix = (*prefix, 0)
            execution.take(*choices[pick])
            place += 1
        found.add(execution.outcome())
        if execution.first_twice is not None:
            shortest[TWICE] = min(shortest.get(TWICE, 10**9), execution.first_twice)
        if b"x" not in execution.database._dict:
            shortest[MISSING] = min(shortest.get(MISSING, 10**9), execution.length)
    _let_go(kept)
    return found, shortest


def _let_go(executions):
    """End what is still suspended, now that every outcome is written down; Python would keep it for ever."""
    for execution in executions:
        for one in execution.greenlets.values():
            while not one.dead:
                with contextlib.suppress(Exception):
                    one.throw()
