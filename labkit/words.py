"""How the lab says things: in one line, in seconds, in so many steps, in no more than so many characters."""

from __future__ import annotations


def in_one_line(text: str) -> str:
    """A learner's text as it can stand in a line: with line breaks and control characters as Python writes them."""
    return text if text.isprintable() else "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def in_seconds(seconds: float) -> str:
    """A time for people, to the microsecond, without needless zeros: `1209600.5 s`."""
    return f"{seconds:.6f}".rstrip("0").rstrip(".") + " s"


def shorten(text: str, most: int) -> str:
    """A text cut to a number of characters, with an ellipsis when something is missing."""
    return text if len(text) <= most else text[: most - 1] + "…"


def steps(count: int) -> str:
    """So many steps, in words."""
    return f"{count} {'step' if count == 1 else 'steps'}"
