"""The embedded Redis as a table: every request runs once on each content, and is remembered."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from redis.lock import Lock

from labkit.interception import serving
from labkit.stores.base import Description, Interned, Outcome
from labkit.stores.clock import ClockWasRead
from labkit.stores.keyspace import Entry, Keyspace

# Scripts are known by their content, so a cache that outlives a lab changes no answer.
_SCRIPTS: dict[bytes, bytes] = {}
# Commands whose reply, or effect, depends on the absolute time. (XADD * and friends come with streams.)
_ABSOLUTE = {b"EXPIREAT", b"PEXPIREAT", b"EXPIRETIME", b"PEXPIRETIME", b"EXAT", b"PXAT", b"TIME"}
# Replies without an order of their own get one.
_UNORDERED = {b"SMEMBERS", b"SINTER", b"SUNION", b"SDIFF", b"KEYS", b"HKEYS", b"HGETALL"}

# Random tokens are shown by their beginning, which is enough to tell them apart.
_TOKEN = re.compile("[0-9a-f]{32}")


class Request(NamedTuple):
    """Commands that Redis executes as one: a single command, a script, or MULTI to EXEC.

    Parameters
    ----------
    protocol: the version of the Redis protocol that the client speaks, 2 or 3.
    commands: each a tuple of encoded words.
    """

    protocol: int
    commands: tuple[tuple[bytes, ...], ...]


class EmbeddedRedis:
    """Redis states, numbered by content with expiries relative to now.

    Parameters
    ----------
    seed: what the server's own random choices (SPOP, RANDOMKEY) depend on, besides the content.
    absolute: whether the lab's clock belongs to the state; see `Clock`.
    """

    def __init__(self, seed: int = 0, absolute: bool = True) -> None:
        self._seed, self._absolute = seed, absolute
        self._keyspace = Keyspace()
        self._states = Interned()
        self._outcomes: dict[tuple[int, Request, int], Outcome] = {}
        self._deadlines: dict[int, int | None] = {}
        self._aged: dict[tuple[int, int], int] = {}
        for text in (Lock.LUA_RELEASE_SCRIPT, Lock.LUA_EXTEND_SCRIPT, Lock.LUA_REACQUIRE_SCRIPT):
            learn_script(text.encode())
        self.start = self._states.number(())

    def apply(self, state: int, request: Request, now: int) -> Outcome:
        known = (state, request, now)
        outcome = self._outcomes.get(known)
        if outcome is None:
            outcome = self._outcomes[known] = self._execute(state, request, now)
        return outcome

    def _execute(self, state: int, request: Request, now: int) -> Outcome:
        keyspace = self._keyspace
        for command in request.commands:
            if command[0] == b"EVALSHA":
                keyspace.learn_script(command[1], _SCRIPTS[command[1]])
        read_before, serving.clock_was_read = serving.clock_was_read, False
        with serving.at(now, random.Random(f"{self._seed}:{state}:{request!r}")):
            keyspace.load(self._states.values[state], now)
            replies = keyspace.execute(request.protocol, request.commands)
            reads, writes = keyspace.footprint()
            after = self._states.number(keyspace.dump(now))
        reads_clock = serving.clock_was_read or _is_absolute(request)
        serving.clock_was_read = read_before
        if reads_clock and not self._absolute:
            raise ClockWasRead
        return Outcome(_in_order(request, replies), after, reads, writes)

    def age(self, state: int, elapsed: int) -> int:
        known = (state, elapsed)
        aged = self._aged.get(known)
        if aged is None:
            entries: tuple[Entry, ...] = self._states.values[state]
            left = tuple(
                (key, kind, value, None if left is None else left - elapsed)
                for key, kind, value, left in entries
                if left is None or left > elapsed  # a key is gone at its deadline
            )
            aged = self._aged[known] = self._states.number(left)
        return aged

    def deadline(self, state: int) -> int | None:
        if state not in self._deadlines:
            self._deadlines[state] = min(self.expiries(state).values(), default=None)
        return self._deadlines[state]

    def expiries(self, state: int) -> Mapping[str, int]:
        entries: tuple[Entry, ...] = self._states.values[state]
        return {key.decode(errors="backslashreplace"): left for key, _, _, left in entries if left is not None}

    def describe(self, request: Request) -> Description:
        inner = [command for command in request.commands if command not in ((b"MULTI",), (b"EXEC",))]
        text = "; ".join(_show_command(command) for command in inner)
        return Description("command", f"MULTI {text} EXEC" if len(inner) < len(request.commands) else text)

    def show_reply(self, request: Request, reply: Any) -> str:
        return _show(reply[-1])

    def contents(self, state: int) -> tuple[Entry, ...]:
        entries: tuple[Entry, ...] = self._states.values[state]
        return entries


def learn_script(text: bytes) -> bytes:
    """Remember a Lua script; returns the SHA-1 that EVALSHA knows it by."""
    sha = hashlib.sha1(text).hexdigest().encode()
    _SCRIPTS[sha] = text
    return sha


def knows_script(sha: bytes) -> bool:
    """Whether a script with this SHA-1 was ever loaded."""
    return sha in _SCRIPTS


def _is_absolute(request: Request) -> bool:
    return any(word.upper() in _ABSOLUTE for command in request.commands for word in command)


def _in_order(request: Request, replies: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(request.commands) == 1 and request.commands[0][0] in _UNORDERED and isinstance(replies[0], list):
        if request.commands[0][0] == b"HGETALL":
            return replies
        return (sorted(replies[0]),)
    return replies


def _show_command(command: tuple[bytes, ...]) -> str:
    name, *words = command
    if name in (b"EVAL", b"EVALSHA") and len(words) >= 2:
        title = _script_title(words[0] if name == b"EVAL" else _SCRIPTS.get(words[0], b""))
        return " ".join([title, *map(_text, words[2:])])
    return " ".join(map(_text, command))


def _script_title(script: bytes) -> str:
    """A script's own name: its first line when that is a comment such as `-- release`."""
    first = script.decode(errors="replace").strip().partition("\n")[0].strip()
    return f"script {first[2:].strip()!r}" if first.startswith("--") else "script"


def _text(word: bytes) -> str:
    text = word.decode(errors="backslashreplace")
    return f"{text[:8]}…" if _TOKEN.fullmatch(text) else text


def _show(reply: Any) -> str:
    if isinstance(reply, bytes):
        return _text(reply)
    if reply is None:
        return "nil"
    if isinstance(reply, Exception):
        return f"{type(reply).__name__}: {reply}"
    if isinstance(reply, (list, tuple)):
        return "[" + ", ".join(map(_show, reply)) + "]"
    if isinstance(reply, dict):
        return "{" + ", ".join(f"{_show(key)}: {_show(value)}" for key, value in reply.items()) + "}"
    return str(reply)
