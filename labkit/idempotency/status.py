"""The status of things, in a database or in Redis: each write is a compare-and-set along a state machine."""

from __future__ import annotations

from typing import Any

from .checks import check_name
from .state_machine import JOB, StateMachine, TransitionRefused, UnknownId
from .table import Table

_CREATE = "INSERT INTO statuses (id, status) VALUES (?, ?) ON CONFLICT DO NOTHING"
_COMPARE_AND_SET = "UPDATE statuses SET status = ? WHERE id = ? AND status IN ({marks})"
_GET = "SELECT status FROM statuses WHERE id = ?"
_SCRIPT = """-- compare and set
local present = redis.call('get', KEYS[1])
for place = 2, #ARGV do
  if present == ARGV[place] then
    redis.call('set', KEYS[1], ARGV[1], 'KEEPTTL')
    return {1, present}
  end
end
return {0, present}
"""


class SqlStatusStore(Table):
    """Statuses in a database: UPDATE … WHERE status IN (the ones that may come before).

    Guarantees: a status changes along the edges of its state machine only; a terminal one never does. Of all who set
    the same terminal status, one is told True; what it does in the same transaction, such as adding to an `Outbox`,
    happens once.
    Does not: tell one attempt from the next. Where a job may start again, a late worker of the first attempt completes
    the second one's; `IdempotencyRecords` has owners. And True is no licence to publish: a crash may come before.
    Shown by `attempts(SqlStatusStore)`, where one completes what another is at: `A A clock B B B B B clock A A A`.

    Parameters
    ----------
    connection, placeholder: see `Table`.
    machine: which status may follow which.

    Late attempts were seen in https://github.com/matrixorigin/matrixone/pull/25662
    """

    SCHEMA = "CREATE TABLE IF NOT EXISTS statuses (id TEXT PRIMARY KEY, status TEXT NOT NULL)"

    def __init__(self, connection: Any, placeholder: str = "?", machine: StateMachine = JOB) -> None:
        super().__init__(connection, placeholder)
        self.machine = machine

    def begin(self, id: str, status: str) -> bool:
        """Give a new thing its first status; False when it has one."""
        self.machine.check(status)
        return bool(self.execute(_CREATE, check_name("id", id), status).rowcount == 1)

    def get(self, id: str) -> str | None:
        """The status, or None when there is none."""
        row = self.execute(_GET, check_name("id", id)).fetchone()
        return None if row is None else str(row[0])

    def compare_and_set(self, id: str, status: str) -> bool:
        """Set the status if the present one may become it; False when it is this one already.

        Raises `TransitionRefused` when it may not, `UnknownId` when there is none, `ValueError` for no status.
        """
        before = self.machine.before(status)
        marks = ", ".join("?" * len(before)) or "NULL"
        text = _COMPARE_AND_SET.format(marks=marks)
        changed = self.execute(text, status, check_name("id", id), *before).rowcount == 1
        return changed or judge(id, self.get(id), status)


class RedisStatusStore:
    """Statuses in Redis: a script that looks at the present one first, and keeps the key's TTL.

    Guarantees: a status changes along the edges of its state machine only; a terminal one stays as long as its key. A
    lost one is refused as unknown, and not taken for a new one.
    Holds for `late_status(RedisStatusStore)`, where a job is started late: `B A`.
    Does not: last. A key can be evicted, expire, or be lost in a failover; keep terminal statuses in a database. Nor go
    together with anything else: what is published after it may be lost.
    Shown by `completion(redis_status_then_publish)`, where a worker dies before its event: `A crash:A clock B B`.

    Parameters
    ----------
    redis: a `redis.Redis` client.
    machine: which status may follow which.
    prefix: what the keys begin with.
    """

    def __init__(self, redis: Any, machine: StateMachine = JOB, prefix: str = "job_status:") -> None:
        self.redis, self.machine, self.prefix = redis, machine, prefix

    def begin(self, id: str, status: str) -> bool:
        """Give a new thing its first status; False when it has one."""
        self.machine.check(status)
        return bool(self.redis.set(self.key(id), status, nx=True))

    def get(self, id: str) -> str | None:
        """The status, or None when there is none."""
        status: str | None = as_text(self.redis.get(self.key(id)))
        return status

    def compare_and_set(self, id: str, status: str) -> bool:
        """Set the status if the present one may become it; see `SqlStatusStore`."""
        arguments = [status, *self.machine.before(status)]
        changed, present = self.redis.register_script(_SCRIPT)(keys=[self.key(id)], args=arguments)
        return bool(changed) or judge(id, as_text(present), status)

    def key(self, id: str) -> str:
        """The Redis key of a thing's status."""
        return self.prefix + check_name("id", id)


def judge(id: str, present: str | None, wanted: str) -> bool:
    """What a status that was not changed means: False when it is the wanted one; else an error."""
    if present is None:
        raise UnknownId(f"{id!r} has no status: call begin(), or look where it was lost")
    if present != wanted:
        raise TransitionRefused(id, present, wanted)
    return False


def as_text(reply: Any) -> Any:
    """A reply as text, whether or not the client decodes replies; comparing them undecoded is a guard that fails."""
    return reply.decode() if isinstance(reply, bytes) else reply
