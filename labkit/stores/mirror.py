"""The same requests on a real Redis server, reply by reply, under a prefix of the lab's own.

No key without the prefix is read or written, nothing is flushed, and all that was made is deleted at the end.
Time cannot be set on a real server, so the clock ages it: every key's time to live shrinks by what passed.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import redis
from redis.connection import ConnectionPool

from labkit.errors import LabError
from labkit.stores.commands import Command, Request, show, waits
from labkit.stores.scripts import script_text

# Replies that depend on the server's own clock or chance.
_OWN = {b"TIME", b"SPOP", b"SRANDMEMBER", b"RANDOMKEY", b"HRANDFIELD", b"ZRANDMEMBER"}
_TIME_TO_LIVE = {b"TTL": 1, b"PTTL": 1_000}  # compared to within a second
_WHOLE_SERVER = {b"FLUSHALL", b"FLUSHDB", b"SCAN", b"DBSIZE", b"SWAPDB", b"RANDOMKEY"}


class RealServerDiffers(LabError):
    """The real server answered otherwise than the lab's embedded Redis."""


@dataclass
class Comparison:
    """How a replay on a real server went.

    Parameters
    ----------
    server: the server's version.
    compared: how many replies were the same on both.
    not_comparable: the commands whose replies depend on the server's own clock or chance, or on other people's keys.
    """

    server: str
    compared: int = 0
    not_comparable: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        text = f"redis-server {self.server}: {self.compared} replies, all as in the lab"
        skipped = ", ".join(self.not_comparable)
        return text + (f"; not comparable: {len(self.not_comparable)} ({skipped})" if skipped else "")


class Mirror:
    """A real server that is told the same.

    Parameters
    ----------
    url: where it is, for example `redis://127.0.0.1:6379`.
    """

    def __init__(self, url: str) -> None:
        try:
            self._pool = ConnectionPool.from_url(url)
            self._client = redis.Redis.from_url(url)
            self.comparison = Comparison(str(self._client.info("server")["redis_version"]))
        except (redis.RedisError, ValueError, OSError) as error:
            raise LabError(f"there is no Redis server to replay on at {url}: {error}") from error
        self.prefix = f"labkit:{uuid.uuid4().hex[:12]}:".encode()
        self._connections: dict[tuple[str, int], Any] = {}
        self._watched: set[bytes] = set()

    def apply(self, worker: str, request: Request, expected: tuple[Any, ...]) -> None:
        """Send a request in a worker's name; `RealServerDiffers` when a reply is another than expected."""
        connection = self._connection(worker, request.protocol)
        pairs = list(zip(request.commands, expected, strict=True))
        commands = [self._prefixed(_with_the_labs_id(command, reply)) for command, reply in pairs]
        for command in request.commands:
            if command[0] == b"EVALSHA":
                self._client.script_load(script_text(command[1]))
        if waits(request):
            commands = [self._impatient(commands[0])]
        if commands[0][0] == b"WATCH":
            self._watched.update(commands[0][1:])
        for command in commands:
            connection.send_command(*command)
        for command, reply in pairs:
            try:
                got = connection.read_response(disable_decoding=True)
            except redis.ResponseError as error:
                got = error
            self._compare(worker, command, reply, self._stripped(got))

    def age(self, before: Mapping[str, int], after: Mapping[str, int]) -> None:
        """Let time pass for the keys that will expire; both in microseconds left."""
        for key in before:
            real = self.prefix + key.encode()
            if key not in after:
                self._client.delete(real)
            elif real not in self._watched:  # to touch a watched key would abort its transaction
                self._client.pexpire(real, max(1, after[key] // 1000))

    def hang_up(self, worker: str) -> None:
        """Drop the connections of a worker that is gone, and of its threads."""
        for place in [place for place in self._connections if place[0] == worker or place[0].startswith(f"{worker}/")]:
            self._connections.pop(place).disconnect()

    def close(self) -> None:
        """Delete every key with the prefix, and disconnect."""
        for key in list(self._client.scan_iter(match=self.prefix + b"*")):
            self._client.delete(key)
        for connection in self._connections.values():
            connection.disconnect()
        self._client.close()

    def _connection(self, worker: str, protocol: int) -> Any:
        place = (worker, protocol)
        if place not in self._connections:
            options = {**self._pool.connection_kwargs, "protocol": protocol}
            self._connections[place] = self._pool.connection_class(**options)
            self._connections[place].connect()
        return self._connections[place]

    def _prefixed(self, command: Command) -> Command:
        if command[0] in _WHOLE_SERVER:
            raise LabError(f"{command[0].decode()} concerns a whole server, and is not replayed on a real one")
        if command[0] == b"KEYS":
            return (command[0], self.prefix + command[1])
        words = list(command)
        for place in self._key_places(command):
            words[place] = self.prefix + words[place]
        return tuple(words)

    def _key_places(self, command: Command) -> list[int]:
        """Where a command has its keys, as the server itself says."""
        if command[0] in (b"EVAL", b"EVALSHA"):
            return list(range(3, 3 + int(command[2])))
        if command[0] in (b"MULTI", b"EXEC", b"UNWATCH", b"DISCARD", b"TIME", b"PING"):
            return []
        keys = [_bytes(key) for key in self._client.command_getkeys(*command)]
        for start in range(1, len(command) - len(keys) + 1):
            for step in (1, 2):  # MSET has a value after each key
                places = list(range(start, start + step * len(keys), step))
                if places[-1] < len(command) and [command[place] for place in places] == keys:
                    return places
        if keys[1:] and command[1] == keys[0] and list(command[3 : 3 + len(keys) - 1]) == keys[1:]:
            return [1, *range(3, 3 + len(keys) - 1)]  # destination, number of keys, keys
        raise LabError(f"cannot tell where {command[0].decode()} has its keys, so it is not replayed on a real server")

    @staticmethod
    def _impatient(command: Command) -> Command:
        """A blocking command that is either answered at once or has timed out already."""
        if command[0] in (b"XREAD", b"XREADGROUP"):
            place = [word.upper() for word in command].index(b"BLOCK") + 1
            return (*command[:place], b"10", *command[place + 1 :])
        place = 1 if command[0] in (b"BLMPOP", b"BZMPOP") else len(command) - 1
        return (*command[:place], b"0.01", *command[place + 1 :])

    def _stripped(self, reply: Any) -> Any:
        if isinstance(reply, bytes):
            return reply.removeprefix(self.prefix)
        if isinstance(reply, (list, tuple)):
            return [self._stripped(part) for part in reply]
        if isinstance(reply, (set, frozenset)):
            return [self._stripped(part) for part in reply]
        if isinstance(reply, dict):
            return {self._stripped(key): self._stripped(value) for key, value in reply.items()}
        return reply

    def _compare(self, worker: str, command: Command, expected: Any, got: Any) -> None:
        if command[0] in _OWN:
            self.comparison.not_comparable.append(command[0].decode())
            return
        second = _TIME_TO_LIVE.get(command[0])
        close = second is not None and isinstance(got, int) and got > 0 and abs(expected - got) <= second
        if not close and _plain(expected) != _plain(got):
            raise RealServerDiffers(
                f"worker {worker or 'set-up'}: {b' '.join(command).decode(errors='replace')} was answered "
                f"{show(expected)!r} in the lab and {show(got)!r} by redis-server {self.comparison.server}"
            )
        self.comparison.compared += 1


def _with_the_labs_id(command: Command, reply: Any) -> Command:
    """XADD with the id that the lab's clock made, since a real server would make one of its own clock."""
    if command[0] == b"XADD" and b"*" in command and isinstance(reply, bytes):
        place = command.index(b"*")
        return (*command[:place], reply, *command[place + 1 :])
    return command


def _plain(reply: Any) -> Any:
    """A reply in a form that compares by content: errors by their text, lists of members regardless of order."""
    if isinstance(reply, Exception):
        return f"{type(reply).__name__}: {reply}"
    if isinstance(reply, list):
        return sorted(map(repr, map(_plain, reply)))
    if isinstance(reply, dict):
        return {key: _plain(value) for key, value in reply.items()}
    return b"OK" if reply in (True, "OK") and not isinstance(reply, int) else reply


def _bytes(word: bytes | str) -> bytes:
    return word if isinstance(word, bytes) else word.encode()
