"""Exercise: a heartbeat that keeps a message hidden while its job runs, and tells when it could not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from labkit.exercises.exercise import Mistake
from labkit.exercises.write_program import World, WriteProgram
from labkit.lab import Lab, Scenario, Service
from labkit.queues import Message, QueueError, VisibilityQueue
from labkit.trace import Trace

TIMEOUT, SECONDS = 30, 77
POLLS = 5  # of the second worker. Neither a look nor the end of the job falls on a beat each 5, 10, 15 or 25 seconds

ONE = "one worker at a time has the job"
GOES_ON = "the job of a worker that died goes on within two minutes"
ONCE = "who has lost the message sends no mail"
DONE = "the job is done, and its message deleted"

Beat = Callable[[VisibilityQueue, Message, threading.Event, threading.Event], object]


def _do(queue: VisibilityQueue, message: Message, mail: Service, beat: Beat) -> None:
    done, lost = threading.Event(), threading.Event()
    thread = threading.Thread(target=beat, args=(queue, message, done, lost), name="beat", daemon=True)
    thread.start()
    time.sleep(SECONDS)
    if not lost.is_set():
        mail.send(message.body["order"])
    done.set()
    thread.join()
    if not lost.is_set():
        queue.delete(message.receipt_handle)


def _work(lab: Lab, queue: VisibilityQueue, mail: Service, beat: Beat, waits: tuple[float, ...]) -> None:
    for wait in waits:
        if wait:
            time.sleep(wait)
        for message in queue.receive():
            with lab.section("job"):
                _do(queue, message, mail, beat)


def _world(lab: Lab, beat: Beat) -> VisibilityQueue:
    """A has a job of 77 s; B looks each time that the visibility timeout would just be over."""
    queue = VisibilityQueue.create(lab.redis(), "orders", visibility_timeout=TIMEOUT)
    queue.send({"order": "1"})
    lab.deadlines(queue.deadlines)
    for name, waits in (("A", (0,)), ("B", (TIMEOUT + 1,) * POLLS)):
        own = VisibilityQueue(lab.redis(), "orders")
        lab.worker(name, _work, lab, own, lab.mail, beat, waits, spared=name == "B")
    return queue


def slow(beat: Beat) -> Scenario:
    """Nothing goes wrong, but that the job is slow."""

    def slow_job(lab: Lab) -> None:
        queue = _world(lab, beat)
        lab.always(ONE, lambda: lab.inside("job") <= 1)
        lab.at_end(DONE, lambda: lab.mail.count("1") == 1 and not queue.deadlines())

    return slow_job


def dying(beat: Beat) -> Scenario:
    """A may be killed."""

    def worker_may_die(lab: Lab) -> None:
        _world(lab, beat)
        lab.at_end(GOES_ON, lambda: lab.mail.count("1") >= 1)

    return worker_may_die


def paused(beat: Beat) -> Scenario:
    """A may be paused."""

    def worker_may_be_paused(lab: Lab) -> None:
        _world(lab, beat)
        lab.always(ONCE, lambda: lab.mail.count("1") <= 1)

    return worker_may_be_paused


def why_two(trace: Trace) -> str:
    """What to look at when the second worker got the message."""
    beats = [event.time / 1e6 for event in trace.events if "change visibility" in event.text]
    if not beats:
        return "The message was visible again after 30 s, and no heartbeat had come. When must the first one come?"
    return (
        f"The last heartbeat came at {max(beats):g} s, and the job ends at {SECONDS} s. A heartbeat must come again "
        "and again, well before the timeout is over."
    )


def starter(queue: VisibilityQueue, message: Message, done: threading.Event, lost: threading.Event) -> None:
    done.wait()


def solution(queue: VisibilityQueue, message: Message, done: threading.Event, lost: threading.Event) -> None:
    while not done.wait(10):
        try:
            still_mine = queue.change_visibility(message.receipt_handle, 30)
        except QueueError:
            still_mine = False
        if not still_mine:
            lost.set()
            return


# ---- mistakes


def _beats(
    queue: VisibilityQueue, message: Message, done: threading.Event, lost: threading.Event, every: float, hides: float
) -> None:
    while not done.wait(every):
        try:
            if queue.change_visibility(message.receipt_handle, hides):
                continue
        except QueueError:
            pass
        lost.set()
        return


def too_late(queue: VisibilityQueue, message: Message, done: threading.Event, lost: threading.Event) -> None:
    _beats(queue, message, done, lost, 40, 30)


def at_the_last_moment(queue: VisibilityQueue, message: Message, done: threading.Event, lost: threading.Event) -> None:
    _beats(queue, message, done, lost, 30, 30)


def once(queue: VisibilityQueue, message: Message, done: threading.Event, lost: threading.Event) -> None:
    if not done.wait(10):
        queue.change_visibility(message.receipt_handle, 30)


def for_an_hour(queue: VisibilityQueue, message: Message, done: threading.Event, lost: threading.Event) -> None:
    _beats(queue, message, done, lost, 10, 3600)


def does_not_listen(queue: VisibilityQueue, message: Message, done: threading.Event, lost: threading.Event) -> None:
    while not done.wait(10):
        try:
            queue.change_visibility(message.receipt_handle, 30)
        except QueueError:
            return


def tells_nobody(queue: VisibilityQueue, message: Message, done: threading.Event, lost: threading.Event) -> None:
    while not done.wait(10):
        try:
            if not queue.change_visibility(message.receipt_handle, 30):
                return
        except QueueError:
            return


def hears_no_error(queue: VisibilityQueue, message: Message, done: threading.Event, lost: threading.Event) -> None:
    while not done.wait(10):
        if not queue.change_visibility(message.receipt_handle, 30):
            lost.set()
            return


def never_ends(queue: VisibilityQueue, message: Message, done: threading.Event, lost: threading.Event) -> None:
    while True:
        time.sleep(10)
        queue.change_visibility(message.receipt_handle, 30)


keep_hidden = WriteProgram(
    "keep_hidden",
    "Write my_beat(queue, message, done, lost), which runs in a thread beside the job: keep the message hidden until "
    "done is set, and set lost when it could not be kept.",
    names=["my_beat"],
    starter=(starter,),
    solution=(solution,),
    hints=(
        "A heartbeat comes every third of the timeout, as long as the job runs. What tells you that the job has ended?",
        "`done.wait(10)` waits for 10 seconds, and returns True once done is set. "
        "`queue.change_visibility(message.receipt_handle, 30)` returns whether the message was still yours.",
        "while not done.wait(10): try to hide it for 30 more seconds; on False, or a QueueError: lost.set(), return.",
    ),
    worlds=[
        World(
            slow,
            {
                ONE: why_two,
                DONE: "In the end the job is not done, or its message still there. Does your heartbeat end when done "
                "is set, and set lost only when the message is lost?",
            },
        ),
        World(
            dying,
            {
                GOES_ON: "A was killed, and its message stays hidden for so long that nobody goes on with the job. "
                "How far ahead does one heartbeat reach?"
            },
            {"crashes": 1},
        ),
        World(
            paused,
            {
                ONCE: "A was paused, B received the message, and A mails as well. What did change_visibility answer, "
                "and who was told?"
            },
            {"pauses": 1},
        ),
    ],
    praise="The message is hidden for as long as its worker lives, and no longer; and who loses it hears of it.",
    mistakes=[
        Mistake("the first beat comes too late", (too_late,), "no heartbeat had come"),
        Mistake("a beat when the time is over", (at_the_last_moment,), "heartbeat"),
        Mistake("one beat", (once,), "came at 10 s"),
        Mistake("hidden for an hour", (for_an_hour,), "How far ahead"),
        Mistake("extends what it lost", (does_not_listen,), "who was told"),
        Mistake("knows that it is lost, and tells nobody", (tells_nobody,), "who was told"),
        Mistake("an error ends the thread unheard", (hears_no_error,), "raised MessageNotInflight"),
        Mistake("beats for ever", (never_ends,), "a loop that never ends"),
    ],
)
