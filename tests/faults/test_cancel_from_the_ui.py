"""Terminating a run from the UI stops Spark and discards the staged version."""

import socket
import time

import dagster as dg
import pytest
from dagster_graphql import DagsterGraphQLClient, DagsterGraphQLClientError
from support.folders import PROFILES, WORKSPACE

from .conftest import wait_until
from .test_interrupted_runs import ENDLESS, OLD, assert_table, published, staged

__all__ = ["published"]

SECONDS = 30
"""Seconds, generous for what takes a few on an idle machine; the query would take ten minutes."""
WEBSERVER = """
import os, sys
from dagster_webserver.cli import main
os.environ["DAGSTER_HOME"] = sys.argv.pop(1)
main()
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def staged_others(folder) -> list:
    """Return the data files of the other group, none of which is ever published."""
    return list((folder.root / WORKSPACE / ".rivet/others").rglob("part-*"))


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:Using variable_values:DeprecationWarning")
def test_a_terminated_run_is_canceled_within_seconds(published, start, tmp_path):
    engine = {**PROFILES["default"]["engines"][0], "concurrency_limit": 2}
    published.write({
        "profiles.yaml": {"default": {**PROFILES["default"], "engines": [engine]}},
        "joints/numbers.sql": ENDLESS,
        "joints/others.sql": f"-- rivet:eager: true\n{ENDLESS}",
        "defs.py": f"from rivet_dagster import load_definitions\ndefs = load_definitions({str(published.root)!r})\n",
    })  # fmt: skip
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text(
        "telemetry: {enabled: false}\n"
        "run_coordinator: {module: dagster.core.run_coordinator, class: DefaultRunCoordinator}\n"
    )
    before = published.bytes_of("out")
    port = free_port()
    server = start("-c", WEBSERVER, home, "-f", published.root / "defs.py", "-h", "127.0.0.1", "-p", port)
    client = DagsterGraphQLClient("127.0.0.1", port_number=port)
    run = []

    def launched() -> bool:
        try:
            run.append(client.submit_job_execution("all", run_config={}))
        except (OSError, DagsterGraphQLClientError):
            return False
        return True

    wait_until(launched, server)
    wait_until(lambda: staged(published) and staged_others(published), server)
    terminated = time.monotonic()
    client.terminate_run(run[0])
    wait_until(lambda: client.get_run_status(run[0]) == dg.DagsterRunStatus.CANCELED, server)
    assert time.monotonic() - terminated < SECONDS
    wait_until(lambda: not staged(published) and not staged_others(published), server, SECONDS)
    assert published.bytes_of("out") == before
    assert_table(published, OLD)
