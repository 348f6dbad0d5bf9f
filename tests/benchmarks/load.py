"""What the corrected flow costs, and what it survives: `python -m tests.benchmarks.load`.

Figures are of the machine and the moment; what must hold is that nothing is lost and nothing doubled.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from labkit.processes.server import RedisServer, redis_server
from tests.benchmarks import queue_peers
from tests.benchmarks.flow import Load

POWER_FAILURE = 1.0  # seconds of writes that `everysec` may owe to the disk


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.load", description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000, help="through the corrected flow (default 100,000)")
    parser.add_argument("--peer-jobs", type=int, default=2_000, help="side by side with others (default 2,000)")
    parser.add_argument("--restart-jobs", type=int, default=5_000, help="while the server dies (default 5,000)")
    parser.add_argument("--workers", type=int, default=10, help="processes (default 10)")
    parser.add_argument("--kills", type=int, default=3, help="workers killed on the way (default 3)")
    options = parser.parse_args()
    if options.jobs:
        with redis_server() as url:
            print(many_jobs(url, options.jobs, options.workers, options.kills), flush=True)
    if options.peer_jobs:
        with redis_server() as url:
            for line in side_by_side(url, options.peer_jobs, options.workers):
                print(line, flush=True)
    if options.restart_jobs:
        for fsync in ("always", "everysec", "no file"):
            print(restarted(fsync, options.restart_jobs, options.workers), flush=True)
        for fsync in ("always", "everysec"):
            print(after_a_power_failure(fsync, options.restart_jobs, options.workers), flush=True)


def many_jobs(url: str, jobs: int, workers: int, kills: int) -> str:
    """Many jobs through the corrected flow, and what became of them."""
    load = Load(url, jobs, workers)
    began = time.monotonic()
    load.send()
    sent = time.monotonic() - began
    took = load.run(kills)
    return (
        f"{jobs:,} jobs, {workers} processes, {kills} killed on the way: {_outcome(load)}; "
        f"sent in {sent:.0f} s ({jobs / sent:,.0f} jobs/s), done in {took:.0f} s ({jobs / took:,.0f} jobs/s)"
    )


def side_by_side(url: str, jobs: int, workers: int) -> list[str]:
    """The same job in other libraries on the same server."""
    load = Load(url, jobs, workers)
    load.send()
    seconds: dict[str, float | str] = {"corrected": load.run()}
    seconds["rq, no fork"] = queue_peers.missing("rq") or queue_peers.rq(url, jobs, workers, forks=False)
    seconds["rq"] = queue_peers.missing("rq") or queue_peers.rq(url, jobs, workers, forks=True)
    seconds["dramatiq"] = queue_peers.missing("dramatiq") or queue_peers.dramatiq(url, jobs, workers)
    lines = [f"{jobs:,} jobs side by side, {workers} processes each:"]
    for name, took in seconds.items():
        rate = took if isinstance(took, str) else f"{jobs / took:>7,.0f} jobs/s"
        lines.append(f"  {name:<12} {rate}  {queue_peers.PROMISES[name]}")
    return lines


def restarted(fsync: str, jobs: int, workers: int) -> str:
    """The server is killed with SIGKILL when half of the jobs are done, and started again."""
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServer(Path(folder), fsync)
        server.start()
        try:
            load = Load(server.url, jobs, workers)
            load.send()
            if fsync == "no file":
                server.kill()
                server.start()
                lost, _ = load.lost_and_doubled()
                return f"{fsync}: killed: {_named(lost)} lost of {jobs:,} accepted"

            def restart() -> None:
                server.kill()
                server.start()

            took = load.run(midway=restart)
            return f"{fsync}: server killed and restarted midway: {_outcome(load)}, {jobs / took:,.0f} jobs/s"
        finally:
            server.stop()


def after_a_power_failure(fsync: str, jobs: int, workers: int) -> str:
    """As restarted, but that the disk is as it may be after a power failure.

    A SIGKILL loses nothing that Redis had written to its file: the kernel has it. What a power failure loses is what
    was not yet on the disk. It is imitated: the file is cut to what it was up to a second before, as long as the
    setting allows. With `always` there is nothing to cut.
    """
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServer(Path(folder), fsync)
        server.start()
        try:
            load = Load(server.url, jobs, workers)
            for process in load.producers:
                process.start()
            sizes: list[tuple[float, int]] = []
            while any(process.is_alive() for process in load.producers):
                sizes.append((time.monotonic(), server.files[-1].stat().st_size))
                if sum(count.value for count in load.accepted) >= jobs * 3 // 4:
                    break
                time.sleep(0.01)
            for process in load.producers:
                process.kill()
                process.join()
            now = time.monotonic()
            server.kill()
            if fsync == "everysec":
                kept = [size for at, size in sizes if at <= now - POWER_FAILURE] or [sizes[0][1]]
                with open(server.files[-1], "r+b") as file:
                    file.truncate(kept[-1])
            server.start()
            load.run()
            lost, doubled = load.lost_and_doubled()
            accepted = sum(count.value for count in load.accepted)
            outcome = f"of {accepted:,} accepted jobs {_named(lost)} lost, {_named(doubled)} doubled"
            return f"{fsync}: power failure, imitated: {outcome}"
        finally:
            server.stop()


def _outcome(load: Load) -> str:
    lost, doubled = load.lost_and_doubled()
    return f"{_named(lost)} lost, {_named(doubled)} doubled"


def _named(jobs: list[str]) -> str:
    """How many, and the first of them."""
    return f"{len(jobs):,}" + (f" ({', '.join(jobs[:5])}{', …' * (len(jobs) > 5)})" if jobs else "")


if __name__ == "__main__":
    main()
