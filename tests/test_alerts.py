"""Which alert tells of which root cause; the rules by Prometheus' own tool; the lab's evaluator against it."""

import html
import random
import re
import shutil
from pathlib import Path

import pytest
from matplotlib.colors import to_hex

import labkit
from labkit import LabError
from labkit.incidents.causes import ROOT_CAUSES
from labkit.observe import Rule, alerts, load_rules, metrics
from labkit.observe.alerting import Alerts
from labkit.observe.evaluation import evaluate, increase
from labkit.observe.promql import PromQLError, metric_names, parse, seconds
from labkit.observe.rules import Alert, active
from labkit.observe.series import Series
from labkit.plots.style import ALARM_PAPER, DARK_ALARM
from tests import promtool
from tests.pictures import assert_readable, markers, texts

FOLDER = Path(labkit.__file__).parent / "observe" / "provisioned" / "prometheus"

FIRES = {
    "nothing": {},
    "no drain": {"MessagesRedelivered": 345},
    "no drain, idempotent": {
        "IdempotencyConflictsAfterDeploy": 315,
        "MessagesRedelivered": 345,
        "OldestMessageTooOld": 405,
    },
    "short visibility timeout": {
        "JobOnSeveralWorkers": 90,
        "MessagesRedelivered": 120,
        "JobsNearVisibilityTimeout": 135,
    },
    "check-then-set lock": {"JobOnSeveralWorkers": 180},
    "lock kept by the dead": {"LockTimeouts": 285, "MessagesRedelivered": 315, "OldestMessageTooOld": 345},
    "nobody polls": {"SendsMinusAcks": 345, "OldestMessageTooOld": 420},
    "ack first": {},
    "no idempotency": {},
}


@pytest.fixture(scope="module")
def found():
    return {name: cause.alerts() for name, cause in ROOT_CAUSES.items()}


@pytest.mark.parametrize("cause", ROOT_CAUSES)
def test_each_root_cause_has_alerts_of_its_own(found, cause):
    assert found[cause].fired == FIRES[cause]


def test_each_rule_fires_for_one_cause_and_stays_silent_for_another(found):
    for rule in load_rules():
        fires = [name for name, one in found.items() if rule.name in one.fired]
        assert 0 < len(fires) < len(found), rule.name


def test_no_alert_tells_of_what_nothing_counts():
    twice, lost = metrics(ROOT_CAUSES["no idempotency"].run()), metrics(ROOT_CAUSES["ack first"].run())
    assert twice.value("labkit_effects_total", effect="mail", result="applied") == 95  # for 80 orders
    assert lost.value("labkit_effects_total", effect="push", result="applied") == 78  # and no alert, see above
    assert lost.value("labkit_messages_acked_total", result="ok") == 80


@pytest.mark.parametrize("cause", ["nothing", "short visibility timeout", "lock kept by the dead"])
def test_the_alert_timeline_can_be_read(found, cause):
    picture = found[cause].timeline()
    assert_readable(picture)
    assert ("No alert fires." in picture.alt) == (not FIRES[cause])


@pytest.mark.parametrize("cause", ["nothing", "short visibility timeout", "lock kept by the dead"])
def test_the_alert_timeline_has_a_bar_for_each_wait_and_each_alert_and_names_what_fires(found, cause):
    one = found[cause]
    picture = one.timeline()
    (axes,) = picture.figure.axes
    every = [alert for rule in one.rules for alert in one.states[rule.name]]
    fired = [alert for alert in every if alert.fired is not None]
    bars = [(bool(patch.get_hatch()), to_hex(patch.get_facecolor()).upper()) for patch in axes.patches]
    assert bars.count((True, ALARM_PAPER)) == len(every)
    assert bars.count((False, DARK_ALARM)) == len(fired)
    bold = [text.get_text() for text in axes.texts if text.get_fontweight() == "bold"]
    assert [text for text in bold if text in one.states] == [rule.name for rule in one.rules if rule.name in one.fired]
    assert sorted(text for text in bold if text.endswith(" s")) == sorted(f"{alert.fired:g} s" for alert in fired)
    assert {rule.name for rule in one.rules} <= set(texts(picture))
    assert texts(picture).count("silent") == sum(not one.states[rule.name] for rule in one.rules)
    assert html.escape(picture.text) in picture.html


def test_a_file_without_a_rule_has_a_timeline_on_which_nothing_fires(tmp_path):
    (tmp_path / "none.yml").write_text("groups: []")
    picture = alerts(ROOT_CAUSES["nothing"].run(), rules=tmp_path / "none.yml").timeline()
    assert_readable(picture)
    assert picture.alt == "Alert timeline of 0 rules. No alert fires."


def test_an_alert_that_fires_after_weeks_has_its_second_in_the_table_and_in_the_picture():
    rule, late = load_rules()[0], 1_209_615.0
    one = Alerts((rule,), {rule.name: [Alert(rule.name, (), late - 5, late, late + 5, 1)]}, Series({}), (), late + 5)
    assert one.table().splitlines()[1].split()[1:5] == ["1209615", "s", "1209620", "s"]
    assert f"Fires: {rule.name} from 1209615 s." in one.timeline().alt


def test_what_happened_to_workers_is_marked_at_its_time_with_its_word(found):
    picture = found["lock kept by the dead"].timeline()
    (axes,) = picture.figure.axes
    at = {(round(text.get_position()[0] - 0.09, 6), text.get_position()[1]): text.get_text() for text in axes.texts}
    marks = [(marker, at[round(x, 6), y].partition(":")[0]) for marker, x, y in markers(picture)]
    wanted = {"^": "polls", "v": "SIGTERM", "X": "killed", "s": "drained"}
    assert marks
    assert all(wanted[marker] == word for marker, word in marks)
    assert {word for _, word in marks} == {word for _, _, word in found["lock kept by the dead"].marks}


def test_the_table_says_what_fires_when_and_what_is_silent(found):
    rows = {line.split()[0]: line for line in found["nobody polls"].table().splitlines()}
    assert re.match(r"SendsMinusAcks +345 s", rows["SendsMinusAcks"])
    assert rows["LockTimeouts"].split() == ["LockTimeouts", "silent"]
    assert repr(found["nobody polls"]) == found["nobody polls"].table()


def test_promtool_accepts_the_rules():
    answer = promtool.run("check", "rules", "rules.yml", cwd=FOLDER)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_promtool_finds_that_each_rule_fires_where_it_should_and_nowhere_else():
    answer = promtool.run("test", "rules", "rules_test.yml", cwd=FOLDER)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    text = (FOLDER / "rules_test.yml").read_text()
    for rule in load_rules():
        cases = re.findall(rf"alertname: {rule.name}\n( +exp_alerts)?", text)
        assert {bool(case) for case in cases} == {True, False}, rule.name


@pytest.mark.parametrize(
    "change", [("> 0.02", "> 0.2"), ("for: 1m", "for: 20m"), ("0.8 *", "1.8 *"), ("timeout", "busy")]
)
def test_promtool_finds_a_rule_that_was_broken(tmp_path, change):
    text = (FOLDER / "rules.yml").read_text()
    assert change[0] in text
    shutil.copy(FOLDER / "rules_test.yml", tmp_path)
    (tmp_path / "rules.yml").write_text(text.replace(*change))
    assert promtool.run("test", "rules", "rules_test.yml", cwd=tmp_path).returncode == 1


@pytest.mark.parametrize("cause", ROOT_CAUSES)
def test_promtool_and_the_lab_agree_on_every_alert_at_every_moment(tmp_path, found, cause):
    one = found[cause]
    names = {name for rule in one.rules for name in metric_names(rule.tree)}
    tests = promtool.expected_alerts(one)
    assert len(tests) > 7 * 30
    promtool.write_test(tmp_path / "test.yml", FOLDER / "rules.yml", one.series, names, tests)
    answer = promtool.run("test", "rules", "test.yml", cwd=tmp_path)
    assert answer.returncode == 0, answer.stdout + answer.stderr


EXPRESSIONS = (
    "rate(a_total[1m])",
    "increase(a_total[5m])",
    "sum by (queue) (rate(a_total[2m]))",
    "sum(increase(a_total[2m])) - sum(increase(b_total[2m]))",
    "max by (queue) (b_total) / min by (queue) (a_total + 1)",
    "histogram_quantile(0.95, sum by (le) (rate(d_bucket[5m])))",
    "histogram_quantile(0.5, rate(d_bucket[2m]))",
    'a_total{result="ok"} > 3',
    "a_total >= on (queue, result) b_total",
    "a_total and on (queue) (c > 2)",
    "a_total unless on (queue) (c > 2)",
    "c or on (queue) sum by (queue) (b_total)",
    "-c * 2 + 1",
    "2 < c",
    'c{nothing=""}',
    "c < Inf",
    "max by (queue) (a_total / 0 * 0 or c)",
    "min by (queue) (a_total / 0 * 0 or c)",
    "sum(a_total / 0 - a_total / 0)",
    "histogram_quantile(0, rate(d_bucket[30s]))",
    "1 / histogram_quantile(2, rate(d_bucket[2m]))",
    "1 / histogram_quantile(-1, rate(d_bucket[2m]))",
    "histogram_quantile(0.9, c)",
)


def random_series(seed):
    """Series as a scraper would have kept them: counters that begin anew, gaps, series that begin late."""
    chance = random.Random(seed)
    series = Series()
    for number in range(40):
        series.end = 5.0 + 15 * number

    def points(rises, gauge=False):
        value, first, kept = 0.0, chance.choice([0, 0, 7]), []
        for number in range(first, 40):
            value = chance.randrange(5) if gauge else 0.0 if chance.random() < 0.04 else value + chance.randrange(rises)
            if chance.random() > 0.1:
                kept.append((5.0 + 15 * number, float(value)))
        return kept

    for queue in ("x", "y"):
        for result in ("ok", "stale"):
            labels = (("queue", queue), ("result", result))
            series.kept.setdefault("a_total", {})[labels] = points(4)
            series.kept.setdefault("b_total", {})[labels] = points(3)
        series.kept.setdefault("c", {})[(("queue", queue),)] = points(0, gauge=True)
        counts = [0.0, 0.0, 0.0]
        rows = []
        for number in range(40):
            counts[chance.randrange(3)] += chance.randrange(3)
            rows.append((5.0 + 15 * number, sum(counts[:1]), sum(counts[:2]), sum(counts)))
        for place, end in enumerate(("1.0", "2.5", "+Inf"), 1):
            values = [(row[0], row[place]) for row in rows]
            series.kept.setdefault("d_bucket", {})[(("le", end), ("queue", queue))] = values
    return series


@pytest.mark.parametrize("seed", range(5))
def test_promtool_and_the_lab_agree_on_random_series(tmp_path, seed):
    series = random_series(seed)
    tests = []
    for expression in EXPRESSIONS:
        for at in (30, 120, 300, 435, 600):
            vector = evaluate(parse(expression), series, at)
            tests += promtool.same_value(expression, at, vector)
    names = {name for expression in EXPRESSIONS for name in metric_names(parse(expression))}
    promtool.write_test(tmp_path / "test.yml", FOLDER / "rules.yml", series, names, expressions=tests)
    answer = promtool.run("test", "rules", "test.yml", cwd=tmp_path)
    assert answer.returncode == 0, (answer.stdout + answer.stderr)[:3000]


def test_promtool_finds_an_evaluator_that_carries_nothing_on_to_the_ends(tmp_path):
    series = random_series(0)
    points = [point for point in series.kept["a_total"][(("queue", "x"), ("result", "ok"))] if 0 < point[0] <= 300]
    rise = increase(points, 0, 300)
    assert rise is not None
    naive = {(): points[-1][1] - points[0][1]}
    tests = list(promtool.same_value('increase(a_total{queue="x", result="ok"}[5m])', 300, naive))
    promtool.write_test(tmp_path / "test.yml", FOLDER / "rules.yml", series, ["a_total"], expressions=tests)
    assert promtool.run("test", "rules", "test.yml", cwd=tmp_path).returncode == 1


def test_a_rule_fires_only_after_it_has_held_for_long_enough():
    series = Series({"x": {(): [(5.0 + 15 * place, float(4 <= place < 12)) for place in range(40)]}})
    (held,) = active(Rule("Held", "x > 0", hold=60), series, 300)
    assert (held.since, held.fired, held.until) == (75, 135, 180)
    (brief,) = active(Rule("Brief", "x > 0", hold=180), series, 300)
    assert brief.fired is None


def test_a_rule_that_is_loosened_fires_earlier(tmp_path):
    text = (FOLDER / "rules.yml").read_text().replace("for: 30s", "for: 0s")
    (tmp_path / "mine.yml").write_text(text)
    trace = ROOT_CAUSES["no drain"].run()
    assert alerts(trace, rules=tmp_path / "mine.yml").fired["MessagesRedelivered"] == 315


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("rate(x[5m]", "')' is needed where the end stands"),
        ("avg_over_time(x[5m])", "the lab knows no 'avg_over_time'"),
        ('x{a=~"b"}', "needed where '~' stands"),
        ("x[5m", "']' is needed"),
        ("x 5", "an operator is needed where '5' stands"),
        ("rate(x[5m], x)", "rate() takes 1 argument(s)"),
        ("histogram_quantile(0.9)", "histogram_quantile() takes 2 argument(s)"),
        ("", "a number, a metric or a function is needed where the end stands"),
    ],
)
def test_what_the_lab_does_not_read_is_refused_in_words(expression, why):
    with pytest.raises(PromQLError, match=re.escape(why)):
        parse(expression)


QUANTILES = ["histogram_quantile(x, x)", "histogram_quantile(1, 1)"]


@pytest.mark.parametrize("expression", ["rate(x)", "x[5m]", "x + on (queue) x", "sum(3)", "x and 3", *QUANTILES])
def test_what_has_no_value_is_refused_in_words(expression):
    labels = [(("a", value), ("queue", "q")) for value in "12"]
    series = Series({"x": {label: [(5.0, 1.0)] for label in labels}})
    with pytest.raises(PromQLError):
        evaluate(parse(expression), series, 10)


RULE = "groups: [{name: g, rules: [{alert: A, expr: x > 0%s}]}]"


@pytest.mark.parametrize(
    "text",
    ["rules: [", "groups:", "groups: [{rules: [{alert: A}]}]", RULE % ", labels: [a]", RULE % ", for: 5"],
)
def test_a_file_that_holds_no_rules_is_refused_in_words(tmp_path, text):
    (tmp_path / "mine.yml").write_text(text)
    with pytest.raises(LabError, match=r"no file of Prometheus rules|'5' is no duration"):
        load_rules(tmp_path / "mine.yml")


def test_a_file_of_rules_that_is_not_there_is_told_in_words(tmp_path):
    with pytest.raises(LabError, match="No such file"):
        load_rules(tmp_path / "none.yml")


def test_labels_may_be_left_empty_and_an_interval_of_nothing_is_the_usual_one(tmp_path):
    (tmp_path / "mine.yml").write_text((RULE % ", labels: , annotations: ").replace("name: g", "interval: 0s"))
    (rule,) = load_rules(tmp_path / "mine.yml")
    assert (rule.labels, rule.look, rule.interval) == ({}, "", 15)


def test_an_alert_on_what_a_recording_rule_makes_is_refused_since_nothing_makes_it(tmp_path):
    recorded = "groups: [{rules: [{record: x, expr: y}, {alert: A, expr: x > 0}]}]"
    (tmp_path / "mine.yml").write_text(recorded)
    with pytest.raises(LabError, match="rule A reads x, which a recording rule makes"):
        load_rules(tmp_path / "mine.yml")


def test_durations_are_read_as_prometheus_reads_them():
    assert [seconds(text) for text in ("15s", "1m30s", "2h", "1d", "500ms", "1w", "0")] == [
        *(15, 90, 7200, 86400, 0.5, 604_800, 0),
    ]
    for text in ("5", "", "s5", "1 m"):
        with pytest.raises(PromQLError, match="is no duration"):
            seconds(text)


def test_every_metric_of_a_rule_is_exported(found):
    kept = set(found["lock kept by the dead"].series.kept)
    for rule in load_rules():
        assert metric_names(rule.tree) <= kept, rule.name
