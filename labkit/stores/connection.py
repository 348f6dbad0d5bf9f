"""The redis-py connection of the lab: each request that reaches it becomes a step.

redis-py's public `connection_class` is the hook, not `execute_command`: pipelines, scripts and locks all
end up here, in the pieces that a server would execute one at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import greenlet
import redis
from redis.backoff import ExponentialWithJitterBackoff
from redis.connection import AbstractConnection
from redis.driver_info import DriverInfo
from redis.exceptions import NoScriptError
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry

from labkit.actor import Actor, Lost
from labkit.errors import Unsupported
from labkit.process import Process, current_process
from labkit.stores.commands import Command, Request
from labkit.stores.scripts import knows_script, learn_script

Perform = Callable[[Request], Any]

_SUBSCRIBING = {"SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE", "MONITOR"}
_SUBSCRIBING |= {"PUBLISH", "SPUBLISH", "PUBSUB"}
_PER_CONNECTION = {"SELECT", "MOVE", "CLIENT", "AUTH", "HELLO", "RESET"}
_BY_HAND = {"MULTI", "EXEC", "DISCARD"}
_ADMINISTRATION = {"CONFIG", "SHUTDOWN", "DEBUG", "REPLICAOF", "ACL", "CLUSTER", "FUNCTION", "FCALL", "SWAPDB"}
_REFUSED = {
    **dict.fromkeys(_SUBSCRIBING, "use a list, or an outside service such as `lab.events`"),
    **dict.fromkeys(_PER_CONNECTION, "there is one database, without users"),
    **dict.fromkeys(_BY_HAND, "use a pipeline, which sends MULTI, commands and EXEC as one"),
    **dict.fromkeys(_ADMINISTRATION, "the embedded Redis has nothing to administer"),
    **dict.fromkeys(("WAIT", "WAITAOF"), "the embedded Redis has no replicas"),
}
_DRIVER = DriverInfo(name=None, lib_version=None)
_QUIET = MaintNotificationsConfig(enabled=False)


class SortedSet(set):  # type: ignore[type-arg]
    """A set that is walked in order: the order of a plain one follows Python's hash seed, and replays would differ."""

    def __iter__(self) -> Iterator[Any]:
        return iter(sorted(super().__iter__()))


class LabConnection(AbstractConnection):
    """A connection without a socket.

    Parameters
    ----------
    perform: takes one request and gives its replies; a step when a worker's code calls it.
    """

    def __init__(self, *, perform: Perform, **kwargs: Any) -> None:
        super().__init__(driver_info=_DRIVER, **kwargs)
        self._perform = perform
        self._replies: deque[Any] = deque()
        self._name = ""
        self._watches = False
        self._retired = False
        self._owner: Process | None = None

    def connect(self) -> None:
        """A handshake is no step."""

    def disconnect(self, *args: Any, **kwargs: Any) -> None:
        self._replies.clear()
        self._watches = False

    def lend(self) -> None:
        """Speak for whoever runs now, and for nobody else.

        Python may collect a pipeline of an execution that is over while another worker runs; its last words, an
        UNWATCH, must not become that worker's step.
        """
        self._owner = _here()

    def retire(self) -> None:
        """Answer nothing any more."""
        self.disconnect()
        self._retired, self._owner = True, None

    def can_read(self, timeout: float | None = 0) -> bool:
        return bool(self._replies)

    def pack_commands(self, commands: Iterable[Iterable[Any]]) -> list[Command]:
        return [self._encode(tuple(words)) for words in commands]

    def send_command(self, *args: Any, **kwargs: Any) -> None:
        self.send_packed_command([self._encode(args)])

    def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        group: list[Command] = []
        if self._retired or self._owner is not _here():
            raise redis.ConnectionError("this connection belongs to another execution")
        for words in command:
            group.append(words)
            # MULTI to EXEC in one packet is one step; any other pipeline is a step per command.
            if group[0][0] == b"MULTI" and words[0] != b"EXEC" and len(command) > 1:
                continue
            self._replies.extend(self._answer(tuple(group)))
            group = []

    def read_response(self, disable_decoding: bool = False, **kwargs: Any) -> Any:
        reply = self._replies.popleft()
        if isinstance(reply, Exception):
            raise reply
        return reply if disable_decoding else self._decode(reply)

    def _connect(self) -> Any:
        raise NotImplementedError("a lab connection has no socket")

    def _host_error(self) -> str:
        return "the lab's embedded Redis"

    def repr_pieces(self) -> list[tuple[str, Any]]:
        return [("embedded", True)]

    def _encode(self, words: tuple[Any, ...]) -> Command:
        first = words[0].split(" ") if isinstance(words[0], str) else [words[0]]
        encoded = [self.encoder.encode(word) for word in (*first, *words[1:])]
        return (bytes(encoded[0]).upper(), *map(bytes, encoded[1:]))

    def _answer(self, commands: tuple[Command, ...]) -> tuple[Any, ...]:
        """The replies to one group of commands; all but a script's text go through a step."""
        for command in commands:
            _refuse(command, alone=len(commands) == 1)
        name, *words = commands[0]
        if name == b"SCRIPT":
            return (_about_scripts(words),)
        if name == b"EVALSHA" and not knows_script(words[0]):
            return (NoScriptError("No matching script. Please use EVAL."),)
        if name == b"WATCH":
            self._watches = True
        request = Request(int(self.protocol), commands, self._known_name() if self._watches else "")
        if name in (b"MULTI", b"UNWATCH"):
            self._watches = False
        replies = self._perform(request)
        if isinstance(replies, Lost):
            return (redis.TimeoutError("Timeout reading from the lab's embedded Redis: the reply was lost"),)
        return tuple(replies)

    def forget_name(self) -> None:
        """Be nobody's connection again."""
        self._name = ""

    def _known_name(self) -> str:
        """The name by which the server knows this connection: the worker's, and a number."""
        if not self._name:
            process = current_process()
            if process is None:
                raise Unsupported(
                    "WATCH belongs into a worker: set-up and observers take no steps that others could disturb"
                )
            process.connections += 1
            self._name = f"{process.name}/{process.connections}"
        return self._name

    def _decode(self, reply: Any) -> Any:
        if isinstance(reply, list):
            return [self._decode(part) for part in reply]
        if isinstance(reply, dict):
            return {self._decode(key): self._decode(value) for key, value in reply.items()}
        return self.encoder.decode(reply) if isinstance(reply, bytes) else reply


class LabPool(redis.ConnectionPool):
    """A pool that can be put back to how it was new, so that building a scenario again is cheap."""

    def __init__(self, **kwargs: Any) -> None:
        # Retired connections are replaced, so there is no end to how many are made.
        super().__init__(
            connection_class=LabConnection, max_connections=2**31, maint_notifications_config=_QUIET, **kwargs
        )
        self._free: list[Any] = []
        self._taken: set[Any] = set()

    def get_connection(self, command_name: Any = None, *keys: Any, **options: Any) -> Any:
        connection: Any = self._free.pop() if self._free else self.make_connection()
        self._taken.add(connection)
        connection.lend()
        return connection

    def release(self, connection: Any) -> None:
        if connection in self._taken:
            self._taken.remove(connection)
            self._free.append(connection)

    def rewind(self) -> None:
        """Be as new, for another run of the worker: what an abandoned run still holds is retired."""
        for connection in self._taken:
            connection.retire()
        self._taken.clear()
        for connection in self._free:
            connection.disconnect()
            connection.forget_name()


def lab_client(perform: Perform, retries: int, **kwargs: Any) -> redis.Redis:
    """A redis-py client whose requests go to `perform`.

    Parameters
    ----------
    perform: takes one request and gives its replies.
    retries: how often the client sends a request again after a lost connection.
    kwargs: `decode_responses`, `protocol` and the like, as for `redis.Redis`.
    """
    if kwargs.get("db"):
        raise Unsupported("the lab models one Redis database, number 0; tell jobs apart by key prefixes")
    retry = Retry(ExponentialWithJitterBackoff(base=1, cap=10), retries)
    client = redis.Redis(connection_pool=LabPool(perform=perform, retry=retry, **kwargs))
    for command in ("SMEMBERS", "SINTER", "SUNION", "SDIFF"):
        client.set_response_callback(command, SortedSet)
    return client


def _here() -> Process | None:
    here = greenlet.getcurrent()
    return here.process if isinstance(here, Actor) else None


def _refuse(command: Command, alone: bool) -> None:
    name = command[0].decode(errors="replace")
    instead = _REFUSED.get(name)
    if name == "XREAD" and b"$" in command and b"BLOCK" in [word.upper() for word in command]:
        raise Unsupported("the lab does not model XREAD BLOCK with $: read the stream's last id first, and give that")
    if instead is not None and (alone or name not in ("MULTI", "EXEC")):
        raise Unsupported(f"the lab does not model {name} yet: {instead}")


def _about_scripts(words: list[bytes]) -> Any:
    what = words[0].upper() if words else b""
    if what == b"LOAD":
        return learn_script(words[1])
    if what == b"EXISTS":
        return [int(knows_script(sha)) for sha in words[1:]]
    raise Unsupported(f"the lab does not model SCRIPT {what.decode(errors='replace')}: scripts are always loaded")
