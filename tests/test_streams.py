"""Streams with consumer groups: pending entries, claims, and blocking reads."""

from labkit import explore, replay, run


def group(lab):
    jobs = lab.redis()
    jobs.xgroup_create("s", "g", id="0", mkstream=True)
    jobs.xadd("s", {"job": "1"}, id="1-1")
    return jobs


def consumer(name, ack=True):
    def consume(r, mail):
        for _, entries in pairs(r.xreadgroup("g", name, {"s": ">"})):
            for key, fields in entries:
                mail.send(fields[b"job"].decode())
                if ack:
                    r.xack("s", "g", key)

    return consume


def pairs(reply):
    """Entries by stream, whichever protocol answered."""
    return [(name, part[0] if part and isinstance(part[0], list) else part) for name, part in dict(reply or {}).items()]


def test_a_group_gives_each_entry_to_one_consumer():
    def scenario(lab):
        jobs = group(lab)
        for name in "AB":
            lab.worker(name, consumer(name), lab.redis(), lab.mail)
        lab.at_end("done once", lambda: lab.mail.count("1") == 1)
        lab.at_end("nothing pending", lambda: jobs.xpending("s", "g")["pending"] == 0)

    assert explore(scenario).outcome == "holds"
    verdict = explore(scenario, crashes=1)
    assert set(verdict.violations) == {"done once", "nothing pending"}


def test_a_pending_entry_is_claimed_once_it_is_idle_for_long_enough():
    def claim(r, mail):
        import time

        time.sleep(30)
        _, entries, _ = r.xautoclaim("s", "g", "R", min_idle_time=20_000)
        for key, fields in entries:
            mail.send(fields[b"job"].decode())
            r.xack("s", "g", key)

    def scenario(lab):
        jobs = group(lab)
        lab.worker("A", consumer("A"), lab.redis(), lab.mail)
        lab.worker("R", claim, lab.redis(), lab.mail, spared=True)
        lab.at_end("done", lambda: lab.mail.count("1") >= 1 or jobs.xlen("s") == 0)
        lab.always("done once", lambda: lab.mail.count("1") <= 1)

    assert explore(scenario).outcome == "holds"
    assert set(explore(scenario, crashes=1).violations) == {"done", "done once"}
    trace = replay(scenario, "A crash:A clock R R R R")
    assert trace.violation is None
    assert trace.events[4].text == "XAUTOCLAIM s g R 20000 0-0"


def test_an_entry_that_is_not_idle_for_long_enough_stays_where_it_is():
    def scenario(lab):
        group(lab)
        lab.worker("A", consumer("A", ack=False), lab.redis(), lab.mail)

        def hasty(r, mail):
            _, entries, _ = r.xautoclaim("s", "g", "R", min_idle_time=20_000)
            mail.send(f"claimed {len(entries)}")

        lab.worker("R", hasty, lab.redis(), lab.mail)
        lab.always("nothing claimed", lambda: lab.mail.count("claimed 1") == 0)

    assert explore(scenario).outcome == "holds"


def test_a_blocking_group_read_waits_for_an_entry():
    def scenario(lab):
        jobs = lab.redis()
        jobs.xgroup_create("s", "g", id="0", mkstream=True)

        def wait(r, mail):
            for _, entries in pairs(r.xreadgroup("g", "A", {"s": ">"}, block=0)):
                mail.send(entries[0][1][b"job"].decode())

        lab.worker("A", wait, lab.redis(), lab.mail)
        lab.worker("P", lambda r: r.xadd("s", {"job": "7"}, id="7-1"), lab.redis())
        lab.at_end("got it", lambda: lab.mail.count("7") == 1)

    assert explore(scenario).outcome == "holds"
    assert str(run(scenario).schedule) == "P A A"


def test_ids_that_the_server_makes_follow_the_labs_clock():
    def scenario(lab):
        def add(r, mail):
            import time

            mail.send(r.xadd("s", {"a": 1}).decode())
            time.sleep(1.5)
            mail.send(r.xadd("s", {"a": 2}).decode())

        lab.worker("A", add, lab.redis(), lab.mail)
        lab.always("true", lambda: True)

    texts = [event.text for event in run(scenario).events if event.kind == "call"]
    assert texts == ["mail.send(1767258000000-0)", "mail.send(1767258001500-0)"]
    assert explore(scenario).outcome == "holds"


def test_ids_of_the_labs_clock_are_given_to_a_real_server(redis_url):
    def scenario(lab):
        lab.redis().xadd("s", {"a": 0})
        lab.worker("A", lambda r: (r.xadd("s", {"a": 1}), r.xrange("s")), lab.redis())

    trace = run(scenario)
    assert replay(scenario, trace.schedule, redis_url=redis_url) == trace


def test_streams_replay_on_a_real_server(redis_url):
    def scenario(lab):
        group(lab)
        for name in "AB":
            lab.worker(name, consumer(name), lab.redis(), lab.mail)

    trace = run(scenario)
    assert replay(scenario, trace.schedule, redis_url=redis_url) == trace
