"""Where the time of a search goes: by layer in three lines, then function by function."""

from __future__ import annotations

import cProfile
import pstats
from collections import Counter

from labkit import explore
from tests.benchmarks.cases import Scenario

Function = tuple[str, int, str]
LAYERS = {  # the first that a path contains
    "labkit/search/": "search",
    "labkit/judge": "judge",
    "labkit/properties": "judge",
    "labkit/world": "judge",
    "labkit/stores/": "stores",
    "fakeredis/": "stores",
    "labkit/": "engine",
}


def profile(scenario: Scenario) -> None:
    """Print where the time of one search goes."""
    profiler = cProfile.Profile()
    profiler.runcall(explore, scenario, symmetry=False)  # else a few hundred states, of which a profile shows little
    stats = pstats.Stats(profiler)
    for line in summary(stats):
        print(line)
    stats.sort_stats("tottime").print_stats(12)


def summary(stats: pstats.Stats) -> list[str]:
    """Three plain lines: the layers' shares, the costliest function, and what the figures leave out."""
    table: dict[Function, tuple[int, int, float, float, dict[Function, tuple[int, int, float, float]]]]
    table = stats.stats  # type: ignore[attr-defined]
    shares = layers(table)
    total = sum(shares.values())
    (path, line, name), costliest = max(table.items(), key=lambda item: item[1][2])
    where = f"{name} ({'/'.join(path.split('/')[-2:])}:{line})" if path != "~" else name
    percent = ", ".join(f"{layer} {100 * share / total:.0f} %" for layer, share in shares.most_common())
    return [
        f"\nWhere the time goes: {percent}.",
        f"The costliest function is {where}: {100 * costliest[2] / total:.0f} %, in {costliest[1]:,} calls.",
        "What Python and libraries spend counts for the layer that called them. A profile slows small functions most.",
    ]


def layers(table: dict) -> Counter[str]:
    """Seconds by layer; a function of no layer gives its time to its callers, as they used it."""
    shares: Counter[str] = Counter()
    for function, (_, _, own, _, _) in table.items():
        for layer, part in _owners(table, function, ()).items():
            shares[layer] += own * part
    return shares


def _owners(table: dict, function: Function, above: tuple[Function, ...]) -> dict[str, float]:
    layer = next((layer for part, layer in LAYERS.items() if part in function[0]), None)
    callers = {} if layer else {one: times for one, times in table[function][4].items() if one not in above}
    total = sum(times[2] for times in callers.values())
    if layer or not total or len(above) > 5:
        return {layer or "other": 1.0}
    found: Counter[str] = Counter()
    for caller, times in callers.items():
        for owner, part in _owners(table, caller, (*above, function)).items():
            found[owner] += part * times[2] / total
    return dict(found)
