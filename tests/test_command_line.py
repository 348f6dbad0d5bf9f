"""`python -m labkit`: verdicts for people, for machines and for continuous integration."""

import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from labkit import explore
from labkit.__main__ import main
from tests.programs import article_fix, naive, sound_fix

ROOT = Path(__file__).parent.parent
PROGRAMS = "tests.programs"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["explore", f"{PROGRAMS}:sound_fix", "--crashes", "1", "--pauses", "1"], 0),
        (["explore", f"{PROGRAMS}:naive"], 1),
        (["explore", f"{PROGRAMS}:sound_fix", "--max-states", "5"], 2),
        (["explore", f"{PROGRAMS}:nothing"], 3),
        (["explore", f"{PROGRAMS}:STATUS"], 3),
        (["explore", "no/such/file.py:scenario"], 3),
        (["explore", "naive"], 3),
        (["explore", f"{PROGRAMS}:naive", "--crashes", "-1"], 3),
        (["replay", f"{PROGRAMS}:naive", "A B B B A A"], 1),
        (["replay", f"{PROGRAMS}:naive", "A A A B"], 0),
        (["replay", f"{PROGRAMS}:naive", "A"], 2),
        (["replay", f"{PROGRAMS}:naive", "A Z"], 3),
    ],
)
def test_the_exit_code_says_the_outcome(arguments, code, capsys):
    assert main(arguments) == code
    if code == 3:
        assert capsys.readouterr().err.startswith("labkit: ")


@pytest.mark.parametrize("arguments", [[], ["explore"], ["explore", "x:y", "--crashes", "many"], ["dance"]])
def test_wrong_use_exits_with_three(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 3
    assert "usage" in capsys.readouterr().err


def test_a_file_is_loaded_as_python_would_run_it(tmp_path):
    (tmp_path / "helper.py").write_text("KEY = 'k'\n")
    (tmp_path / "mine.py").write_text(
        "from helper import KEY\n"
        "def scenario(lab):\n"
        "    lab.worker('A', lambda r: r.get(KEY), lab.redis())\n"
        "    lab.always('true', lambda: True)\n"
    )
    command = [sys.executable, "-m", "labkit", "explore", str(tmp_path / "mine.py") + ":scenario"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == "1 worker, no crash, no pause: holds in all 2 states.\n"


def test_a_scenario_that_raises_is_wrong_use_and_no_violation(tmp_path, capsys):
    (tmp_path / "broken.py").write_text("def scenario(lab):\n    raise ValueError('no such thing')\n")
    report = tmp_path / "report.xml"
    assert main(["explore", f"{tmp_path}/broken.py:scenario", "--json", "--junit", str(report)]) == 3
    assert "ValueError: no such thing, at scenario, line 2" in capsys.readouterr().err
    assert ElementTree.parse(report).getroot().get("errors") == "1"


def test_json_has_everything_that_a_replay_needs(capsys):
    main(["explore", f"{PROGRAMS}:article_fix", "--crashes", "1", "--pauses", "1", "--json"])
    answer = json.loads(capsys.readouterr().out)
    verdict = explore(article_fix, crashes=1, pauses=1)
    assert answer["outcome"] == "violated"
    assert {name: found["schedule"] for name, found in answer["properties"].items()} == {
        name: str(trace.schedule) for name, trace in verdict.violations.items()
    }


def test_junit_fails_violated_properties_and_passes_the_others(tmp_path):
    report = tmp_path / "report.xml"
    main(["explore", f"{PROGRAMS}:naive", "--junit", str(report)])
    suite = ElementTree.parse(report).getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    assert 'replay(scenario, "A B B B A A")' in suite.find("testcase/failure").get("message")


def test_junit_never_passes_what_is_undetermined(tmp_path):
    report = tmp_path / "report.xml"
    main(["explore", f"{PROGRAMS}:sound_fix", "--max-states", "5", "--junit", str(report)])
    suite = ElementTree.parse(report).getroot()
    assert suite.get("errors") == suite.get("tests")


def test_a_counterexample_prints_itself_as_a_test_that_fails_until_it_is_fixed():
    verdict = explore(naive)
    code = verdict.as_test()
    assert code.startswith("def test_the_event_is_published_at_most_once():")
    from labkit import replay

    def test_in(scenario):
        names = {"replay": replay, "scenario": scenario}
        exec(code, names)
        names["test_the_event_is_published_at_most_once"]()

    with pytest.raises(AssertionError, match="breaks 'the event is published at most once'"):
        test_in(naive)
    assert verdict.as_test("pkg/mine.py:scenario").startswith(
        "from labkit import replay\nfrom pkg.mine import scenario\n"
    )


def test_properties_whose_names_differ_in_signs_only_become_two_tests():
    def scenario(lab):
        for name in ("a = b", "a <> b", "?!"):
            lab.always(name, lambda: False)
        lab.worker("A", lambda r: r.get("k"), lab.redis())

    names = re.findall(r"def (\w+)\(\):", explore(scenario).as_test())
    assert names == ["test_a_b", "test_a_b_too", "test_property"]


def test_assert_holds_raises_with_the_counterexample_unless_it_holds():
    explore(sound_fix, crashes=1, pauses=1).assert_holds()
    with pytest.raises(AssertionError, match="broken by a schedule of length 6"):
        explore(naive).assert_holds()
    with pytest.raises(AssertionError, match="undetermined"):
        explore(sound_fix, max_states=5).assert_holds()


def test_a_reader_who_has_enough_ends_a_command_without_a_word():
    command = [sys.executable, "-m", "labkit", "cases", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
        process.stdout.close()
        assert process.wait(timeout=120) == 141
        assert process.stderr.read() == b""
