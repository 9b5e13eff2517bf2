"""A run in a terminal of its own: progress, colours, other output, Ctrl-C; on an engine without a JVM."""

import fcntl
import os
import re
import subprocess
import sys
import termios
import time

import pytest
from support.folders import ProjectFolder
from support.plugins import install
from support.terminal import COLUMNS, open_terminal

ENGINE = {"name": "duck", "type": "duck", "catalogs": ["lake"]}
PROFILES = {"default": {"catalogs": {"lake": {"type": "filesystem", "path": "lake"}}, "engines": [ENGINE]}}
NOISY = """
import os
import pyarrow as pa

def transform(good):
    os.write(2, b"written by a library\\n")
    os.write(1, b"and to stdout\\n")
    print("and by Python")
    return good
"""
FILES = {
    "profiles.yaml": PROFILES,
    "joints/good.sql": "-- rivet:assert: not_null(id, severity=warn)\n-- rivet:assert: row_count(min=1)\n"
    "SELECT NULL AS id",
    "joints/noisy.py": NOISY,
    "joints/slow.py": "import time\n\ndef transform(noisy):\n    time.sleep(600)\n",
}
SECONDS = 120
"""Seconds until the run gets to its longest joint, generous for what takes five on an idle machine."""


@pytest.fixture
def folder(tmp_path, monkeypatch) -> ProjectFolder:
    for name in ("DAGSTER_HOME", "RIVET_PROFILE", "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    install(monkeypatch, tmp_path / "site", engines={"duck": "support.duckdb_engine:DuckDBEngine"})
    return ProjectFolder(tmp_path / "project", FILES)


def times_of_slow(screens):
    """Return what was shown of the longest joint while it ran: its time goes on."""
    shown = ["\n".join(lines) for lines in list(screens)]
    return {each.split("slow", 1)[1] for each in shown if re.search("slow +config", each)}


def test_ctrl_c_in_a_terminal_ends_the_run_and_leaves_the_terminal_in_order(folder):
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "rivet_dagster.cli.process", "-p", str(folder.root), "run"]
    with open_terminal() as (master, slave, seen):
        process = subprocess.Popen(
            command,
            env=environ,
            stdin=slave,
            stdout=subprocess.PIPE,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        try:
            deadline = time.monotonic() + SECONDS
            while len(times_of_slow(seen.screens)) < 2:
                assert process.poll() is None, "\n".join(seen.final)
                assert time.monotonic() < deadline
                time.sleep(0.1)
            os.write(master, b"\x03")
            out, _ = process.communicate(timeout=SECONDS)
        finally:
            process.kill()
    assert (process.returncode, out) == (130, b""), "\n".join(seen.final)

    shown = ["\n".join(lines) for lines in seen.screens]
    assert "starting" in shown[0]
    assert any(re.search(r"run .* 2 of 3 groups .*\n. slow +config ", each) for each in shown), "two bars at once"
    assert max(len(line) for screen in seen.screens for line in screen) <= COLUMNS
    assert "\x1b[32m" in seen.text
    assert seen.text.rindex("\x1b[?25h") > seen.text.rindex("\x1b[?25l"), "the cursor is there again"

    final = [re.sub(r"\d+\.\d+", "S", line.replace("^C", "")) for line in seen.final]
    assert final[:5] == [
        "wave 1  good",
        "  good.not_null_id  warning: 1 violation",
        "  good.row_count  passed",
        "good  done  1 row, S s",
        "wave 2  noisy",
    ]
    assert sorted(final[5:8]) == ["and by Python", "and to stdout", "written by a library"]
    assert final[8:10] == ["noisy  done  1 row, S s", "wave 3  slow"]
    assert final[10] == "slow  canceled  S s"
    assert [line.split()[:4] for line in final[11:15]] == [
        ["group", "status", "rows", "seconds"],
        ["good", "success", "1", "S"],
        ["noisy", "success", "1", "S"],
        ["slow", "canceled", "S"],
    ]
    assert "2 checks, 1 passed" in final
    assert final[-1].startswith("2 of 3 groups succeeded; Dagster run ")
