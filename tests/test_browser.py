"""The first notebook in a real JupyterLab, in a real browser."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
]
RUN_ALL = """async () => {
  await window.jupyterapp.commands.execute('notebook:run-all-cells');
  const cells = window.jupyterapp.shell.currentWidget.content.model.cells;
  const code = Array.from({length: cells.length}, (_, i) => cells.get(i).toJSON()).filter(c => c.cell_type === 'code');
  return {
    counts: code.map(c => c.execution_count),
    errors: code.flatMap(c => c.outputs.filter(o => o.output_type === 'error').map(o => o.ename + ': ' + o.evalue)),
  };
}"""

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here (system package `chromium`)")


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A JupyterLab on loopback that serves a copy of the notebooks."""
    root = tmp_path_factory.mktemp("lab")
    shutil.copytree(NOTEBOOKS, root / "notebooks")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ["--no-browser", "--allow-root", "--expose-app-in-browser", f"--ServerApp.root_dir={root}"]
    options += ["--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    options += ["--IdentityProvider.token=", "--LabApp.news_url=None"]
    options += ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    home = {**os.environ, "JUPYTER_CONFIG_DIR": str(root / "config"), "JUPYTERLAB_SETTINGS_DIR": str(root / "settings")}
    log = (root / "log").open("w")
    server = subprocess.Popen([sys.executable, "-m", "jupyterlab", *options], stdout=log, stderr=log, env=home)
    try:
        _wait_for(f"http://127.0.0.1:{port}/api", server, root / "log")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(timeout=20)
        log.close()


def _wait_for(url, server, log):
    for _ in range(600):
        assert server.poll() is None, log.read_text()
        try:
            urllib.request.urlopen(url, timeout=1).close()
            return
        except (urllib.error.URLError, TimeoutError):
            time.sleep(0.1)
    pytest.fail(f"JupyterLab does not answer: {log.read_text()[-2000:]}")


def test_the_first_notebook_runs_from_top_to_bottom_and_its_pictures_have_alternative_text(lab):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as player:
        browser = player.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(f"{lab}/lab/tree/notebooks/01_two_workers_one_job.ipynb?reset")
        page.wait_for_function(
            "() => { const s = window.jupyterapp?.shell.currentWidget?.sessionContext?.session;"
            " return s?.kernel?.status === 'idle'; }",
            timeout=60_000,
        )
        answer = page.evaluate(RUN_ALL)
        assert answer["errors"] == []
        assert answer["counts"] == list(range(1, len(answer["counts"]) + 1))
        page.wait_for_selector(".jp-OutputArea img[alt^='Lane diagram of']", state="attached", timeout=30_000)
        browser.close()
