"""A span: one piece of work with its beginning, its end, and the one that it belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

from labkit.observe.record import Record


class Moment(NamedTuple):
    """Something that happened within a span.

    Parameters
    ----------
    time: microseconds.
    name: what happened.
    attributes: what else is said of it.
    """

    time: int
    name: str
    attributes: dict[str, Any]


@dataclass
class Span:
    """One piece of work, in the words of OpenTelemetry.

    Parameters
    ----------
    name: such as `process orders`.
    kind: `PRODUCER`, `CLIENT`, `CONSUMER` or `INTERNAL`.
    worker: who did it; the `service.instance.id` of its resource.
    trace_id, span_id: 128 and 64 bits.
    start, end: microseconds since the lab's clock started.
    parent: the span that it is a part of, or that led to it.
    links: spans that it has to do with besides.
    attributes: by the names of the semantic conventions for messaging, where there is one.
    moments: what happened within it.
    error: the kind of error that it ended with; empty for none.
    lost: whether its worker was killed before it ended. A real worker would never have exported it.
    records: the records that it was made from.
    """

    name: str
    kind: str
    worker: str
    trace_id: int
    span_id: int
    start: int
    end: int
    parent: Span | None = None
    links: tuple[Span, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    moments: list[Moment] = field(default_factory=list)
    error: str = ""
    lost: bool = False
    records: list[Record] = field(default_factory=list, repr=False)

    @property
    def seconds(self) -> float:
        """How long it took."""
        return (self.end - self.start) / 1e6

    @property
    def depth(self) -> int:
        """How many spans it lies in."""
        return 0 if self.parent is None else 1 + self.parent.depth


def ids(seed: int, of: str, bits: int) -> Iterator[int]:
    """Ids that look random, the same for the same seed.

    Parameters
    ----------
    seed: another seed gives other ids.
    of: what they are for.
    bits: how long each is.
    """
    number = 0
    while True:
        digest = blake2b(f"{seed} {of} {number}".encode(), digest_size=bits // 8).digest()
        yield int.from_bytes(digest) or 1  # zero is no id
        number += 1
