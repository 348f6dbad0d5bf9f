"""Which effects have happened, under a unique constraint."""

from __future__ import annotations

from .checks import check_name, moment
from .kept_table import KeptTable

_CLAIM = "INSERT INTO processed_events (effect_key, claimed_at) VALUES (?, ?) ON CONFLICT DO NOTHING"


class ProcessedEvents(KeptTable):
    """A table with one row for each effect that was done: whoever inserts the row does the effect.

    Guarantees: of all who claim a key and commit, one was told True. An effect in the same database, in one transaction
    with its key, therefore happens once, whoever dies where:

        with transaction(db):
            if events.claim(effect_key("order-1", "deduct-stock")):
                db.execute("UPDATE stock SET left_over = left_over - 1")

    Holds for `message(stock_inside)`, where a worker dies before its commit: `A A A crash:A clock B B B B B B B`.
    Does not: protect an effect elsewhere. Nothing closes the gap between the two; see `IdempotencyRecords`.
    With the key committed first, the effect is lost: the next delivery finds the key, and deletes the message.
    Shown by `message(key_first)`, where a worker dies between the two: `A A A crash:A clock B B B B B B`.
    With the effect in the open transaction, it happens twice: the key is rolled back, the payment is not.
    Shown by `message(payment_inside)`, where a worker dies before its commit: `A A A crash:A clock B B B B B`.
    And a key that is purged keeps nothing off.
    Shown by `purged(DAY)`, where a message comes from the dead letters: `A A A A clock B B B B clock A A A A A`.
    """

    SCHEMA = """
        CREATE TABLE IF NOT EXISTS processed_events (effect_key TEXT PRIMARY KEY, claimed_at BIGINT NOT NULL)
    """
    PURGE = "DELETE FROM processed_events WHERE claimed_at <= ?"

    def claim(self, key: str, now: float | None = None) -> bool:
        """Whether this call was the first for the key; that counts from the commit on.

        On PostgreSQL, a second claim waits until the first one's transaction ends.
        """
        return bool(self.execute(_CLAIM, check_name("key", key), moment(now)).rowcount == 1)
