"""The sound lock: every request that changes it is one command, or one script, that looks at the owner first."""

from __future__ import annotations

from .lock import Lock

_RELEASE = """-- release if mine
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('del', KEYS[1])
"""
_EXTEND = """-- extend if mine
local left = redis.call('pttl', KEYS[1])
if redis.call('get', KEYS[1]) ~= ARGV[1] or left < 0 then return 0 end
if ARGV[3] == '1' then left = 0 end
return redis.call('pexpire', KEYS[1], left + ARGV[2])
"""
_REACQUIRE = """-- reacquire if mine
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('pexpire', KEYS[1], ARGV[2])
"""


class AtomicLock(Lock):
    """A lock with an owner and a lease: SET NX PX takes it, scripts that compare the owner's token renew and release.

    Guarantees: while a lease lasts, nobody else takes the lock, and nobody but its owner extends or releases it. A dead
    holder's lock frees itself, unless `timeout` is None.
    Does not: stop a holder who is paused, or busy, past its lease and goes on beside the next one (see `Renewal`,
    `FencedLock`). When the reply to SET is lost, the lock stays taken until the lease ends, as after a crash; a client
    that resends SET is then told that the lock is taken, by itself. A failover to a replica that has not heard of the
    lock loses it.
    Shown by `contention(AtomicLock)` in tests/test_locks.py, the first of two workers paused inside: `A clock B`.

    Source: https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/, for one Redis.
    """

    def do_acquire(self, token: bytes) -> bool:
        return bool(self.redis.set(self.name, token, nx=True, px=self.lease_ms))

    def do_release(self, token: bytes) -> bool:
        return bool(self.redis.register_script(_RELEASE)(keys=[self.name], args=[token]))

    def do_extend(self, token: bytes, milliseconds: int, replace_ttl: bool) -> bool:
        arguments = [token, milliseconds, int(replace_ttl)]
        return bool(self.redis.register_script(_EXTEND)(keys=[self.name], args=arguments))

    def do_reacquire(self, token: bytes) -> bool:
        return bool(self.redis.register_script(_REACQUIRE)(keys=[self.name], args=[token, self.lease_ms]))
