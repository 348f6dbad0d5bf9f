"""The shape of the package: imports run downwards, files stay short, private internals stay in one place."""

import ast
import re
import sys
from pathlib import Path

import pytest

import labkit

ROOT = Path(labkit.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
TAUGHT = [
    "idempotency",
    "locks",
    "queues",
    "workers",
]  # parts, each a file or a folder, that can be pasted into production code
LAYERS = [
    "__main__",
    "commands",
    "course",
    "exercises",
    "widgets",
    "plots",
    "cases",
    "incidents",
    "observe",
    *TAUGHT,
    "processes",
    "play",
    "search",
    "engine",
    "stores",
]  # from top to bottom
# The engine's own files stand between the searches and the stores; these few are below both.
# Traces, spans and alerts can draw themselves, and import the drawing only then.
ALLOWED = {
    *(
        ("labkit.trace", f"labkit.{name}")
        for name in ("plots.lanes", "plots.figure", "observe.tracing", "observe.measured")
    ),
    *(("labkit.observe.tracing", f"labkit.plots.{name}") for name in ("figure", "span_rows")),
    ("labkit.incidents.race_evidence", "labkit.plots.figure"),
    *(("labkit.incidents.evidence_base", f"labkit.plots.{name}") for name in ("figure", "deploy")),
    *(("labkit.observe.alerting", f"labkit.plots.{name}") for name in ("figure", "alerting")),
}
GROUND = {"errors", "source", "schedule", "watchdog", "actor", "process", "threads", "interception", "words"}


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


def taught_files(part):
    return [path for path in FILES if path.relative_to(ROOT).with_suffix("").parts[0] == part]


def foreign_imports(source, in_folder=True):
    """What a taught file imports besides redis-py, the standard library and its own folder, if it has one."""
    own_names = {"redis", *sys.stdlib_module_names}
    for node in ast.walk(ast.parse(source)):
        names = [name.name for name in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [] if node.level == 1 and in_folder else ["." * node.level + (node.module or "")]
        yield from (name for name in names if name.split(".")[0] not in own_names)


@pytest.mark.parametrize("part", TAUGHT)
def test_taught_parts_import_nothing_from_the_lab(part):
    files = taught_files(part)
    assert files
    found = {path.name: list(foreign_imports(path.read_text(), path.parent != ROOT)) for path in files}
    assert not any(found.values()), found


@pytest.mark.parametrize(
    "line",
    ["import labkit", "from labkit.lab import Lab", "from ..lab import Lab", "import numpy as np", "from .. import x"],
)
def test_an_import_that_would_tie_a_taught_part_to_the_lab_is_found(line):
    assert list(foreign_imports(f"import redis, time\nfrom .own import x\n{line}"))
    assert list(foreign_imports("from .lab import Lab", in_folder=False))


@pytest.mark.parametrize("part", TAUGHT)
def test_taught_classes_fit_on_one_screen(part):
    for path in taught_files(part):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and node.name != "Lock":  # what all locks share, in redis-py's words
                assert node.end_lineno - node.lineno < 60, f"{path.name}: {node.name}"


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_no_file_is_longer_than_350_lines(path):
    assert len(path.read_text().splitlines()) <= 350


def test_fakeredis_internals_are_touched_in_two_files_only():
    users = [path.name for path in FILES if re.search(r"fakeredis(\.\w+)*\._\w", path.read_text())]
    assert users == ["interception.py", "keyspace.py", "streams.py"]  # the first only names them
