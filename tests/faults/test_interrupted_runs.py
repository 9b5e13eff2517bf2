"""A run that is killed or interrupted at the worst moment leaves either the old or the new table."""

import json
import os
import signal
import time

import duckdb
import pyarrow.parquet as pq
import pytest
from support.folders import PROFILES, ProjectFolder, sink
from support.torture import TORTURE

from .conftest import wait_until

CLI = ("-m", "rivet_dagster.cli.process", "-p")
SECONDS = 30
"""Seconds, generous for what takes two or three on an idle machine; the query would take ten minutes."""
OLD, NEW = [{"id": n} for n in range(3)], [{"id": n} for n in range(10, 15)]
# The first of two tasks ends at once, the other one sleeps: the write hangs with some of its files on disk.
ENDLESS = """
SELECT id, java_method('java.lang.Thread', 'sleep', CAST(if(id = 0, 0, 600000) AS BIGINT)) AS slept
FROM range(0, 2, 1, 2)
"""


@pytest.fixture
def published(project) -> ProjectFolder:
    """Write a project whose table has the old rows, which the next run replaces."""
    numbers = project({"joints/numbers.sql": "SELECT id FROM range(3)", "sinks/out.yaml": sink("out", "numbers")})
    numbers.run("out")
    return numbers.write({"joints/numbers.sql": "SELECT id FROM range(10, 15)"})


def staged(folder: ProjectFolder) -> list:
    """Return the data files of versions that are not published."""
    home = folder.root / "lake/.rivet/out"
    current = (folder.root / "lake/out").resolve().name
    return [path for path in home.rglob("part-*") if current not in path.relative_to(home).parts]


def assert_table(folder: ProjectFolder, rows: list[dict]) -> None:
    """Assert that every reader sees exactly these rows."""
    assert folder.rows("out") == rows
    files = folder.root / "lake/out/*.parquet"
    assert duckdb.sql(f"SELECT id FROM '{files}' ORDER BY id").fetchall() == [(row["id"],) for row in rows]


@pytest.mark.nightly
def test_a_kill_in_the_middle_of_a_write_leaves_the_old_table_and_the_next_run_publishes(published, start):
    published.write({"joints/numbers.sql": ENDLESS})
    before = published.bytes_of("out")
    process = start(*CLI, published.root, "run")
    wait_until(lambda: staged(published), process)
    assert_table(published, OLD)
    process.kill()
    process.wait(30)
    assert_table(published, OLD)
    assert published.bytes_of("out") == before
    published.write({"joints/numbers.sql": "SELECT id FROM range(10, 15)"})
    published.run("out")
    assert_table(published, NEW)


def assert_canceled(process, interrupted: float) -> None:
    """Assert that a run ends soon after its interrupt, and reports all of its groups as canceled, without an error."""
    out, _ = process.communicate(timeout=120)
    assert time.monotonic() - interrupted < SECONDS
    assert process.returncode == 130
    report = json.loads(out)
    assert {group["status"] for group in report["groups"]} == {"canceled"}
    assert (report["success"], report["errors"]) == (False, [])


@pytest.mark.nightly
def test_ctrl_c_stops_all_groups_that_run_at_once_and_discards_their_staged_versions(published, start):
    engine = {**PROFILES["default"]["engines"][0], "master": "local[4]", "concurrency_limit": 4}
    names = [f"out_{n}" for n in range(1, 4)]
    files = {f"joints/numbers_{n}.sql": ENDLESS.replace("0, 2, 1, 2", f"{n}, {n + 1}, 1, 1") for n in range(1, 4)}
    files |= {f"sinks/{name}.yaml": sink(name, f"numbers_{n}") for n, name in enumerate(names, 1)}
    published.write({
        "profiles.yaml": {"default": {**PROFILES["default"], "engines": [engine]}},
        "joints/numbers.sql": ENDLESS,
        **files,
    })  # fmt: skip
    before, lake = published.bytes_of("out"), published.root / "lake/.rivet"
    process = start(*CLI, published.root, "run", "--format", "json")
    wait_until(lambda: staged(published) and all(list((lake / name).rglob("part-*")) for name in names), process)
    interrupted = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)  # like Ctrl-C
    assert_canceled(process, interrupted)
    assert {name: published.versions(name) for name in names} == {name: [] for name in names}
    assert staged(published) == []
    assert published.bytes_of("out") == before
    assert_table(published, OLD)
    assert pq.read_table(published.root / "lake/out").num_rows == len(OLD)


if TORTURE:  # test_cli_interrupts.py does it to a run in its own process

    def test_an_end_by_a_service_manager_stops_a_long_query_and_discards_its_staged_version(published, start):
        published.write({"joints/numbers.sql": ENDLESS})
        before = published.bytes_of("out")
        process = start(*CLI, published.root, "run", "out", "--format", "json")
        wait_until(lambda: staged(published), process)
        interrupted = time.monotonic()
        process.terminate()
        assert_canceled(process, interrupted)
        assert staged(published) == []
        assert published.bytes_of("out") == before
        assert_table(published, OLD)
