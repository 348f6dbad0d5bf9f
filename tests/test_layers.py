"""The shape of the package: imports run downwards, files stay short, private internals stay in one place."""

import ast
import re
from pathlib import Path

import pytest

import labkit

ROOT = Path(labkit.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
LAYERS = ["__main__", "exercises", "plots", "search", "engine", "stores"]  # from top to bottom
# The engine's own files stand between the searches and the stores; these few are below both.
# A trace can draw itself, and imports the drawing only then.
ALLOWED = {("labkit.trace", "labkit.plots.lanes"), ("labkit.trace", "labkit.plots.figure")}
GROUND = {"errors", "source", "schedule", "watchdog", "actor", "process", "threads", "interception"}


def layer(module):
    parts = module.split(".")[1:]
    if not parts:
        return None
    if parts[0] in LAYERS:
        return LAYERS.index(parts[0])
    return len(LAYERS) if parts[0] in GROUND else LAYERS.index("engine")


def imports(path):
    """The labkit modules that a file imports, anywhere."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("labkit"):
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.startswith("labkit"))


def module_of(path):
    return ".".join(["labkit", *path.relative_to(ROOT).with_suffix("").parts])


@pytest.mark.parametrize("path", [path for path in FILES if path.name != "__init__.py"], ids=module_of)
def test_imports_run_downwards_only(path):
    own = layer(module_of(path))
    for module in imports(path):
        allowed = (module_of(path), module) in ALLOWED
        assert allowed or layer(module) is None or layer(module) >= own, (
            f"{module_of(path)} imports {module}, which is above it"
        )


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_no_file_is_longer_than_350_lines(path):
    assert len(path.read_text().splitlines()) <= 350


def test_fakeredis_internals_are_touched_in_two_files_only():
    users = [path.name for path in FILES if re.search(r"fakeredis(\.\w+)*\._\w", path.read_text())]
    assert users == ["interception.py", "keyspace.py", "streams.py"]  # the first only names them
