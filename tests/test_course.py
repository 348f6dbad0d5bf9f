"""A learner's copy of the course: made, added to, reset, and never written over; and how far they have come."""

import errno
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest

from labkit.__main__ import main
from labkit.course import notebooks as places
from labkit.course.folder import make_folder, reset
from labkit.course.notebooks import CourseError, course_notebooks
from labkit.course.progress import progress
from labkit.exercises import record, send_once
from labkit.exercises.record import COURSE_FILE

ROOT = Path(__file__).parent.parent
FIRST = course_notebooks()[0].name
NUMBER = FIRST.partition("_")[0]


@pytest.fixture
def folder(tmp_path):
    make_folder(tmp_path / "mine")
    return tmp_path / "mine"


# ---- the copy


def test_the_copy_has_every_notebook_and_no_solution(folder):
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [COURSE_FILE, *(path.name for path in course_notebooks())]
    )


def test_the_copy_shows_no_outputs_since_a_learner_predicts_first(folder):
    for path in folder.glob("*.ipynb"):
        for cell in nbformat.read(path, as_version=4).cells:
            assert not cell.get("outputs")
            assert cell.get("execution_count") is None


def test_a_notebook_of_mine_is_never_written_over_and_missing_ones_are_added(folder):
    (folder / FIRST).write_text("mine")
    for other in folder.glob("*.ipynb"):
        if other.name != FIRST:
            other.unlink()
    added = make_folder(folder)
    assert (folder / FIRST).read_text() == "mine"
    assert [path.name for path in added] == [path.name for path in course_notebooks()[1:]]


def test_the_record_of_attempts_survives_a_second_copy(folder):
    with (folder / COURSE_FILE).open("a") as out:
        out.write('{"exercise": "send_once", "passes": true, "at": "now"}\n')
    make_folder(folder)
    assert "send_once" in (folder / COURSE_FILE).read_text()


@pytest.mark.parametrize("where", ["other", "file"])
def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path, where):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("x")
    (tmp_path / "file").write_text("x")
    with pytest.raises(CourseError, match=r"name a new or an empty folder|is a file"):
        make_folder(tmp_path / where)
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["thesis.txt"]


def test_a_folder_that_cannot_be_made_is_named_with_the_reason(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CourseError, match=r"file/mine cannot be made \(Not a directory\)"):
        make_folder(tmp_path / "file" / "mine")


def test_the_clone_itself_is_never_taken_for_a_learners_copy():
    with pytest.raises(CourseError, match="holds other things"):
        make_folder(ROOT / "notebooks")


def test_without_the_notebooks_the_error_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(places, "_in_the_clone", list)
    monkeypatch.setattr(places, "_installed", list)
    with pytest.raises(CourseError, match="clone the repository"):
        make_folder(tmp_path / "mine")


def test_an_installed_wheel_brings_the_notebooks_and_finds_them(tmp_path):
    clone, prefix = tmp_path / "clone", tmp_path / "prefix"
    skipped = shutil.ignore_patterns(".git", ".venv", "build", "*.egg-info", "__pycache__", ".*_cache")
    shutil.copytree(ROOT, clone, ignore=skipped)
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path), str(clone)]
    answer = subprocess.run(build, capture_output=True, text=True, check=False)
    if answer.returncode:
        pytest.skip(f"no wheel can be built here: {answer.stderr[-200:]}")
    wheel = next(tmp_path.glob("*.whl"))
    names = zipfile.ZipFile(wheel).namelist()
    shipped = {Path(name).name for name in names if "share/worker-race-lab/notebooks/" in name}
    assert shipped == {path.name for path in course_notebooks()}
    install = ["-m", "pip", "install", "-q", "--no-deps", "--ignore-installed", "--prefix", str(prefix), str(wheel)]
    subprocess.run([sys.executable, *install], check=True, capture_output=True)
    site = next(prefix.rglob("labkit")).parent
    look = [sys.executable, "-c", "from labkit.course.notebooks import *; print(course_notebooks()[0])"]
    found = subprocess.run(
        look, capture_output=True, text=True, check=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(site)}
    )
    assert found.stdout.strip() == str(prefix / "share/worker-race-lab/notebooks" / FIRST)


# ---- reset


def test_reset_keeps_mine_under_the_first_free_number(folder):
    (folder / FIRST).write_text("mine")
    (folder / FIRST.replace(".ipynb", ".mine-1.ipynb")).write_text("older")
    fresh, kept = reset(NUMBER, folder)
    assert kept.name == FIRST.replace(".ipynb", ".mine-2.ipynb")
    assert kept.read_text() == "mine"
    assert nbformat.read(fresh, as_version=4).cells
    assert (folder / FIRST.replace(".ipynb", ".mine-1.ipynb")).read_text() == "older"


@pytest.mark.parametrize("said", [NUMBER, str(int(NUMBER)), FIRST, FIRST.removesuffix(".ipynb")])
def test_a_notebook_is_named_by_number_name_or_path(folder, said, monkeypatch):
    assert reset(said, folder)[0] == folder / FIRST
    assert reset(str(folder / FIRST), Path())[0] == folder / FIRST
    monkeypatch.chdir(folder)
    assert reset(said, Path())[0] == Path(FIRST)


def test_reset_keeps_mine_where_files_cannot_be_linked(folder, monkeypatch):
    def no_links(*_):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    for number, text in enumerate(("first", "second"), 1):
        (folder / FIRST).write_text(text)
        _, kept = reset(NUMBER, folder)
        assert kept.name.endswith(f".mine-{number}.ipynb")
        assert kept.read_text() == text
        assert (folder / FIRST).read_text() != text


def test_a_folder_that_cannot_be_written_in_is_told_and_mine_stays(folder, monkeypatch):
    def refuses(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied", FIRST)

    (folder / FIRST).write_text("mine")
    monkeypatch.setattr(Path, "open", refuses)
    with pytest.raises(CourseError, match="it is as it was"):
        reset(NUMBER, folder)
    monkeypatch.undo()
    assert (folder / FIRST).read_text() == "mine"


def test_a_copy_that_broke_off_is_not_left_beside_mine(folder, monkeypatch):
    def refuses(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "read_bytes", refuses)
    with pytest.raises(CourseError, match="it is as it was"):
        reset(NUMBER, folder)
    assert list(folder.glob("*.mine-*")) == []


def test_a_notebook_that_is_gone_comes_back(folder):
    (folder / FIRST).unlink()
    assert reset(NUMBER, folder) == (folder / FIRST, folder / FIRST)
    assert (folder / FIRST).exists()


def test_reset_refuses_what_is_no_notebook_of_the_course_or_no_copy(folder, tmp_path):
    with pytest.raises(CourseError, match=f"it has {FIRST.removesuffix('.ipynb')}"):
        reset("77", folder)
    with pytest.raises(CourseError, match="is no copy of the course"):
        reset(NUMBER, tmp_path)
    with pytest.raises(CourseError, match="is no copy of the course"):
        reset(str(ROOT / "notebooks" / FIRST), Path())


# ---- progress


def test_checks_are_recorded_in_a_course_folder_only(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    send_once.check(None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine"]
    monkeypatch.chdir(folder)
    send_once.check(None)
    send_once.check(*send_once.reference)
    standing = next(one for one in progress(folder) if one.exercise == "send_once")
    assert (standing.attempts, standing.passed, standing.word) == (2, True, "passed")


def test_a_solution_is_shown_in_a_new_session_when_an_attempt_is_on_record(folder, monkeypatch):
    monkeypatch.chdir(folder)
    send_once.check(None)
    monkeypatch.setattr(record, "_attempted", set())
    assert "First have a go" not in repr(send_once.solution)


def test_lines_that_are_no_attempts_are_passed_over(folder):
    with (folder / COURSE_FILE).open("a") as out:
        out.write('{"exercise": "complete_on\n[1]\n{"exercise": "send_once", "passes": false, "at": "now"}\n')
    standing = next(one for one in progress(folder) if one.exercise == "send_once")
    assert (standing.attempts, standing.word) == (1, "tried")


def test_a_record_with_bytes_that_are_no_text_is_read_as_far_as_it_goes(folder):
    with (folder / COURSE_FILE).open("ab") as out:
        out.write(b"\xff\xfe\x00\n" + b'{"exercise": "send_once", "passes": true, "at": "now"}\n')
    assert [one.exercise for one in progress(folder) if one.passed] == ["send_once"]


def test_a_folder_that_cannot_be_written_disturbs_no_check(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(Path, "open", lambda *_, **__: (_ for _ in ()).throw(OSError("read-only")))
    assert send_once.check(*send_once.reference).passes


def test_progress_is_printed_as_a_table_and_as_json(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    send_once.check(None)
    assert main(["progress"]) == 0
    said = capsys.readouterr().out
    assert "tried" in said
    assert "1 attempt" in said
    assert "exercises passed." in said
    assert main(["progress", str(folder), "--json"]) == 0
    row = next(row for row in json.loads(capsys.readouterr().out) if row["exercise"] == "send_once")
    assert row["attempts"] == 1
    assert row["passed"] is False


def test_progress_outside_of_a_copy_says_how_to_make_one(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["progress"]) == 3
    assert "python -m labkit lab" in capsys.readouterr().err


# ---- the command


def test_lab_copies_and_becomes_jupyterlab_on_the_first_notebook_of_the_copy(tmp_path, monkeypatch, capsys):
    calls = []
    monkeypatch.chdir(tmp_path)  # and back: the command goes to the copy
    monkeypatch.setattr(os, "execve", lambda python, command, _: calls.append((python, command, Path.cwd())))
    main(["lab", str(tmp_path / "mine"), "--no-browser"])
    assert calls == [
        (sys.executable, [sys.executable, "-m", "jupyterlab", FIRST, "--no-browser"], tmp_path / "mine"),
    ]
    assert "copied" in capsys.readouterr().out
    assert main(["lab", str(tmp_path / "mine"), "--copy-only"]) == 0
    assert len(calls) == 1
    assert "of yours left as they are" in capsys.readouterr().out


def test_progress_and_reset_find_the_default_copy_beside_one(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["lab", "--copy-only"]) == 0
    assert main(["progress"]) == 0
    assert main(["reset", NUMBER]) == 0
    assert "mine-1" in capsys.readouterr().out
