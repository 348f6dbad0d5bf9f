"""Code and notebooks are formatted, linted and typed."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    "tool",
    [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]],
    ids=lambda tool: " ".join(tool[:2]),
)
def test_the_tool_has_nothing_to_say(tool):
    answer = subprocess.run([sys.executable, "-m", *tool], capture_output=True, text=True, check=False, cwd=ROOT)
    assert answer.returncode == 0, answer.stdout + answer.stderr
