"""Probabilistic concurrency testing: few random priorities find what even draws find only by luck.

Source: S. Burckhardt, P. Kothari, M. Musuvathi, S. Nagarakatte, "A randomized scheduler with probabilistic
guarantees of finding bugs", ASPLOS 2010. Always the enabled worker with the highest priority goes on; at
`depth - 1` random points the one that is going gets the lowest priority so far. A violation that needs `depth`
orderings is hit with a probability of at least 1/(n·k^(depth-1)) for n workers and k steps. Departures: the
clock counts as one more worker, and an enabled fault strikes at a random point instead of having a priority.
"""

from __future__ import annotations

import random

from labkit.engine import Engine, State

DEPTH = 3


class Priorities:
    """The priorities of one execution.

    Parameters
    ----------
    engine: what is executed.
    chance: where randomness comes from.
    length: how many choices an execution takes, as far as is known.
    """

    def __init__(self, engine: Engine, chance: random.Random, length: int) -> None:
        actors = [*range(len(engine.machines)), engine.clock_code]
        chance.shuffle(actors)
        self._priority: dict[int, float] = {actor: len(actors) - place for place, actor in enumerate(actors)}
        self._drops = {chance.randrange(length + 1) for _ in range(DEPTH - 1)}
        self._fault_at = chance.randrange(length + 1)
        self._chance, self._taken = chance, 0

    def __call__(self, engine: Engine, state: State, enabled: list[int]) -> int:
        """The choice to take next."""
        actors = [code for code in enabled if not engine.codes.is_fault(code)]
        faults = [code for code in enabled if engine.codes.is_fault(code)]
        for code in actors:  # a worker's thread has no priority before it is there
            self._priority.setdefault(code, self._chance.uniform(0, len(self._priority)))
        place, self._taken = self._taken, self._taken + 1
        if faults and place >= self._fault_at:
            self._fault_at = place + 1 + self._chance.randrange(self._fault_at + 2)
            return self._chance.choice(faults)
        best = max(actors, key=self._priority.__getitem__)
        if place in self._drops:
            self._priority[best] = min(self._priority.values()) - 1
            best = max(actors, key=self._priority.__getitem__)
        return best
