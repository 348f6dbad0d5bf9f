"""What a newcomer pastes: the README's commands, and what Binder would build."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LINES = (ROOT / "README.md").read_text().splitlines()
VENV = "python3 -m venv .venv && .venv/bin/pip install -q"
LAB = f"{VENV} -e . && .venv/bin/python -m labkit lab"
TESTS = f"{VENV} -c tests/constraints.txt -e '.[test]' && .venv/bin/python -m pytest -n 2 --dist loadfile"


def test_the_readme_has_two_commands_each_in_one_line():
    assert LAB in LINES
    assert TESTS in LINES


def test_ci_runs_exactly_the_readmes_test_line():
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-1] == TESTS
    assert ".ci/run" in (ROOT / ".github" / "workflows" / "tests.yml").read_text()


def test_the_readmes_ten_lines_do_what_they_say():
    text = "\n".join(LINES)
    code = text.split("```python\n")[1].split("```")[0]
    assert len([line for line in code.splitlines() if line.strip() and "import" not in line]) <= 10
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    said = text.split("```text\n")[1].split("```")[0]
    assert out.stdout.strip() == said.strip()


@pytest.fixture(scope="module")
def dockerfile():
    command = [sys.executable, "-m", "repo2docker", "--no-build", "--debug", str(ROOT)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    return answer.stdout + answer.stderr


def test_binder_builds_on_the_python_that_the_figures_are_stored_for(dockerfile):
    assert "Building conda environment for python=3.11" in dockerfile


@pytest.mark.parametrize(
    "line",
    [
        "apt-get install --yes --no-install-recommends redis-server",
        'pip install --no-cache-dir -r "binder/requirements.txt"',
        "RUN ./binder/postBuild",
        'ENV R2D_ENTRYPOINT="${REPO_DIR}/binder/start"',
    ],
)
def test_binder_takes_every_file_of_ours_into_account(dockerfile, line):
    assert line in dockerfile


def test_binder_starts_redis_on_loopback_only_and_hands_over():
    start = (ROOT / "binder" / "start").read_text()
    assert "--bind 127.0.0.1" in start
    assert start.rstrip().endswith('exec "$@"')


def test_binder_pins_exactly_and_leaves_jupyterlab_and_ipywidgets_to_the_base_image():
    pins = [line for line in (ROOT / "binder" / "requirements.txt").read_text().splitlines() if line[:1] != "#"]
    tested = (ROOT / "tests" / "constraints.txt").read_text().splitlines()
    for pin in pins:
        name, version = pin.split("==")
        assert name.split("[")[0] not in ("jupyterlab", "ipywidgets")
        assert f"{name.split('[')[0]}=={version}" in tested
