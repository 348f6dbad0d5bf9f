"""A redis-server of the lab's own: on a free loopback port, ended by its process id, and able to come back."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from labkit.errors import LabError

_real_sleep, _real_clock = time.sleep, time.monotonic
_TO_END = 10  # seconds that it may take to end in order
_FSYNC = ("no file", "everysec", "always")


def find_redis_server() -> str | None:
    """The path of a `redis-server` on this machine, or None."""
    return shutil.which("redis-server")


class RedisServer:
    """A server that can be stopped, or killed, and started again on the same port with what its disk has.

    Parameters
    ----------
    folder: where its log and its data are.
    fsync: when its disk has what it was told: `always` before it answers, `everysec`, or never: `no file`.
    patience: how many seconds it may take to answer.

    Raises `LabError` when there is no `redis-server`.
    """

    def __init__(self, folder: Path, fsync: str = "no file", patience: float = 10.0) -> None:
        binary = find_redis_server()
        if binary is None:
            raise LabError("there is no redis-server on this machine; install your system's package `redis-server`")
        if fsync not in _FSYNC:
            raise LabError(f"fsync is {fsync!r}; it must be one of {', '.join(_FSYNC)}")
        self.port, self.folder, self._patience = _free_port(), folder, patience
        options = ["--bind", "127.0.0.1", "--port", str(self.port), "--save", "", "--dir", str(folder)]
        keeps = ["--appendonly", "no"] if fsync == "no file" else ["--appendonly", "yes", "--appendfsync", fsync]
        self._log = folder / "log"
        self._command = [binary, *options, *keeps, "--logfile", str(self._log)]
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it is."""
        return f"redis://127.0.0.1:{self.port}"

    @property
    def files(self) -> list[Path]:
        """What it has appended to: the last one holds the newest writes."""
        return sorted(self.folder.glob("appendonlydir/*.incr.aof"))

    def start(self) -> None:
        """Start it, and wait until it answers; `LabError` when it does not."""
        # In a session of its own, since Ctrl-C is not for it; nor does it keep open what reads our output.
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, start_new_session=True)
        self._guard = _ends_when_this_process_is_gone(self._process.pid)
        _wait_until_it_answers(self.port, self._process, self._log, self._patience)

    def stop(self) -> None:
        """Let it end in order: what it has is on the disk then, if it keeps a file.

        `subprocess.TimeoutExpired` when it does not end within ten seconds; it is killed then.
        """
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout=_TO_END)
            finally:
                self.kill()

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        for process in (self._guard, self._process):
            if process is not None:
                process.kill()
                process.communicate()
        self._guard = self._process = None


@contextmanager
def redis_server(patience: float = 10.0, fsync: str = "no file") -> Iterator[str]:
    """Start a server for the length of a block; gives its URL.

    Parameters
    ----------
    patience: how many seconds it may take to answer.
    fsync: as for `RedisServer`.

    Raises `LabError` when there is no `redis-server`, or when it does not start.
    """
    with tempfile.TemporaryDirectory(prefix="labkit-redis-") as folder:
        server = RedisServer(Path(folder), fsync, patience)
        try:
            server.start()
            yield server.url
        finally:
            server.stop()


@contextmanager
def redis_server_or_none() -> Iterator[str | None]:
    """As `redis_server`, but gives None on a machine that has none.

    `replay(…, redis_url=None)` is a replay inside the lab, and gives the same trace.
    """
    if find_redis_server() is None:
        yield None
        return
    with redis_server() as url:
        yield url


def _ends_when_this_process_is_gone(pid: int) -> subprocess.Popen[bytes]:
    """A shell that waits for the end of its input, which comes however this process ends, and then ends another."""
    return subprocess.Popen(
        ["sh", "-c", f"read -r nothing; kill {pid}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_it_answers(port: int, process: subprocess.Popen[bytes], log: Path, patience: float) -> None:
    client = redis.Redis(port=port)
    until = _real_clock() + patience
    while _real_clock() < until and process.poll() is None:
        try:
            client.ping()
            return
        except (redis.ConnectionError, redis.exceptions.BusyLoadingError):
            _real_sleep(0.02)
        finally:
            client.close()
    said = log.read_text(errors="replace")[-500:] if log.exists() else ""
    raise LabError(f"redis-server did not start on port {port}: {said}")
