"""A real JupyterLab and a real browser, for tests of what a learner sees."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
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

RUN_CELL = """async (number) => {
  const notebook = window.jupyterapp.shell.currentWidget.content;
  const places = notebook.widgets.map((w, i) => [w.model.type, i]).filter(([type]) => type === 'code');
  notebook.activeCellIndex = places[number - 1][1];
  await window.jupyterapp.commands.execute('notebook:run-cell');
}"""


@contextmanager
def jupyterlab(root):
    """A JupyterLab on loopback that serves a folder; gives its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ["--no-browser", "--allow-root", "--expose-app-in-browser", f"--ServerApp.root_dir={root}"]
    options += ["--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    options += ["--IdentityProvider.token=", "--LabApp.news_url=None"]
    options += ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    home = {**os.environ, "PYTHONPATH": str(ROOT)}  # the package that is tested, wherever another is installed
    home |= {"JUPYTER_CONFIG_DIR": str(root / "config"), "JUPYTERLAB_SETTINGS_DIR": str(root / "settings")}
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


@contextmanager
def chromium(width=1280, height=900):
    """An empty page in the system's Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as player:
        browser = player.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            yield browser.new_page(viewport={"width": width, "height": height})
        finally:
            browser.close()


def opened(page, lab, notebook):
    """Open a notebook, and wait for its kernel."""
    page.goto(f"{lab}/lab/tree/{notebook}?reset")
    page.wait_for_function(
        "() => { const s = window.jupyterapp?.shell.currentWidget?.sessionContext?.session;"
        " return s?.kernel?.status === 'idle'; }",
        timeout=60_000,
    )


def run_all(page):
    """Run all cells; the execution counts, and the errors in outputs."""
    return page.evaluate(RUN_ALL)


def run_cell(page, number):
    """Run the code cell with this number, counted from 1, again."""
    page.evaluate(RUN_CELL, number)
