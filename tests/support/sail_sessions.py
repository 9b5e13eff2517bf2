"""Sail: the conformance suite of engines, the life of its server, and rows that files give.

These tests run in a process of their own, since a process that runs Spark cannot be a client of a server.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rivet_dagster.engines.pyspark import SailEngine
from rivet_dagster.engines.pyspark.server.record import cpu_seconds, find_running, stop_running
from rivet_dagster.engines.pyspark.server.starting import ensure_server
from rivet_dagster.errors import RivetError
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.model.relations import Files
from rivet_dagster.sql.generated_statements import GeneratedStatement
from rivet_dagster.testing.engine import EngineConformance
from support.spark import share_sail

SECONDS = 60.0


def sail(root: Path, **options) -> SailEngine:
    """Return an engine of a project in ``root`` that nothing else uses."""
    engine = SailEngine(EngineSpec("spark", "pyspark", options={"remote": "sail", **options}))
    engine.root = root
    return engine


class TestSail(EngineConformance):
    ignores_case = False

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        """Have the engines share the server of all tests."""
        self.root = tmp_path
        share_sail(tmp_path)

    def new_engine(self, check_interrupt=None):
        engine = SailEngine(EngineSpec("spark", "pyspark", options={"remote": "sail"}), None, check_interrupt)
        engine.root = getattr(self, "root", Path())
        return engine


@pytest.fixture
def session(engine):
    """Yield a session on the server of all tests."""
    with engine.session() as session:
        yield session


def read(session, path: Path, schema: str | None, **options: str) -> list[dict]:
    given = {"header": "true", "enforceSchema": "false", **options, **({} if schema is None else {"schema": schema})}
    return session.to_arrow(session.load(Files("csv", (str(path),), given))).to_pylist()


def test_texts_of_csv_files_become_the_values_of_spark(session, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(
        "i,d,f,b,t,m\n"
        "1,2026-01-02,1.5,true,x,1.255\n"
        "+2,2026-1-2,NaN,FALSE,,-1.255\n"
        "q,2026-02-31, 2,1, y ,9999999\n"
        ' 3 ,,-Inf,NA,"a,b",NA\n'
    )
    schema = "i INT, d DATE, f DOUBLE, b BOOLEAN, t STRING, m DECIMAL(5,2)"
    rows = read(session, path, schema, nullValue="NA")
    day = date(2026, 1, 2)
    assert rows[0] == {"i": 1, "d": day, "f": 1.5, "b": True, "t": "x", "m": Decimal("1.26")}
    assert rows[1].pop("f") != rows[1].get("f")
    assert rows[1] == {"i": 2, "d": day, "b": False, "t": None, "m": Decimal("-1.26")}
    assert rows[2] == {"i": None, "d": None, "f": 2.0, "b": None, "t": " y ", "m": None}
    assert rows[3] == {"i": None, "d": None, "f": -float("inf"), "b": None, "t": "a,b", "m": None}


@pytest.mark.parametrize(
    ("text", "schema", "code"),
    [
        ('a\n"x""y"\n', "a STRING", "RVT-519"),
        ('a\n"x\\ny"\n', "a STRING", "RVT-519"),
        ('a\n"x\ny"\n', "a STRING", "RVT-519"),
        ("a\n20260102\n", "a DATE", "RVT-519"),
        ("b,a\n1,2\n", "a STRING, b STRING", "RVT-503"),
        ("a,b\n1,2,3\n", "a STRING, b STRING", "RVT-503"),
    ],
)
def test_what_spark_reads_otherwise_is_refused(session, tmp_path, text, schema, code):
    path = tmp_path / "rows.csv"
    path.write_text(text)
    with pytest.raises(RivetError) as caught:
        read(session, path, schema)
    assert caught.value.code == code


def test_escaped_quotes_and_headers_in_another_case(session, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text('A\n"x\\"y"\n"m\\\\n"\nm\\\\n\n')
    assert read(session, path, "a STRING") == [{"a": 'x"y'}, {"a": "m\\n"}, {"a": "m\\\\n"}]


def test_a_folder_of_partitions_is_refused(session, tmp_path):
    (tmp_path / "t" / "day=1").mkdir(parents=True)
    pq.write_table(pa.table({"a": [1]}), tmp_path / "t" / "day=1" / "x.parquet")
    with pytest.raises(RivetError, match="stands for a column"):
        session.load(Files("parquet", (str(tmp_path / "t"),)))


def test_an_empty_result_is_a_file_with_columns(session, tmp_path):
    session.write(session.query("SELECT 1 AS a, 'x' AS b LIMIT 0"), Files("parquet", (str(tmp_path / "out"),)))
    table = pq.read_table(tmp_path / "out")
    assert (table.num_rows, table.column_names) == (0, ["a", "b"])


def test_rows_with_nan_are_found_in_what_was_written(session, tmp_path):
    target = Files("parquet", (str(tmp_path / "out"),))
    rows = pa.table({"a": [1.0, float("nan")], "b": [1, 2]})
    session.write(session.from_value(rows), target)
    session.register("out", session.load(target))
    assert [row["b"] for row in session.rows("SELECT b FROM out WHERE a > 5")] == [2]
    assert session.rows("SELECT isnan(max(a)) AS v FROM out") == [{"v": True}]
    for path in (tmp_path / "out").iterdir():
        group = pq.read_metadata(path).row_group(0)
        bounds = {group.column(n).path_in_schema: group.column(n).statistics for n in range(2)}
        assert bounds["b"].has_min_max
        assert bounds["a"] is None or not bounds["a"].has_min_max or pq.read_table(path)["a"].to_pylist() == [1.0]


def test_files_have_the_types_that_spark_writes(session, tmp_path):
    session.write(
        session.query("SELECT TIMESTAMP'2026-01-02 03:04:05Z' AS t, TIMESTAMP_NTZ'2026-01-02 03:04:05' AS n, 1 AS i"),
        Files("parquet", (str(tmp_path / "out"),)),
    )
    types = {field.name: str(field.type) for field in pq.read_table(tmp_path / "out").schema}
    assert types == {"t": "timestamp[us, tz=UTC]", "n": "timestamp[us]", "i": "int32"}


def test_errors_tell_what_and_where(session):
    for query, code, line in (
        ("SELECT 1,\n nowhere FROM (SELECT 1 AS a)", "RVT-503", 2),
        ("SELECT 1\nFROM a b c", "RVT-503", 2),
        ("SELECT 1,\n nmae(1)", "RVT-329", 2),
    ):
        with pytest.raises(RivetError) as caught:
            session.rows(query)
        assert (caught.value.code, caught.value.diagnostics[0].line) == (code, line)
    for query in ("SELECT a / (a - a) AS v FROM VALUES (1) t(a)", "SELECT CAST(a AS INT) AS v FROM VALUES ('x') t(a)"):
        with pytest.raises(RivetError) as caught:
            session.rows(query)
        assert caught.value.code == "RVT-520"


def test_a_server_is_found_again_and_ends_by_itself(tmp_path):
    engine = sail(tmp_path, idle_timeout="2s")
    record, users = ensure_server(engine.server)
    again, others = ensure_server(engine.server)
    assert (again.pid, again.token, again.remote) == (record.pid, "", record.address)
    users.close()
    others.close()
    deadline = time.monotonic() + SECONDS
    while find_running(engine.server.files) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_a_server_that_dies_fails_what_runs_with_the_reason(tmp_path):
    engine = sail(tmp_path)
    try:
        with engine.session() as session:
            pid = find_running(engine.server.files).pid
            threading.Timer(1.0, os.kill, (pid, signal.SIGKILL)).start()
            started = time.monotonic()
            session.register("n", session.query("SELECT id AS n FROM range(30000)"))
            with pytest.raises(RivetError) as caught:
                session.rows("SELECT sum(a.n * b.n - c.n) AS v FROM n a CROSS JOIN n b CROSS JOIN n c")
            assert caught.value.code == "RVT-521"
            assert "killed by SIGKILL" in str(caught.value)
            assert time.monotonic() - started < SECONDS
        with engine.session() as session:  # on a new server
            assert session.rows("SELECT 1 AS v") == [{"v": 1}]
    finally:
        stop_running(engine.server.files)


ENDLESS = """
import sys
from pathlib import Path
from support.sail_sessions import sail
with sail(Path(sys.argv[1])).session() as session:
    session.register("n", session.query("SELECT id AS n FROM range(30000)"))
    print("begun", flush=True)
    session.rows(sys.argv[2])
"""
STEADY = "SELECT count(*) AS v FROM range(200000000000) WHERE id % 7 = 3"
STUBBORN = "SELECT sum(a.n * b.n - c.n) AS v FROM n a CROSS JOIN n b CROSS JOIN n c"
"""A query that Sail does not cancel."""


@pytest.mark.nightly
@pytest.mark.parametrize("query", [STEADY, STUBBORN], ids=["steady", "stubborn"])
def test_the_query_of_a_client_that_dies_ends(tmp_path, query):
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", ENDLESS, str(tmp_path), query]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as client:
        assert client.stdout.readline() == "begun\n"
        record = find_running(sail(tmp_path).server.files)
        time.sleep(2)
        client.kill()
    died = time.monotonic()
    try:
        while is_busy(record.pid):
            assert time.monotonic() - died < SECONDS + 10
    finally:
        stop_running(sail(tmp_path).server.files)


def is_busy(pid: int) -> bool:
    before = cpu_seconds(pid)
    time.sleep(2)
    return cpu_seconds(pid) - before > 0.2


@pytest.mark.nightly
def test_a_session_outlives_a_pause(tmp_path):
    engine = sail(tmp_path, config={"sail.spark.session_timeout_secs": 12})
    try:
        with engine.session() as session:
            session.register("one", session.query("SELECT 1 AS v"))
            time.sleep(30)
            assert session.rows("SELECT v FROM one") == [{"v": 1}]
    finally:
        stop_running(engine.server.files)


def test_a_port_that_is_taken_is_named(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        engine = sail(tmp_path, config={"sail.port": taken.getsockname()[1]})
        with pytest.raises(RivetError, match=r"RVT-502 .*another process listens on port"):
            engine.session()


def test_a_setting_that_sail_does_not_know_is_told_by_its_log(tmp_path):
    engine = sail(tmp_path, config={"sail.mode": "nonsense"})
    with pytest.raises(RivetError, match="RVT-502 the Sail server did not start"):
        engine.session()


def test_the_session_has_the_time_zone_of_the_engine(tmp_path):
    engine = sail(tmp_path, config={"spark.sql.session.timeZone": "Asia/Tokyo"})
    share_sail(tmp_path)
    spec = engine.server
    assert replace(spec, config={}).settings == spec.settings  # the server is the one of other zones, too
    with engine.session() as session:
        assert session.rows(GeneratedStatement("SELECT current_timezone() AS z")) == [{"z": "Asia/Tokyo"}]
