"""The staging test of incident A: what real processes show, beside what a search says."""

import json
from dataclasses import replace

import pytest

from labkit import ScenarioError
from labkit.__main__ import main
from labkit.incidents import staging, staging_run
from labkit.incidents.staging_report import RunFigures
from labkit.observe import records

CLEAN = "no job pending, no event lost, none twice, no 500, one writer for each status"


@pytest.fixture(scope="module")
def corrected(redis_url):
    return staging("corrected", jobs=30, workers=5, kills=3, deploy=True, redis_url=redis_url)


def test_the_corrected_program_loses_and_doubles_nothing_while_workers_are_killed_and_replaced(corrected):
    (run,) = corrected.runs
    assert corrected.outcome == "nothing seen", corrected.table()
    assert run.killed >= 3  # and whoever does not leave within the grace period
    assert (run.most_writers, run.over) == (1, True)


def test_the_report_of_a_right_program_has_no_figures_of_its_runs(corrected):
    assert repr(corrected).splitlines() == [
        "corrected, with its lock: 30 jobs, each asked for twice, 5 worker processes, 3 killed, a deploy midway.",
        f"  Observed in 1 run, not searched: {CLEAN}.",
        "  Searched with 1 job and 2 workers:",
        "    at once: holds, 1,784 states",
        "    a crash: holds, 4,558 states",
        "    a pause: holds, 11,593 states",
        "  Of 500 random schedules of that, without faults, 0.0% show an event twice (95 % interval 0.0% to 0.8%).",
    ]
    assert "runs with an event twice: 0 of 1: 0.0% (95 % interval 0.0% to 79.3%)" in corrected.table()


def test_the_last_runs_trace_says_who_had_which_job(corrected):
    begun = [record.fields["job_id"] for record in records(corrected.last) if record.event == "job.started"]
    assert set(begun) == {f"job-{number}" for number in range(1, 31)}
    assert "process jobs" in str(corrected.last.spans())


def test_the_naive_program_shows_its_fault_in_staging(redis_url):
    report = staging("naive", jobs=20, workers=4, redis_url=redis_url)
    (run,) = report.runs
    assert report.outcome == "violated"
    assert {"events go out twice", "several workers complete one job"} <= set(report.broken)
    assert run.most_writers >= 2
    assert run.extra == run.twice > 0
    assert all(verdict.outcome == "violated" for verdict in report.verdicts.values())


def test_the_articles_fix_passes_staging_and_the_search_breaks_it(redis_url):
    report = staging("article", jobs=20, workers=4, visibility=30, redis_url=redis_url)
    assert report.outcome == "nothing seen", report.table()
    assert {name: verdict.outcome for name, verdict in report.verdicts.items()} == {
        "at once": "holds",
        "a crash": "violated",
        "a pause": "violated",
    }


def test_the_corrected_program_needs_no_lock(redis_url):
    report = staging("corrected", lock=False, jobs=20, workers=4, redis_url=redis_url)
    assert report.outcome == "nothing seen", report.table()
    assert "its lock taken away" in repr(report)
    assert {verdict.outcome for verdict in report.verdicts.values()} == {"holds"}


def test_it_runs_on_postgresql_too(redis_url, postgresql_url, corrected, monkeypatch):
    monkeypatch.setattr(staging_run, "searched", lambda world: (corrected.verdicts, corrected.sample))
    report = staging("corrected", jobs=12, workers=4, kills=2, redis_url=redis_url, database_url=postgresql_url)
    assert report.outcome == "nothing seen", report.table()


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ("pending", "jobs are left pending"),
        ("lost", "events are lost"),
        ("twice", "events go out twice"),
        ("answers_500", "the API answers 500"),
        ("several_writers", "several workers complete one job"),
    ],
)
def test_each_figure_that_should_be_0_breaks_the_report_when_it_is_not(corrected, field, says):
    bad: RunFigures = replace(corrected.runs[0], **{field: 1})
    report = replace(corrected, runs=(bad, corrected.runs[0]))
    assert report.broken == [says]
    assert report.outcome == "violated"
    assert f"Observed in 2 runs, not searched: {says}." in repr(report)


def test_a_run_that_does_not_come_to_its_end_is_told(corrected):
    report = replace(corrected, runs=(replace(corrected.runs[0], over=False),))
    assert report.outcome == "unfinished"
    assert "Not every run came to its end in time." in repr(report)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"program": "best"}, "there is no program 'best'; there are naive, naive lock, article, corrected"),
        ({"kills": 11}, "kills is 11; it must be a number from 0 to 10"),
        ({"runs": 0}, "1 or more"),
    ],
)
def test_wrong_use_is_refused(settings, message):
    with pytest.raises(ScenarioError, match=message):
        staging(**settings)


def test_the_command_prints_json_and_its_exit_code_says_what_was_seen(corrected, capsys, monkeypatch):
    reports = {"corrected": corrected, "naive": replace(corrected, runs=(replace(corrected.runs[0], twice=2),))}
    asked = []

    def known(program, **settings):
        asked.append(settings)
        return reports[program]

    monkeypatch.setattr("labkit.commands.staging.staging", known)
    assert main(["staging", "corrected", "--without-lock", "--jobs", "7", "--deploy"]) == 0
    assert (asked[0]["jobs"], asked[0]["lock"], asked[0]["deploy"]) == (7, False, True)
    assert CLEAN in capsys.readouterr().out
    assert main(["staging", "naive", "corrected", "--json"]) == 1
    first, second = json.loads(capsys.readouterr().out)
    assert (first["outcome"], second["outcome"]) == ("violated", "nothing seen")
    assert second["searched"]["a crash"]["outcome"] == "holds"


def test_a_killed_writer_whose_transaction_was_not_committed_wrote_nothing(corrected):
    writes = [("A", "UPDATE jobs SET status = 'completed' WHERE id = 'job-1'"), ("A", "ROLLBACK")]
    writes += [("B", "UPDATE jobs SET status = 'completed' WHERE id = 'job-1'"), ("B", "COMMIT")]
    assert dict(staging_run.writers_of(traced(writes))) == {"job-1": ["B"]}


def traced(statements):
    from labkit import Choice, Event, LiveTrace

    events = [
        Event(
            number, Choice("step", worker), 0, "command", text, "1 row" if "UPDATE" in text else "ok", True, store="sql"
        )
        for number, (worker, text) in enumerate(statements, 1)
    ]
    return LiveTrace(("A", "B"), tuple(events), (), True)
