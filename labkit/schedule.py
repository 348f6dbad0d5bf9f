"""A schedule: the list of choices that makes one execution, printable as one line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import overload

from labkit.errors import ScheduleError

OF_WORKERS = ("crash", "lose", "signal", "jump")  # faults that hit one worker
FAULTS = (*OF_WORKERS, "failover")
_ALONE = ("clock", "failover")  # choices that concern no worker
_WORKER_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_ACTOR_NAME = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)?")


def is_worker_name(name: str) -> bool:
    """Whether a name can stand in a schedule: letters, digits, `_`, `.` and `-`, and not `clock` or `failover`."""
    return bool(_WORKER_NAME.fullmatch(name)) and name not in _ALONE


@dataclass(frozen=True, slots=True)
class Choice:
    """One decision of the scheduler.

    Parameters
    ----------
    kind: `step` (let a worker take its next step), `clock` (time passes to the next deadline), `crash` (the worker's
        process is killed), `lose` (its next request takes effect, and the reply is lost), `signal` (it gets SIGTERM),
        `jump` (its wall clock jumps) or `failover` (a replica of Redis takes over, without its last writes).
    worker: the worker's name, with a slash and the thread's name where it is one of its threads; None for `clock` and
        `failover`.
    """

    kind: str
    worker: str | None = None

    def __str__(self) -> str:
        if self.kind == "step":
            return str(self.worker)
        return self.kind if self.worker is None else f"{self.kind}:{self.worker}"

    @property
    def process(self) -> str | None:
        """The worker's name, whichever of its threads is meant."""
        return None if self.worker is None else self.worker.partition("/")[0]

    @property
    def is_fault(self) -> bool:
        """Whether the choice is something that goes wrong, instead of something that goes on."""
        return self.kind in FAULTS

    @classmethod
    def parse(cls, word: str) -> Choice:
        """Read one choice, such as `A`, `clock` or `crash:A`; `ScheduleError` when it is none."""
        kind, colon, worker = word.rpartition(":")
        if not colon:
            if word in _ALONE:
                return cls(word)
            if _ACTOR_NAME.fullmatch(word):
                return cls("step", word)
        elif kind in OF_WORKERS and _ACTOR_NAME.fullmatch(worker) and worker not in _ALONE:
            return cls(kind, worker)
        faults = ", ".join(f"`{fault}:NAME`" for fault in OF_WORKERS)
        raise ScheduleError(f"{word!r} is not a choice; write a worker's name, `clock`, {faults} or `failover`")


class Schedule(Sequence[Choice]):
    """An immutable list of choices; `str(schedule)` and `Schedule.parse(text)` are inverse.

    Parameters
    ----------
    choices: the choices, in the order in which the scheduler takes them.
    """

    __slots__ = ("_choices",)

    def __init__(self, choices: Iterable[Choice] = ()) -> None:
        self._choices = tuple(choices)
        for choice in self._choices:
            if not isinstance(choice, Choice):
                raise ScheduleError(f"{choice!r} is no Choice; read a schedule from text with Schedule.parse('A B')")

    @classmethod
    def parse(cls, text: str | Schedule) -> Schedule:
        """Read a schedule from its one-line form; `ScheduleError` names the first bad word."""
        if isinstance(text, Schedule):
            return text
        if not isinstance(text, str):
            raise ScheduleError(f"a schedule is text such as 'A A B clock', not {type(text).__name__}")
        return cls(Choice.parse(word) for word in text.split())

    def __str__(self) -> str:
        return " ".join(map(str, self._choices))

    def __repr__(self) -> str:
        return f"Schedule.parse({str(self)!r})"

    def __len__(self) -> int:
        return len(self._choices)

    def __iter__(self) -> Iterator[Choice]:
        return iter(self._choices)

    @overload
    def __getitem__(self, index: int) -> Choice: ...
    @overload
    def __getitem__(self, index: slice) -> Schedule: ...
    def __getitem__(self, index: int | slice) -> Choice | Schedule:
        picked = self._choices[index]
        return Schedule(picked) if isinstance(picked, tuple) else picked

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schedule) and self._choices == other._choices

    def __hash__(self) -> int:
        return hash(self._choices)

    @property
    def switches(self) -> int:
        """How often another worker goes on than the one that stepped last (clock and faults are no switch)."""
        actors = [choice.worker for choice in self if choice.kind == "step"]
        return sum(one != other for one, other in pairwise(actors))
