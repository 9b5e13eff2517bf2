"""The life of a project's Spark server, with a stand-in for Spark."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from support.fake_spark import fake_java, fake_spark

from rivet_dagster.cli.main import main
from rivet_dagster.engines.pyspark.examining import examine_own_server
from rivet_dagster.engines.pyspark.server import record
from rivet_dagster.engines.pyspark.server.command import PORT, TOKEN
from rivet_dagster.engines.pyspark.server.connecting import UsedServer, _channel_to, connect_to_server
from rivet_dagster.engines.pyspark.server.files import ServerFiles
from rivet_dagster.engines.pyspark.server.ports import listener_of
from rivet_dagster.engines.pyspark.server.record import (
    ServerRecord,
    find_running,
    process_state,
    stop_running,
    write_record,
)
from rivet_dagster.engines.pyspark.server.starting import ServerSpec, ensure_server
from rivet_dagster.errors import RivetError

pytestmark = pytest.mark.slow

SECONDS = 30.0


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerSpec]:
    """Return a server of a project of its own, and end it after the test."""
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "java")))
    root = tmp_path / "project"
    root.mkdir()
    config = {"spark.remote": "local", "spark.master": "local[2]", "spark.driver.memory": "1g"}
    spec = ServerSpec(ServerFiles(root, "spark"), config, fake_spark(tmp_path / "spark"), 3600.0)
    yield spec
    stop_running(spec.files)


def with_settings(spec: ServerSpec, **settings: str) -> ServerSpec:
    return replace(spec, config=spec.config | {f"spark.{key}".replace("_", "."): v for key, v in settings.items()})


def until(condition) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_server_starts_once_and_keeps_its_secrets(spec, monkeypatch):
    monkeypatch.setenv("SPARK_REMOTE", "sc://other")
    secretive = with_settings(spec, hadoop_fs_s3a_secret_key="hunter22", sql_catalog_lake_token="hunter33")
    record, users = ensure_server(secretive)
    again, _ = ensure_server(secretive)
    assert again == record == find_running(spec.files)
    assert socket.create_connection(("127.0.0.1", record.port), 5).close() is None

    seen = json.loads((spec.files.root / "seen.json").read_text())
    assert seen["cwd"] == str(spec.files.root)
    assert seen["settings"]["spark.hadoop.fs.s3a.secret.key"] == "hunter22"
    assert seen["settings"]["spark.scheduler.mode"] == "FAIR"
    assert "spark.remote" not in seen["settings"]
    assert seen["environ"][TOKEN] == record.token
    assert len(record.token) >= 32
    assert record.remote == f"sc://localhost:{record.port}/;token={record.token}"
    assert not {"SPARK_REMOTE"} & seen["environ"].keys()
    assert seen["environ"]["JAVA_HOME"] == os.environ["JAVA_HOME"]

    commands = [process_state(int(path.name)) for path in Path("/proc").iterdir() if path.name.isdigit()]
    secrets = (record.token, "hunter22", "hunter33")
    assert any(state and str(spec.files.folder) in state.command for state in commands)
    assert not any(secret in state.command for state in commands if state for secret in secrets)
    assert mode(spec.files.folder) == 0o700
    assert not any(mode(path) & 0o077 for path in spec.files.folder.iterdir())
    assert not any(secret in spec.files.log.read_text() for secret in secrets)
    assert not any("hunter33" in path.read_text() for path in spec.files.folder.iterdir())
    assert record.token not in repr(record)

    users.close()
    assert stop_running(spec.files) == record
    assert find_running(spec.files) is stop_running(spec.files) is None
    until(lambda: not list(spec.files.folder.glob("*.conf")))  # the supervisor has ended, too


def test_many_that_start_at_once_get_one_server(spec):
    slow = with_settings(spec, fake_seconds="0.5")
    with ThreadPoolExecutor(4) as pool:
        records = [record for record, _ in pool.map(lambda _: ensure_server(slow), range(4))]
    assert len({record.pid for record in records}) == 1


def test_a_start_goes_on_without_the_process_that_began_it(spec):
    slow = with_settings(spec, fake_seconds="3")
    code = (
        "from pathlib import Path; from rivet_dagster.engines.pyspark.server import starting, files;"
        f"starting.ensure_server(starting.ServerSpec(files.ServerFiles(Path({str(spec.files.root)!r}), 'spark'),"
        f"{slow.config!r}, Path({str(spec.home)!r}), 3600.0))"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    first = subprocess.Popen([sys.executable, "-c", code], env=environ)
    until((spec.files.root / "seen.json").exists)
    first.kill()
    first.wait()
    assert find_running(spec.files) is None
    began = (spec.files.root / "seen.json").stat().st_mtime
    ensure_server(slow)
    assert (spec.files.root / "seen.json").stat().st_mtime == began


def test_a_server_that_does_not_start(spec, tmp_path):
    failing = with_settings(spec, fake_message="memory must be at least 471859200, token=abcdef")
    with pytest.raises(RivetError, match=r"RVT-502 the Spark server did not start: .*must be at least 4718") as failed:
        ensure_server(failing)
    assert "abcdef" not in str(failed.value)
    assert "exit code 1" in str(failed.value)
    unfetched = replace(failing, config=failing.config | {
        "spark.jars.packages": "a:b:1", "spark.fake.message": "unresolved dependency"})  # fmt: skip
    with pytest.raises(RivetError, match="it was to fetch a:b:1"):
        ensure_server(unfetched)
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = replace(spec, config=spec.config | {PORT: str(other.getsockname()[1])})
        with pytest.raises(RivetError, match="another process listens on port"):
            ensure_server(taken)
    with pytest.raises(RivetError, match="RVT-108 there is no Spark in"):
        ensure_server(replace(spec, home=tmp_path / "nothing"))
    with pytest.raises(RivetError, match=r"RVT-128 `spark_home` is Spark 3\.5\.1, and pyspark is"):
        ensure_server(replace(spec, home=fake_spark(tmp_path / "old", "3.5.1")))
    (spec.home / "jars" / next(jar.name for jar in (spec.home / "jars").glob("spark-connect*"))).unlink()
    with pytest.raises(RivetError, match="has no Spark Connect server"):
        ensure_server(spec)
    assert find_running(spec.files) is None


@pytest.mark.parametrize(("version", "code"), [(None, "RVT-111"), ("11.0.2", "RVT-112")])
def test_java_is_looked_for_before_anything_starts(spec, monkeypatch, tmp_path, version, code):
    program = tmp_path / "java" / "bin" / "java"
    program.unlink()
    if version:
        program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"'; echo '    java.home = /x'\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", "/nowhere:/bin")
    monkeypatch.setattr("rivet_dagster.engines.pyspark.java._candidates", lambda _: [("JAVA_HOME", program)])
    with pytest.raises(RivetError) as caught:
        ensure_server(spec)
    assert caught.value.code == code
    assert not spec.files.log.exists()


class Stranger:
    """A listener of another process, which notes what it is sent."""

    def __init__(self, port: int) -> None:
        self.received: list[bytes] = []
        self._server = socket.create_server(("127.0.0.1", port))
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                with connection:
                    connection.settimeout(2)
                    self.received.append(connection.recv(1000))

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join()


def test_who_takes_the_port_before_the_server_is_sent_nothing(spec):
    slow = with_settings(spec, fake_seconds="2")
    strangers = []

    def take_the_port() -> None:
        until((spec.files.root / "seen.json").exists)
        until(lambda: (spec.files.root / "seen.json").read_text().endswith("}"))
        strangers.append(Stranger(int(json.loads((spec.files.root / "seen.json").read_text())["settings"][PORT])))

    thief = threading.Thread(target=take_the_port)
    thief.start()
    with pytest.raises(RivetError, match=r"RVT-502 the Spark server did not start: .*Address already in use"):
        ensure_server(slow)
    thief.join()
    strangers[0].close()
    assert (strangers[0].received, find_running(spec.files)) == ([], None)


def test_who_takes_the_port_after_the_server_is_sent_nothing(spec, monkeypatch):
    # Tests before this one may have started Spark in this process, and those after it may use that.
    monkeypatch.setattr("rivet_dagster.engines.pyspark.server.connecting.refuse_another_application", lambda _: None)
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    server = UsedServer.ensure(with_settings(spec, fake_closes="true"))
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    assert server.listener().is_open
    assert listener_of(other.pid, server.record.port) is None
    other.kill()
    other.wait()
    channel = _channel_to(server).toChannel()
    call = channel.unary_unary("/spark.connect.SparkConnectService/Config", str.encode, bytes.decode)
    socket.create_connection(("127.0.0.1", server.record.port), 5).close()  # then it listens no more
    until(lambda: listener_of(server.record.pid, server.record.port) is None)
    stranger = Stranger(server.record.port)
    for request in (lambda: call("the token", metadata=[("authorization", "t")]), lambda: connect_to_server(server)):
        with pytest.raises(RivetError, match=r"RVT-521 .* does not listen on port \d+ any more"):
            request()
    os.kill(server.record.pid, signal.SIGKILL)
    until(lambda: not server.is_running)
    with pytest.raises(RivetError, match=r"RVT-521 .* has ended"):
        call("the token")
    channel.close()
    stranger.close()
    assert stranger.received == []


def test_a_recorded_process_is_not_trusted(spec):
    """The number of a dead server may belong to any other process by now."""
    spec.files.create_folder()
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        state = process_state(bystander.pid)
        assert state is not None
        theirs = ServerRecord(bystander.pid, state.began, "spark.1.conf", 1, "local", {}, "t" * 40)
        for record in (theirs, replace(theirs, began="before", marker="time.sleep")):
            write_record(spec.files, record)
            assert find_running(spec.files) is stop_running(spec.files) is None
        assert bystander.poll() is None
        record, _ = ensure_server(spec)
        assert record.pid != bystander.pid
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()
    assert process_state(bystander.pid) is None


def test_a_server_ends_when_nobody_has_used_it_for_a_while(spec):
    brief = replace(spec, idle_seconds=0.5)
    record, users = ensure_server(brief)
    time.sleep(1.2)
    assert record.is_running
    users.close()
    until(lambda: not record.is_running)
    until(lambda: "nobody has used the server for 0.5 s" in spec.files.log.read_text())
    until(lambda: not spec.files.record.exists())
    after, users = ensure_server(brief)
    assert after.pid != record.pid
    users.close()


def test_other_settings_replace_a_server_that_nobody_uses(spec):
    first, users = ensure_server(spec)
    more = with_settings(spec, driver_memory="2g", sql_catalog_lake_uri="https://lake")
    with pytest.raises(RivetError, match=r"RVT-522 .* other values of spark\.driver\.memory, and is in use"):
        ensure_server(more)
    assert first.is_running
    users.close()
    second, _ = ensure_server(more)
    assert not first.is_running
    assert second.pid != first.pid
    # Settings of Spark catalogs are those of sessions.
    assert ensure_server(with_settings(more, sql_catalog_lake_uri="https://other"))[0] == second


def test_a_server_that_was_killed_says_so_and_the_next_one_starts(spec):
    server = UsedServer.ensure(spec)
    os.kill(server.record.pid, signal.SIGKILL)
    until(lambda: not server.is_running)
    error = server.ended()
    assert error.code == "RVT-521"
    assert error.is_transient
    assert "has ended while this ran on it: the server was killed by SIGKILL" in str(error)
    assert UsedServer.ensure(spec).record.pid != server.record.pid


def test_a_server_that_does_not_end_is_killed(spec, monkeypatch):
    monkeypatch.setattr(record, "GRACE_SECONDS", 0.3)
    stubborn, _ = ensure_server(with_settings(spec, fake_stubborn="true"))
    assert stop_running(spec.files) == stubborn
    assert not stubborn.is_running


def test_the_doctor_says_whether_it_runs_or_could_start(spec):
    def finding(**settings: str) -> tuple[str, str]:
        findings = examine_own_server("engine spark", with_settings(spec, **settings), os.environ)
        *_, last = (found for found in findings if not re.search("local files|archive of classes", found.text))
        return last.status, last.text

    status, text = finding()
    assert (status, text.split(";")[0]) == ("ok", "Spark server on local[2], starts with the first run")
    record, _ = ensure_server(spec)
    assert finding() == ("ok", f"Spark server at {record.address}, pid {record.pid}, on local[2]")
    assert finding(driver_cores="1") == ("warn", "the server was started with other values of spark.driver.cores")
    assert finding(driver_memory="99999t")[0] == "warn"
    (spec.home / "bin" / "spark-submit").unlink()
    assert finding()[0] == "fail"


def test_the_command(spec, capsys, tmp_path, monkeypatch):
    root = spec.files.root
    (root / "rivet.yaml").write_text("profiles: profiles.yaml\nsources: s\njoints: j\nsinks: k\n")
    engine = (
        f"{{name: spark, type: pyspark, remote: local, spark_home: {spec.home}, config: {{spark.driver.memory: 1g}}}}"
    )
    (root / "profiles.yaml").write_text(
        f"default: {{engines: [{engine}]}}\nbare: {{engines: [{{name: e, type: pyspark}}]}}\n"
    )
    for folder in ("s", "j", "k"):
        (root / folder).mkdir()

    def spark(action: str) -> str:
        assert main(["spark", action, "-p", str(root)]) == 0
        return capsys.readouterr().out

    assert spark("status") == spark("stop") == "engine spark: no Spark server runs\n"
    assert spark("start").startswith("engine spark: the Spark server has started, pid ")
    record = find_running(spec.files)
    shown = f"pid {record.pid}, address sc://localhost:{record.port}, log {spec.files.log}\n"
    assert spark("start") == f"engine spark: the Spark server runs already, {shown}"
    assert spark("status") == f"engine spark: the Spark server runs, {shown}"
    assert spark("stop") == f"engine spark: the Spark server has ended, pid {record.pid}\n"
    assert spark("status") == "engine spark: no Spark server runs\n"
    assert main(["spark", "start", "-p", str(root), "--profile", "bare"]) == 10
    assert "RVT-110 no engine of the profile 'bare' has a Spark server" in capsys.readouterr().err
