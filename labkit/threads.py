"""What `threading` is inside a worker: threads are actors of the worker's process, and locks wait on the lab's clock.

Everything else in `threading` and `queue` (events, conditions, semaphores, timers, queues) is Python code on top of
`Lock` and `Thread`, and works unchanged. Memory is not interleaved: an actor runs up to its next step undisturbed.
"""

from __future__ import annotations

import queue
import re
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from labkit.actor import current_actor
from labkit.errors import Unsupported
from labkit.process import Process, current_process

FOR_EVER = -1
_MICROSECONDS = 1_000_000
_OWN_NAME = re.compile(r"Thread-\d+")


class Lock:
    """`threading.Lock` for the actors of one worker; to wait for it takes no step until it is free."""

    def __init__(self) -> None:
        self._locked = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock; whether it was free, or became so within `timeout` seconds."""
        if self._locked and blocking and timeout != 0:
            process = current_process()
            if process is None:
                raise Unsupported("a scenario's set-up waits for a lock that nobody will release")
            process.wait_for(self, FOR_EVER if timeout < 0 else round(timeout * _MICROSECONDS))
        if self._locked:
            return False
        self._locked = True
        return True

    def release(self) -> None:
        """Let go of the lock; any actor may."""
        if not self._locked:
            raise RuntimeError("release unlocked lock")
        self._locked = False

    def locked(self) -> bool:
        """Whether it is taken."""
        return self._locked

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Local:
    """`threading.local`: each actor of a worker sees attributes of its own."""

    def __init__(self) -> None:
        object.__setattr__(self, "_spaces", {})

    def _space(self) -> SimpleNamespace:
        actor = current_actor()
        spaces: dict[Any, SimpleNamespace] = object.__getattribute__(self, "_spaces")
        # What the set-up stored is the main actor's: a process begins as a copy of what made it.
        return spaces.setdefault(actor if actor is not None and actor.name else None, SimpleNamespace())

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(self._space(), name)
        except AttributeError:
            raise AttributeError(f"'_thread._local' object has no attribute {name!r}") from None

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._space(), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._space(), name)


def _start(thread: Any) -> None:
    """`Thread.start`: the thread becomes an actor of the worker's process."""
    process = current_process()
    assert process is not None
    if hasattr(thread, "_lab_done"):
        raise RuntimeError("threads can only be started once")
    done = thread._lab_done = Lock()
    done.acquire()
    if not thread.daemon:
        _end_after(process, done)

    def run() -> None:
        actor = current_actor()
        assert actor is not None
        actor.thread, thread._name = thread, actor.name
        try:
            thread.run()
        except Exception as error:  # as in Python, it ends the thread, and the process goes on
            print(f"Exception in thread {thread.name}: {type(error).__name__}: {error}", file=sys.stderr)
            raise
        finally:
            done.release()

    process.start(_name_of(thread), run)


def _end_after(process: Process, done: Lock) -> None:
    """Keep the process going until a thread that is no daemon has ended."""
    before = process.before_end

    def wait() -> None:
        before()
        if done.locked():
            process.wait_for(done, FOR_EVER)

    process.before_end = wait


def _name_of(thread: Any) -> str:
    """A thread's name if it was given one, else that of its function or class."""
    name = thread.name
    if _OWN_NAME.match(name):
        target = getattr(thread, "_target", None)
        name = getattr(target, "__name__", type(thread).__name__)
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-_") or "thread"


def _join(thread: Any, timeout: float | None = None) -> None:
    """`Thread.join`: wait until the thread has ended."""
    process, done = current_process(), getattr(thread, "_lab_done", None)
    assert process is not None
    if done is None:
        raise RuntimeError("cannot join thread before it is started")
    if done.locked() and timeout != 0:
        process.wait_for(done, FOR_EVER if timeout is None else max(0, round(timeout * _MICROSECONDS)))


def _is_alive(thread: Any) -> bool:
    """`Thread.is_alive`."""
    done = getattr(thread, "_lab_done", None)
    return done is not None and done.locked()


def _current_thread() -> Any:
    """`threading.current_thread`: the thread whose actor runs now."""
    actor = current_actor()
    return getattr(actor, "thread", None) or threading.main_thread()


def _get_ident() -> int:
    """`threading.get_ident`: a number that no other living actor of the process has."""
    actor = current_actor()
    assert actor is not None
    return actor.process.place_of(actor) + 1


def stand_ins(is_building: Callable[[], bool]) -> list[tuple[Any, str, Any]]:
    """What is replaced while a scenario runs: owner, name, and a dispatcher that leaves real threads alone.

    Parameters
    ----------
    is_building: whether a scenario's set-up runs now; the locks it makes are for its workers.
    """

    def made_by_workers(real: Callable[..., Any], stand_in: Callable[..., Any]) -> Callable[..., Any]:
        return _dispatcher(real, stand_in, lambda: current_actor() is not None or is_building())

    return [
        *((threading, name, made_by_workers(getattr(threading, name), Lock)) for name in ("Lock", "_allocate_lock")),
        (threading, "RLock", made_by_workers(threading.RLock, getattr(threading, "_PyRLock"))),  # noqa: B009
        (threading, "local", made_by_workers(threading.local, Local)),
        (queue, "SimpleQueue", made_by_workers(queue.SimpleQueue, getattr(queue, "_PySimpleQueue"))),  # noqa: B009
        (threading, "get_ident", _in_workers(threading.get_ident, _get_ident)),
        (threading, "current_thread", _in_workers(threading.current_thread, _current_thread)),
        (threading.Thread, "start", _in_workers(threading.Thread.start, _start)),
        (threading.Thread, "join", _in_workers(threading.Thread.join, _join)),
        (threading.Thread, "is_alive", _in_workers(threading.Thread.is_alive, _is_alive)),
    ]


def _in_workers(real: Callable[..., Any], stand_in: Callable[..., Any]) -> Callable[..., Any]:
    return _dispatcher(real, stand_in, lambda: current_actor() is not None)


def _dispatcher(
    real: Callable[..., Any], stand_in: Callable[..., Any], applies: Callable[[], bool]
) -> Callable[..., Any]:
    """The stand-in where it applies, the real thing everywhere else."""

    def dispatch(*args: Any, **kwargs: Any) -> Any:
        return stand_in(*args, **kwargs) if applies() else real(*args, **kwargs)

    dispatch.__name__ = getattr(real, "__name__", "dispatch")
    return dispatch
