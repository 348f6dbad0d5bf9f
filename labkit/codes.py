"""Numbers for choices: small integers that stand for the same choice in every state of one scenario."""

from __future__ import annotations

from labkit.process import MAIN
from labkit.schedule import OF_WORKERS

KINDS = ("step", *OF_WORKERS)
_OF_THREADS = ("step", "lose")  # what can befall a thread of a worker; other faults befall the worker


class Codes:
    """The numbers of the choices: steps of workers, then their faults, the clock, a failover, and what threads do.

    Parameters
    ----------
    workers: how many workers there are.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.clock = len(KINDS) * workers
        self.failover = self.clock + 1

    def number(self, kind: str, worker: int, actor: int = MAIN) -> int:
        """The number of a choice that concerns a worker, or one of its threads."""
        if actor == MAIN:
            return KINDS.index(kind) * self.workers + worker
        place = (actor - 1) * len(_OF_THREADS) + _OF_THREADS.index(kind)
        return self.failover + 1 + place * self.workers + worker

    def meaning(self, code: int) -> tuple[str, int, int]:
        """The kind of a choice that concerns a worker, the worker's number and the actor's place in it."""
        if code < self.clock:
            kind, worker = divmod(code, self.workers)
            return KINDS[kind], worker, MAIN
        place, worker = divmod(code - self.failover - 1, self.workers)
        actor, kind = divmod(place, len(_OF_THREADS))
        return _OF_THREADS[kind], worker, actor + 1

    def is_step(self, code: int) -> bool:
        """Whether a choice lets somebody step."""
        return code < self.workers or (code > self.failover and self.meaning(code)[0] == "step")

    def is_fault(self, code: int) -> bool:
        """Whether a choice is something that goes wrong."""
        return code != self.clock and not self.is_step(code)
