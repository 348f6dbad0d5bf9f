"""A table of keys that are kept for as long as a message may come again, and no longer."""

from __future__ import annotations

from typing import Any

from .checks import milliseconds, moment
from .table import Table

HORIZON = 1_209_600  # seconds: 14 days, the longest that an SQS queue keeps a message


class KeptTable(Table):
    """A table whose rows must outlive the last delivery of their message.

    Parameters
    ----------
    connection, placeholder: see `Table`.
    horizon: seconds after which no message comes again: how long the queue keeps one, then its dead letters, and until
        somebody has sent those again. Effects that were done once may happen again if it is too short.
    """

    PURGE = ""

    def __init__(self, connection: Any, placeholder: str = "?", horizon: float = HORIZON) -> None:
        super().__init__(connection, placeholder)
        self.horizon_ms = milliseconds("horizon", horizon)

    def purge(self, older_than: float, now: float | None = None) -> int:
        """Delete what was claimed so many seconds ago or earlier; returns how many rows.

        A claim that has a lease counts from its end, whether it was completed or its owner died. Raises `ValueError`
        for less than the horizon.
        """
        age = milliseconds("older_than", older_than)
        if age < self.horizon_ms:
            raise ValueError(
                f"older_than is {older_than:g} s, but messages may come again for {self.horizon_ms / 1000:g} s: "
                "keep their keys for as long, or give another horizon"
            )
        return int(self.execute(self.PURGE, moment(now) - age).rowcount)
