"""A point in a worker's life: the replies it has had so far, and what its actors do next."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, NamedTuple

from labkit.actor import Operation, Step
from labkit.process import MAIN, Situation


class _Word:
    """A reply that is none: what happened instead."""

    def __init__(self, word: str) -> None:
        self._word = word

    def __repr__(self) -> str:
        return self._word

    def __reduce__(self) -> str:
        return self._word  # there is one of each, in every process


LOST, SIGNAL, JUMP = _Word("LOST"), _Word("SIGNAL"), _Word("JUMP")
INTERRUPTIONS = (SIGNAL, JUMP)  # after which what was asked is still to be done
READ_THE_CLOCK = Operation("clock", ("read",))
LONGEST_ROUND = 64


class Asked(NamedTuple):
    """One request in a round, and its reply as text.

    Parameters
    ----------
    operation: what was asked.
    reply: what came back.
    timed: whether the worker had read the clock before in this round: it may be part of the request.
    """

    operation: Operation
    reply: str
    timed: bool

    def is_like(self, other: Asked) -> bool:
        """Whether another round's request means the same: times may differ, since they always do."""
        if self.operation == other.operation == READ_THE_CLOCK:
            return True
        same = self.operation == other.operation or (self.timed and self.kind == other.kind)
        return same and self.reply == other.reply

    @property
    def kind(self) -> tuple[object, ...]:
        """What is asked, without its arguments: a command with its first word, or the text of a statement."""
        store, request = self.operation
        commands, text = getattr(request, "commands", ()), getattr(request, "text", request)
        return (store, *(words[:2] for words in commands)) if commands else (store, text)


Round = tuple[Asked, ...]
# What leads from one moment to the next, as plain data: who had which reply, whether the operation wrote, what is asked
# next (and whether that is asked again), and the rest of the situation.
Link = tuple[int, object, bool, tuple[tuple[Operation, bool] | None, ...], tuple[Any, ...]]


class Moment:
    """One node in the tree of a worker's histories.

    A *round* is what an actor does between two waits. A worker that repeats a round without writing anything,
    and with the same replies, is polling; `repeats` counts the repetitions that led here.

    Parameters
    ----------
    parent: the moment before the last reply, or None at the start.
    actor: the place of the actor that had the reply.
    reply: the last reply.
    situation: where the process stands then.
    printed: what it printed since the moment before.
    wrote: whether the last operation changed something.
    pauses: whether the actor's next operation waits, but not for ever: a sleep, or a command with a time-out.
    """

    __slots__ = (
        "_quiet",
        "actor",
        "after",
        "depth",
        "interrupted",
        "parent",
        "pauses",
        "printed",
        "rank",
        "repeats",
        "reply",
        "round",
        "situation",
        "wrote",
    )

    def __init__(
        self,
        parent: Moment | None,
        actor: int,
        reply: object,
        situation: Situation,
        printed: str,
        wrote: bool = False,
        pauses: bool = False,
    ) -> None:
        self.parent, self.actor, self.reply, self.pauses = parent, actor, reply, pauses
        self.situation, self.printed, self.wrote = situation, printed, wrote
        history = f"{parent.rank if parent else 0} {actor} {reply!r} {wrote}"
        self.rank: int = int.from_bytes(
            blake2b(history.encode(), digest_size=8).digest()
        )  # an order, the same everywhere
        self.after: dict[tuple[int, str, bool], Moment] = {}
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.interrupted: tuple[object, ...] = () if parent is None else parent.interrupted
        if reply in INTERRUPTIONS:
            self.interrupted = (*self.interrupted, reply)
        self.round: Round = ()
        self.repeats = 0
        self._quiet = True
        if parent is None:
            return
        if parent.actor != actor:
            self._quiet = False  # another actor did something: whatever this one repeats begins anew
        elif parent.pauses and is_nothing(reply):
            self.repeats = parent.repeats
        else:
            self._follow(parent, wrote)
        if self.pauses:
            self.repeats = self._count_repeats()

    def _follow(self, parent: Moment, wrote: bool) -> None:
        """Add the last request to the round; what never sleeps is no poll, and to follow it would only cost."""
        followed = len(parent.round) < LONGEST_ROUND
        operation = parent.operation_of(self.actor)
        timed = bool(parent.round) and (parent.round[-1].timed or parent.round[-1].operation == READ_THE_CLOCK)
        self.round = (*parent.round, Asked(operation, repr(self.reply), timed)) if followed else parent.round
        self._quiet = parent._quiet and not wrote and followed
        self.repeats = parent.repeats

    def step_of(self, actor: int) -> Step:
        """The step at which an actor stopped; only for actors that have not ended."""
        step = self.situation.steps[actor]
        assert step is not None
        return step

    def operation_of(self, actor: int) -> Operation:
        """What an actor asks for next; only for actors that have not ended."""
        return self.step_of(actor).operation

    @property
    def operation(self) -> Operation:
        """What the worker's function asks for next; only while the worker has not ended."""
        return self.operation_of(MAIN)

    @property
    def link(self) -> Link:
        """What led here, for another process that knows the parent."""
        at = self.situation
        # Lines of code are left out: what is shown to people is executed again where it is shown.
        steps = tuple(None if step is None else (step.operation, step.again) for step in at.steps)
        return self.actor, self.reply, self.wrote, steps, (at.since, at.names, at.woken, at.endings, at.sections)

    def path(self) -> list[Moment]:
        """The moments from the start to this one."""
        moments: list[Moment] = []
        moment: Moment | None = self
        while moment is not None:
            moments.append(moment)
            moment = moment.parent
        return moments[::-1]

    def _count_repeats(self) -> int:
        """How often the round that ends here has been repeated without a change, right up to now."""
        before = self.parent
        while before is not None and not before.pauses and before.actor == self.actor:
            before = before.parent
        if before is None or before.actor != self.actor or not self._quiet or not same_round(before.round, self.round):
            return 0
        operation, earlier = self.operation_of(self.actor), before.operation_of(self.actor)
        # How long it waits may depend on a clock that it read; everything else must be as before.
        reads_clock = any(asked.operation == READ_THE_CLOCK for asked in self.round)
        if operation != earlier and not (reads_clock and operation.store == earlier.store == "clock"):
            return 0
        # To sleep again and again without looking at anything is no polling.
        looks = bool(self.round) or operation.store != "clock"
        return before.repeats + 1 if looks else 0


def same_round(before: Round, now: Round) -> bool:
    """Whether two rounds asked the same and had the same replies, times apart."""
    return len(before) == len(now) and all(one.is_like(other) for one, other in zip(before, now, strict=True))


def is_nothing(reply: object) -> bool:
    """Whether a wait ended without bringing anything: a sleep's end, a time-out of a command or of a thread."""
    return (
        reply is None or reply is False or (isinstance(reply, tuple) and len(reply) == 1 and reply[0] in (None, [], {}))
    )
