"""The key of an effect: the same in each attempt, and never that of another effect."""

from __future__ import annotations

import re

from .checks import check_name

_ACTION = re.compile("[A-Za-z0-9_.-]+")


def effect_key(order_id: str, action: str) -> str:
    """The idempotency key of one effect, such as `order-1:charge`.

    One key for each effect, not one for the event: under one key for all, a crash between two effects loses the second.
    It is made of what the effect is about. A key that is drawn for each attempt, or contains the attempt's number or
    the worker's name, keeps nothing apart.

    Give it to services that accept one (Stripe: header `Idempotency-Key`, up to 255 characters): they do the effect
    once for each key, and answer a repeated request as they did the first. Read for how long yours remembers: Stripe
    at least 24 hours, others for 30 minutes; a redelivery after that is a new effect. Send the same parameters with the
    same key: most refuse a key that comes back with others.

    The honest limit: where the service takes no key, nothing on your side makes an effect happen exactly once. Between
    the effect and the note of it there is always a moment, and whoever comes after a crash in it must choose: again
    (at least once), or never (at most once).

    Parameters
    ----------
    order_id: what the effect is about, as in the event.
    action: what is done with it: letters, digits, `_`, `.` and `-`.

    Raises `ValueError` for an empty part, or a key over 255 characters.
    Source: https://docs.stripe.com/api/idempotent_requests
    """
    check_name("order_id", order_id)
    if not isinstance(action, str) or not _ACTION.fullmatch(action):  # without `:`, two keys are never the same text
        raise ValueError(f"action is made of letters, digits, '_', '.' and '-', not {action!r}")
    return check_name("the effect's key", f"{order_id}:{action}")
