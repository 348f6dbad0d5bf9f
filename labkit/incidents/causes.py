"""Root causes, one at a time, in the same shop: which alert tells of which, and of which none does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from labkit import Trace
from labkit.incidents.production import Production
from labkit.observe import Alerts, alerts

_SHOP = Production()
_CALM = _SHOP.but(orders=48, every=10)  # workers have time, so that two may look at one moment


@dataclass(frozen=True)
class Cause:
    """One thing that is wrong.

    Parameters
    ----------
    name: its name.
    says: what is wrong, in one sentence.
    shop: the scenario.
    """

    name: str
    says: str
    shop: Production

    def run(self, seed: int = 0) -> Trace:
        """Execute it."""
        return self.shop.run(seed)

    def alerts(self, seed: int = 0) -> Alerts:
        """Execute it, and evaluate the alert rules."""
        return alerts(self.run(seed))


_CAUSES = (
    Cause("nothing", "Old workers drain, jobs are short, the deploy is quiet.", _SHOP),
    Cause("no drain", "SIGTERM kills the old workers in the middle of their jobs.", _SHOP.but(on_sigterm="die")),
    Cause(
        "no drain, idempotent",
        "SIGTERM kills the old workers, and each order has a record: claimed, then done.",
        _SHOP.but(on_sigterm="die", idempotent=True),
    ),
    Cause(
        "short visibility timeout",
        "Messages are hidden for 30 s, and one order in five takes 45 s.",
        _CALM.but(slow_every=5, visibility_timeout=30),
    ),
    Cause(
        "check-then-set lock",
        "One order in three is sent twice, and its lock is looked at first and taken then.",
        _CALM.but(sent_twice=3, lock="cache key"),
    ),
    Cause(
        "lock kept by the dead",
        "SIGTERM kills workers that hold locks for five minutes; who comes after them waits in vain.",
        _SHOP.but(on_sigterm="die", lock="atomic", lock_seconds=300, lock_wait=5, visibility_timeout=30),
    ),
    Cause("nobody polls", "The old workers drain, and the new ones never come.", _SHOP.but(ready=0)),
    Cause(
        "ack first",
        "Messages are deleted before the work, and SIGTERM kills the old workers: their jobs are lost.",
        _SHOP.but(on_sigterm="die", ack="before"),
    ),
    Cause(
        "no idempotency",
        "One order in five is sent again 18 s later, when the first is done, and nothing keeps it off.",
        _SHOP.but(sent_twice=5, sent_again=3),
    ),
)
ROOT_CAUSES: Mapping[str, Cause] = {cause.name: cause for cause in _CAUSES}
