"""The part that one process has in a live run: what it does just now, and what it does it with."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from labkit.errors import Nondeterminism, PropertyError

if TYPE_CHECKING:
    from labkit.processes.effects import Ask
    from labkit.processes.journal import Journal
    from labkit.processes.real_sql import RealDatabase
    from labkit.stores.prefixing import Prefix

_AGAIN = "when a worker's process builds the scenario again"


@dataclass
class Part:
    """One process's part.

    Parameters
    ----------
    redis_url: the server.
    prefix: the run's own corner of it.
    database: where `lab.sql()` goes.
    ask: asks an outside service.
    journal: where a worker's steps are noted; None for the process that runs the whole.
    mode: `recording` while the scenario is built for the first time and its requests take effect; `playing` while a
        worker's process builds it again and they are answered from the record; `working` while a worker works;
        `observing` while properties are judged.
    tape: the requests of the set-up, by their first word, and the replies to them.
    touched: the stores that observers asked.
    """

    redis_url: str
    prefix: Prefix
    database: RealDatabase
    ask: Ask
    journal: Journal | None = None
    mode: str = "recording"
    tape: list[tuple[str, Any]] = field(default_factory=list)
    touched: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._ahead: deque[tuple[str, Any]] = deque()

    @property
    def journal_at_work(self) -> Journal | None:
        """The journal, while the worker works; None at all other times, when nothing is a step."""
        return self.journal if self.mode == "working" else None

    def play(self) -> None:
        """Answer what is asked from now on as it was answered in the set-up."""
        self.mode, self._ahead = "playing", deque(self.tape)

    def played(self, word: str) -> Any:
        """What the set-up was answered to this request; raises the exception if it was one."""
        expected, reply = self._ahead.popleft() if self._ahead else ("nothing", None)
        if word != expected:
            raise Nondeterminism(f"the scenario's set-up asks for {word}, and asked for {expected} before, {_AGAIN}")
        if isinstance(reply, Exception):
            raise reply
        return reply

    def taped(self, word: str, reply: Any) -> None:
        """Note a reply, of the set-up or to an observer."""
        if self.mode == "recording":
            self.tape.append((word, reply))

    def work(self) -> None:
        """The scenario is built; the worker begins."""
        if self._ahead:
            raise Nondeterminism(f"the scenario's set-up leaves out {self._ahead[0][0]} {_AGAIN}")
        self.mode = "working"

    def look_at(self, store: str, changes: str = "") -> None:
        """Note that an observer asks a store; `PropertyError` when the request would change something."""
        if self.mode == "observing":
            self.touched.add(store)
            if changes:
                raise PropertyError(f"a property or observer changes the store with {changes!r}; it may only read")
