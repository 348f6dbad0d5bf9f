"""The gallery: public reports of such faults, each as a small scenario that shows it and one in which it is mended."""

from labkit.cases import (
    clocks_and_failover,
    completion_article,
    deploy_article,
    held_locks,
    kept_locks,
    outbox,
    popped_jobs,
    processed_events,
    redelivery,
    renewal,
    retries,
    shutdown,
    status,
    streams,
)
from labkit.cases.case import Case, Inexpressible, Result

_ROOMS = (
    clocks_and_failover,
    completion_article,
    deploy_article,
    held_locks,
    kept_locks,
    outbox,
    popped_jobs,
    processed_events,
    redelivery,
    renewal,
    retries,
    shutdown,
    status,
    streams,
)


def _place(name: str) -> tuple[int, str]:
    """Public reports first, in their order; then the articles' own code."""
    return (0 if name.startswith("P") else 1, name)


CASES: dict[str, Case | Inexpressible] = {
    case.id: case
    for case in sorted(
        (value for room in _ROOMS for value in vars(room).values() if isinstance(value, (Case, Inexpressible))),
        key=lambda case: _place(case.id),
    )
}

__all__ = ["CASES", "Case", "Inexpressible", "Result"]
