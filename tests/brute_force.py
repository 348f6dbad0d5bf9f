"""Every schedule, executed from the start, with no caching: the independent judge of the search.

It shares no code with the lab's engine: it has its own greenlets, its own connection class, its own clock and
its own idea of what is enabled.
"""

import greenlet
import redis
from fakeredis import FakeServer
from fakeredis._clients._sync import FakeRedisConnection
from fakeredis._core._database import Database
from redis.driver_info import DriverInfo
from redis.maint_notifications import MaintNotificationsConfig

_NO_DRIVER = DriverInfo(name=None, lib_version=None)  # otherwise every connection looks up its version
_NO_NOTIFICATIONS = MaintNotificationsConfig(enabled=False)
START = 1_000_000  # seconds; small, so that floats stay exact to the microsecond


class _Time:
    now = 0  # microseconds

    @classmethod
    def seconds(cls):
        return START + cls.now / 1e6


class _Wire(FakeRedisConnection):
    def send_command(self, *args, **kwargs):
        here = greenlet.getcurrent()
        if here.parent is not None:
            here.parent.switch(("redis", args))
        super().send_command(*args, **kwargs)


class _Execution:
    def __init__(self, programs, crashes, pauses):
        _Time.now = 0
        self.server = FakeServer()
        self.database = self.server.dbs[0]
        self.effects = []
        self.crashes, self.pauses = crashes, pauses
        self.names = list(programs)
        self.status = dict.fromkeys(self.names, "running")
        self.wake = dict.fromkeys(self.names, 0)
        self.pending = {}
        self.greenlets = {}
        for name, program in programs.items():
            client = self._client()
            self.greenlets[name] = greenlet.greenlet(lambda client=client, program=program: program(client, self))
            self._advance(name)

    def _client(self):
        options = {"server": self.server, "client_class": redis.Redis, "version": (8,), "server_type": "redis"}
        quiet = {"driver_info": _NO_DRIVER, "maint_notifications_config": _NO_NOTIFICATIONS}
        pool = redis.ConnectionPool(connection_class=_Wire, **options, **quiet)
        client = redis.Redis(connection_pool=pool)
        client.ping()
        return client

    # what programs may call
    def effect(self, key):
        greenlet.getcurrent().parent.switch(("effect", key))
        self.effects.append(key)

    def sleep(self, seconds):
        greenlet.getcurrent().parent.switch(("sleep", round(seconds * 1e6)))

    def _advance(self, name):
        try:
            self.pending[name] = self.greenlets[name].switch()
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
        return choices

    def _deadlines(self, live):
        keys = [round((item.expireat - START) * 1e6) for item in self.database._dict.values() if item.expireat]
        return [at for at in keys + [self.wake[name] for name in live] if at > _Time.now]

    def take(self, kind, name):
        if kind == "crash":
            self.crashes -= 1
            self.status[name] = "crashed"
        elif kind == "clock":
            live = [one for one in self.names if self.status[one] == "running"]
            if any(self.wake[one] <= _Time.now for one in live):
                self.pauses -= 1
            _Time.now = min(self._deadlines(live))
            for key in [k for k, item in self.database._dict.items() if item.expireat]:
                if round((self.database._dict[key].expireat - START) * 1e6) <= _Time.now:
                    del self.database._dict[key]
        else:
            self._advance(name)

    def outcome(self):
        keys = []
        for key, item in sorted(self.database._dict.items()):
            left = round((item.expireat - START) * 1e6) - _Time.now if item.expireat else None
            keys.append((key, item.value, left))
        return tuple(keys), tuple(self.effects), tuple(self.status[name] for name in self.names)


def outcomes(programs, crashes, pauses, monkeypatch, cap=20_000):
    """The set of final outcomes of every schedule, or None when there are more than `cap` schedules."""
    for module in ("fakeredis._socket._base", "fakeredis._helpers"):
        monkeypatch.setattr(f"{module}.time", type("clock", (), {"time": staticmethod(_Time.seconds)}))
    monkeypatch.setattr(Database, "expired", lambda self, item: False)  # expiry is taken care of above
    found, kept, todo, executions = set(), [], [()], 0
    while todo:
        prefix = todo.pop()
        executions += 1
        if executions > cap:
            return None
        execution = _Execution(programs, crashes, pauses)
        kept.append(execution)  # a greenlet that is collected would run its finally blocks
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
    return found
