"""A redis-server of the lab's own: on a free loopback port, keeping nothing, ended by its process id."""

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


def find_redis_server() -> str | None:
    """The path of a `redis-server` on this machine, or None."""
    return shutil.which("redis-server")


@contextmanager
def redis_server(patience: float = 10.0) -> Iterator[str]:
    """Start a server for the length of a block; gives its URL.

    Parameters
    ----------
    patience: how many seconds it may take to answer.

    Raises `LabError` when there is no `redis-server`, or when it does not start.
    """
    binary = find_redis_server()
    if binary is None:
        raise LabError("there is no redis-server on this machine; install your system's package `redis-server`")
    with tempfile.TemporaryDirectory(prefix="labkit-redis-") as folder:
        port = _free_port()
        log = Path(folder) / "log"
        options = ["--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no"]
        command = [binary, *options, "--dir", folder, "--logfile", str(log)]
        process = subprocess.Popen(command, start_new_session=True)  # Ctrl-C is not for it
        try:
            _wait_until_it_answers(port, process, log, patience)
            yield f"redis://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(timeout=10)


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
        except redis.ConnectionError:
            _real_sleep(0.02)
        finally:
            client.close()
    said = log.read_text(errors="replace")[-500:] if log.exists() else ""
    raise LabError(f"redis-server did not start on port {port}: {said}")
