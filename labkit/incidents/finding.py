"""The answer to one question to the evidence: rows, and what they say in a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, repr=False)
class Finding:
    """Rows of facts. What follows from them is for the reader to say.

    Parameters
    ----------
    question: what was asked.
    rows: the facts, each a dict with the same names.
    says: the facts in a sentence.
    """

    question: str
    rows: tuple[Mapping[str, Any], ...]
    says: str

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> list[Any]:
        """The values of one column."""
        return [row[name] for row in self.rows]

    def __repr__(self) -> str:
        table = (
            [list(self.rows[0]), *([str(value) for value in row.values()] for row in self.rows)] if self.rows else []
        )
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in table]
        return "\n".join([self.question, "", *(line.rstrip() for line in lines), *([""] if lines else []), self.says])
