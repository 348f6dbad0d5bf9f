"""The same requests on a real Redis server, reply by reply, under a prefix of the lab's own.

No key without the prefix is read or written, nothing is published to a channel without it, nothing is flushed, and
all that was made is deleted at the end.
Time cannot be set on a real server, so the clock ages it: every key's time to live shrinks by what passed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import redis
from redis.connection import ConnectionPool
from redis.maint_notifications import MaintNotificationsConfig

from labkit.errors import LabError
from labkit.stores.commands import CLOSE, NEXT_MESSAGE, SUBSCRIBING, Command, Request, of_a_subscriber, show, waits
from labkit.stores.prefixing import ABOUT_CHANNELS, Prefix

# Replies that depend on the server's own clock or chance.
_OWN = {b"TIME", b"SPOP", b"SRANDMEMBER", b"RANDOMKEY", b"HRANDFIELD", b"ZRANDMEMBER"}
_TIME_TO_LIVE = {b"TTL": 1, b"PTTL": 1_000}  # compared to within a second
_END = b"(all that was pushed)"


class RealServerDiffers(LabError):
    """The real server answered otherwise than the lab's embedded Redis."""


@dataclass
class Comparison:
    """How a replay on a real server went.

    Parameters
    ----------
    server: the server's version.
    compared: how many replies were the same on both.
    not_comparable: the commands whose replies depend on the server's own clock or chance, or on other people's keys and
        subscriptions.
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
    url: where it is, for example `redis://127.0.0.1:6379`. Who is subscribed to all channels there is counted by
        PUBLISH, and makes it differ.
    """

    def __init__(self, url: str) -> None:
        try:
            self._pool = ConnectionPool.from_url(url)
            self._client = redis.Redis.from_url(url)
            self.comparison = Comparison(str(self._client.info("server")["redis_version"]))
        except (redis.RedisError, ValueError, OSError) as error:
            place = re.sub("//[^/@]*@", "//", url)  # without a password
            raise LabError(f"there is no Redis server to replay on at {place}: {error}") from error
        self._prefix = Prefix(self._client)
        self.prefix = self._prefix.text
        self._connections: dict[tuple[str, int], Any] = {}
        self._pushed: dict[str, list[Any]] = defaultdict(list)
        self._watched: set[bytes] = set()

    def apply(self, worker: str, request: Request, expected: tuple[Any, ...]) -> None:
        """Send a request in a worker's name; `RealServerDiffers` when a reply is another than expected."""
        if of_a_subscriber(request):
            self._apply_subscriber(worker, request, expected)
            return
        connection = self._connection(request.connection or worker, request.protocol)
        pairs = list(zip(request.commands, expected, strict=True))
        results = zip(request.commands, _results(request.commands, expected), strict=True)
        commands = [self._prefix.put_on(_with_the_labs_id(command, result)) for command, result in results]
        if waits(request):
            commands = [self._impatient(commands[0])]
        if commands[0][0] == b"WATCH":
            self._watched.update(commands[0][1:])
        for command in commands:
            connection.send_command(*command)
        for command, reply in pairs:
            self._compare(worker, command, reply, self._read(connection))

    def _apply_subscriber(self, worker: str, request: Request, expected: tuple[Any, ...]) -> None:
        """Send what a subscriber sends, and compare what was pushed to it; what it reads has been read then."""
        command, pushed = request.commands[0], self._pushed[request.connection]
        if command[0] == CLOSE:
            self.lose(worker, request)
            return
        connection = self._connection(request.connection, request.protocol)
        if command[0] in SUBSCRIBING:
            # UNSUBSCRIBE may name nothing, and a server's own order is no certain one: the lab's names are sent.
            names = [reply[1] for reply in expected if reply[1] is not None]
            connection.send_command(command[0], *(self.prefix + name for name in names))
        elif command[0] != NEXT_MESSAGE:
            connection.send_command(*command)
        # A connection is answered in order: when this PING is, everything that was published before has come.
        connection.send_command("PING", _END)
        while (got := self._read(connection)) not in (_END, [b"pong", _END]):
            pushed.append(got)
        if command[0] == NEXT_MESSAGE:
            self._compare(worker, command, expected[0], _take(pushed, expected[0]))
        else:
            self._compare(worker, command, list(expected), pushed[-len(expected) :])

    def age(self, before: Mapping[str, int], after: Mapping[str, int]) -> None:
        """Let time pass for the keys that will expire; both in microseconds left."""
        for key in before:
            real = self.prefix + key.encode()
            if key not in after:
                self._client.delete(real)
            elif real not in self._watched:  # to touch a watched key would abort its transaction
                self._client.pexpire(real, max(1, after[key] // 1000))

    def lose(self, worker: str, request: Request) -> None:
        """Drop the connection that a worker sent a request on."""
        self._drop(request.connection or worker)

    def hang_up(self, worker: str) -> None:
        """Drop the connections of a worker that is gone, and of its threads."""
        for name in {name for name, _ in self._connections if name.partition("/")[0] == worker}:
            self._drop(name)

    def _drop(self, name: str) -> None:
        self._pushed.pop(name, None)
        for place in [place for place in self._connections if place[0] == name]:
            connection = self._connections.pop(place)
            # Until it is closed at the other end: the next PUBLISH must not count it any more.
            connection.send_command("QUIT")
            with suppress(redis.ConnectionError):
                while True:
                    self._read(connection)
            connection.disconnect()

    def close(self) -> None:
        """Delete every key with the prefix, and disconnect."""
        for key in list(self._prefix.made()):
            self._client.delete(key)
        for connection in self._connections.values():
            connection.disconnect()
        self._client.close()

    def _connection(self, name: str, protocol: int) -> Any:
        place = (name, protocol)
        if place not in self._connections:
            quiet = MaintNotificationsConfig(enabled=False)  # they are not for protocol 2
            options = {**self._pool.connection_kwargs, "protocol": protocol, "maint_notifications_config": quiet}
            self._connections[place] = self._pool.connection_class(**options)
            self._connections[place].connect()
        return self._connections[place]

    def _read(self, connection: Any) -> Any:
        try:
            return self._prefix.take_off(connection.read_response(disable_decoding=True, push_request=True))
        except redis.ResponseError as error:
            return error

    @staticmethod
    def _impatient(command: Command) -> Command:
        """A blocking command that is either answered at once or has timed out already."""
        if command[0] in (b"XREAD", b"XREADGROUP"):
            place = [word.upper() for word in command].index(b"BLOCK") + 1
            return (*command[:place], b"10", *command[place + 1 :])
        place = 1 if command[0] in (b"BLMPOP", b"BZMPOP") else len(command) - 1
        return (*command[:place], b"0.01", *command[place + 1 :])

    def _compare(self, worker: str, command: Command, expected: Any, got: Any) -> None:
        of_everybody = command[0] == b"PUBSUB" and command[1].upper() not in ABOUT_CHANNELS
        if command[0] in _OWN or of_everybody:
            self.comparison.not_comparable.append(b" ".join(command[: 1 + of_everybody]).decode())
            return
        second = _TIME_TO_LIVE.get(command[0])
        close = second is not None and isinstance(got, int) and got > 0 and abs(expected - got) <= second
        if not close and _plain(expected) != _plain(got):
            raise RealServerDiffers(
                f"worker {worker or 'set-up'}: {b' '.join(command).decode(errors='replace')} was answered "
                f"{show(expected)!r} in the lab and {show(got)!r} by redis-server {self.comparison.server}"
            )
        self.comparison.compared += 1


def _results(commands: tuple[Command, ...], replies: tuple[Any, ...]) -> tuple[Any, ...]:
    """What each command came to: those of a transaction are told by the reply to EXEC."""
    told_by_exec = commands[-1][0] == b"EXEC" and isinstance(replies[-1], list)
    return (replies[0], *replies[-1], replies[-1]) if told_by_exec else replies


def _with_the_labs_id(command: Command, result: Any) -> Command:
    """XADD with the id that the lab's clock made, since a real server would make one of its own clock."""
    if command[0] == b"XADD" and b"*" in command and isinstance(result, bytes):
        place = command.index(b"*")
        return (*command[:place], result, *command[place + 1 :])
    return command


def _take(pushed: list[Any], expected: Any) -> Any:
    """The next of the messages that were pushed, or None.

    Of those that one PUBLISH sends for several patterns, in no certain order, it is the expected one.
    """
    of_one = takewhile(lambda got: isinstance(got, list) and got[-2:] == pushed[0][-2:], pushed)
    place = next((place for place, got in enumerate(of_one) if got == expected), 0)
    return pushed.pop(place) if pushed else None


def _plain(reply: Any) -> Any:
    """A reply in a form that compares by content: errors by their text, lists of members regardless of order."""
    if isinstance(reply, Exception):
        return f"{type(reply).__name__}: {reply}"
    if isinstance(reply, list):
        return sorted(map(repr, map(_plain, reply)))
    if isinstance(reply, dict):
        return {key: _plain(value) for key, value in reply.items()}
    return b"OK" if reply in (True, "OK") and not isinstance(reply, int) else reply
