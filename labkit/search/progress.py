"""A progress bar for searches that take longer than a second; `LABKIT_PROGRESS=0` switches it off."""

from __future__ import annotations

import os
import time
from typing import Any

_real_clock = time.perf_counter
_DELAY = 1.0  # seconds before anything is shown


class Progress:
    """How far a search has come: states seen, and states still to follow up.

    Parameters
    ----------
    most: how many states the search sees at most.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._wanted = os.environ.get("LABKIT_PROGRESS", "1") != "0"
        self._started = _real_clock()
        self._bar: Any = None

    def show(self, seen: int, waiting: int) -> None:
        """Say how many states were seen, and how many of them wait to be followed up."""
        if not self._wanted or _real_clock() - self._started < _DELAY:
            return
        if self._bar is None:
            from tqdm.auto import tqdm  # only now: it is slow to import, and most searches are over before

            self._bar = tqdm(desc="explore", unit=" states", leave=False, initial=seen)
        self._bar.update(seen - self._bar.n)
        self._bar.set_postfix_str(f"{waiting:,} to follow up, at most {self._most:,}", refresh=True)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()
