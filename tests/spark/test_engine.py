"""The engine on a real Spark: reading, querying, writing."""

import datetime as dt
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.tables import refused

from rivet_dagster.catalogs.filesystem.files.footers import parquet_files, read_statistics
from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.errors import RivetError
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.model.relations import Files
from rivet_dagster.model.storage import ColumnStatistics, Projection

EVERYTHING = """
    SELECT id, CAST(id AS INT) AS small, id * 0.5D AS half, CAST(id AS DECIMAL(10, 2)) AS price, 'n' || id AS name,
           id % 2 = 0 AS even, DATE '2024-03-31' + CAST(id AS INT) AS day,
           TIMESTAMP '2024-03-31 01:30:00' + id * INTERVAL '1' HOUR AS moment,
           TIMESTAMP_NTZ '2024-01-01 00:00:00.000001' AS local, array(id, NULL) AS list,
           named_struct('a', id, 'b', map('k', id)) AS nested, CAST(NULL AS STRING) AS nothing,
           encode('x', 'utf-8') AS bin
    FROM range(5)
"""


def store(session, warehouse, sql: str, table: str = "t"):
    staged = warehouse.begin(table)
    session.write(session.query(sql), staged.target)
    return staged.commit("test")


def test_a_written_table_has_the_same_rows_for_every_reader(session, warehouse, tmp_path):
    published = store(session, warehouse, EVERYTHING)
    expected = session.to_arrow(session.query(EVERYTHING + " ORDER BY id"))
    again = session.to_arrow(session.load(warehouse.read(published), Projection(filter="id >= 0")))
    assert again.sort_by("id").to_pylist() == expected.to_pylist()

    link = tmp_path / "warehouse/t"
    arrow = pq.read_table(link).sort_by("id")
    assert arrow.to_pylist() == expected.to_pylist()
    assert arrow.schema.field("moment").type == pa.timestamp("us", "UTC")
    berlin = dt.timezone(dt.timedelta(hours=1))
    assert arrow["moment"][0].as_py() == dt.datetime(2024, 3, 31, 1, 30, tzinfo=berlin)
    found = duckdb.sql(f"SELECT epoch(moment), price, nested.b['k'] FROM '{link}/*.parquet' ORDER BY id").fetchall()
    assert found[1] == (dt.datetime(2024, 3, 31, 2, 30, tzinfo=berlin).timestamp(), Decimal("1.00"), 1)
    assert pd.read_parquet(link).sort_values("id")["name"].tolist() == [f"n{n}" for n in range(5)]

    rows, columns = published.statistics.rows, dict(published.statistics.columns)
    assert (rows, published.statistics.columns) == (5, session.columns(session.query(EVERYTHING)))
    assert columns["nested"] == "struct<a:bigint,b:map<string,bigint>>"


def test_a_schema_names_all_columns_of_a_source_including_partition_folders(session, tmp_path):
    for day in (1, 2):
        (tmp_path / f"events/day={day}").mkdir(parents=True)
        pq.write_table(pa.table({"id": [day * 10], "note": ["x"]}), tmp_path / f"events/day={day}/part.parquet")

    def read(schema: str, **projection: object) -> list[dict]:
        frame = session.load(
            Files("parquet", (str(tmp_path / "events"),), {"schema": schema}), Projection(**projection)
        )
        return session.to_arrow(frame).sort_by("id").to_pylist()

    assert read("id BIGINT") == [{"id": 10}, {"id": 20}]
    assert [list(row.items()) for row in read("day INT, id BIGINT", filter="day = 2")] == [[("day", 2), ("id", 20)]]


def test_a_limit_takes_the_first_rows_under_any_query(session, tmp_path):
    """As with joints run one by one; with its default settings Spark 4.1 returns any rows here."""
    pq.write_table(pa.table({"k": [2, 3, 1], "v": [1, 1, 1]}), tmp_path / "t.parquet")
    session.register("t", session.load(Files("parquet", (str(tmp_path / "t.parquet"),), {})))
    first = "first AS (SELECT * FROM t ORDER BY k LIMIT 1)"
    query = f"WITH {first} SELECT k, (SELECT max(v) FROM first b WHERE b.k = a.k) AS v FROM first a"
    assert session.rows(query) == [{"k": 1, "v": 1}]


def test_a_query_and_its_write_are_one_execution(session, warehouse, sql_executions):
    session.register("numbers", session.query("SELECT id FROM range(1000)"))
    sql_executions.since()
    sql = "WITH big AS (SELECT id FROM numbers WHERE id > 10) SELECT id % 7 AS k, count(*) AS n FROM big GROUP BY ALL"
    published = store(session, warehouse, sql)
    assert sql_executions.since() == 1
    assert published.statistics.rows == 7


def test_an_empty_result_is_one_file_with_columns(session, warehouse):
    published = store(session, warehouse, "SELECT id, 'x' AS x FROM range(10) WHERE id < 0")
    assert (published.statistics.rows, len(published.statistics.columns)) == (0, 2)
    assert session.to_arrow(session.load(warehouse.read(published))).num_rows == 0


def test_a_part_is_one_file_that_several_tasks_can_read(session, tmp_path):
    """A task reads whole row groups, and by default all of these rows are one."""
    frame = session.query("SELECT id, id % 300 < 1 AS part FROM range(0, 600000, 1, 2)")

    def row_groups(folder: str, part: str | None, **options: str) -> list[tuple[str, list[int]]]:
        session.write(frame, Files("parquet", (str(tmp_path / folder),), options), None, part)
        return [
            (path.parent.name, [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)])
            for path in sorted((tmp_path / folder).rglob("*.parquet"))
            for metadata in [pq.ParquetFile(path).metadata]
        ]

    limit = 2**18
    assert row_groups("parts", "part") == [("part=false", [limit, limit, 598000 - 2 * limit]), ("part=true", [2000])]
    user = {"parquet.block.row.count.limit": "400000"}
    assert row_groups("user", "part", **user) == [("part=false", [400000, 198000]), ("part=true", [2000])]
    assert row_groups("whole", None) == [("whole", [300000])] * 2


def test_a_query_planned_on_a_version_still_runs_after_the_next_publish(session, warehouse):
    first = store(session, warehouse, "SELECT 1 AS v")
    frame = session.load(warehouse.relation("t", {}))
    store(session, warehouse, "SELECT 2 AS v")
    assert session.to_arrow(frame).to_pylist() == [{"v": 1}]
    assert session.to_arrow(session.load(warehouse.relation("t", {}))).to_pylist() == [{"v": 2}]
    assert first.version < warehouse.current("t").version


def test_inline_transforms_filter_then_project_then_limit(session, raw, tmp_path):
    (tmp_path / "in.csv").write_text("id,unit price,x.y\n1,10,a\n2,20,b\n3,30,c\n")
    source = raw.relation("in.csv", {"schema": "id INT, `unit price` INT, `x.y` STRING"})
    columns = (("x.y", None), ("id", "CAST(id AS STRING) -- as text"), ("twice`d", "`unit price` * 2"))
    frame = session.load(source, Projection(columns, "id > 1 OR `unit price` > 100", 1))
    assert session.to_arrow(frame).to_pylist() == [{"x.y": "b", "id": "2", "twice`d": 40}]
    assert refused(session.load, source, Projection(columns=(("idd", None),))).code == "RVT-503"


def test_csv_columns_are_strings_by_default(session, raw, tmp_path):
    (tmp_path / "in.csv").write_text("id,on\n1,true\n")
    assert session.columns(session.load(raw.relation("in.csv", {}))) == (("id", "string"), ("on", "string"))
    inferred = raw.relation("in.csv", {"inferSchema": True})
    assert session.columns(session.load(inferred)) == (("id", "int"), ("on", "boolean"))


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("schema", ["b INT, a INT", "a INT", "a INT, b INT, c INT", "a INT, x INT"])
def test_a_csv_header_that_disagrees_with_the_schema_fails(session, raw, tmp_path, schema):
    (tmp_path / "in.csv").write_text("a,b\n1,2\n")
    error = refused(session.to_arrow, session.load(raw.relation("in.csv", {"schema": schema})))
    assert error.code == "RVT-503"
    assert "CSV header" in str(error)
    assert "in.csv" in str(error)
    assert "Correct the file" in str(error)


def test_no_column_of_a_csv_file_ever_gets_the_values_of_another(session, raw, tmp_path):
    (tmp_path / "in.csv").write_text("a,b,c\n1,2,3\n")
    for schema in ("a INT, c INT", "b INT, a INT, c INT"):
        source = raw.relation("in.csv", {"schema": schema})
        for column, value in (("a", 1), ("c", 3)):
            frame = session.load(source, Projection(((column, None),)))
            # Spark checks only the columns that a query reads, so a query on the others passes.
            with suppress(RivetError):
                assert session.to_arrow(frame).to_pylist() == [{column: value}]


def test_files_of_one_csv_source_must_have_one_header(session, raw, tmp_path):
    (tmp_path / "days").mkdir()
    (tmp_path / "days/1.csv").write_text("a,b\n1,2\n")
    (tmp_path / "days/2.csv").write_text("b,a\n2,1\n")
    assert "CSV header" in str(refused(session.to_arrow, session.load(raw.relation("days/*.csv", {}))))


@pytest.mark.parametrize("name", ["plain", "a[1]", "{b}", "c*d?", "per%20cent é", "#x"])
def test_paths_with_any_characters(session, tmp_path, name):
    target = tmp_path / name
    target.mkdir()
    session.write(session.query("SELECT 1 AS v"), Files("parquet", (str(target),), {"compression": "zstd"}))
    assert pq.read_table(target).to_pylist() == [{"v": 1}]
    assert session.to_arrow(session.load(Files("parquet", (str(target),)))).to_pylist() == [{"v": 1}]
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_the_bounds_of_written_files_are_whole_whatever_the_session_says(session, tmp_path):
    session.spark.conf.set("parquet.statistics.truncate.length", "4")
    session.write(session.query("SELECT '2026-01-31' AS day"), Files("parquet", (str(tmp_path / "out"),)))
    assert read_statistics(parquet_files(tmp_path / "out")).values["day"] == ColumnStatistics(0, *["2026-01-31"] * 2)


def test_parameters_bind_as_values(session):
    sql = "SELECT :name AS name, id FROM range(5) WHERE id >= :least"
    assert session.rows(sql, {"name": "'; DROP", "least": 4}) == [{"name": "'; DROP", "id": 4}]
    assert session.to_arrow(session.query(sql, {"name": None, "least": 4})).to_pylist() == [{"name": None, "id": 4}]
    assert session.rows("SELECT ':name' AS text") == [{"text": ":name"}]


def test_timestamps_of_rows_keep_their_instants(session):
    (row,) = session.rows("SELECT TIMESTAMP '2024-07-01 12:00:00' AS at, DATE '2024-07-01' AS day")
    assert row["at"] == dt.datetime(2024, 7, 1, 10, tzinfo=dt.UTC)
    assert row["day"] == dt.date(2024, 7, 1)


def test_views_and_settings_belong_to_one_session(engine, session):
    session.register("mine", session.query("SELECT 1 AS v"))
    other = engine.session()
    assert refused(other.query, "SELECT * FROM mine").code == "RVT-503"
    session.spark.conf.set("spark.sql.ansi.enabled", "false")
    assert other.rows("SELECT current_timezone() AS z") == [{"z": "Europe/Berlin"}]
    assert refused(other.rows, "SELECT 1/0").code == "RVT-520"
    other.close()
    assert session.rows("SELECT * FROM mine") == [{"v": 1}]
    session.close()
    assert refused(session.query, "SELECT * FROM mine").code == "RVT-503"


def test_unions_match_columns_by_name(session):
    frames = [session.query("SELECT 1 AS a, 'x' AS b"), session.query("SELECT 'y' AS b, 2L AS a")]
    union = session.union_by_name(frames)
    assert session.columns(union) == (("a", "bigint"), ("b", "string"))
    assert session.to_arrow(union).to_pylist() == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    assert refused(session.union_by_name, [*frames, session.query("SELECT 1 AS a")]).code == "RVT-503"


def test_columns_with_duplicate_names_or_without_type_are_not_stored(session, warehouse):
    target = warehouse.begin("t").target
    error = refused(session.write, session.query("SELECT 1 AS a, 2 AS A, 3 AS b"), target)
    assert error.code == "RVT-316"
    assert "called a" in str(error)
    for sql in ("SELECT 1 AS a, NULL AS x", "SELECT array() AS x", "SELECT named_struct('y', NULL) AS x"):
        assert "x: a column that is nothing but NULL" in str(refused(session.write, session.query(sql), target))
    assert list(Path(target.paths[0]).iterdir()) == []


def test_another_spark_application_in_this_process_is_an_error(session):
    lacking = {"master": "local[2]", "packages": ["a:b:1"]}
    for options in ({"master": "local[3]"}, {"remote": "sc://localhost:1/;token=SECRET"}, lacking):
        error = refused(PySparkEngine(EngineSpec("other", "pyspark", options=options)).session)
        assert error.code == "RVT-506"
        assert "SECRET" not in str(error)


def test_another_engine_on_the_same_application_has_its_own_settings(engine, session):
    options = {"master": "local[2]", "config": {"spark.sql.shuffle.partitions": 3}}
    other = PySparkEngine(EngineSpec("other", "pyspark", options=options)).session()
    assert other.spark.conf.get("spark.sql.shuffle.partitions") == "3"
    assert engine.session().spark.conf.get("spark.sql.shuffle.partitions") == "2"
    other.close()


def test_the_users_own_session_is_used(session):
    given = PySparkEngine(EngineSpec("given", "pyspark", options={"master": "local[2]"}), lambda: session.spark)
    assert given.session().rows("SELECT 1 AS v") == [{"v": 1}]


def test_a_failed_connection_has_the_reason():
    def connect():
        raise RuntimeError("no route to host")

    error = refused(PySparkEngine(EngineSpec("far", "pyspark", options={"master": "local[2]"}), connect).session)
    assert error.code == "RVT-502"
    assert "no route to host" in str(error)
