"""Exercise: a worker that drains: told to stop, it takes no further job, and leaves none half done."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from labkit.exercises.exercise import Mistake
from labkit.exercises.write_program import World, WriteProgram
from labkit.lab import Lab, Scenario, Service
from labkit.queues import Message, VisibilityQueue
from labkit.trace import Trace

TIMEOUT, SECONDS, ARRIVES, COMES = 30, 10, 5, 8
ORDERS = ("1", "2")

ASKS_NO_MORE = "who was told to stop asks for no further job"
ONE = "one mail for each order"
PROMPT = "no order waits for the visibility timeout"
DONE = "each order gets its parcel"

Do = Callable[[Any], object]
Work = Callable[[Any, Do], object]


@dataclass
class Watched:
    """The queue, in the hands of a worker that is watched: does it ask for more after it was told to stop?"""

    queue: VisibilityQueue
    gossip: Service
    was_told: bool = False
    has_told: bool = False
    handlers: list[Any] = field(default_factory=list)

    def receive(self, **wishes: Any) -> list[Message]:
        """Receive messages."""
        self._listen_in()
        if self.was_told and not self.has_told:
            self.has_told = True
            self.gossip.call("asks again")
        return self.queue.receive(**wishes)

    def delete(self, receipt_handle: str) -> bool:
        """Delete a message that is done."""
        return self.queue.delete(receipt_handle)

    def change_visibility(self, receipt_handle: str, seconds: float) -> bool:
        """Give a message back, or hide it for longer."""
        return self.queue.change_visibility(receipt_handle, seconds)

    def _listen_in(self) -> None:
        """Put a note of the signal before the worker's own handler, if it has set one."""
        handler = signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if handler != signal.SIG_DFL and handler not in self.handlers:
            handler = self._noting(handler)
            self.handlers.append(handler)
        signal.signal(signal.SIGTERM, handler)

    def _noting(self, own: Any) -> Callable[[int, Any], None]:
        def note(number: int, frame: Any) -> None:
            self.was_told = True
            if callable(own):  # SIG_IGN is not
                own(number, frame)

        return note


def _do(lab: Lab, parcels: Service) -> Do:
    def do(order: Any) -> None:
        if order not in ORDERS:
            raise TypeError(f"do is given the order, message.body, not {order!r}")
        lab.mail.send(order)
        time.sleep(SECONDS)
        parcels.call(order)

    return do


def _later(queue: VisibilityQueue, do: Do) -> None:
    """The new worker: it does what is there, for a while."""
    time.sleep(COMES)
    for _ in range(4):
        for message in queue.receive(wait=20):
            do(message.body)
            queue.delete(message.receipt_handle)


def _sell(queue: VisibilityQueue) -> None:
    for place, order in enumerate(ORDERS):
        if place:
            time.sleep(ARRIVES)
        queue.send(order)


def deploying(work: Work) -> Scenario:
    """An old worker, which may be told to stop at any moment, and a new one that has just come."""

    def deploy(lab: Lab) -> None:
        began = time.time()
        queue = VisibilityQueue.create(lab.redis(), "orders", visibility_timeout=TIMEOUT)
        parcels, gossip = lab.service("parcels"), lab.service("gossip")
        do = _do(lab, parcels)
        watched = Watched(VisibilityQueue(lab.redis(), "orders"), gossip)
        lab.worker("api", _sell, VisibilityQueue(lab.redis(), "orders"), spared=True)
        lab.worker("old", work, watched, do, signals=1, forever=True)
        lab.worker("new", _later, VisibilityQueue(lab.redis(), "orders"), do, spared=True)
        lab.deadlines(queue.deadlines)
        mail = lab.mail
        lab.always(ASKS_NO_MORE, lambda: gossip.count() == 0)
        lab.always(ONE, lambda: all(mail.count(order) <= 1 for order in ORDERS))
        lab.always(PROMPT, lambda: time.time() < began + TIMEOUT or all(mail.count(order) for order in ORDERS))
        lab.at_end(DONE, lambda: all(parcels.count(order) for order in ORDERS))

    return deploy


def undisturbed(work: Work) -> Scenario:
    """One worker, which nobody tells to stop."""

    def no_deploy(lab: Lab) -> None:
        queue = VisibilityQueue.create(lab.redis(), "orders", visibility_timeout=TIMEOUT, max_receive_count=2)
        parcels = lab.service("parcels")
        lab.worker("api", _sell, VisibilityQueue(lab.redis(), "orders"), spared=True)
        watched = Watched(VisibilityQueue(lab.redis(), "orders"), lab.service("gossip"))
        lab.worker("old", work, watched, _do(lab, parcels), forever=True)
        lab.deadlines(queue.deadlines)
        lab.always(ONE, lambda: all(lab.mail.count(order) <= 1 for order in ORDERS))
        lab.at_end(DONE, lambda: all(parcels.count(order) for order in ORDERS))

    return no_deploy


def dying(work: Work) -> Scenario:
    """An old worker that is killed, and a new one that does what comes back."""

    def killed(lab: Lab) -> None:
        queue = VisibilityQueue.create(lab.redis(), "orders", visibility_timeout=TIMEOUT, max_receive_count=3)
        queue.send(ORDERS[0])
        parcels = lab.service("parcels")
        watched = Watched(VisibilityQueue(lab.redis(), "orders"), lab.service("gossip"))
        lab.worker("old", work, watched, _do(lab, parcels), forever=True)
        lab.worker("new", _later, VisibilityQueue(lab.redis(), "orders"), _do(lab, parcels), spared=True)
        lab.deadlines(queue.deadlines)
        lab.at_end(DONE, lambda: parcels.count(ORDERS[0]) > 0)

    return killed


def why_twice(trace: Trace) -> str:
    """What to look at when an order was mailed twice."""
    of_old = [event.text for event in trace.events if event.choice.process == "old"]
    if any(text.startswith("parcels.call") for text in of_old):
        return "The old worker finished its job, and left without deleting the message: the queue hands it out again."
    return "The old worker stopped in the middle of a job: the mail was out, and the job begins again elsewhere."


def starter(queue: VisibilityQueue, do: Do) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # as it is without this line: SIGTERM kills
    while True:
        for message in queue.receive(wait=20):
            do(message.body)
            queue.delete(message.receipt_handle)


def solution(queue: VisibilityQueue, do: Do) -> None:
    told = []
    signal.signal(signal.SIGTERM, lambda *_: told.append("stop"))
    while not told:
        for message in queue.receive(wait=20):
            do(message.body)
            queue.delete(message.receipt_handle)


# ---- mistakes


def _for_ever(queue: VisibilityQueue, do: Do) -> None:
    while True:
        for message in queue.receive(wait=20):
            do(message.body)
            queue.delete(message.receipt_handle)


def exits_at_once(queue: VisibilityQueue, do: Do) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    _for_ever(queue, do)


def ignores_it(queue: VisibilityQueue, do: Do) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _for_ever(queue, do)


def hears_and_polls_on(queue: VisibilityQueue, do: Do) -> None:
    told = []
    signal.signal(signal.SIGTERM, lambda *_: told.append("stop"))
    _for_ever(queue, do)


def leaves_without_an_ack(queue: VisibilityQueue, do: Do) -> None:
    told: list[str] = []
    signal.signal(signal.SIGTERM, lambda *_: told.append("stop"))
    while not told:
        for message in queue.receive(wait=20):
            do(message.body)
            if not told:
                queue.delete(message.receipt_handle)


def drops_what_the_poll_brought(queue: VisibilityQueue, do: Do) -> None:
    told: list[str] = []
    signal.signal(signal.SIGTERM, lambda *_: told.append("stop"))
    while not told:
        for message in queue.receive(wait=20):
            if told:
                return
            do(message.body)
            queue.delete(message.receipt_handle)


def acks_first(queue: VisibilityQueue, do: Do) -> None:
    while True:
        for message in queue.receive(wait=20):
            queue.delete(message.receipt_handle)
            do(message.body)


def does_nothing(queue: VisibilityQueue, do: Do) -> None:
    pass


def never_acks(queue: VisibilityQueue, do: Do) -> None:
    told: list[str] = []
    signal.signal(signal.SIGTERM, lambda *_: told.append("stop"))
    while not told:
        for message in queue.receive(wait=20):
            do(message.body)


def one_job(queue: VisibilityQueue, do: Do) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for message in queue.receive(wait=20):
        do(message.body)
        queue.delete(message.receipt_handle)


def acks_first_and_drains(queue: VisibilityQueue, do: Do) -> None:
    told: list[str] = []
    signal.signal(signal.SIGTERM, lambda *_: told.append("stop"))
    while not told:
        for message in queue.receive(wait=20):
            queue.delete(message.receipt_handle)
            do(message.body)


def does_the_message(queue: VisibilityQueue, do: Do) -> None:
    for message in queue.receive(wait=20):
        do(message)
        queue.delete(message.receipt_handle)


drain = WriteProgram(
    "drain",
    "Write my_worker(queue, do): it does one job after another, and on SIGTERM it stops asking, finishes the job in "
    "hand, deletes its message, and returns.",
    names=["my_worker"],
    starter=(starter,),
    solution=(solution,),
    hints=(
        "SIGTERM comes in the middle of anything. A handler that only remembers it leaves the job in hand alone.",
        "signal.signal(signal.SIGTERM, handler) sets a handler, which is called with two arguments. Let it put "
        "something into a list, and let the loop look at that list before each receive.",
        "told = []; the handler: lambda *_: told.append(1); while not told: receive, do, delete. What the last "
        "receive brought is done as well.",
    ),
    worlds=[
        World(
            undisturbed,
            {
                DONE: "Nobody tells it to stop, and an order is left: your worker must go on until it is told.",
                ONE: "The job was done without deleting the message: the queue hands it out again.",
            },
            may_raise=("SystemExit",),
        ),
        World(
            dying,
            {DONE: "The old worker deleted a message and was killed in the job: nobody will ever do that order."},
            {"crashes": 1},
            may_raise=("SystemExit",),
        ),
        World(
            deploying,
            {
                ASKS_NO_MORE: "After SIGTERM, your worker asks the queue for another job. Where does the loop look "
                "whether it was told?",
                ONE: why_twice,
                DONE: "The old worker deleted a message and was killed in the job: nobody will ever do that order.",
                PROMPT: "An order waits until the visibility timeout is over. SIGTERM came while a receive was under "
                "way, and what that receive brought was dropped: do it, or give it back.",
            },
            may_raise=("SystemExit",),
        ),
    ],
    praise="It stops asking, finishes, acknowledges, and leaves; whenever SIGTERM comes.",
    mistakes=[
        Mistake("exits at once", (exits_at_once,), "in the middle of a job"),
        Mistake("ignores SIGTERM", (ignores_it,), "asks the queue for another job"),
        Mistake("sets a flag that nobody looks at", (hears_and_polls_on,), "asks the queue for another job"),
        Mistake("drains, and never acks", (leaves_without_an_ack,), "without deleting the message"),
        Mistake("drops what the last receive brought", (drops_what_the_poll_brought,), "was dropped"),
        Mistake("does nothing", (does_nothing,), "must go on until it is told"),
        Mistake("never acks", (never_acks,), "done without deleting the message"),
        Mistake("does one job", (one_job,), "must go on until it is told"),
        Mistake("drains, and acks first", (acks_first_and_drains,), "nobody will ever do"),
        Mistake("does the message, and not the order", (does_the_message,), "do is given the order, message.body"),
        Mistake("acks first", (acks_first,), "nobody will ever do"),
    ],
)
