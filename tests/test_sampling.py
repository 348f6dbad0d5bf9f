"""`sample`: rates that one can trust, and never more than they say."""

import pytest

from labkit import ScenarioError, replay, sample
from tests.programs import article_fix, naive, sound_fix

TWICE = "the event is published at most once"


def test_the_rate_of_the_naive_race_is_within_its_own_interval_of_another_seed():
    one, other = sample(naive, 2_000, seed=1), sample(naive, 2_000, seed=2)
    low, high = one.interval(TWICE, confidence=0.999)
    assert low < other.rate(TWICE) < high
    assert 0.1 < one.rate(TWICE) < 0.9


def test_the_interval_is_wilsons():
    """Against a table value: 10 hits in 100, 95 %: 0.0552 to 0.1744."""
    from labkit.search.sampling import Sample

    low, high = Sample(100, {"p": 10}, {}, "random").interval("p")
    assert low == pytest.approx(0.0552, abs=1e-4)
    assert high == pytest.approx(0.1744, abs=1e-4)


def test_every_sampled_schedule_replays_to_its_violation():
    seen = sample(article_fix, 500, crashes=1, pauses=1)
    assert len(seen.hits) == 2
    for name, schedule in seen.schedules.items():
        assert name in [broken.property for broken in replay(article_fix, schedule).violations]


def test_no_violation_seen_is_no_proof_and_says_how_little_it_means():
    text = repr(sample(sound_fix, 200, crashes=1, pauses=1))
    assert "no violation seen" in text
    assert "fewer than 1.88% of such executions" in text
    assert "holds" not in text


def test_a_sample_is_the_same_for_the_same_seed():
    assert repr(sample(article_fix, 100, pauses=1)) == repr(sample(article_fix, 100, pauses=1))


def rare(lab):
    """Violated only when A is overtaken by all of B's fifteen steps between its two."""
    jobs = lab.redis()

    def first(r):
        seen = int(r.get("n") or 0)
        r.set("gap", int(r.get("n") or 0) - seen)

    def second(r):
        for _ in range(15):
            r.incr("n")

    lab.worker("A", first, lab.redis())
    lab.worker("B", second, lab.redis())
    lab.always("never overtaken fifteen times", lambda: jobs.get("gap") != b"15")


def test_priorities_find_a_rare_order_more_often_than_even_draws():
    name = "never overtaken fifteen times"
    assert sample(rare, 400, strategy="pct").hits.get(name, 0) > 3 * sample(rare, 400).hits.get(name, 0)


@pytest.mark.parametrize("bad", [{"strategy": "lucky"}, {"executions": 0}, {"executions": "many"}])
def test_bad_arguments_are_refused(bad):
    with pytest.raises(ScenarioError):
        sample(naive, **bad)
