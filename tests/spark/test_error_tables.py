"""Error tables that Spark writes and reads, by the catalog and by their path."""

import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from support.error_retention import START, RunClock, retaining, write_as_before
from support.error_tables import COLUMNS, ERRORS
from support.folders import sink, source
from support.spark import WITH_CODE

from rivet_dagster.catalogs.filesystem.writes import transaction as writes
from rivet_dagster.execution.reading.sources import errors_reference
from rivet_dagster.execution.writing.row_errors import complete_errors
from rivet_dagster.model.write_plan import ReplaceAll

NEW = """
SELECT 'orders' AS joint, 'DIVIDE_BY_ZERO' AS code, '1 / n' AS expression, 'joints/orders.sql' AS file, 3 AS line,
  'Division by zero.' AS message, '0' AS row, CAST(NULL AS STRING) AS key, 'run' AS run_id, '{}' AS version,
  TIMESTAMP '2026-01-01' AS found_at
"""


def test_plain_spark_reads_the_errors_of_the_published_version(quick_session, warehouse, tmp_path):
    spark = quick_session.spark
    for number in (1, 2):
        with warehouse.begin("orders", quick_session) as transaction:
            transaction.write(ReplaceAll(), quick_session.query(f"SELECT {number} AS id"))
            stored = transaction.write_errors(ERRORS, quick_session.query(NEW.format(transaction.version)))
            assert stored.statistics.rows == 1
            published = transaction.commit(str(number))
        rows = spark.read.parquet(str(tmp_path / "warehouse/orders")).collect()
        errors = spark.read.parquet(str(tmp_path / "warehouse" / ERRORS))
        assert (rows, [row.version for row in errors.collect()]) == ([(number,)], [published.version])
        assert errors.columns == list(COLUMNS)
        types = {"line": "int", "found_at": "timestamp"}
        assert dict(errors.dtypes) == {name: types.get(name, "string") for name in COLUMNS}
    loaded = quick_session.load(warehouse.relation(ERRORS, {}))
    assert [row.version for row in loaded.collect()] == [published.version]


@pytest.mark.parametrize("code", ["IF(id = 7, NULL, 'DIVIDE_BY_ZERO')", "'DIVIDE_BY_ZERO'"], ids=["of many", "of one"])
def test_the_query_of_errors_is_compiled_once_for_all_runs(session, code):
    """Although each run has a time and an id of its own, which all of its errors have.

    The code of the only place that can fail is a constant.
    """
    for name, value in WITH_CODE.items():
        session.spark.conf.set(name, value)
    compiled = session.spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    rows = f"SELECT 'orders' AS joint, {code} AS code, '1 / n' AS expression, 'a.sql' AS file, 3 AS line, "
    rows += "'Division by zero.' AS message, CAST(id AS STRING) AS row, CAST(NULL AS STRING) AS key FROM range(9)"
    counts = []
    for number in range(2):
        started = START + timedelta(days=number)
        run = SimpleNamespace(session=session, identity=f"run {number}/out", started=started)
        before = compiled.getCount()
        found = complete_errors(run, session.query(rows), str(number)).collect()
        counts.append(compiled.getCount() - before)
        told = {(row.run_id, row.version, row.found_at.astimezone(UTC)) for row in found}
        assert (len(found), told) == (9, {(f"run {number}", str(number), started)})
    assert counts[0] > counts[1] == 0


@pytest.mark.nightly
def test_appended_errors_share_the_files_of_the_earlier_ones(project, monkeypatch):
    casts = {"columns": [{"id": "CAST(id AS INT)"}], "options": {"landing": True}}
    folder = project({
        "sources/zone.yaml": source("zone", "id STRING", **casts),
        "sinks/out.yaml": sink("out", "zone", write_strategy="append", on_error="quarantine"),
    })  # fmt: skip
    errors = folder.root / "lake/out__errors"

    def run(name: str, text: str) -> tuple[set[int], list[str], int, int]:
        folder.write({f"data/zone/{name}.csv": text})
        result = folder.run("out")
        found = [row["row"] for row in folder.rows("out__errors")]
        return (
            {path.stat().st_ino for path in errors.iterdir()},
            sorted(found),
            result.errors.count,
            result.errors.total,
        )

    first, *told = run("a", "id\n1\nx\ny\n")
    assert told == [['{"id":"x"}', '{"id":"y"}'], 2, 2]
    second, *told = run("b", "id\nz\n")
    assert told == [['{"id":"x"}', '{"id":"y"}', '{"id":"z"}'], 1, 3]
    third, *told = run("c", "id\n3\n")
    assert (first < second <= third, told[1:]) == (True, [0, 3])
    monkeypatch.setattr(writes, "MOST_SHARED", 1)
    last, *told = run("d", "id\nx\n")
    assert (last & third, told[1:]) == (set(), [1, 4])
    assert [row["id"] for row in folder.rows("out")] == [1, 3]


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("strategy", ["append", {"mode": "merge", "key_columns": ["id"]}], ids=["append", "merge"])
def test_old_errors_are_removed_and_younger_ones_shared(project, monkeypatch, strategy):
    """Those of an earlier release, which lack the time, stay, and are written again once, with it.

    A merge writes all of them again in each run.
    """
    folder, clock = project(retaining(strategy, "2d")), RunClock(monkeypatch)
    errors = folder.root / "lake/out__errors"

    def run(name: str, day: int) -> tuple[set[int], dict[str, datetime | None]]:
        clock.now = START + timedelta(days=day)
        folder.write({f"data/zone/{name}.csv": f"id\n1\n{name}\n"})
        folder.run("out")
        found = {json.loads(row["row"])["id"]: row.get("found_at") for row in folder.rows("out__errors")}
        return {path.stat().st_ino for path in errors.iterdir()}, found

    with monkeypatch.context() as earlier:
        write_as_before(earlier)
        old, found = run("old", 0)
    assert (found, "found_at" in pq.read_schema(next(errors.iterdir())).names) == ({"old": None}, False)
    assert errors_reference(folder.runtime, "out").to_arrow()["found_at"].to_pylist() == [None]
    rewritten, found = run("a", 0)
    assert (old & rewritten, found) == (set(), {"old": None, "a": START})
    shared, found = run("b", 2)
    assert (rewritten < shared, found["b"]) == (strategy == "append", START + timedelta(days=2))
    fewer, found = run("c", 3)
    assert (fewer & shared, [*found]) == (set(), ["b", "c", "old"])
    last, found = run("d", 4)
    assert (last > fewer, [*found]) == (strategy == "append", ["b", "c", "d", "old"])
    assert max(errors_reference(folder.runtime, "out").to_arrow()["found_at"].drop_null().to_pylist()) == clock.now


def test_long_messages_and_rows_are_cut_and_keys_are_not(project):
    """Of expressions that fail, and of records that could not be parsed."""
    key, text = "k" * 70_000, "é" * 70_000
    folder = project({
        "data/raw.csv": f"id,text,k\n{key},{text},1\nb,x,2\nc,y,{text}\n",
        "sources/raw.yaml": source("raw.csv", "id STRING, text STRING, k INT"),
        "joints/numbers.sql": "SELECT id, CAST(text AS INT) AS n FROM raw",
        "sinks/out.yaml": sink(
            "out", "numbers", on_error="quarantine", write_strategy={"mode": "merge", "key_columns": ["id"]}
        ),
    })  # fmt: skip
    errors = folder.run("out").errors
    record, long, short = sorted(folder.rows("out__errors"), key=lambda row: (row["key"] is not None, -len(row["row"])))
    assert (short["row"], short["key"]) == ('{"id":"b","text":"x","k":2}', '{"id":"b"}')
    assert short["message"].endswith("cannot be cast to INT.")
    assert long["row"] == f'{{"id":"{key}'[:65_536] + "..."
    assert long["message"] == f"The value '{text}"[:1_000] + "..."
    assert json.loads(long["key"]) == {"id": key}
    assert (record["code"], len(record["row"]), record["row"][-4:]) == ("MALFORMED_RECORD", 65_539, "é...")
    samples = {sample.get("row", sample.get("id")) for site in errors.sites for sample in site.samples}
    assert samples == {long["row"], record["row"], "b"}
