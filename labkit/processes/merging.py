"""The journals of many processes, put together into the events of one trace.

Events stand where they took effect, as far as the notes tell: effects of services when they were written down, requests
to Redis when they were sent, all others, such as those that wait, when their replies came. Of two requests that were
under way at the same time, the server may have served the later one first: that order is in nobody's notes.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from labkit.actor import Ending
from labkit.processes.journal import line_of
from labkit.schedule import Choice
from labkit.trace import Event

NO_REPLY = "no reply"
_MILLISECOND = 1_000_000  # nanoseconds


class Mark(NamedTuple):
    """What was done to a worker from outside.

    Parameters
    ----------
    at: when, in nanoseconds since 1970.
    worker: its name.
    kind: `crash` or `signal`.
    deadly: whether it ended the worker.
    """

    at: int
    worker: str
    kind: str
    deadly: bool


class Stay(NamedTuple):
    """A worker's stay in a critical section, in nanoseconds since 1970."""

    worker: str
    section: str
    since: int
    until: int


@dataclass
class Step:
    """One step of a worker, as it was noted."""

    at: int
    event: Event
    lives: Mapping[str, int] = field(default_factory=dict)
    inside: tuple[str, ...] = ()


@dataclass
class Story:
    """What one worker's journal tells.

    Parameters
    ----------
    steps: in the order of the notes.
    stays: in critical sections.
    ending: how the worker's function ended; None if it did not.
    signals: those that it sent to itself, as a fault after so many steps does.
    complaint: the kind and the message of an error of the lab.
    """

    steps: list[Step] = field(default_factory=list)
    stays: list[Stay] = field(default_factory=list)
    ending: Ending | None = None
    signals: list[Mark] = field(default_factory=list)
    complaint: tuple[str, str] | None = None


def story_of(worker: str, notes: Iterable[dict[str, Any]], gone: int, killed: bool) -> Story:
    """Read a worker's notes.

    Parameters
    ----------
    worker: its name.
    notes: its journal.
    gone: when its process was gone, in nanoseconds since 1970. Of one that was killed: the last that is known of its
        life, besides its notes. When that was noticed is too late: its lock may have ended, and be another's by then.
    killed: whether a fault ended it: what it had asked for and had no reply to may have taken effect.
    """
    story = Story()
    open_requests: dict[int, dict[str, Any]] = {}
    sections: list[tuple[str, int]] = []
    printed = ""
    for note in notes:
        what = note["what"]
        gone = max(gone, note["at"])
        if what == "sent":
            open_requests[note["number"]] = note
        elif what == "void":
            del open_requests[note["number"]]
        elif what == "got":
            step = _step(open_requests.pop(note["number"]), note, note.get("took_effect", note["at"]))
            step.event = replace(step.event, printed=printed)
            printed = ""
            story.steps.append(step)
        elif what == "entered":
            sections.append((note["section"], note["at"]))
        elif what == "left":
            _leave(story, worker, sections, note)
        elif what == "printed":
            if story.steps:
                last = story.steps[-1]
                last.event = replace(last.event, printed=last.event.printed + note["text"])
            else:
                printed += note["text"]
        elif what == "ended":
            _end(story, Ending(note["error"], line_of(note["line"])))
        elif what == "signalled":
            kind = "crash" if note["signal"] == signal.SIGKILL else "signal"
            story.signals.append(Mark(note["at"], worker, kind, deadly=False))
        elif what == "complained":
            story.complaint = note["kind"], note["message"]
        if story.steps:
            story.steps[-1].inside = tuple(name for name, _ in sections)
    if killed:
        story.steps += [_step(note, None, note["at"]) for note in open_requests.values()]
    story.stays += [Stay(worker, name, since, gone) for name, since in sections]
    return story


def _leave(story: Story, worker: str, sections: list[tuple[str, int]], note: dict[str, Any]) -> None:
    place = max(place for place, (name, _) in enumerate(sections) if name == note["section"])
    name, since = sections.pop(place)
    story.stays.append(Stay(worker, name, since, note["at"]))


def _end(story: Story, ending: Ending) -> None:
    story.ending = ending
    if story.steps:
        story.steps[-1].event = replace(story.steps[-1].event, ending=ending)


def _step(sent: dict[str, Any], got: dict[str, Any] | None, at: int) -> Step:
    event = Event(
        number=0,
        choice=Choice("step", sent["actor"]),
        time=0,
        kind=sent["kind"],
        text=sent["text"],
        reply=NO_REPLY if got is None else got["reply"],
        counts=sent["counts"],
        reads=tuple(sorted(got["reads"])) if got else (),
        writes=tuple(sorted(got["writes"])) if got else (),
        line=line_of(sent["line"]),
        store=sent["store"],
    )
    return Step(at, event, got.get("lives", {}) if got else {})


def merged(stories: Mapping[str, Story], marks: Iterable[Mark], start: int) -> tuple[Event, ...]:
    """All events in order, numbered, with who is inside what, and what will expire, after each.

    Parameters
    ----------
    stories: by worker.
    marks: what was done to workers from outside.
    start: when the run began, in nanoseconds since 1970.
    """
    steps = [step for story in stories.values() for step in story.steps]
    steps += [_marked(mark) for mark in marks]
    steps.sort(key=lambda step: step.at)
    inside: dict[str, tuple[str, ...]] = {}
    ends: dict[str, int] = {}
    events = []
    for number, step in enumerate(steps, 1):
        worker = step.event.choice.process
        assert worker is not None
        gone = step.event.ending is not None or step.event.kind == "crash"
        inside[worker] = () if gone else inside.get(worker, ()) if step.event.kind == "signal" else step.inside
        for key, life in step.lives.items():
            _set_end(ends, key, step.at + life * _MILLISECOND if life > 0 else life)
        left = {key: (end - step.at) // 1_000 for key, end in ends.items() if end > step.at}
        time = max(0, (step.at - start) // 1_000)
        now = {name: sections for name, sections in inside.items() if sections}
        events.append(replace(step.event, number=number, time=time, inside=now, expiries=left))
    return tuple(events)


def _set_end(ends: dict[str, int], key: str, end: int) -> None:
    if end > 0:
        ends[key] = end
    elif end == 0:  # it lives for ever now, or is gone
        ends.pop(key, None)


def _marked(mark: Mark) -> Step:
    text = "is killed" if mark.kind == "crash" else "gets SIGTERM"
    ending = Ending(killed=True) if mark.deadly and mark.kind == "signal" else None
    event = Event(0, Choice(mark.kind, mark.worker), 0, mark.kind, text, "", counts=True, ending=ending)
    return Step(mark.at, event)
