"""Fixtures: the example project, which has run, in `dagster dev`, with its daemon, and a browser that opens it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from support.example import ExampleRun

EVERY_MINUTE = """
from pathlib import Path

import dagster as dg

from rivet_dagster import RivetProject, build_schedule_from_rivet_selection, load_definitions

HERE = Path(__file__).parent
every_minute = build_schedule_from_rivet_selection(
    RivetProject.load(HERE), "every_minute", target='key:"reference_gaps"', cron_schedule="* * * * *"
)
defs = dg.Definitions.merge(load_definitions(HERE), dg.Definitions(schedules=[every_minute]))
"""
"""A schedule that ticks every minute: those of the example would make a test wait until the morning."""
SENSORS = """target: 'tag:"core" or key:"carrier_punctuality"'}"""
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
"""Program names of Chromium and of browsers built on it."""
MISSING = "no Chromium on the PATH, and CHROMIUM names none (Debian: apt-get install chromium)"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip these tests without Chromium, with one line in the summary; in CI they fail instead."""
    if chromium() is None and not os.environ.get("CI"):
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(MISSING))


def chromium() -> str | None:
    """Return the program that CHROMIUM names, else one on PATH."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUM)), None)


@pytest.fixture(scope="module")
def project(example_run: ExampleRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the example with its tables; its schedule, and its sensor, run but one group."""
    place = tmp_path_factory.mktemp("ui") / example_run.project.name
    shutil.copytree(example_run.project, place, symlinks=True)
    manifest = (place / "rivet.yaml").read_text()
    assert SENSORS in manifest
    (place / "rivet.yaml").write_text(manifest.replace(SENSORS, "target: 'key:\"reference_gaps\"'}"))
    (place / "definitions.py").write_text(EVERY_MINUTE)
    return place


@pytest.fixture(scope="module")
def address(project: Path, example_run: ExampleRun) -> Iterator[str]:
    """Yield the address of the UI; webserver, code server, daemon and their runs end with the tests."""
    home = example_run.home
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "dagster", "dev", "-f", "definitions.py", "-h", "127.0.0.1", "-p", str(port)],
        cwd=project,
        env={**os.environ, "DAGSTER_HOME": str(home)},
        stdout=(home / "log").open("w"),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        _wait_for(f"http://127.0.0.1:{port}/server_info", server, home / "log")
        yield f"http://127.0.0.1:{port}"
    finally:
        _end(server)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Yield an installed Chromium, headless: Playwright's own would be a separate download.

    It ends with its tests: while it runs, its event loop in this thread prevents any other.
    """
    program = chromium()
    assert program is not None, MISSING
    expect.set_options(timeout=60_000)  # as of pages: cores that are busy with other tests show a page late
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Browser, address: str) -> Iterator[Callable[..., Page]]:
    """Return a function that opens a page of the UI in a window of some height."""
    contexts = []

    def visit(path: str, height: int = 1000) -> Page:
        contexts.append(browser.new_context(viewport={"width": 1600, "height": height}, timezone_id="UTC"))
        page = contexts[-1].new_page()
        page.set_default_timeout(60_000)
        page.goto(address + path)
        return page

    yield visit
    for context in contexts:
        context.close()


@pytest.fixture
def picture(request: pytest.FixtureRequest) -> Callable[[Page, str], None]:
    """Return a function that takes a picture of a page if ``--pictures docs/images`` says where to store it."""
    folder = request.config.getoption("--pictures")

    def picture(page: Page, name: str) -> None:
        if folder is None:
            return
        page.wait_for_load_state("networkidle")
        page.wait_for_timeout(2000)  # a worker lays out the graph after everything has loaded
        page.screenshot(path=Path(folder) / f"{name}.png")

    return picture


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path, seconds: float = 180) -> None:
    deadline = time.monotonic() + seconds
    while True:
        with suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return
        assert server.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.5)


def _end(server: subprocess.Popen[bytes]) -> None:
    """End the processes by SIGTERM, including code servers and runs; kill those that do not end."""
    below = _descendants(server.pid)
    server.send_signal(signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        server.wait(20)
    for pid in [*below, server.pid]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    server.wait(20)


def _descendants(pid: int) -> list[int]:
    """Return all child processes, recursively: Dagster puts its runs into sessions of their own."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError):
            parents[int(status.parent.name)] = int(re.search(r"^PPid:\s+(\d+)", status.read_text(), re.M)[1])
    found = [pid]
    for one in found:  # grows during the iteration
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]
