"""Workers and queues that several tests use."""

import time

from labkit.queues import PopQueue, ReliableQueue, StreamQueue, VisibilityQueue

ONE_MAIL = "order 1 is mailed at most once"
MAILED = "order 1 is mailed"


def work(queue, mail, seconds=0):
    """The ordinary worker: receive, work, take effect, delete."""
    for message in queue.receive():
        time.sleep(seconds)
        mail.send(message.body["order"])
        queue.delete(message.receipt_handle)


def consume(queue, mail, seconds, rounds=None):
    """A worker that goes on, waiting for messages."""
    while rounds is None or rounds > 0:
        for message in queue.receive(wait=20):
            mail.send(message.body["order"])
            time.sleep(seconds)
            queue.delete(message.receipt_handle)
        rounds = None if rounds is None else rounds - 1


def one_job(lab, **attributes):
    """A queue with one message."""
    queue = VisibilityQueue.create(lab.redis(), "jobs", **attributes)
    queue.send({"order": "1"})
    lab.deadlines(queue.deadlines)
    return queue


def own(lab):
    """A worker's own handle on the queue."""
    return VisibilityQueue(lab.redis(), "jobs")


def must_mail(lab):
    lab.always(ONE_MAIL, lambda: lab.mail.count("1") <= 1)
    lab.at_end(MAILED, lambda: lab.mail.count("1") >= 1)


def pop(lab, name):
    return PopQueue(lab.redis(), "jobs")


def reliable(lab, name):
    return ReliableQueue(lab.redis(), "jobs", name)


def stream(lab, name):
    queue = StreamQueue(lab.redis(), "jobs", name)
    if name == "P":
        queue.create()
    return queue


def visibility(lab, name):
    return VisibilityQueue.create(lab.redis(), "jobs")


def recover(queue, mail):
    """Much later, somebody brings back what a dead worker had, and does it."""
    time.sleep(100)
    if isinstance(queue, ReliableQueue):
        queue.reap()
    if isinstance(queue, StreamQueue):
        for message in queue.claim(min_idle=60):
            mail.send(message.body["order"])
            queue.delete(message.receipt_handle)
    work(queue, mail)


def crashing(make, rescue=recover):
    def scenario(lab):
        make(lab, "P").send({"order": "1"})
        lab.worker("A", work, make(lab, "A"), lab.mail)
        lab.worker("R", rescue, make(lab, "R"), lab.mail, spared=True)
        must_mail(lab)

    return scenario
