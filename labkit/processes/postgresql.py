"""A PostgreSQL of the lab's own: a cluster in a temporary folder, reached through a Unix socket, gone afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from labkit.errors import LabError

_OWNER = "postgres"  # initdb refuses to run as root


def find_postgresql() -> Path | None:
    """The folder with `initdb` and `pg_ctl` on this machine, or None; of several versions, the newest."""
    found = shutil.which("pg_ctl")
    if found is not None:
        return Path(found).parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), key=lambda path: int(path.parts[-3]))
    return folders[-1].parent if folders else None


@contextmanager
def postgresql_server() -> Iterator[str]:
    """Start a server for the length of a block; gives its URL.

    Raises `LabError` when there is none on this machine, or when it does not start.
    """
    binaries = find_postgresql()
    if binaries is None:
        raise LabError("there is no PostgreSQL on this machine; install your system's package `postgresql`")
    user = _as_whom()
    with tempfile.TemporaryDirectory(prefix="labkit-postgresql-") as folder:
        if user:
            shutil.chown(folder, _OWNER)
        data, log = f"{folder}/data", f"{folder}/log"
        _run([binaries / "initdb", "-D", data, "-U", _OWNER, "-A", "trust", "--no-sync", "-E", "UTF8"], folder, user)
        options = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c max_connections=100 -c fsync=off"
        _run([binaries / "pg_ctl", "-D", data, "-l", log, "-o", options, "-w", "start"], folder, user)
        try:
            yield f"postgresql:///postgres?host={folder}&user={_OWNER}"
        finally:
            _run([binaries / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop"], folder, user)


def _as_whom() -> dict[str, Any]:
    """The user for the server's processes: root hands over to `postgres`."""
    if os.geteuid() != 0:
        return {}
    try:
        return {"user": pwd.getpwnam(_OWNER).pw_uid, "group": pwd.getpwnam(_OWNER).pw_gid}
    except KeyError as error:
        raise LabError(f"PostgreSQL does not run as root, and there is no user {_OWNER} to run it as") from error


def _run(command: list[str | Path], folder: str, user: dict[str, Any]) -> None:
    # pg_ctl leaves the server its output, which therefore must not be a pipe that somebody waits for.
    with open(f"{folder}/said", "w+", encoding="utf-8", errors="replace") as said:
        answer = subprocess.run(
            list(map(str, command)), stdout=said, stderr=said, cwd=folder, start_new_session=True, check=False, **user
        )
        if answer.returncode != 0:
            said.seek(0)
            raise LabError(f"{Path(command[0]).name} failed: {said.read()[-500:]}")
