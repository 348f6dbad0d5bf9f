"""The first notebook in a real JupyterLab, in a real browser."""

import shutil
from pathlib import Path

import pytest

from tests.real_browser import CHROMIUM, chromium, jupyterlab, opened, run_all

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here (system package `chromium`)")


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A JupyterLab on loopback that serves a copy of the notebooks."""
    root = tmp_path_factory.mktemp("lab")
    shutil.copytree(NOTEBOOKS, root / "notebooks")
    with jupyterlab(root) as url:
        yield url


def test_the_first_notebook_runs_from_top_to_bottom_and_its_pictures_have_alternative_text(lab):
    with chromium() as page:
        opened(page, lab, "notebooks/01_two_workers_one_job.ipynb")
        answer = run_all(page)
        assert answer["errors"] == []
        assert answer["counts"] == list(range(1, len(answer["counts"]) + 1))
        page.wait_for_selector(".jp-OutputArea img[alt^='Lane diagram of']", state="attached", timeout=30_000)
