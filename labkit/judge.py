"""Asks the properties about states, and remembers the answers: they depend on nothing but what observers can see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labkit.machine import Machine
from labkit.properties import Property
from labkit.world import World

State = tuple[int, ...]


class Judge:
    """The properties of one scenario.

    Parameters
    ----------
    properties: what must hold.
    world: what observers look at.
    machines: the workers, for the sections that they are in.
    first_worker: the place of the first worker's moment in a state; what stands before it are the stores.
    """

    def __init__(
        self, properties: Sequence[Property], world: World, machines: Sequence[Machine], first_worker: int
    ) -> None:
        self._stepwise = [prop for prop in properties if prop.kind == "always" and prop.remember is None]
        self._at_end = [prop for prop in properties if prop.kind == "at_end"]
        self._remembering = [prop for prop in properties if prop.remember is not None]
        self._world, self._machines, self._first_worker = world, machines, first_worker
        self._answers: dict[Any, tuple[str, ...]] = {}
        self._observed: dict[Any, Any] = {}
        self._steps: dict[Any, tuple[str, ...]] = {}

    @property
    def remembers(self) -> bool:
        """Whether any property needs the observer's value before a step."""
        return bool(self._remembering)

    def broken(self, state: State, end: bool) -> tuple[str, ...]:
        """The names of the properties that do not hold in a state; those `at_end` only at an end."""
        insides, key = self._view(state)
        answer = self._answers.get((key, end))
        if answer is None:
            asked = self._stepwise + self._at_end if end else self._stepwise
            with self._world.looking_at(state, insides):
                answer = tuple(prop.name for prop in asked if not prop.holds())
            self._answers[key, end] = answer
        return answer

    def broken_by(self, before: State, after: State) -> tuple[str, ...]:
        """The names of the remembering properties that a step between two states breaks."""
        if not self._remembering:
            return ()
        insides, key = self._view(after)
        known = (self._view(before)[1], key)
        answer = self._steps.get(known)
        if answer is None:
            values = [(prop, self._observe(prop, before), self._observe(prop, after)) for prop in self._remembering]
            with self._world.looking_at(after, insides):
                answer = tuple(prop.name for prop, old, new in values if not prop.holds(old, new))
            self._steps[known] = answer
        return answer

    def _observe(self, prop: Property, state: State) -> Any:
        insides, key = self._view(state)
        known = (prop.name, key)
        if known not in self._observed:
            with self._world.looking_at(state, insides):
                self._observed[known] = prop.observe()
        return self._observed[known]

    def _view(self, state: State) -> tuple[dict[str, int], Any]:
        """What observers can see of a state, and a key for it: the stores and who is inside which section."""
        stores = state[: self._first_worker]
        if not any(machine.sections for machine in self._machines):
            return {}, stores
        insides: dict[str, int] = {}
        for worker, machine in enumerate(self._machines):
            number = state[self._first_worker + worker]
            for section in set(machine.moments[number].situation.sections) if number >= 0 else ():
                insides[section] = insides.get(section, 0) + 1
        return insides, (stores, tuple(sorted(insides.items())))
