"""An effect's record in three states: absent, in progress under a lease, completed with its result."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from .checks import as_json, check_name, milliseconds, moment
from .kept_table import KeptTable

_CLAIM = """
    INSERT INTO idempotency_records (effect_key, owner, lease_until) VALUES (?, ?, ?)
    ON CONFLICT (effect_key) DO UPDATE SET owner = excluded.owner, lease_until = excluded.lease_until
    WHERE idempotency_records.result IS NULL AND idempotency_records.lease_until <= ?
"""
_LOOK = "SELECT result, lease_until FROM idempotency_records WHERE effect_key = ?"
_COMPLETE = "UPDATE idempotency_records SET result = ? WHERE effect_key = ? AND owner = ? AND result IS NULL"
_RELEASE = "DELETE FROM idempotency_records WHERE effect_key = ? AND owner = ? AND result IS NULL"
_LEASES = "SELECT effect_key, lease_until FROM idempotency_records WHERE result IS NULL"


@dataclass(frozen=True)
class Claimed:
    """The effect is yours to do, until that time in seconds since 1970; then `complete`, or `release`."""

    until: float


@dataclass(frozen=True)
class InProgress:
    """Somebody else is on it, at most until then: do not acknowledge the message, let it come again."""

    until: float


@dataclass(frozen=True)
class Done:
    """It was done, with this result: acknowledge the message."""

    result: Any


Answer = Claimed | InProgress | Done


class ClaimLost(RuntimeError):
    """The claim is no longer this owner's: taken over when its lease had ended, released, or completed."""


class IdempotencyRecords(KeptTable):
    """A table with a record for each effect: in progress with an owner and a lease, then completed with a result.

    Guarantees: while a lease lasts, nobody else claims the effect. A dead owner's claim can be taken over. Only the
    latest owner completes it, and once it is completed, everybody is told `Done`. What an owner does in this database,
    in one transaction with `complete`, therefore happens once; whoever was overtaken rolls back.
    Holds for `message(claim_then(sell_inside))`, where one is overtaken: `A A A clock B B B B B B B B B A A A`.
    Does not: do an effect elsewhere exactly once. An owner that dies between effect and `complete`, or works for longer
    than its lease, leaves the effect to be done again: at least once. Give the service the key (see `effect_key`).
    Leases are compared with the caller's clock: one that runs ahead takes over from the living.
    Shown by `message(claim_then(pay))`, where one is paused after its payment: `A A A A clock B B B B B B`.

    Commit the claim before the effect: until then, nobody sees it. Take a new owner for each attempt, such as
    `uuid.uuid4().hex`: with the worker's name, an overtaken attempt releases its successor's claim.
    """

    SCHEMA = """
        CREATE TABLE IF NOT EXISTS idempotency_records (
            effect_key TEXT PRIMARY KEY, owner TEXT NOT NULL, lease_until BIGINT NOT NULL, result TEXT)
    """
    # A record's age counts from the end of its lease: its message is older than that. Claims of dead owners go too.
    PURGE = "DELETE FROM idempotency_records WHERE lease_until <= ?"

    def claim(self, key: str, owner: str, lease: float, now: float | None = None) -> Answer:
        """Claim an effect for so many seconds."""
        at = moment(now)
        until = at + milliseconds("lease", lease)
        if self.execute(_CLAIM, check_name("key", key), check_name("owner", owner), until, at).rowcount == 1:
            return Claimed(until / 1000)
        result, until = self.execute(_LOOK, key).fetchone() or (None, at)  # released in the meantime: try again
        return InProgress(until / 1000) if result is None else Done(json.loads(result))

    def complete(self, key: str, owner: str, result: object = None) -> None:
        """Keep the result, which is anything that JSON can say; `ClaimLost` when the claim is another's by now."""
        kept = as_json(f"the result of {key!r}", result)
        if self.execute(_COMPLETE, kept, check_name("key", key), check_name("owner", owner)).rowcount != 1:
            raise ClaimLost(f"{key!r} cannot be completed by {owner!r}: it was taken over, released, or completed")

    def release(self, key: str, owner: str) -> bool:
        """Give a claim back when the effect has certainly not happened; whether it was still this owner's."""
        return bool(self.execute(_RELEASE, check_name("key", key), check_name("owner", owner)).rowcount == 1)

    def deadlines(self) -> dict[str, float]:
        """When each lease ends, or ended: seconds since 1970 by its key."""
        return {key: until / 1000 for key, until in self.execute(_LEASES).fetchall()}
