"""Libraries that the lab can do without: named, with what to do, where they are missing."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from labkit.errors import LabError


def need(module: str) -> ModuleType:
    """Import a module of the extra `observe`; `LabError` says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        library = {"prometheus_client": "prometheus-client"}.get(module.partition(".")[0], module.partition(".")[0])
        raise LabError(
            f"this needs {library}, which is not installed here: pip install -e '.[observe]'. "
            "Logs, spans, metrics and alerts themselves need nothing more; only sending them does."
        ) from error
