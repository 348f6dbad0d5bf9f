"""What several test files need: a real redis-server, where there is one."""

import pytest

from labkit.processes.server import find_redis_server, redis_server


@pytest.fixture(scope="session")
def redis_url():
    """A throw-away redis-server on loopback."""
    if find_redis_server() is None:
        pytest.skip("there is no redis-server on this machine (system package `redis-server`)")
    with redis_server() as url:
        yield url
