"""Run redis-py's own lock tests on another lock class: they come from its source distribution and are not kept here."""

import os
import re
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parent
NETWORK = re.compile(
    r"NewConnectionError|NameResolutionError|ConnectTimeout|ReadTimeout|ProxyError|ConnectionResetError"
    r"|[Ff]ailed to (establish|connect|resolve)|[Nn]etwork is unreachable|timed out"
)

# Stands beside redis-py's test file, in the place of its own conftest.py.
CONFTEST = '''
import importlib, os, types
import fakeredis, pytest, redis, redis.lock

module, _, name = os.environ["LOCK_CLASS"].partition(":")
lock_class = getattr(importlib.import_module(module), name)
waiting = importlib.import_module("labkit.locks.lock")


class LockModule(types.ModuleType):
    """The module redis.lock, whose clock the tests replace: it is the clock of the other class."""

    mod_time = property(lambda self: waiting.time, lambda self, clock: setattr(waiting, "time", clock))


redis.lock.__class__ = LockModule
redis.lock.Lock = lock_class


def _get_client(cls, request, **options):
    if os.environ["LOCK_SERVER"]:
        client = redis.Redis.from_url(os.environ["LOCK_SERVER"], **options)
    else:
        client = fakeredis.FakeRedis(server=fakeredis.FakeServer(), **options)
    request.addfinalizer(lambda: client.delete("foo"))
    return client


@pytest.fixture
def r(request):
    return _get_client(redis.Redis, request)
'''


class NoNetwork(Exception):
    """The package index cannot be reached."""


@dataclass(frozen=True)
class Result:
    """How many tests passed, the names of those that did not, and what pytest printed."""

    passed: int
    others: list[str]
    output: str


def pinned_version():
    """The version of redis-py that the tests are pinned to."""
    return re.search(r"^redis==(\S+)$", (TESTS / "constraints.txt").read_text(), re.MULTILINE)[1]


def download(folder, version, *options):
    """Fetch redis-py's lock tests into a folder, unless they are there; `NoNetwork` when the index is out of reach."""
    found = folder / version / "test_lock.py"
    if not found.exists():
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", "redis", "--retries", "1"]
        command += ["--timeout", "15", "--disable-pip-version-check", "--dest", folder, f"redis=={version}", *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            said = done.stdout + done.stderr
            raise (NoNetwork if NETWORK.search(said) else AssertionError)(said)
        with tarfile.open(folder / f"redis-{version}.tar.gz") as archive:
            text = archive.extractfile(f"redis-{version}/tests/test_lock.py").read()
        found.parent.mkdir(exist_ok=True)
        found.write_bytes(text)
    return found


def run_suite(test_file, folder, lock_class, redis_url=""):
    """Run the tests on a lock class, given as `module:name`, in a process of their own; on fakeredis without a URL."""
    suite = folder / "suite"
    suite.mkdir()
    (suite / "__init__.py").touch()
    (suite / "conftest.py").write_text(CONFTEST)
    (suite / "test_lock.py").write_bytes(test_file.read_bytes())
    (folder / "pytest.ini").write_text("[pytest]\n")
    report = folder / "report.xml"
    paths = os.pathsep.join([str(TESTS.parent), os.environ.get("PYTHONPATH", "")])
    settings = {**os.environ, "LOCK_CLASS": lock_class, "LOCK_SERVER": redis_url, "PYTHONPATH": paths}
    settings.pop("PYTEST_ADDOPTS", None)
    settings["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # none of the plugins here concerns these tests
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junit-xml={report}", "suite"]
    done = subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, timeout=300, check=False)
    assert report.exists(), done.stdout + done.stderr
    cases = ElementTree.parse(report).getroot().findall(".//testcase")
    others = [case.get("name") for case in cases if len(case.findall("*"))]
    return Result(len(cases) - len(others), others, done.stdout + done.stderr)
