"""Lua scripts, known by their content: a cache that outlives a lab changes no answer."""

from __future__ import annotations

import hashlib

_TEXTS: dict[bytes, bytes] = {}


def learn_script(text: bytes) -> bytes:
    """Remember a Lua script; returns the SHA-1 that EVALSHA knows it by."""
    sha = hashlib.sha1(text).hexdigest().encode()
    _TEXTS[sha] = text
    return sha


def knows_script(sha: bytes) -> bool:
    """Whether a script with this SHA-1 was ever loaded."""
    return sha in _TEXTS


def known_scripts() -> tuple[bytes, ...]:
    """Every script that was ever loaded."""
    return tuple(_TEXTS.values())


def script_text(sha: bytes) -> bytes:
    """The script with this SHA-1; empty when it is unknown."""
    return _TEXTS.get(sha, b"")


def script_title(script: bytes) -> str:
    """A script's own name: its first line when that is a comment such as `-- release`."""
    first = script.decode(errors="replace").strip().partition("\n")[0].strip()
    return f"script {first[2:].strip()!r}" if first.startswith("--") else "script"
