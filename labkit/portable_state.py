"""States as plain data, for a search that visits some of them in other processes.

A state's numbers mean something within one engine only. So a parcel carries, beside its sender's numbers, what each
of them stands for: a store's content, or the replies that a worker has had. Many states are made of few parts, and
each part is carried once.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from labkit.engine import Engine, State
from labkit.machine import DEAD, FINISHED, RAISED, Machine
from labkit.moment import Link, Moment
from labkit.stores.scripts import known_scripts, learn_script

ROOT = -1  # the place of what comes before a worker's first moment


class Histories(NamedTuple):
    """What the numbers of one worker stand for.

    Parameters
    ----------
    links: moments, parents first, each as the place of its parent and what led on from there.
    numbers: for each number, the place of its moment and the machine's `waits`.
    """

    links: list[tuple[int, Link]]
    numbers: dict[int, tuple[int, tuple[int, ...]]]


class Parcel(NamedTuple):
    """Lists of states that another engine of the same scenario can read.

    Parameters
    ----------
    lengths: how many states each list has.
    columns: for each place of a state, its number in every state, as the sender counts.
    stores: for each store, what its numbers stand for.
    workers: for each worker, what its numbers stand for.
    scripts: the Lua scripts that requests may name.
    """

    lengths: tuple[int, ...]
    columns: tuple[array[int], ...]
    stores: tuple[dict[int, Any], ...]
    workers: tuple[Histories, ...]
    scripts: tuple[bytes, ...]


def pack(engine: Engine, *lists: Sequence[State]) -> Parcel:
    """Lists of states as one parcel."""
    columns = tuple(array("q", column) for column in zip(*chain(*lists), strict=True))
    stores = zip(engine.world.stores, columns, strict=False)
    workers = zip(engine.machines, columns[engine.first_worker :], strict=False)
    return Parcel(
        tuple(map(len, lists)),
        columns,
        tuple({number: store.portable(number) for number in dict.fromkeys(column)} for store, column in stores),
        tuple(_histories(machine, column) for machine, column in workers),
        known_scripts(),
    )


def unpack(engine: Engine, parcel: Parcel) -> list[list[State]]:
    """The lists of states of a parcel, in this engine's numbers.

    `Nondeterminism` when a worker does something else in this process than it did in the sender's.
    """
    for script in parcel.scripts:
        learn_script(script)
    stores = zip(engine.world.stores, parcel.stores, strict=False)
    workers = zip(engine.machines, parcel.workers, strict=False)
    tables = [{number: store.adopt(value) for number, value in values.items()} for store, values in stores]
    tables += [_adopt(machine, histories) for machine, histories in workers]
    columns: list[Iterable[int]] = list(parcel.columns)  # what is left of the budgets needs no table
    columns[: len(tables)] = (map(table.__getitem__, column) for table, column in zip(tables, columns, strict=False))
    states = zip(*columns, strict=True)
    return [list(islice(states, length)) for length in parcel.lengths]


def _histories(machine: Machine, column: Iterable[int]) -> Histories:
    links: list[tuple[int, Link]] = []
    places: dict[Moment | None, int] = {None: ROOT}
    numbers: dict[int, tuple[int, tuple[int, ...]]] = {}
    for number in dict.fromkeys(column):
        if number < 0:
            continue  # an ending, which is the same number everywhere
        new, moment = list[Moment](), machine.moments[number]
        ancestor: Moment | None = moment
        while ancestor is not None and ancestor not in places:
            new.append(ancestor)
            ancestor = ancestor.parent
        for one in reversed(new):
            places[one] = len(links)
            links.append((places[one.parent], one.link))
        numbers[number] = places[moment], machine.waits[number]
    return Histories(links, numbers)


def _adopt(machine: Machine, histories: Histories) -> dict[int, int]:
    """This engine's number for each of the sender's."""
    moments: list[Moment] = []
    for place, link in histories.links:
        moments.append(machine.runs.adopt(None if place == ROOT else moments[place], link))
    table = {ending: ending for ending in (FINISHED, RAISED, DEAD)}
    for number, (place, waits) in histories.numbers.items():
        table[number] = machine.number(moments[place], waits)
    return table
