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

    A *round* is what a worker does between two waits. A worker that repeats a round without writing anything,
    and with the same replies, is polling; `repeats` counts the repetitions that led here.

    Parameters
    ----------
    parent: the moment before the last reply, or None at the start.
    reply: the last reply.
    arrived: the step at which the worker stopped, or how it ended.
    printed: what it printed since the moment before.
    wrote: whether the last operation changed something.
    pauses: whether the next operation waits, but not for ever: a sleep, or a blocking command with a time-out.
    """

    __slots__ = (
        "_quiet",
        "after",
        "arrived",
        "depth",
        "parent",
        "pauses",
        "printed",
        "repeats",
        "reply",
        "round",
        "signalled",
    )

    def __init__(
        self,
        parent: Moment | None,
        reply: object,
        arrived: Step | Ending,
        printed: str,
        wrote: bool = False,
        pauses: bool = False,
    ) -> None:
        self.parent, self.reply, self.pauses = parent, reply, pauses
        self.arrived, self.printed = arrived, printed
        self.after: dict[tuple[str, bool], Moment] = {}
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.signalled: bool = parent is not None and (parent.signalled or reply is SIGNAL)
        self.round: Round = ()
        self.repeats = 0
        self._quiet = True
        if parent is None:
            return
        if parent.pauses and _is_nothing(reply):
            self._quiet = True
            self.repeats = parent.repeats
        else:
            # What never sleeps is no poll: following it for ever would only cost.
            followed = len(parent.round) < LONGEST_ROUND
            self.round = (*parent.round, (parent.operation, repr(reply))) if followed else parent.round
            self._quiet = parent._quiet and not wrote and followed
            self.repeats = parent.repeats
        if self.pauses:
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
        while before is not None and not before.pauses:
            before = before.parent
        if before is None or before.operation != self.operation or before.round != self.round or not self._quiet:
            return 0
        # To sleep again and again without looking at anything is no polling.
        looks = bool(self.round) or self.operation.store != "clock"
        return before.repeats + 1 if looks else 0


def _is_nothing(reply: object) -> bool:
    """Whether a wait ended without bringing anything: a sleep's end, or a blocking command's time-out."""
    return reply is None or (isinstance(reply, tuple) and len(reply) == 1 and reply[0] in (None, [], {}))
