"""Where events go unless a worker is told otherwise."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

logger = logging.getLogger(__name__)

Emit = Callable[[dict[str, Any]], object]


def log_event(event: dict[str, Any]) -> None:
    """Log an event: as JSON for a log of lines, and as the record's attribute `fields` for a structured one."""
    logger.info("%s", json.dumps(event, default=str), extra={"fields": event})
