"""The example in `dagster dev`, with its daemon, and a browser that looks at it."""

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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from support.example import copy_of_the_example

SETTINGS = "telemetry: {enabled: false}\nnux: {enabled: false}\n"
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
"""The example's own schedules would let a test wait until the morning."""
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
"""The names under which it is installed, or a browser that is built on it."""
MISSING = "no Chromium on the PATH, and CHROMIUM names none (Debian: apt-get install chromium)"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip these tests where there is no Chromium, which one line of the summary tells; in CI they fail instead."""
    if chromium() is None and not os.environ.get("CI"):
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(MISSING))


def chromium() -> str | None:
    """The program that CHROMIUM names, else one on the PATH."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUM)), None)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example with its data."""
    place = copy_of_the_example(tmp_path_factory.mktemp("ui"))
    (place / "definitions.py").write_text(EVERY_MINUTE)
    return place


@pytest.fixture(scope="module")
def address(example: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the UI is; webserver, code server, daemon and the runs that they start end with the tests."""
    with served(("dagster", "dev"), example, tmp_path_factory.mktemp("home")) as address:
        yield address


@contextmanager
def served(command: Sequence[str], folder: Path, home: Path) -> Iterator[str]:
    """The address at which a command of Dagster's serves the definitions.py of a folder."""
    (home / "dagster.yaml").write_text(SETTINGS)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", *command, "-f", "definitions.py", "-h", "127.0.0.1", "-p", str(port)],
        cwd=folder,
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
    """A headless Chromium, one that is installed: Playwright's own is a download of its own.

    It ends with its tests: while it runs, so does an event loop in this thread, in which no other can be run.
    """
    program = chromium()
    assert program is not None, MISSING
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Browser, address: str) -> Iterator[Callable[..., Page]]:
    """Open a page of the UI, on a window of some height; ``at`` is the address of another UI."""
    contexts = []

    def visit(path: str, height: int = 1000, at: str | None = None) -> Page:
        contexts.append(browser.new_context(viewport={"width": 1600, "height": height}, timezone_id="UTC"))
        page = contexts[-1].new_page()
        page.set_default_timeout(60_000)
        page.goto((at or address) + path)
        return page

    yield visit
    for context in contexts:
        context.close()


@pytest.fixture
def picture(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Page, str], None]:
    """Take a picture of a page; ``--pictures docs/images`` keeps it there."""
    folder = Path(request.config.getoption("--pictures") or tmp_path)

    def picture(page: Page, name: str) -> None:
        page.wait_for_load_state("networkidle")
        page.wait_for_timeout(2000)  # a graph is laid out by a worker after everything has loaded
        page.screenshot(path=folder / f"{name}.png")

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
    """By SIGTERM, which takes code servers and runs along; what does not end by itself is killed."""
    below = _descendants(server.pid)
    server.send_signal(signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        server.wait(20)
    for pid in [*below, server.pid]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    server.wait(20)


def _descendants(pid: int) -> list[int]:
    """Every process that this one has started, or one of those: Dagster puts its runs into sessions of their own."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError):
            parents[int(status.parent.name)] = int(re.search(r"^PPid:\s+(\d+)", status.read_text(), re.M)[1])
    found = [pid]
    for one in found:  # grows while it is walked
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]
