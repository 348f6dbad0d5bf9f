"""redis-py's own 32 lock tests: the sound locks pass all of them, and so do three broken ones."""

import pytest

from tests.redis_py_suite import NoNetwork, download, pinned_version, run_suite


@pytest.fixture(scope="module")
def test_file(request):
    """redis-py's tests/test_lock.py, from its source distribution."""
    try:
        return download(request.config.cache.mkdir("redis-py"), pinned_version())
    except NoNetwork:
        pytest.skip("the package index is out of reach, so there is no source of redis-py's tests")


@pytest.mark.parametrize("name", ["AtomicLock", "FencedLock"])
def test_a_sound_lock_passes_redis_pys_own_tests_on_fakeredis(name, test_file, tmp_path):
    result = run_suite(test_file, tmp_path, f"labkit.locks:{name}")
    assert (result.passed, result.others) == (32, []), result.output


def test_the_atomic_lock_passes_redis_pys_own_tests_on_a_real_server(test_file, tmp_path, redis_url):
    result = run_suite(test_file, tmp_path, "labkit.locks:AtomicLock", redis_url)
    assert (result.passed, result.others) == (32, []), result.output


@pytest.mark.parametrize("name", ["CheckThenSetLock", "SetnxThenExpireLock", "GetThenDeleteLock"])
def test_three_broken_locks_pass_redis_pys_own_tests_too_since_none_of_them_looks_between_two_requests(
    name, test_file, tmp_path
):
    result = run_suite(test_file, tmp_path, f"labkit.locks:{name}")
    assert (result.passed, result.others) == (32, []), result.output


def test_a_lock_without_an_owner_fails_three_of_redis_pys_own_tests(test_file, tmp_path):
    result = run_suite(test_file, tmp_path, "labkit.locks:UnownedLock")
    assert result.passed == 29, result.output
    assert all("owned" in name for name in result.others)


def test_a_download_that_fails_for_another_reason_than_the_network_is_no_reason_to_skip(tmp_path):
    with pytest.raises(AssertionError, match="No matching distribution"):
        download(tmp_path, pinned_version(), "--no-index")


def test_a_network_that_is_not_there_is_told_apart(tmp_path):
    with pytest.raises(NoNetwork):
        download(tmp_path, pinned_version(), "--index-url", "http://127.0.0.1:1/simple")
