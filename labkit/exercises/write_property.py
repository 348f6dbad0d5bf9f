"""Exercises in which the learner writes a property: it must catch every planted bug, and accept the sound program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from labkit.errors import LabError
from labkit.exercises.answer import Answer
from labkit.exercises.exercise import Exercise
from labkit.exercises.write_program import MOST_SECONDS, MOST_STATES
from labkit.lab import Lab
from labkit.search.every_schedule import explore
from labkit.source import error_text
from labkit.verdict import Verdict

# Builds a program's world, without properties, and returns what the learner's function is called with after the lab.
Build = Callable[[Lab], tuple[Any, ...]]


@dataclass(frozen=True)
class Program:
    """A program that a property is measured by.

    Parameters
    ----------
    build: adds its stores and workers to a lab, and returns what the learner's function gets besides the lab.
    told: what to say when the property misjudges it.
    faults: budgets, as for `explore`.
    """

    build: Build
    told: str
    faults: Mapping[str, Any] = field(default_factory=dict)


class Slip(Exception):
    """The learner's function raised; the text says what, in words that follow the function's name."""


class WriteProperty(Exercise):
    """An exercise that is passed when the learner's properties tell the sound program from each mutant.

    The learner writes a function that states properties: it is called with the lab, and with what `build` returns.

    Parameters
    ----------
    sound: the program that must be accepted.
    mutants: programs with a planted bug each; every one must be caught.
    praise: what to say when that is so.
    others: as for `Exercise`.
    """

    def __init__(
        self, name: str, task: str, *, sound: Program, mutants: Sequence[Program], praise: str, **others: Any
    ) -> None:
        super().__init__(name, task, **others)
        self.sound, self.mutants, self.praise = sound, tuple(mutants), praise

    def judge(self, state_properties: Callable[..., object]) -> Answer:
        """Search the sound program and each mutant with the learner's properties."""
        try:
            return self._measure(state_properties)
        except Slip as slip:
            return Answer(False, f"{self.names[0]} {slip}. Mend that first.")

    def _measure(self, state_properties: Callable[..., object]) -> Answer:
        sound = self._search(self.sound, state_properties)
        if not sound.properties:
            return Answer(False, "No property is stated yet. Call lab.always or lab.at_end, with a name and a check.")
        if sound.outcome != "holds":
            return Answer(False, self._why_refused(sound), sound)
        for mutant in self.mutants:
            verdict = self._search(mutant, state_properties)
            if verdict.outcome != "violated":
                return Answer(False, mutant.told, verdict)
        caught = f"{len(self.mutants)} planted bugs caught, and the sound program accepted."
        return Answer(True, f"{self.praise} {caught}", sound)

    def _why_refused(self, sound: Verdict) -> str:
        trace = sound.counterexample
        if trace is not None and trace.violations[0].at_end:
            name = trace.violations[0].property
            return (
                f"You reject a sound program: in the end {name!r} is false. What does it compare: text with bytes, a "
                "function with what it returns, what was at the start with what is now?"
            )
        return self.sound.told

    @staticmethod
    def _search(program: Program, state_properties: Callable[..., object]) -> Verdict:
        def scenario(lab: Lab) -> None:
            handed = program.build(lab)
            try:
                state_properties(lab, *handed)
            except LabError:
                raise  # it says by itself what is wrong with a property
            except (Exception, SystemExit) as error:
                raise Slip(f"raised {error_text(error)}") from error

        return explore(scenario, max_states=MOST_STATES, max_seconds=MOST_SECONDS, **program.faults)
