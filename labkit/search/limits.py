"""When a search is cut short: too many states, too much time, too much memory."""

from __future__ import annotations

import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from labkit.errors import ScenarioError

_real_clock = time.perf_counter
MOST_STEPS_OF_A_WORKER = 2_000
_STATM = Path("/proc/self/statm")


@dataclass(frozen=True)
class Limits:
    """What a search may use.

    Parameters
    ----------
    states: how many distinct states to see. Reproducible: the others depend on the machine.
    until: the real time, on `time.perf_counter`, at which to stop, or None.
    megabytes: how much memory this process may use in all, or None.
    """

    states: int = 500_000
    until: float | None = None
    megabytes: float | None = None

    @classmethod
    def of(cls, max_states: int, max_seconds: float | None, max_megabytes: float | None) -> Limits:
        """Limits from now on; `ScenarioError` when one makes no sense."""
        if not isinstance(max_states, int) or max_states < 1:
            raise ScenarioError(f"max_states is at least 1, not {max_states!r}")
        for name, value in (("max_seconds", max_seconds), ("max_megabytes", max_megabytes)):
            if value is not None and (not isinstance(value, (int, float)) or not value > 0):
                raise ScenarioError(f"{name} is a number above 0, or None, not {value!r}")
        return cls(max_states, None if max_seconds is None else _real_clock() + max_seconds, max_megabytes)

    def seconds_left(self) -> float | None:
        """How many seconds of real time are left, 0 or more; None when there is no limit."""
        return None if self.until is None else max(0.0, self.until - _real_clock())

    def reached(self, states: int, visited: int, steps: int) -> str | None:
        """Which limit is reached, in words, or None; `steps` are those of the worker that took most."""
        if steps > MOST_STEPS_OF_A_WORKER:
            return f"limit of {MOST_STEPS_OF_A_WORKER:,} steps by one worker: does it loop for ever?"
        if states > self.states:
            return f"limit of {self.states:,} states"
        if visited % 256 == 0:
            if self.until is not None and _real_clock() >= self.until:
                return "limit of seconds"
            if self.megabytes is not None and memory_in_use() > self.megabytes:
                return f"limit of {self.megabytes:g} megabytes"
        return None


def memory_in_use() -> float:
    """The megabytes that this process holds; where the system does not tell, the most it ever held."""
    if _STATM.exists():
        pages = int(_STATM.read_text().split()[1])
        return pages * resource.getpagesize() / 2**20
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / 2**20 if sys.platform == "darwin" else most / 2**10
