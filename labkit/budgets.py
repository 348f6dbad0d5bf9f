"""What may go wrong in one execution, and how often."""

from __future__ import annotations

from dataclasses import dataclass

from labkit.errors import ScenarioError

BUDGET_OF = {"crash": "crashes", "lose": "lost_replies", "signal": "signals", "jump": "jumps", "failover": "failovers"}


@dataclass(frozen=True)
class Budgets:
    """What may go wrong in one execution.

    Parameters
    ----------
    crashes: how many workers may be killed.
    lost_replies: how many requests may take effect without their reply arriving.
    signals: how many workers may get SIGTERM, among those that the scenario says may; None for all of them.
    pauses: how often time may pass while a worker could step; None for as often as you like.
    polls: after how many unchanged rounds a polling worker is left alone until something would be new to it.
    jumps: how many workers' wall clocks may jump, among those that the scenario says may.
    failovers: how often a replica may take over from the Redis server, without its last writes.
    """

    crashes: int = 0
    lost_replies: int = 0
    signals: int | None = None
    pauses: int | None = 0
    polls: int = 3
    jumps: int = 0
    failovers: int = 0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            may_be_none = name in ("pauses", "signals") and value is None
            if not may_be_none and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
                raise ScenarioError(f"{name} is a number, 0 or more, not {value!r}")
        if self.polls < 1:
            raise ScenarioError("polls is at least 1: a worker must poll once before a repetition can be seen")
