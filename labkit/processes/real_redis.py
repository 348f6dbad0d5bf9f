"""redis-py on a real server: its own connection, but that keys carry the run's prefix and every request is noted.

As in the lab, the hook is the connection: what redis-py sends as one (a command, a script, MULTI to EXEC) is a step.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import redis
from redis.backoff import ExponentialWithJitterBackoff
from redis.connection import ConnectionPool
from redis.exceptions import NoScriptError, ResponseError
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry

from labkit.errors import Unsupported
from labkit.processes.part import Part
from labkit.stores.commands import SUBSCRIBING, Command, Request, describe, show, waits
from labkit.stores.scripts import learn_script, script_text

_HANDSHAKE = {b"HELLO", b"AUTH", b"CLIENT", b"SELECT", b"PING"}
_REFUSED = {b"SELECT", b"MOVE", b"CLIENT", b"AUTH", b"HELLO", b"RESET", b"CONFIG", b"DEBUG", b"ACL", b"CLUSTER"}
_REFUSED |= {b"REPLICAOF", b"FUNCTION", b"FCALL", b"SAVE", b"BGSAVE", b"BGREWRITEAOF"}
# Commands that answer 0 when they changed nothing; others may answer 0 and have changed something.
_NOTHING_DONE = {b"DEL", b"UNLINK", b"SADD", b"SREM", b"HDEL", b"ZREM", b"LREM", b"SETNX", b"HSETNX", b"MSETNX"}
_NOTHING_DONE |= {b"EXPIRE", b"PEXPIRE", b"PERSIST", b"RENAMENX", b"COPY", b"XACK", b"XDEL", b"EVAL", b"EVALSHA"}
_SCRIPTS = (b"EVAL", b"EVALSHA")


@dataclass
class Asked:
    """A request that was sent, or part of the handshake.

    Parameters
    ----------
    commands: what was sent as one, without the prefix; empty for the handshake's.
    number: its number in the journal; 0 when it is not noted.
    replies: what has come back so far.
    at: when it was sent, in nanoseconds since 1970.
    """

    commands: tuple[Command, ...] = ()
    number: int = 0
    at: int = 0
    replies: list[Any] = field(default_factory=list)

    @property
    def word(self) -> str:
        """Its first word."""
        return self.commands[0][0].decode(errors="replace") if self.commands else ""


class Packed(list):  # type: ignore[type-arg]
    """Bytes to send, and the requests that they are."""

    asked: list[Asked]


class NotedConnection:
    """What is added to redis-py's connection class of a URL, whichever it is (TCP, TLS or a Unix socket).

    Parameters
    ----------
    part: this process's part in the run.
    kwargs: as for the connection.
    """

    def __init__(self, *, part: Part, **kwargs: Any) -> None:
        self._part = part
        self._sent: deque[Asked] = deque()
        self._played: deque[tuple[str, ...]] = deque()
        self._connecting = self._listens = False
        super().__init__(**kwargs)

    def connect_check_health(self, *args: Any, **kwargs: Any) -> None:
        with self._handshake():
            super().connect_check_health(*args, **kwargs)  # type: ignore[misc]

    def check_health(self) -> None:
        with self._handshake():
            super().check_health()  # type: ignore[misc]

    @contextmanager
    def _handshake(self) -> Iterator[None]:
        before, self._connecting = self._connecting, True
        try:
            yield
        finally:
            self._connecting = before

    def disconnect(self, *args: Any, **kwargs: Any) -> None:
        super().disconnect(*args, **kwargs)  # type: ignore[misc]
        self._sent.clear()
        self._listens = False

    def send_command(self, *args: Any, **kwargs: Any) -> None:
        self.send_packed_command(self.pack_commands([args]), check_health=kwargs.get("check_health", True))

    def pack_commands(self, commands: Iterable[Iterable[Any]]) -> Packed:
        encoded = [self._encode(tuple(words)) for words in commands]
        for words in encoded:
            if words[0] == b"SCRIPT" and words[1].upper() == b"LOAD":
                learn_script(words[2])
        if self._connecting and all(words[0] in _HANDSHAKE for words in encoded):
            asked, sent = [Asked() for _ in encoded], encoded
        else:
            asked, sent = [Asked(group) for group in _groups(encoded)], [self._prefixed(words) for words in encoded]
        packed = Packed(super().pack_commands(sent))  # type: ignore[misc]
        packed.asked = asked
        return packed

    def _prefixed(self, command: Command) -> Command:
        if command[0] in _REFUSED:
            raise Unsupported(f"{command[0].decode()} is not for a scenario: the server may be somebody else's too")
        self._part.look_at("redis", show_command(command) if self._part.prefix.writes(command) else "")
        return self._part.prefix.put_on(command)

    def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        asked: list[Asked] = command.asked
        if self._part.mode == "playing" and any(each.commands for each in asked):
            self._played.extend((each.word, *([""] * (len(each.commands) - 1))) for each in asked)
            return
        for each in asked:
            self._note(each)
        try:
            super().send_packed_command(command, check_health)  # type: ignore[misc]
        except Exception as error:
            for each in asked:
                self._settle(each, error)
            raise
        for each in asked:
            each.at = time.time_ns()
        self._sent.extend(each for each in asked if not self._is_of_a_subscriber(each))

    def _note(self, asked: Asked) -> None:
        """Note a request before it is sent; that a script is made known is no step."""
        journal = self._part.journal_at_work
        if journal is not None and asked.commands and asked.commands[0][0] != b"SCRIPT":
            shown = describe(Request(3, asked.commands))
            asked.number = journal.sent("redis", shown.kind, shown.text)

    def _is_of_a_subscriber(self, asked: Asked) -> bool:
        """Whether a request is answered among the messages; nobody waits for that answer."""
        if asked.commands and asked.commands[0][0] in SUBSCRIBING:
            self._listens = True
            self._settle(asked, "")
            return True
        return self._listens and asked.word == "PING"

    def read_response(self, disable_decoding: bool = False, **kwargs: Any) -> Any:
        if self._played:
            return self._decoded(self._play(), disable_decoding)
        asked = self._sent[0] if self._sent else None
        try:
            raw = super().read_response(disable_decoding=True, **kwargs)  # type: ignore[misc]
        except ResponseError as error:
            self._answered(asked, error)
            raise
        except Exception as error:
            if asked is not None:
                self._settle(asked, error)
            raise
        if asked is not None and asked.commands:
            raw = self._own_sha(asked, raw)
        reply = self._part.prefix.take_off(raw)
        self._answered(asked, reply)
        return self._decoded(reply, disable_decoding)

    def _play(self) -> Any:
        """The next reply of the set-up's record."""
        word, *rest = self._played.popleft()
        if rest:
            self._played.appendleft(tuple(rest))
        return self._part.played(word)

    def _own_sha(self, asked: Asked, raw: Any) -> Any:
        """SCRIPT LOAD answers with the SHA-1 of what was sent, which is the script and what the lab put before it."""
        command = asked.commands[0]
        loads = command[0] == b"SCRIPT" and command[1].upper() == b"LOAD"
        return learn_script(command[2]) if loads else raw

    def _answered(self, asked: Asked | None, reply: Any) -> None:
        if asked is None:
            self._message(reply)
            return
        asked.replies.append(reply)
        if asked.commands:
            self._part.taped(asked.word if len(asked.replies) == 1 else "", reply)
        if len(asked.replies) >= max(1, len(asked.commands)):
            self._sent.popleft()
            self._settle(asked, reply)

    def _message(self, reply: Any) -> None:
        """Something that was pushed to a subscriber."""
        journal = self._part.journal_at_work
        if journal is not None:
            number = journal.sent("redis", "command", "pubsub.get_message()")
            journal.got(number, show(reply))

    def _settle(self, asked: Asked, reply: Any) -> None:
        """Note the reply to a request. A script that the server does not know yet is sent again: no step."""
        journal = self._part.journal_at_work
        if journal is None or not asked.number:
            return
        if isinstance(reply, NoScriptError):
            journal.void(asked.number)
            return
        replies = reply if asked.word == "MULTI" and isinstance(reply, list) else [reply] * len(asked.commands)
        commands = asked.commands[1:-1] if asked.word == "MULTI" else asked.commands
        reads, writes, lives = self._keys(commands, replies)
        # The server serves a request soon after it was sent, and one that blocks just before it answers.
        blocks = asked.at == 0 or waits(Request(3, asked.commands))
        served = {} if blocks else {"took_effect": asked.at}
        journal.got(asked.number, show(reply) if reply != "" else "", reads, writes, lives=lives, **served)
        asked.number = 0

    def _keys(self, commands: tuple[Command, ...], replies: list[Any]) -> tuple[set[str], set[str], dict[str, int]]:
        """The keys that commands looked at and changed, and for how many milliseconds each of them is to live.

        0 means for ever, and -1 that nobody knows: a script did something to a key.
        """
        reads: set[str] = set()
        writes: set[str] = set()
        lives: dict[str, int] = {}
        for command, reply in zip(commands, replies, strict=False):
            if isinstance(reply, Exception) or command[0] in SUBSCRIBING or command[0] == b"KEYS":
                continue
            keys = [_text(command[place]) for place in self._part.prefix.key_places(command)]
            changes = self._part.prefix.writes(command) or command[0] in _SCRIPTS
            if not changes or reply is None or (reply in (0, [0]) and command[0] in _NOTHING_DONE):
                reads.update(keys)
                continue
            writes.update(keys)
            lives.update(dict.fromkeys(keys, _life_after(command)))
        return reads, writes, lives

    def _encode(self, words: tuple[Any, ...]) -> Command:
        first = words[0].split(" ") if isinstance(words[0], str) else [words[0]]
        encoded = [bytes(self.encoder.encode(word)) for word in (*first, *words[1:])]  # type: ignore[attr-defined]
        return (encoded[0].upper(), *encoded[1:])

    def _decoded(self, reply: Any, disable_decoding: bool) -> Any:
        if disable_decoding:
            return reply
        if isinstance(reply, list):
            return [self._decoded(part, False) for part in reply]
        if isinstance(reply, dict):
            return {self._decoded(key, False): self._decoded(value, False) for key, value in reply.items()}
        return self.encoder.decode(reply) if isinstance(reply, bytes) else reply  # type: ignore[attr-defined]


def real_client(part: Part, retries: int, **options: Any) -> redis.Redis:
    """A redis-py client of the run's server.

    Parameters
    ----------
    part: this process's part in the run.
    retries: how often the client sends a request again after a lost connection.
    options: `decode_responses`, `protocol` and the like, as for `redis.Redis`.
    """
    if options.get("db"):
        raise Unsupported("the lab models one Redis database, number 0; tell jobs apart by key prefixes")
    like = ConnectionPool.from_url(part.redis_url)
    settings = {**like.connection_kwargs, **{name: value for name, value in options.items() if name != "db"}}
    settings.pop("maint_notifications_pool_handler", None)
    settings["maint_notifications_config"] = MaintNotificationsConfig(enabled=False)
    settings["retry"] = Retry(ExponentialWithJitterBackoff(base=1, cap=10), retries)
    settings["socket_timeout"] = None  # a blocking command waits for as long as it says
    kind = type("NotedConnection", (NotedConnection, like.connection_class), {})
    return redis.Redis(connection_pool=ConnectionPool(connection_class=kind, part=part, **settings))


def show_command(command: Command) -> str:
    """A command for people."""
    return describe(Request(3, (command,))).text


def _groups(commands: list[Command]) -> Iterator[tuple[Command, ...]]:
    """What is executed as one: MULTI to EXEC, or a command."""
    group: list[Command] = []
    for command in commands:
        group.append(command)
        if group[0][0] == b"MULTI" and command[0] != b"EXEC" and len(commands) > 1:
            continue
        yield tuple(group)
        group = []
    if group:
        yield tuple(group)


def _life_after(command: Command) -> int:
    """For how many milliseconds a key lives after a command that changed it; 0 for ever, -1 when nobody knows."""
    words = [word.upper() for word in command]
    for name, factor in ((b"EX", 1_000), (b"PX", 1)):
        if words[0] in (b"SET", b"GETEX") and name in words[2:]:
            return int(command[words.index(name, 2) + 1]) * factor
    if words[0] in (b"SETEX", b"EXPIRE"):
        return int(command[2]) * 1_000
    if words[0] in (b"PSETEX", b"PEXPIRE"):
        return int(command[2])
    if words[0] in _SCRIPTS:
        text = command[1] if words[0] == b"EVAL" else script_text(command[1])
        return -1 if b"expire" in text.lower() or b"keepttl" in text.lower() else 0
    return 0 if words[0] in (b"SET", b"GETSET", b"DEL", b"UNLINK", b"GETDEL", b"PERSIST") else -1


def _text(word: bytes) -> str:
    return word.decode(errors="backslashreplace")
