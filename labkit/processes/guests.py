"""Workers that run elsewhere and join, as the process that runs the whole sees them."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Sequence

from labkit.errors import LabError
from labkit.processes.letters import ALIVE, Letters, packed_tape, unpacked_call
from labkit.processes.part import Part


class Guests:
    """The workers of a run that join it.

    Parameters
    ----------
    names: theirs.
    letters: how they are reached.
    part: this process's, with the record of the set-up.
    run_id: the run's name.
    """

    def __init__(self, names: Sequence[str], letters: Letters, part: Part, run_id: str) -> None:
        self.names, self._letters, self._part, self._run_id = tuple(names), letters, part, run_id

    def welcome(self, seconds: float) -> None:
        """Wait until all are there; `LabError` says how to start the one that is missing."""
        if not self.names:
            return
        letters = self._letters
        letters.write("lead", letters.lead())
        letters.write("expects", self.names)
        letters.client.set(letters.key("tape"), packed_tape(self._part))
        until, missing = time.monotonic() + seconds, set(self.names)
        while missing:
            found = letters.client.blpop([letters.key("ready")], timeout=0.5)
            if found is not None:
                missing.discard(_text(found[1]))
            elif time.monotonic() > until:
                raise LabError(
                    f"{' and '.join(sorted(missing))} did not join within {seconds:g} s; start each with `python -m "
                    f"labkit worker FILE.py:scenario --redis URL --run {self._run_id} --name NAME`"
                )

    def let_go(self) -> None:
        """Let all begin."""
        for name in self.names:
            self._letters.client.rpush(self._letters.key("go", name), "go")

    def serve(self) -> None:
        """Do what they ask of outside services."""
        letters = self._letters
        while self.names and (text := letters.client.lpop(letters.key("calls"))) is not None:
            number, service, deduplicates, call, worker = unpacked_call(text)  # type: ignore[arg-type]
            answer = self._part.ask(service, deduplicates, call, worker)
            letters.client.rpush(letters.key("answer", number), json.dumps(answer))

    def alive(self) -> list[str]:
        """Those that have not ended, and give a sign of life."""
        letters = self._letters
        return [name for name in self.names if letters.read(f"gone:{name}") is None and letters.read(f"alive:{name}")]

    def exit_of(self, name: str) -> tuple[int, int]:
        """When it ended, in nanoseconds since 1970, and its exit code: that of a kill when it went without a word."""
        gone = self._letters.read(f"gone:{name}")
        return (time.time_ns(), -signal.SIGKILL) if gone is None else (gone, 0)

    def stop(self) -> None:
        """Tell those that are left that the run is over, and serve them until they are gone."""
        if self.names:
            self._letters.client.delete(self._letters.key("tape"))
        until = time.monotonic() + ALIVE  # the last sign of one that says no more has ended by then
        while self.alive() and time.monotonic() < until:
            self.serve()
            time.sleep(0.05)

    def journal_of(self, name: str) -> list[str]:
        """Its notes."""
        return [_text(line) for line in self._letters.client.lrange(self._letters.key("journal", name), 0, -1)]


def _text(word: bytes | str) -> str:
    return word.decode() if isinstance(word, bytes) else word
