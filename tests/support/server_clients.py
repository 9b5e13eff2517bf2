"""Clients of a project's Spark server, each run as a process of its own: ``python server_clients.py ROLE PROJECT``.

A client prints one line of JSON for each thing that it has seen, and reads a line before it goes on.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from rivet_dagster import compile_directory
from rivet_dagster.engines.pyspark import PySparkEngine, spark_home
from rivet_dagster.engines.pyspark.relations import arrow_rows
from rivet_dagster.engines.pyspark.server.record import find_running
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.model.relations import ArrowRows
from support.slow import sleeping

# Its tasks sleep, since two that compute would take all of the machine from other tests.
ENDLESS = f"SELECT count(slept) AS n FROM (SELECT {sleeping('100L + id % 7')} AS slept FROM range(0, 1000000, 1, 2))"
ROWS = 3_000_000
MANY = f"SELECT id, repeat('x', 50) AS text FROM range({ROWS})"


def tell(**seen: Any) -> None:
    print(json.dumps(seen), flush=True)


def wait() -> None:
    sys.stdin.readline()


def refused(engine: PySparkEngine) -> str:
    try:
        engine.session().close()
    except RivetError as error:
        return str(error)
    return "connected"


def owner(engine: PySparkEngine) -> None:
    """Have a view and a setting, as long as another client looks for them."""
    with engine.session() as session:
        session.spark.sql("CREATE TEMPORARY VIEW private AS SELECT 1 AS v")
        session.spark.conf.set("spark.sql.shuffle.partitions", "77")
        tell(rows=session.rows("SELECT v + 1 AS v FROM private"))
        wait()
        tell(rows=session.rows("SELECT v + 1 AS v FROM private"))


def stranger(engine: PySparkEngine) -> None:
    """Look for what another client has, and come without its token."""
    record = find_running(engine.server.files)
    seen: dict[str, Any] = {"pid": record.pid}
    with engine.session() as session:
        try:
            seen["view"] = session.rows("SELECT * FROM private")
        except RivetError as error:
            seen["view"] = error.code
        for key in ("shuffle.partitions", "warehouse.dir", "session.timeZone"):
            seen[key] = session.spark.conf.get(f"spark.sql.{key}")
        seen["name"] = session.spark.conf.get("spark.app.name")
        seen["local files"] = session._adapter.sees_local_files
        # More than is sent at once, so that they are passed in a file.
        arrow_rows.CHUNK = 1
        rows = pa.table({"id": range(5)})
        session.register("many", session.load(ArrowRows(rows.schema, lambda: rows.to_reader(max_chunksize=2))))
        seen["rows"] = session.rows("SELECT count(*) AS n, sum(id) AS total FROM many")
    for name, parameters in {"wrong token": "/;token=guessed", "no token": ""}.items():
        other = EngineSpec("other", "pyspark", options={"remote": record.address + parameters})
        seen[name] = refused(PySparkEngine(other))
    spark_home.spark_version = lambda: "4.99.0"
    newer = EngineSpec("newer", "pyspark", options={"remote": record.remote})
    seen["newer client"] = refused(PySparkEngine(newer))
    tell(**seen)


def forgetful(engine: PySparkEngine) -> None:
    """Begin sessions that nothing closes."""
    sessions = [engine.session() for _ in range(3)]
    tell(rows=[session.rows("SELECT 1 AS v") for session in sessions])
    sys.sessions = sessions  # longer than all that Python collects


def endless(engine: PySparkEngine) -> None:
    """Run a query without an end."""
    with engine.session() as session:
        tell(pid=find_running(engine.server.files).pid)
        session.rows(ENDLESS)


def slow(engine: PySparkEngine) -> None:
    """Read many rows, with a pause after the first."""
    with engine.session() as session:
        batches = session.batches(session.query(MANY))
        count = batches.read_next_batch().num_rows
        tell(rows=count)
        wait()
        tell(rows=count + sum(batch.num_rows for batch in batches))


if __name__ == "__main__":
    role, root = sys.argv[1], Path(sys.argv[2])
    engine = Runtime(compile_directory(root).raise_errors(), root).default_engine
    assert isinstance(engine, PySparkEngine)
    globals()[role](engine)
