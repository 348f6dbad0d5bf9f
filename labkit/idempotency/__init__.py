"""Idempotency: records of what was done, an outbox, a guarded status and its cache, naive and sound side by side.

They need the standard library, redis-py for what lives in Redis, and a DB-API connection that you give them: copy this
folder into your own code, under any name. The statements are for SQLite and PostgreSQL. Nothing in here commits but
`Relay`: a method works inside your transaction, so that you decide what goes together; `transaction` ends it.
Each class says what it guarantees, what it does not, and which schedule shows it, of a scenario that it names and that
`tests/idempotency_scenarios.py` has. In a schedule, to read the clock and to wake up are steps too; A works first, and
B comes later.
"""

from .cache import StatusCache
from .keys import effect_key
from .naive import DeleteOnWriteCache, GuardedStatusStore, MarkFirstRelay, OverwritingStatusStore, WriteThroughCache
from .outbox import Outbox, OutboxEvent
from .processed_events import ProcessedEvents
from .records import Answer, Claimed, ClaimLost, Done, IdempotencyRecords, InProgress
from .relay import Relay
from .state_machine import JOB, StateMachine, TransitionRefused, UnknownId
from .status import RedisStatusStore, SqlStatusStore
from .table import Table, transaction

__all__ = [
    "JOB",
    "Answer",
    "ClaimLost",
    "Claimed",
    "DeleteOnWriteCache",
    "Done",
    "GuardedStatusStore",
    "IdempotencyRecords",
    "InProgress",
    "MarkFirstRelay",
    "Outbox",
    "OutboxEvent",
    "OverwritingStatusStore",
    "ProcessedEvents",
    "RedisStatusStore",
    "Relay",
    "SqlStatusStore",
    "StateMachine",
    "StatusCache",
    "Table",
    "TransitionRefused",
    "UnknownId",
    "WriteThroughCache",
    "effect_key",
    "transaction",
]
