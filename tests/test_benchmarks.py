"""The benchmarks say what they measured, and what they could not."""

import cProfile
import importlib.metadata
import math
import pstats

import pytest

from labkit import explore
from tests.benchmarks import growth, others, peers, profiles
from tests.benchmarks.cases import CASES, own_keys
from tests.programs import naive_lock


def test_programs_without_branches_have_as_many_schedules_as_the_multinomial_coefficient_says():
    assert growth.number_of_schedules(own_keys(3, "ABC")) == math.factorial(9) // math.factorial(3) ** 3


def test_the_number_of_schedules_is_that_of_the_executions_depth_first():
    number = growth.number_of_schedules(naive_lock("AB"))
    assert others.depth_first(naive_lock("AB"), {}, 60, one_get=1).startswith(f"{number} schedules, all of them")


def test_depth_first_says_that_it_was_cut_short():
    assert "branches left" in others.depth_first(naive_lock("ABC"), {}, 1e-9, one_get=1)


def test_a_peer_that_is_not_installed_is_skipped_in_words(monkeypatch):
    def not_there(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", not_there)
    assert [peers.missing(peer).partition(":")[0] for peer in peers.PEERS] == ["skipped, not installed"] * 2


@pytest.mark.parametrize("peer", peers.PEERS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_of_each_case_it_is_said_what_a_peer_reached_or_what_it_cannot_express(peer, case):
    answers = {
        "first": {"outcome": "violated", "runs": 3, "seconds": 2.0, "done": False},
        "all": {"runs": 7, "seconds": 5.0, "done": False},
    }
    found = dict.fromkeys(peers.EXPRESSED, answers)
    said = peers.describe(peer, case.name, found, one_get=0.5)
    if case.name in peers.EXPRESSED:
        assert said.endswith("violated after 3 executions, 4 G; all: 7 executions, not done after 5 s")
    else:
        assert said.startswith("not expressed: ")


def test_detangle_finds_what_the_search_finds():
    detangle = pytest.importorskip("detangle", reason="detangle is not installed (extra `peers`)")
    from tests.benchmarks import peer_detangle

    assert detangle.__version__
    for case in CASES:
        if case.name in peers.EXPRESSED and not case.budgets:
            expected = "violated" if explore(case.scenario).outcome == "violated" else "no violation"
            assert peer_detangle.ask(peer_detangle.PROGRAMS[case.name], True, 20.0)["outcome"] == expected


def test_a_profile_gives_all_its_time_to_layers():
    profiler = cProfile.Profile()
    profiler.runcall(explore, naive_lock("AB"))
    stats = pstats.Stats(profiler)
    shares = profiles.layers(stats.stats)
    assert sum(shares.values()) == pytest.approx(stats.total_tt)
    assert min(shares[layer] for layer in ("engine", "stores", "judge", "search")) > 0
    assert len(profiles.summary(stats)) == 3


def test_what_a_library_spends_counts_for_the_layer_that_called_it():
    store, search, library = ("labkit/stores/sql.py", 1, "f"), ("labkit/search/x.py", 1, "g"), ("~", 0, "len")
    table = {
        store: (1, 1, 1.0, 4.0, {}),
        search: (1, 1, 2.0, 3.0, {}),
        library: (4, 4, 4.0, 4.0, {store: (3, 3, 3.0, 3.0), search: (1, 1, 1.0, 1.0)}),
    }
    assert profiles.layers(table) == {"stores": 4.0, "search": 3.0}


def test_labels_of_the_picture_do_not_cover_each_other(tmp_path):
    heights = growth._spread({"states": 100.0, "cost": 101.0, "schedules": 10.0**9}, least=0.5)
    assert heights == {"states": 2.0, "cost": 2.5, "schedules": 9.0}
    points = [growth.Point(2, 6, 9, 70.0), growth.Point(4, 10**12, 25, 90.0)]
    growth.plot({"workers": points, "steps": points}, str(tmp_path / "growth.png"))
    assert (tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")
