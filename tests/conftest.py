"""What several test files need: real servers, where there are some."""

import pytest

from labkit.processes.postgresql import find_postgresql, postgresql_server
from labkit.processes.server import find_redis_server, redis_server


@pytest.fixture(scope="session")
def redis_url():
    """A throw-away redis-server on loopback."""
    if find_redis_server() is None:
        pytest.skip("there is no redis-server on this machine (system package `redis-server`)")
    with redis_server() as url:
        yield url


@pytest.fixture(scope="session")
def postgresql_url():
    """A throw-away PostgreSQL on a Unix socket."""
    pytest.importorskip("psycopg", reason="psycopg is not installed (extra `postgresql`)")
    if find_postgresql() is None:
        pytest.skip("there is no PostgreSQL on this machine (system package `postgresql`)")
    with postgresql_server() as url:
        yield url
