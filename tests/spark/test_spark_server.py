"""A project's own Spark server: its clients are processes of their own, since this one runs a Spark itself."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import dagster as dg
import pyspark
import pytest
from support import server_clients
from support.folders import PROFILES, ProjectFolder, sink, source
from support.maven import are_there, jar, jars
from support.slow import sleeping
from support.spark import MASTER, QUICK
from support.torture import at_length

from rivet_dagster.cli.main import main
from rivet_dagster.engines.pyspark.jars import runtime_package
from rivet_dagster.engines.pyspark.server.command import server_settings
from rivet_dagster.engines.pyspark.server.files import ServerFiles
from rivet_dagster.engines.pyspark.server.ports import free_port
from rivet_dagster.engines.pyspark.server.record import ServerRecord, find_running

ICEBERG = runtime_package(pyspark.__version__)
SECONDS = 60.0
"""What the product promises for clients and servers that die."""
SOONER = {
    "spark.connect.execute.reattachable.senderMaxStreamDuration": "4s",
    "spark.connect.execute.manager.detachedTimeout": "5s",
    "spark.connect.execute.manager.maintenanceInterval": "2s",
}
"""About a third of the times that the product sets, so that nothing waits for long."""
STARTED = 150.0
"""Enough for a process to start and connect, on a busy machine."""


class Project:
    """A project whose engine has its own server, with Spark's UI, by which the test sees the server's jobs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ui = free_port()
        config = {
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": QUICK,
            "spark.sql.session.timeZone": "Asia/Tokyo",
            "spark.sql.shuffle.partitions": 2,
            "spark.ui.enabled": True,
            "spark.ui.port": self.ui,
            **SOONER,
        }
        engine = {"name": "spark", "type": "pyspark", "catalogs": ["raw", "lake"], "app_name": "shop"}
        engine |= {"remote": "local", "master": MASTER, "config": config}
        engine["spark_home"] = str(Path(pyspark.__file__).parent)
        catalogs = dict(PROFILES["default"]["catalogs"])
        if are_there([ICEBERG]):
            catalogs["ice"] = {"type": "iceberg", "catalog": "hadoop", "warehouse": "ice", "default-namespace": "shop"}
            engine["catalogs"].append("ice")
            engine["jars"] = [str(jar(ICEBERG))]
        profile = {"catalogs": catalogs, "engines": [engine]}
        late = sleeping("120000L + id")
        ProjectFolder(
            root,
            {
                "profiles.yaml": {"default": profile},
                "data/orders.csv": "id\n1\n2\n",
                "sources/orders.yaml": source("orders.csv", "id BIGINT"),
                "joints/late.sql": f"SELECT id, {late} AS slept FROM orders",
                "sinks/first.yaml": sink("first", "orders"),
                "sinks/second.yaml": sink("second", "orders"),
                "sinks/slow.yaml": sink("slow", "late"),
            },
        )
        if "ice" in catalogs:
            frozen = "type: sink\ncatalog: ice\ntable: frozen\nupstream: orders\n"
            (root / "sinks" / "frozen.yaml").write_text(frozen)

    @property
    def server(self) -> ServerRecord | None:
        return find_running(ServerFiles(self.root, "spark"))

    def jobs(self) -> list[dict[str, Any]]:
        """Return the jobs that run on the server now."""
        address = f"http://127.0.0.1:{self.ui}/api/v1/applications"
        (application,) = json.load(urlopen(address, timeout=SECONDS))
        return json.load(urlopen(f"{address}/{application['id']}/jobs?status=running", timeout=SECONDS))

    def sessions(self) -> int:
        """Return how many sessions of Connect the server has, as its UI tells."""
        page = urlopen(f"http://127.0.0.1:{self.ui}/connect/", timeout=SECONDS).read().decode()
        return int(re.search(r"(\d+)\s+session\(s\)\s+are online", page)[1])

    def run(self, joint: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "rivet_dagster.cli.process", "-p", str(self.root), "run", joint]
        return started([*command, "--format", "json"], self.root.parent / f"run{joint}.err")

    def materialize(self, asset: str) -> subprocess.Popen[str]:
        """Run by Dagster alone, in a process for each step, which the documented executor forks."""
        definitions = self.root / "definitions.py"
        imports = "import dagster as dg\nfrom rivet_dagster import load_definitions\n"
        definitions.write_text(imports + documented_definitions().replace('"sales"', repr(str(self.root))))
        dagster = [sys.executable, "-m", "dagster", "asset", "materialize", "-f", str(definitions)]
        return started([*dagster, "--select", asset], self.root.parent / f"{asset}.err")

    @contextmanager
    def client(self, role: str) -> Iterator[subprocess.Popen[str]]:
        command = [sys.executable, server_clients.__file__, role, str(self.root)]
        process = started(command, self.root.parent / f"{role}.err")
        watch = threading.Timer(2 * STARTED, process.kill)  # then its next line is empty, and the test fails
        watch.start()
        try:
            yield process
        finally:
            watch.cancel()
            process.kill()
            process.communicate()


def documented_definitions() -> str:
    """Return the block of the documentation that runs steps by a fork server."""
    page = (Path(__file__).parents[2] / "docs" / "entry-points.md").read_text()
    (block,) = (text for text in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "forkserver" in text)
    return block


def started(command: list[str], errors: Path) -> subprocess.Popen[str]:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "DAGSTER_HOME": str(errors.parent / "dagster")}
    environ["DAGSTER_DISABLE_TELEMETRY"] = "true"
    return subprocess.Popen(
        command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors.open("w"), text=True
    )


def told(client: subprocess.Popen[str]) -> dict[str, Any]:
    return json.loads(client.stdout.readline() or "{}")


def go_on(client: subprocess.Popen[str]) -> dict[str, Any]:
    client.stdin.write("\n")
    client.stdin.flush()
    return told(client)


def until(condition: Callable[[], Any], seconds: float) -> float:
    """Wait for a condition, and return how long that took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds
        time.sleep(0.2)
    return time.monotonic() - began


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    root = tmp_path_factory.mktemp("server") / "project"
    root.mkdir()
    home = root.parent / "dagster"
    home.mkdir()
    # Dagster's databases are there before the clients are: two processes that create them at once can break them.
    with dg.DagsterInstance.from_config(str(home)):
        yield Project(root)
    assert main(["spark", "stop", "-p", str(root)]) == 0


@pytest.mark.nightly
def test_clients_share_a_server_and_see_nothing_of_each_other(project):
    with project.client("owner") as owner:
        assert told(owner) == {"rows": [{"v": 2}]}
        assert main(["spark", "start", "-p", str(project.root)]) == 0
        # One run in one process, and one whose steps are processes.
        first, second = project.run("+first"), project.materialize("second")
        with project.client("stranger") as stranger:
            seen = told(stranger)
        assert json.loads(first.communicate(timeout=STARTED)[0])["success"]
        assert second.wait(STARTED) == 0, (project.root.parent / "second.err").read_text()[-3000:]
        assert len(list((project.root / "lake" / "second").glob("*.parquet"))) > 0
        assert go_on(owner) == {"rows": [{"v": 2}]}
    assert seen.pop("pid") == project.server.pid
    assert Path(seen.pop("warehouse.dir").removeprefix("file:")) == project.root / "spark-warehouse"
    for name in ("wrong token", "no token"):
        assert f"the Spark server at {project.server.address} refuses the token" in seen.pop(name)
    assert f"RVT-128 the server is Spark {pyspark.__version__}, and pyspark is 4.99.0" in seen.pop("newer client")
    assert seen == {
        "view": "RVT-503",
        "shuffle.partitions": "2",
        "session.timeZone": "Asia/Tokyo",
        "name": "shop",
        "local files": True,
        "rows": [{"n": 5, "total": 10}],
    }
    log = ServerFiles(project.root, "spark").log.read_text()
    assert project.server.token not in log


def test_the_times_that_a_server_starts_with_keep_the_promise():
    own = server_settings({})
    assert sum(int(own[key].removesuffix("s")) for key in SOONER) < SECONDS


@pytest.mark.nightly
def test_what_catalogs_need_of_a_start_is_there_and_no_session_is_left(project):
    jars(ICEBERG)
    others = project.sessions()
    run = project.run("+frozen")
    assert json.loads(run.communicate(timeout=STARTED)[0])["success"]
    assert len(list((project.root / "ice" / "shop" / "frozen" / "data").glob("*.parquet"))) > 0
    assert project.sessions() == others


@pytest.mark.nightly
def test_sessions_that_nothing_closes_end_with_their_process(project):
    assert main(["spark", "start", "-p", str(project.root)]) == 0
    others = project.sessions()
    with project.client("forgetful") as client:
        assert told(client) == {"rows": [[{"v": 1}]] * 3}
        assert client.wait(STARTED) == 0
    assert project.sessions() == others


def test_a_long_log_is_continued_in_an_empty_file(tmp_path):
    files = ServerFiles(tmp_path, "spark")
    files.create_folder()
    with files.open_private(files.log) as log:
        log.write(f"{'x' * 100_000}\nlast\n")
        log.flush()
        files.rotate_log()
        assert (files.log.stat().st_size, len(files.end_of_log())) == (100_006, 65_536)
        assert files.end_of_log().endswith("x\nlast\n")
        for part in "ab":
            log.write(part * 10_000_001)
            log.flush()
            files.rotate_log()
        assert files.log.stat().st_size == 0
        log.write("then\n")
        log.flush()
        assert files.end_of_log() == "then\n"
    assert sorted(path.name for path in files.folder.glob("*.log*")) == ["spark.log", "spark.log.1"]
    older = files.folder / "spark.log.1"
    assert older.read_text()[-1] == "b"
    assert older.stat().st_mode & 0o777 == 0o600
    files.log.unlink()
    files.rotate_log()  # nor does the supervisor end, and the server with it


@at_length
def test_the_query_of_a_dead_client_ends_and_that_of_a_slow_one_does_not(project):
    with project.client("slow") as slow:
        # One after the other: no task of the endless query gives its core to another query.
        assert 0 < told(slow)["rows"] < server_clients.ROWS
        with project.client("endless") as endless:
            assert told(endless)["pid"] == project.server.pid
            until(project.jobs, STARTED)
            endless.send_signal(signal.SIGKILL)
        seconds = until(lambda: not project.jobs(), SECONDS)
        assert seconds > 1, "it would have ended by itself"
        time.sleep(max(0.0, 13.0 - seconds))  # as long as the query of a dead client could last
        assert go_on(slow) == {"rows": server_clients.ROWS}


@pytest.mark.nightly
def test_a_server_that_dies_fails_what_runs_on_it_and_the_next_run_starts_another(project):
    run = project.run("+slow")
    until(lambda: project.server and project.jobs(), STARTED)
    died = project.server
    os.kill(died.pid, signal.SIGKILL)
    began = time.monotonic()
    result = json.loads(run.communicate(timeout=STARTED)[0])
    # At once: the client does not wait for a server that is gone.
    assert time.monotonic() - began < SECONDS / 2
    assert run.returncode == 1
    (error,) = result["errors"]
    assert error["code"] == "RVT-521", error
    assert error["joint"] == "late"
    assert f"(pid {died.pid}) has ended while this ran on it: the server was killed by SIGKILL" in error["message"]

    after = project.run("+first")
    assert json.loads(after.communicate(timeout=STARTED)[0])["success"]
    assert project.server.pid != died.pid
