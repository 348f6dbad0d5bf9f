"""Arguments that make no sense are refused before anything is written; times become whole milliseconds."""

from __future__ import annotations

import json
import math
import time

LONGEST_KEY = 255  # characters, as Stripe takes them


def check_name(what: str, value: object) -> str:
    """The value, if it is a text that can name something; else `ValueError`."""
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST_KEY:
        raise ValueError(f"{what} is a text of 1 to {LONGEST_KEY} characters, not {value!r}")
    return value


def milliseconds(what: str, seconds: object, least: float = 0.001) -> int:
    """Seconds in whole milliseconds; `ValueError` for what is no number, or too small a one."""
    is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if not is_number or not least <= seconds < math.inf:  # type: ignore[operator]
        raise ValueError(f"{what} is a number of seconds, {least:g} or more, not {seconds!r}")
    return round(seconds * 1000)  # type: ignore[operator]


def moment(now: float | None) -> int:
    """A time in milliseconds since 1970: the given one in seconds, or the caller's clock."""
    return milliseconds("now", time.time() if now is None else now, least=0)


def as_json(what: str, value: object) -> str:
    """The value in JSON, the same text for the same value; `ValueError` when JSON cannot say it."""
    try:
        return json.dumps(value, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what} must be something that JSON can say, not {value!r}: {error}") from error
