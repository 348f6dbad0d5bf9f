"""The structured log: one JSON object a line, with the ids by which lines of different processes belong together."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

from labkit.observe.record import IDS, Record, records
from labkit.observe.span import Span
from labkit.observe.tracing import spans
from labkit.trace import Trace

MOST_SHOWN = 40  # lines that appear unasked


@dataclass(frozen=True, repr=False)
class Logs(Sequence[dict[str, Any]]):
    """Log lines, in order; each is a dict that JSON can say.

    Parameters
    ----------
    lines: the lines.
    """

    lines: tuple[dict[str, Any], ...]

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Logs: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | Logs:
        return Logs(self.lines[index]) if isinstance(index, slice) else self.lines[index]

    def __len__(self) -> int:
        return len(self.lines)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.lines)

    def where(self, check: Callable[[dict[str, Any]], object] | None = None, **fields: object) -> Logs:
        """The lines that have these values, as in `where(job_id="q-7812", event="job.started")`.

        Parameters
        ----------
        check: called with each line, for what equality cannot say.
        fields: what must be equal; a collection means any of its members.
        """
        return Logs(tuple(line for line in self.lines if _fits(line, fields) and (check is None or check(line))))

    def only(self, *names: str) -> Logs:
        """The same lines with no more than these fields, as long as a line has them."""
        return Logs(tuple({name: line[name] for name in names if name in line} for line in self.lines))

    def jsonl(self) -> str:
        """The lines as text, one JSON object each."""
        return "\n".join(json.dumps(_plain(line), default=str) for line in self.lines)

    def __repr__(self) -> str:
        shown = self if len(self) <= MOST_SHOWN else self[:MOST_SHOWN]
        left = len(self) - len(shown)
        return shown.jsonl() + (f"\n… and {left:,} more lines; `.where(…)` chooses, `.jsonl()` has all" if left else "")


def logs(source: Trace | Iterable[Record]) -> Logs:
    """The structured log of a trace, or of records.

    Each line has its time, event and correlation ids, then whatever else was said, and the ids of its span.
    """
    kept = records(source) if isinstance(source, Trace) else tuple(source)
    homes: dict[int, Span] = {}
    for span in spans(kept):
        homes.update(dict.fromkeys(map(id, span.records), span))
    return Logs(tuple(_line(record, homes.get(id(record))) for record in kept))


def _line(record: Record, span: Span | None) -> dict[str, Any]:
    said = {name: value for name, value in record.fields.items() if name not in ("event", *IDS)}
    ids = {name: record.fields[name] for name in IDS if record.fields.get(name) is not None}
    line = {"time": record.timestamp, "event": record.event, **ids, **said}
    if span is not None:
        line |= {"trace_id": f"{span.trace_id:032x}", "span_id": f"{span.span_id:016x}"}
    return line | ({"step": record.step} if record.step else {})


def _plain(value: Any) -> Any:
    """A value that JSON can say: numbers that are none, or have no end, as text, and names that are text."""
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _fits(line: dict[str, Any], fields: dict[str, object]) -> bool:
    return all(
        line.get(name) in wanted if isinstance(wanted, (list, tuple, set, frozenset)) else line.get(name) == wanted
        for name, wanted in fields.items()
    )
