"""The points of the two incidents that the course covers, and the table of where: made from tags such as `covers:A1`.

A point is covered when a learner can see it happen, change it and check it: the tag stands on a cell that they act on.
"""

from __future__ import annotations

import re
from pathlib import Path

import nbformat

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "notebooks" / "solutions"
TABLE = ROOT / "notebooks" / "points.md"
LAST_NOTEBOOK = 11  # 00 to 11: when all of them are there, every point must be covered

POINTS = {
    "A1": "500 after a successful enqueue; the reply says done, the status stays `pending`; no worker logs an error",
    "A2": "logs: one job processed twice, close together",
    "A3": "traces: both workers are inside the completing code before the status changes",
    "A4": "metrics: completions 10 to 20 ms apart; failures follow spikes of throughput",
    "A5": "root cause: read the status, then write it; the last writer wins",
    "A6": "a lock per job, with an expiry; whoever does not get it retries with growing pauses",
    "A7": "a guard: never write once the status is `completed`",
    "A8": "few retries, and a metric that counts lock time-outs",
    "A9": "the completion event is published exactly once",
    "A10": "the status cache is lost: read the database",
    "A11": "staging: 100 jobs with time-outs, 10 workers; none left `pending`, no 500",
    "A12": "traces show that exactly one worker writes the status of each job",
    "A13": "the lock time-out metric is low, and time-outs fail no job",
    "A14": "take the lock away: does error handling still hold?",
    "A15": "watch status, lock wait and retries; lock little; idempotency is the key",
    "B1": "symptoms: mail, push and stock twice; two workers on one job; a short spike after a deploy",
    "B2": "zero downtime for requests is not zero duplication for workers",
    "B3": "wrong hypothesis: the API, or a double click",
    "B4": "wrong hypothesis: retries of the application",
    "B5": "wrong hypothesis: the database transaction",
    "B6": "wrong hypothesis: the key `processing:order:123` protects us",
    "B7": "root cause: old and new workers alive together, no drain",
    "B8": "root cause: a visibility timeout shorter than the job",
    "B9": "root cause: a lock that checks, then sets",
    "B10": "correlation ids from producer to consumer",
    "B11": "the deploy timeline over the job timeline",
    "B12": "queue metrics: receives rise while sends stay flat",
    "B13": "when does each effect happen, relative to the status and the ack?",
    "B14": "reproduce it locally: two workers, a short timeout, a long job, a deploy",
    "B15": "why tests miss it",
    "B16": "an idempotency key for each effect, checked and written atomically",
    "B17": "a truly atomic lock, and never the only defence",
    "B18": "graceful shutdown: stop polling, finish, ack, exit",
    "B19": "the visibility timeout from measured durations; heartbeats; retries by kind of error",
    "B20": "alerts on duplicated processing",
    "B21": "the safer flow in seven steps, and its hole",
    "B22": "the checklist of nine",
}


def covered(sources: Path = SOURCES) -> dict[str, list[str]]:
    """For each point, the notebooks that cover it, by file name without extension."""
    places: dict[str, list[str]] = {point: [] for point in POINTS}
    for path in sorted(sources.glob("*.ipynb")):
        for cell in nbformat.read(path, as_version=4).cells:
            for point in points_of(cell):
                if path.stem not in places[point]:
                    places[point].append(path.stem)
    return places


def points_of(cell: nbformat.NotebookNode) -> list[str]:
    """The points that a cell covers, from its tags."""
    tags = cell.metadata.get("tags", [])
    return [tag.removeprefix("covers:") for tag in tags if tag.startswith("covers:")]


def table(places: dict[str, list[str]]) -> str:
    """The table, as Markdown."""
    rows = [f"| {point} | {POINTS[point]} | {_links(stems)} |" for point, stems in places.items()]
    done = sum(bool(stems) for stems in places.values())
    return "\n".join(
        [
            "# Where each point of the two incidents is covered",
            "",
            "A: a job is done and stays `pending`. B: jobs run twice after a zero-downtime deploy. "
            "Each notebook named here has a cell in which you act on the point.",
            "",
            "| point | what | notebooks |",
            "|---|---|---|",
            *rows,
            "",
            f"{done} of {len(places)} points are covered. (Written by `python tests/refresh_notebooks.py --points`.)",
            "",
        ]
    )


def _links(stems: list[str]) -> str:
    return ", ".join(f"[{stem.partition('_')[0]}]({stem}.ipynb)" for stem in stems)


def is_point(tag: str) -> bool:
    """Whether a tag names a point that exists."""
    return re.sub("^covers:", "", tag) in POINTS
