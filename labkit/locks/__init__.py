"""Locks on one Redis, naive and sound side by side, in the words of redis-py's own `redis.lock.Lock`.

They need redis-py and nothing else of the lab: copy this folder into your own code, under any name. Each class
says what it guarantees, what it does not, and which schedule of which scenario in `tests/test_locks.py` shows it.
"""

from .atomic import AtomicLock
from .fenced import FencedLock, FencedRegister
from .lock import Lock
from .naive import CheckThenSetLock, GetThenDeleteLock, SetnxThenExpireLock, UnownedLock
from .renewal import LeaseLost, Renewal

__all__ = [
    "AtomicLock",
    "CheckThenSetLock",
    "FencedLock",
    "FencedRegister",
    "GetThenDeleteLock",
    "LeaseLost",
    "Lock",
    "Renewal",
    "SetnxThenExpireLock",
    "UnownedLock",
]
