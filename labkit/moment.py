"""A point in a worker's life: the replies it has had so far, and what it does next."""

from __future__ import annotations

from labkit.process import Ending, Operation, Step


class _Word:
    """A reply that is none: what happened instead."""

    def __init__(self, word: str) -> None:
        self._word = word

    def __repr__(self) -> str:
        return self._word


LOST, SIGNAL = _Word("LOST"), _Word("SIGNAL")
LONGEST_ROUND = 64
Round = tuple[tuple[Operation, str], ...]


class Moment:
    """One node in the tree of a worker's histories.

    A *round* is what a worker does between two sleeps. A worker that repeats a round without writing anything,
    and with the same replies, is polling; `repeats` counts the repetitions that led here.

    Parameters
    ----------
    parent: the moment before the last reply, or None at the start.
    reply: the last reply.
    arrived: the step at which the worker stopped, or how it ended.
    printed: what it printed since the moment before.
    wrote: whether the last operation changed something.
    """

    __slots__ = ("_quiet", "after", "arrived", "depth", "parent", "printed", "repeats", "reply", "round", "signalled")

    def __init__(
        self, parent: Moment | None, reply: object, arrived: Step | Ending, printed: str, wrote: bool = False
    ) -> None:
        self.parent, self.reply = parent, reply
        self.arrived, self.printed = arrived, printed
        self.after: dict[tuple[str, bool], Moment] = {}
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.signalled: bool = parent is not None and (parent.signalled or reply is SIGNAL)
        self.round: Round = ()
        self.repeats = 0
        self._quiet = True
        if parent is None:
            return
        if parent.is_sleep and reply is None:
            self._quiet = True
            self.repeats = parent.repeats
        else:
            # What never sleeps is no poll: following it for ever would only cost.
            followed = len(parent.round) < LONGEST_ROUND
            self.round = (*parent.round, (parent.operation, repr(reply))) if followed else parent.round
            self._quiet = parent._quiet and not wrote and followed
            self.repeats = parent.repeats
        if self.is_sleep:
            self.repeats = self._count_repeats()

    @property
    def step(self) -> Step:
        """The step at which the worker stopped; only for moments that are no ending."""
        assert isinstance(self.arrived, Step)
        return self.arrived

    @property
    def operation(self) -> Operation:
        """What the worker asks for next; only for moments that are no ending."""
        return self.step.operation

    @property
    def is_sleep(self) -> bool:
        """Whether the worker is about to sleep."""
        return (
            isinstance(self.arrived, Step) and self.operation.request[0] == "sleep" and self.operation.store == "clock"
        )

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
        while before is not None and not before.is_sleep:
            before = before.parent
        same = before is not None and before.operation == self.operation and before.round == self.round
        return before.repeats + 1 if before is not None and same and self._quiet and self.round else 0
