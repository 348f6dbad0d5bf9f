"""A message, and what every queue checks of what it is given."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import redis

from .errors import InvalidMessageContents, MessageTooLong, ReceiptHandleIsInvalid

LARGEST_BODY = 1_048_576  # bytes, as in SQS
LONGEST_WAIT = 43_200  # seconds


@dataclass(frozen=True, slots=True)
class Message:
    """One delivery of a message.

    Parameters
    ----------
    body: what was sent.
    receipt_handle: stands for this delivery; `delete` takes it. Treat it as opaque.
    id: the message's id, the same for each delivery; None where the queue has none.
    receive_count: how many deliveries there were, this one included; None where the queue does not count.
    sent_at: when it was sent, in seconds since 1970; None where the queue does not know.
    """

    body: Any
    receipt_handle: str
    id: str | None = None
    receive_count: int | None = None
    sent_at: float | None = None


def encode(body: object) -> str:
    """A body as JSON; `InvalidMessageContents` or `MessageTooLong` when it cannot be sent."""
    try:
        text = json.dumps(body, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidMessageContents(f"body cannot be written as JSON: {error}") from error
    if len(text) > LARGEST_BODY:  # json.dumps writes ASCII, one byte a character
        raise MessageTooLong(f"body takes {len(text):,} bytes as JSON; a message has at most {LARGEST_BODY:,}")
    return text


def decode(raw: bytes | str) -> Any:
    """The body that was sent; where somebody else put something there that is no JSON, that text."""
    try:
        return json.loads(raw)
    except ValueError:
        return text(raw)


def behind(name: str, receipt_handle: str) -> str:
    """What a receipt handle says behind its queue's name; `ReceiptHandleIsInvalid` when it is another queue's."""
    if isinstance(receipt_handle, Message):
        raise ReceiptHandleIsInvalid("a whole message is no receipt handle: pass message.receipt_handle")
    if not isinstance(receipt_handle, str) or not receipt_handle.startswith(f"{name}/"):
        raise ReceiptHandleIsInvalid(f"queue {name!r} never gave out the receipt handle {receipt_handle!r}")
    return receipt_handle.removeprefix(f"{name}/")


def text(value: bytes | str) -> str:
    """What Redis answered, with `decode_responses` or without."""
    return value if isinstance(value, str) else value.decode(errors="backslashreplace")


def check_range(name: str, value: float, low: float, high: float, whole: bool = False) -> None:
    """`ValueError` unless a number lies in a range, both ends included."""
    kind = "a whole number" if whole else "a number"
    is_number = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
    if not is_number or not low <= value <= high:
        raise ValueError(f"{name} is {value!r}; it must be {kind} from {low:,} to {high:,}")


def longest_block(client: redis.Redis) -> float:
    """How many seconds a blocking command may take, so that the server answers before the client's socket times out."""
    patience = client.connection_pool.connection_kwargs.get("socket_timeout")
    return LONGEST_WAIT if patience is None else max(0.001, patience - 0.2)  # a server looks every tenth of a second


def check_blocking(client: redis.Redis, wait: float) -> None:
    """`ValueError` unless a blocking command may wait so long.

    A client whose socket times out first hangs up, and an element that the server hands over just then is lost.
    """
    check_range("wait", wait, 0, LONGEST_WAIT)
    if wait > longest_block(client):
        raise ValueError(
            f"wait is {wait!r}; it must be at most {longest_block(client):g}, a little less than the client's "
            "socket_timeout: make the client with a longer one, or wait several times"
        )
