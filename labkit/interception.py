"""Inside a worker, time and chance belong to the lab; everywhere else in the process they stay real.

While a scenario runs, the functions below are replaced by dispatchers. A dispatcher asks who is calling:
a worker's code takes a step (or draws from the worker's own seeded source), the lab's embedded stores read
the lab's clock, and everybody else, other threads included, gets the real function.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import datetime
import functools
import multiprocessing.process
import os
import queue
import random
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
import types
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Any

from labkit import threads
from labkit.actor import Operation
from labkit.errors import ScenarioError, Unsupported
from labkit.process import Handler, current_process

EPOCH = 1_767_258_000  # the lab's clock starts on 2026-01-01 at 09:00 UTC
MICROSECONDS = 1_000_000

# redis-py measures itself for telemetry; those readings change nothing that a worker does.
_TELEMETRY = ("redis.client", "redis.connection", "redis.observability", "redis.asyncio", "logging")

# fakeredis reads the clock here to age keys, which the lab does relative to now.
_RELATIVE = ("fakeredis._socket", "fakeredis._core", "fakeredis._helpers", "fakeredis.model._client")


class Serving(threading.local):
    """What the lab's own code, outside of every worker, reads as time and draws as chance in this thread.

    `now` is in microseconds since the lab's clock started, or None while the lab serves nothing;
    `clock_was_read` is set when a store hands the clock's value to a worker; `building` while a scenario's set-up runs.
    """

    now: int | None = None
    chance: random.Random | None = None
    clock_was_read: bool = False
    building: bool = False

    @contextmanager
    def at(self, now: int, chance: random.Random) -> Iterator[None]:
        """Serve at a moment of the lab's clock."""
        before = self.now, self.chance
        self.now, self.chance = now, chance
        try:
            yield
        finally:
            self.now, self.chance = before

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Do something that is not done each time, and draws nothing from the chance of what is repeated."""
        with self.at(self.now or 0, random.Random(0)):
            yield


serving = Serving()

_real_time, _real_sleep, _real_datetime = time.time, time.sleep, datetime.datetime


def _caller_is(prefixes: tuple[str, ...]) -> bool:
    return str(sys._getframe(2).f_globals.get("__name__", "")).startswith(prefixes)


def _clock(real: Callable[[], Any], convert: Callable[[int], Any], wall: bool = False) -> Callable[[], Any]:
    """A dispatcher for a function that reads a clock; `convert` makes its value from the lab's microseconds.

    A wall clock may be wrong, and jump; a monotonic one does neither.
    """

    def read() -> Any:
        process = current_process()
        if process is not None:
            if _caller_is(_TELEMETRY):
                return convert(0)
            now = process.perform(Operation("clock", ("read",)))
            return convert(now + process.skew if wall else now)
        if serving.now is None:
            return real()
        if not _caller_is(_TELEMETRY + _RELATIVE):
            serving.clock_was_read = True
        return convert(serving.now)

    read.__name__ = real.__name__
    return read


def _sleep(seconds: float) -> None:
    process = current_process()
    if process is not None:
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        process.perform(Operation("clock", ("sleep", round(seconds * MICROSECONDS))))
    elif serving.now is None:
        _real_sleep(seconds)
    else:
        raise ScenarioError("a scenario's set-up and its properties take no time: move the sleep into a worker")


def _signal(real: Callable[..., Any]) -> Callable[..., Any]:
    """A dispatcher for `signal.signal`: a worker's handlers are its own."""

    def signal_(number: int, handler: Handler) -> Any:
        process = current_process()
        if process is None:
            return real(number, handler)
        before = process.handlers.get(number, signal.SIG_DFL)
        process.handlers[number] = handler
        return before

    return signal_


def _forbidden(real: Callable[..., Any], instead: str) -> Callable[..., Any]:
    """A dispatcher for what no worker may do, since the lab could neither step nor repeat it."""

    def refused(*args: Any, **kwargs: Any) -> Any:
        process = current_process()
        if process is None:
            return real(*args, **kwargs)
        raise Unsupported(f"worker {process.name} {instead}")

    return refused


def _random(real: Callable[..., Any], draw: Callable[[random.Random], Callable[..., Any]]) -> Callable[..., Any]:
    """A dispatcher for a function that draws at random; `draw` picks the same from a seeded source."""

    def drawn(*args: Any, **kwargs: Any) -> Any:
        process = current_process()
        chance = process.chance if process is not None else serving.chance
        return real(*args, **kwargs) if chance is None else draw(chance)(*args, **kwargs)

    drawn.__name__ = real.__name__
    return drawn


def _uuid(chance: random.Random, version: int) -> Callable[..., uuid.UUID]:
    return lambda *_, **__: uuid.UUID(bytes=chance.randbytes(16), version=version)


class _AnyDatetime(type):
    """Real datetimes are instances of the stand-in too."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _real_datetime)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, _real_datetime)


class _Datetime(_real_datetime, metaclass=_AnyDatetime):  # type: ignore[misc, valid-type]
    """`datetime.datetime` whose idea of now is `time.time()`'s; what it makes are real datetimes."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return _real_datetime(*args, **kwargs)

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Any:
        return _real_datetime.fromtimestamp(time.time(), tz)

    @classmethod
    def today(cls) -> Any:
        return _real_datetime.fromtimestamp(time.time())

    @classmethod
    def utcnow(cls) -> Any:
        return _real_datetime.fromtimestamp(time.time(), datetime.UTC).replace(tzinfo=None)


_DRAWS = (
    *("random", "randint", "uniform", "choice", "choices", "shuffle", "sample", "randrange", "getrandbits"),
    *("randbytes", "expovariate", "gauss", "normalvariate", "triangular", "betavariate"),
)


def _replacements() -> list[tuple[Any, str, Any]]:
    nano = 1000
    found: list[tuple[Any, str, Any]] = [
        (time, "time", _clock(time.time, lambda now: EPOCH + now / MICROSECONDS, wall=True)),
        (time, "time_ns", _clock(time.time_ns, lambda now: (EPOCH * MICROSECONDS + now) * nano, wall=True)),
        (time, "monotonic", _clock(time.monotonic, lambda now: now / MICROSECONDS)),
        (time, "monotonic_ns", _clock(time.monotonic_ns, lambda now: now * nano)),
        (time, "perf_counter", _clock(time.perf_counter, lambda now: now / MICROSECONDS)),
        (time, "perf_counter_ns", _clock(time.perf_counter_ns, lambda now: now * nano)),
        (time, "sleep", _sleep),
        (datetime, "datetime", _Datetime),
        (signal, "signal", _signal(signal.signal)),
        (uuid, "uuid1", _random(uuid.uuid1, lambda chance: _uuid(chance, 1))),
        (uuid, "uuid4", _random(uuid.uuid4, lambda chance: _uuid(chance, 4))),
        (os, "urandom", _random(os.urandom, lambda chance: chance.randbytes)),
    ]
    for name in _DRAWS:
        found.append((random, name, _random(getattr(random, name), attrgetter(name))))
    for name in ("token_bytes", "token_hex", "token_urlsafe", "randbelow", "choice"):
        found.append((secrets, name, _random(getattr(secrets, name), _SECRETS[name])))
    return found + threads.stand_ins(lambda: serving.building)


_SECRETS: dict[str, Callable[[random.Random], Callable[..., Any]]] = {
    "token_bytes": lambda chance: lambda nbytes=32: chance.randbytes(nbytes),
    "token_hex": lambda chance: lambda nbytes=32: chance.randbytes(nbytes).hex(),
    "token_urlsafe": lambda chance: lambda nbytes=32: chance.randbytes(nbytes).hex(),
    "randbelow": lambda chance: chance.randrange,
    "choice": lambda chance: chance.choice,
}

_ONE_PROCESS = "is one process: its threads are those of `threading.Thread`"
_FORBIDDEN: list[tuple[Any, str, str]] = [
    (socket.socket, "connect", "opens a network connection: use `lab.redis()`, `lab.sql()` or `lab.service(name)`"),
    (asyncio.BaseEventLoop, "run_forever", "uses asyncio: workers are ordinary functions without async"),
    (concurrent.futures.ThreadPoolExecutor, "submit", f"uses an executor; it {_ONE_PROCESS}"),
    (concurrent.futures.ProcessPoolExecutor, "submit", f"uses an executor; it {_ONE_PROCESS}"),
    (multiprocessing.process.BaseProcess, "start", f"starts another process; it {_ONE_PROCESS}"),
    (subprocess.Popen, "__init__", f"starts another process; it {_ONE_PROCESS}"),
    *((os, name, f"starts another process; it {_ONE_PROCESS}") for name in ("fork", "system", "posix_spawn")),
    (os, "_exit", "ends the whole of Python: return, or raise an exception; a kill is the choice `crash`"),
    (os, "kill", "signals a real process: SIGTERM is the choice `signal`, a kill the choice `crash`"),
]
_REPLACED = _replacements()
_REFUSED = [(owner, name, _forbidden(getattr(owner, name), instead)) for owner, name, instead in _FORBIDDEN]
_STAND_IN = {id(getattr(owner, name)): stand_in for owner, name, stand_in in _REPLACED}
_turn = threading.RLock()  # what is replaced is one for the whole process
_depth = 0
_undo: list[tuple[Any, str, Any]] = []


@contextmanager
def intercepted() -> Iterator[None]:
    """Give time and chance to the lab for code that runs inside workers, until the block is left.

    One thread at a time: another one waits.
    """
    global _depth
    with _turn:
        _depth += 1
        if _depth == 1:
            _replace()
        try:
            yield
        finally:
            _depth -= 1
            if _depth == 0:
                for owner, name, real in reversed(_undo):
                    setattr(owner, name, real)
                _undo.clear()


def stand_in_for_good(namespace: dict[str, Any]) -> None:
    """Replace copies of real functions among global variables that belong to no module, and to no code but the lab's.

    Nothing has to be put back: outside of workers the replacements do what the real functions do.
    """
    namespace.update({name: _STAND_IN[id(value)] for name, value in namespace.items() if id(value) in _STAND_IN})


def _replace() -> None:
    for owner, name, stand_in in _REPLACED + _REFUSED:
        _put(owner, name, stand_in)
    # `from time import sleep` copied the real function into the learner's module: replace that copy too.
    for module in list(sys.modules.values()):
        if isinstance(module, types.ModuleType) and _copies_names(module):
            for name, value in list(vars(module).items()):
                if id(value) in _STAND_IN:
                    _put(module, name, _STAND_IN[id(value)])
    _put(sys.modules["redis.retry"], "sleep", _sleep)  # client retries wait on the lab's clock
    for module, name in ((queue, "time"), (threading, "_time")):  # and so do time-outs in memory
        _put(module, name, time.monotonic)


def _put(owner: Any, name: str, stand_in: Any) -> None:
    _undo.append((owner, name, getattr(owner, name)))
    setattr(owner, name, stand_in)


@functools.cache
def _copies_names(module: types.ModuleType) -> bool:
    root = module.__name__.partition(".")[0]
    if root in sys.stdlib_module_names or root in ("labkit", "redis", "fakeredis"):
        return module.__name__ == "__main__"
    return root == "__main__" or "site-packages" not in (getattr(module, "__file__", None) or "site-packages")
