"""A Spark Connect server on this machine, and the conformance suite on it.

The suite runs in a separate process, since a process that runs Spark itself cannot be a client.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest

from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.engines.pyspark.java import find_java, prepare_java
from rivet_dagster.engines.pyspark.relations import arrow_rows
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.model.relations import ArrowRows, CatalogTable, JdbcTable
from rivet_dagster.testing.engine import EngineConformance
from support.class_archive import java_options
from support.slow import sleeping
from support.spark import MASTER, REMOTE, settings

_SECONDS = 120


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """Yield the address of a server that ends with the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = {
        **settings(folder),
        "spark.driver.extraJavaOptions": java_options(),
        "spark.connect.grpc.binding.port": port,
        "spark.connect.grpc.binding.address": "127.0.0.1",
    }
    command = [f"{Path(pyspark.__file__).parent}/bin/spark-submit", "--master", MASTER]
    for key, value in config.items():
        command += ["--conf", f"{key}={str(value).lower() if isinstance(value, bool) else value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    environ = dict(os.environ)
    prepare_java(find_java(environ), environ)
    log = folder / "server.log"
    with log.open("w") as output:
        server = subprocess.Popen(
            command, cwd=folder, env=environ, stdout=output, stderr=output, start_new_session=True
        )
    try:
        _wait_for(port, server, log)
        yield f"sc://localhost:{port}"
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.5)
    raise AssertionError(f"no server: {log.read_text()[-2000:]}")


class TestConnect(EngineConformance):
    endless = f"SELECT count(slept) AS v FROM (SELECT {sleeping('200L + n')} AS slept FROM numbers)"

    @pytest.fixture(autouse=True)
    def running(self):
        """Yield a session that creates tables."""
        with self.new_engine().session() as session:
            self.spark = session.spark
            yield

    def new_engine(self, check_interrupt=None):
        return PySparkEngine(
            EngineSpec("spark", "pyspark", options={"remote": os.environ[REMOTE]}), None, check_interrupt
        )

    def relation_of(self, kind, rows, folder):
        if kind in (CatalogTable, JdbcTable):
            target = self.target_of(kind, rows, folder)
            with self.new_engine().session() as session:
                session.write(session.from_value(rows), target)
            return target
        return super().relation_of(kind, rows, folder)

    def target_of(self, kind, rows, folder):
        name = f"t{uuid.uuid4().hex}"
        if kind is CatalogTable:
            self.spark.createDataFrame([], "id BIGINT, name STRING").write.saveAsTable(name)
            return CatalogTable(("spark_catalog", "default", name))
        if kind is JdbcTable:
            return JdbcTable(f"jdbc:derby:memory:{name};create=true", name)
        return super().target_of(kind, rows, folder)

    def test_many_rows_are_sent_to_the_server_in_chunks(self, session, monkeypatch):
        """Each chunk is a view on the server, and no local copy remains."""
        monkeypatch.setattr(arrow_rows, "CHUNK", 1)
        rows = pa.table({"id": range(5), "at": pa.array([0] * 5, pa.timestamp("us"))})
        frame = session.load(ArrowRows(rows.schema, lambda: rows.to_reader(max_chunksize=2)))
        assert session.columns(frame) == (("id", "bigint"), ("at", "timestamp_ntz"))
        assert session.to_arrow(frame).sort_by("id").equals(rows)
