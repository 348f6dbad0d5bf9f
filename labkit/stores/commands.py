"""Redis requests: what one is, which ones wait or read the clock, and how they are shown."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from labkit.stores.base import FOR_EVER, Description
from labkit.stores.scripts import script_text, script_title
from labkit.words import in_one_line

Command = tuple[bytes, ...]

# What redis-py does to a subscriber's connection besides sending it commands, which all have capital letters.
NEXT_MESSAGE, CLOSE = b"pubsub.get_message", b"pubsub.close"
SUBSCRIBING = {b"SUBSCRIBE", b"PSUBSCRIBE", b"UNSUBSCRIBE", b"PUNSUBSCRIBE"}
# Commands whose reply, or effect, depends on the absolute time.
_ABSOLUTE = {b"EXPIREAT", b"PEXPIREAT", b"EXPIRETIME", b"PEXPIRETIME", b"EXAT", b"PXAT", b"TIME"}
_ABSOLUTE |= {b"XAUTOCLAIM", b"XCLAIM"}  # how long an entry has been idle is time too
# Replies without an order of their own get one.
_UNORDERED = {b"SMEMBERS", b"SINTER", b"SUNION", b"SDIFF", b"KEYS", b"HKEYS"}
# Where a blocking command has its time-out in seconds; 0 means for ever.
_TIMEOUT_AT = {
    **dict.fromkeys((b"BLPOP", b"BRPOP", b"BZPOPMIN", b"BZPOPMAX", b"BLMOVE", b"BRPOPLPUSH"), -1),
    **dict.fromkeys((b"BLMPOP", b"BZMPOP"), 1),
}
# Random tokens are shown by their beginning, which is enough to tell them apart.
_TOKEN = re.compile("[0-9a-f]{32}")


class Request(NamedTuple):
    """Commands that Redis executes as one: a single command, a script, or MULTI to EXEC.

    Parameters
    ----------
    protocol: the version of the Redis protocol that the client speaks, 2 or 3.
    commands: each a tuple of encoded words.
    connection: the connection's name where the server must know it (WATCH and what follows it, a subscriber), or empty.
    """

    protocol: int
    commands: tuple[Command, ...]
    connection: str = ""


def waits(request: Request) -> float:
    """How many seconds a request may wait for an answer: 0 when it does not wait, or `FOR_EVER`."""
    command = request.commands[0]
    place = _TIMEOUT_AT.get(command[0])
    if place is not None and len(request.commands) == 1:
        return float(command[place]) or FOR_EVER
    if command[0] == NEXT_MESSAGE and command[1:]:
        return float(command[1]) or FOR_EVER
    words = [word.upper() for word in command]
    if command[0] in (b"XREAD", b"XREADGROUP") and b"BLOCK" in words[: words.index(b"STREAMS")]:
        return float(command[words.index(b"BLOCK") + 1]) / 1_000 or FOR_EVER
    return 0


def of_a_subscriber(request: Request) -> bool:
    """Whether a request is about its own connection's subscriptions, or about the messages that came to it."""
    name = request.commands[0][0]
    return name in SUBSCRIBING or name in (NEXT_MESSAGE, CLOSE) or (name == b"PING" and request.connection != "")


def is_empty(reply: Any) -> bool:
    """Whether a blocking command found nothing."""
    return reply is None or reply == [] or reply == {}


def is_absolute(request: Request) -> bool:
    """Whether a request depends on the absolute time."""
    return any(word.upper() in _ABSOLUTE for command in request.commands for word in command)


def in_order(request: Request, replies: tuple[Any, ...]) -> tuple[Any, ...]:
    """The replies, with what has no order sorted: otherwise it would follow Python's hash seed."""
    if request.commands[0][0] == b"MULTI" and isinstance(replies[-1], list):
        inside = (_in_order(*pair) for pair in zip(request.commands[1:-1], replies[-1], strict=True))
        return (*replies[:-1], list(inside))
    return tuple(_in_order(*pair) for pair in zip(request.commands, replies, strict=True))


def _in_order(command: Command, reply: Any) -> Any:
    if command[0] in (b"XREAD", b"XREADGROUP") and reply == {}:
        return None  # as Redis answers; fakeredis gives an empty map
    return sorted(reply) if command[0] in _UNORDERED and isinstance(reply, (list, set)) else reply


def describe(request: Request) -> Description:
    """The request for people."""
    inner = [command for command in request.commands if command not in ((b"MULTI",), (b"EXEC",))]
    text = "; ".join(_show_command(command) for command in inner)
    return Description("command", f"MULTI {text} EXEC" if len(inner) < len(request.commands) else text)


def show(reply: Any) -> str:
    """A reply for people."""
    if isinstance(reply, bytes):
        return _text(reply)
    if reply is None:
        return "nil"
    if isinstance(reply, Exception):
        return in_one_line(f"{type(reply).__name__}: {reply}")
    if isinstance(reply, (list, tuple)):
        return "[" + ", ".join(map(show, reply)) + "]"
    if isinstance(reply, dict):
        return "{" + ", ".join(f"{show(key)}: {show(value)}" for key, value in reply.items()) + "}"
    return in_one_line(str(reply))


def _show_command(command: Command) -> str:
    name, *words = command
    if name in (NEXT_MESSAGE, CLOSE):
        timeout = [f"timeout={'None' if word == b'0' else _text(word)}" for word in words]
        return f"{_text(name)}({''.join(timeout)})"
    if name in (b"EVAL", b"EVALSHA") and len(words) >= 2:
        title = script_title(words[0] if name == b"EVAL" else script_text(words[0]))
        return " ".join([title, *map(_text, words[2:])])
    return " ".join(map(_text, command))


def _text(word: bytes) -> str:
    text = in_one_line(word.decode(errors="backslashreplace"))
    return f"{text[:8]}…" if _TOKEN.fullmatch(text) else text
