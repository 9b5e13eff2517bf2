"""What sessions of the engine ``duckdb`` promise beyond the conformance suite."""

import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rivet_dagster.engines.contract import Typed
from rivet_dagster.engines.duckdb import DuckDBEngine, installed
from rivet_dagster.engines.duckdb.config import wrong_options
from rivet_dagster.errors import RivetError
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.model.relations import Files
from rivet_dagster.sql.generated_statements import GeneratedStatement

MANY = "SELECT range AS id, md5(CAST(range AS VARCHAR)) || md5(CAST(range * 7 AS VARCHAR)) AS t FROM range({})"


def engine(**options) -> DuckDBEngine:
    return DuckDBEngine(EngineSpec("duck", "duckdb", options={"threads": 1, **options}))


@pytest.fixture
def session():
    with engine().session() as session:
        yield session


def target(tmp_path) -> Files:
    (tmp_path / "target").mkdir()
    return Files("parquet", (str(tmp_path / "target"),))


def test_its_own_sql_goes_there_as_it_is(session):
    session.register("orders", session.from_value(pa.table({"id": [1, 2, 3]})))
    sql = "FROM Orders\nSELECT list(id ORDER BY id DESC) AS ids, '$low' AS text\nWHERE id >= $low"
    frame = session.query_in("duckdb", sql, {"low": Typed(2, "bigint")})
    assert session.columns(frame) == (("ids", "array<bigint>"), ("text", "string"))
    assert session.to_arrow(frame).to_pylist() == [{"ids": [3, 2], "text": "$low"}]
    with pytest.raises(RivetError, match="RVT-503") as caught:
        session.query_in("duckdb", "SELECT id\nFROM orders\nWHERE lacking > 1")
    assert caught.value.diagnostics[0].line == 3
    with pytest.raises(RivetError, match="RVT-503 the query has a parameter :low"):
        session.query_in("duckdb", sql)


def test_the_plan_is_that_of_the_write_without_values_of_rows(session, tmp_path):
    pq.write_table(pa.table({"id": list(range(5000)), "v": ["x"] * 5000}), tmp_path / "many.parquet")
    pq.write_table(pa.table({"id": [4711, 4712], "kind": ["a", "b"]}), tmp_path / "few.parquet")
    for name in ("many", "few"):
        session.register(name, session.load(Files("parquet", (str(tmp_path / f"{name}.parquet"),))))
    frame = session.query("SELECT many.id FROM many JOIN few ON many.id = few.id WHERE kind = 'a'")
    plan = session.explain(frame)
    assert "Hash Join" in plan().text  # what DuckDB means to do
    plan = session.explain(frame)
    session.write(frame, target(tmp_path))
    lines = plan().text.splitlines()
    (join,) = (line for line in lines if "HASH_JOIN" in line)
    assert join.endswith("rows: 1")
    assert "4711" not in plan().text  # DuckDB makes a filter of the rows, or the bounds, of the other table


def test_names_of_columns_and_of_views(session):
    rows = session.from_value(pa.table({"a": [1]}))
    session.register('odd "name"', rows)
    for names in (("a", "a_1"), ("a", "A"), ("a", "a", "a_1")):
        items = ", ".join(f'a AS "{name}"' for name in names)
        frame = session.query_in("duckdb", f'SELECT {items} FROM "odd ""name"""')
        assert tuple(name for name, _ in session.columns(frame)) == names
    session.register('odd "name"', session.from_value(pa.table({"a": [2]})))
    again = session.query_in("duckdb", 'SELECT a FROM "odd ""name"""')
    assert session.to_arrow(again).to_pylist() == [{"a": 2}]


def test_types_that_tables_do_not_have_are_stored_as_the_nearest(session, tmp_path):
    frame = session.query_in("duckdb", "SELECT 2::HUGEINT h, 3::UINTEGER u, 'a'::ENUM('a') e, "
                             "TIMESTAMP_S '2024-01-01' s, [1::UTINYINT] l, uuid '{}' i".format("1" * 32))  # fmt: skip
    assert [kind for _, kind in session.columns(frame)] == [
        "decimal(38,0)", "bigint", "string", "timestamp_ntz", "array<smallint>", "string",
    ]  # fmt: skip
    session.write(frame, target(tmp_path))
    (row,) = pq.read_table(tmp_path / "target").to_pylist()
    assert (row["h"], row["u"], row["e"], row["l"]) == (Decimal(2), 3, "a", [1])
    with pytest.raises(RivetError, match="RVT-503 the column d is of DuckDB's type INTERVAL"):
        session.query_in("duckdb", "SELECT INTERVAL 1 DAY AS d")


def test_columns_that_no_table_can_have_are_refused(session, tmp_path):
    with pytest.raises(RivetError, match="RVT-316 several columns are called a"):
        session.write(session.query_in("duckdb", "SELECT 1 AS a, 2 AS A"), target(tmp_path))
    for value in (session.query_in("duckdb", "SELECT NULL AS n"), session.from_value(pa.table({"n": pa.nulls(1)}))):
        assert session.columns(value) == (("n", "void"),)
        with pytest.raises(RivetError, match="RVT-503 n: a column that is nothing but NULL"):
            session.write(value, Files("parquet", (str(tmp_path / "target"),)))
    assert not list((tmp_path / "target").iterdir())


def test_batches_are_read_while_other_queries_run(session):
    session.register("numbers", session.query_in("duckdb", MANY.format(300_000)))
    frame = session.query("SELECT id FROM numbers WHERE id >= :low", {"low": 10})
    reader = session.batches(frame)
    first = next(iter(reader))
    assert session.rows("SELECT count(*) AS n FROM numbers") == [{"n": 300_000}]
    assert first.num_rows + sum(batch.num_rows for batch in reader) == 299_990


def test_an_error_of_arrow_rows_is_their_own(session):
    def batches():
        yield pa.record_batch({"id": [1]})
        raise RivetError("RVT-401", "the rows are gone")

    with pytest.raises(RivetError, match="RVT-401 the rows are gone"):
        session.from_value(pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), batches()))
    assert session.rows("SELECT 1 AS v") == [{"v": 1}]


@pytest.mark.slow
def test_a_write_is_interrupted_within_a_second_and_reports_progress(tmp_path):
    started, reported = [], []

    def check() -> None:
        if started and time.monotonic() - started[0] > 3:
            raise KeyboardInterrupt

    duck = DuckDBEngine(EngineSpec("duck", "duckdb", options={"threads": 1}), check_interrupt=check)
    with duck.session() as session:
        frame = session.query_in("duckdb", f"SELECT * FROM ({MANY.format(10**9)}) ORDER BY t")
        started.append(time.monotonic())
        with pytest.raises(KeyboardInterrupt):
            session.write(frame, target(tmp_path), reported.append)
        assert time.monotonic() - started[0] < 6
        started.clear()
        percents = [progress.percent for progress in reported]
        assert percents == sorted(percents)
        assert session.query_in("duckdb", "SELECT 1 AS v") is not None


def test_the_compression_is_chosen_and_other_options_are_refused(session, tmp_path):
    frame = session.query("SELECT 1 AS id")
    folder = target(tmp_path)
    session.write(frame, Files("parquet", folder.paths, {"compression": "zstd"}))
    (path,) = Path(folder.paths[0]).iterdir()
    assert pq.read_metadata(path).row_group(0).column(0).compression == "ZSTD"
    for options in ({"compression": "lzo"}, {"parquet.block.size": "1"}):
        with pytest.raises(RivetError, match="RVT-204"):
            session.write(frame, Files("parquet", folder.paths, options))


SPILL = """
import resource, sys
from pathlib import Path
from rivet_dagster.engines.duckdb import DuckDBEngine
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.model.relations import Files
from rivet_dagster.sql.generated_statements import GeneratedStatement
options = {"memory_limit": "1GB", "threads": 2, "temp_directory": sys.argv[1] + "/spilled"}
engine = DuckDBEngine(EngineSpec("duck", "duckdb", options=options))
with engine.session() as session:
    rows = "SELECT range AS id, repeat(md5(CAST(range AS VARCHAR)), 12) AS t FROM range(5000000)"
    frame = session.query_in("duckdb", f"SELECT * FROM ({rows}) ORDER BY t")
    session.write(frame, Files("parquet", (sys.argv[1] + "/t",)))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.mark.nightly
def test_rows_that_do_not_fit_into_memory_are_spilled(tmp_path):
    """5,000,000 rows of 400 bytes are 2 GB."""
    (tmp_path / "t").mkdir()
    run = subprocess.run([sys.executable, "-c", SPILL, str(tmp_path)], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) < 1600
    files = sorted((tmp_path / "t").iterdir())
    assert len(files) > 1
    assert sum(pq.read_metadata(file).num_rows for file in files) == 5_000_000
    assert not (tmp_path / "spilled").exists()


@pytest.mark.parametrize(
    ("options", "key", "told"),
    [
        ({"memory_limit": "much"}, "memory_limit", "must be an amount like 4GB"),
        ({"threads": 0}, "threads", "must be a whole number"),
        ({"dialect": "postgres"}, "dialect", "must be one of spark, duckdb"),
        ({"config": ["TimeZone"]}, "config", "must be a mapping"),
        ({"config": {"threads": 3}}, "config", "write `threads` beside `config`"),
        ({"config": {"default_null_order": "nulls_first"}}, "config", "another meaning"),
        ({"config": {"a b": 1}}, "config", "is no name of a setting"),
    ],
)
def test_wrong_options_are_told(options, key, told):
    assert told in wrong_options(options)[key]
    with pytest.raises(RivetError, match="RVT-10"):
        engine(**options)


def test_settings_hold_for_each_session(tmp_path):
    with engine(config={"TimeZone": "Asia/Tokyo", "max_temp_directory_size": "1GB"}).session() as session:
        reader = session.batches(session.query_in("duckdb", "SELECT current_setting('TimeZone') AS zone"))
        assert reader.read_all()["zone"].to_pylist() == ["Asia/Tokyo"]
    with pytest.raises(RivetError, match="RVT-502 DuckDB cannot start"):
        engine(config={"no_such_setting": 1}).session()


def test_doctor_tells_what_is_missing(monkeypatch, tmp_path):
    duck = engine()
    duck.root = tmp_path
    assert [finding.status for finding in duck.examine()] == ["ok", "ok"]
    assert f"duckdb {duckdb.__version__}" in next(iter(duck.examine())).text
    monkeypatch.setattr(installed, "duckdb_version", lambda: "1.4.0")
    monkeypatch.setattr("rivet_dagster.engines.duckdb.examining.duckdb_version", lambda: "1.4.0")
    (found,) = duck.examine()
    assert (found.status, found.code) == ("fail", "RVT-123")
    assert "duckdb 1.4.0 is installed" in found.text
    assert found.remedy == "pip install 'rivet_dagster[duckdb]'"
    monkeypatch.setattr(installed, "duckdb_version", lambda: None)
    with pytest.raises(RivetError, match="RVT-123 the package duckdb is not installed"):
        duck.session()


def test_what_is_no_query_is_no_construct_that_is_not_proven(session):
    session.register("orders", session.from_value(pa.table({"id": [1]})))
    for text in ("SELECT id\nFROM orders WHERE (id > 1", "SELECT id\nFROM orders\nWHERE"):
        with pytest.raises(RivetError, match="RVT-503 the query "):
            session.query(text)
    with pytest.raises(RivetError, match="RVT-503") as caught:
        session.query("SELECT hash(id) AS h, lacking FROM orders")
    assert "lacking" in str(caught.value)
    with pytest.raises(RivetError, match=r"RVT-329 hash\(\)"):
        session.query("SELECT hash(id) AS h FROM orders")


def bound(session, monkeypatch) -> list[str]:
    """Return a list to which each query is added that DuckDB binds for its columns."""
    found, columns_of = [], type(session)._columns_of
    monkeypatch.setattr(
        type(session), "_columns_of", lambda self, query, text: found.append(text) or columns_of(self, query, text)
    )
    return found


def columns_in_new_session(duck: DuckDBEngine, path: Path, sql: str, parameters=None) -> tuple[tuple[str, str], ...]:
    with duck.session() as session:
        session.register("t", session.load(Files("parquet", (str(path),))))
        frame = session.query(sql, parameters)
        columns = session.columns(frame)
        assert session.to_arrow(frame).schema.names == [name for name, _ in columns]
    return columns


def test_a_query_of_the_same_columns_is_bound_once_by_all_sessions(session, tmp_path, monkeypatch):
    for name, values in (("one", [1]), ("two", [2])):
        pq.write_table(pa.table({"a": values}), tmp_path / f"{name}.parquet")
    found, duck = bound(session, monkeypatch), engine()
    sql = "SELECT a + 1 AS b FROM (SELECT a FROM t) AS t"
    first = columns_in_new_session(duck, tmp_path / "one.parquet", sql)
    assert first == columns_in_new_session(duck, tmp_path / "two.parquet", sql) == (("b", "bigint"),)
    assert len(found) == 1
    columns_in_new_session(engine(), tmp_path / "one.parquet", sql)  # another database may have other settings
    assert len(found) == 2


def test_a_query_of_other_columns_is_bound_again(tmp_path):
    duck, file = engine(), tmp_path / "t.parquet"
    for kind in (pa.int32(), pa.int64(), pa.string()):
        pq.write_table(pa.table({"a": pa.array([None], kind)}), file)
        given = {pa.int32(): "int", pa.int64(): "bigint", pa.string(): "string"}[kind]
        assert columns_in_new_session(duck, file, "SELECT a FROM t") == (("a", given),)


def test_a_query_with_parameters_is_bound_each_time(session, tmp_path, monkeypatch):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "t.parquet")
    found, duck = bound(session, monkeypatch), engine()
    for value, kind in ((1, "int"), ("x", "string"), (1, "int")):
        columns = columns_in_new_session(duck, tmp_path / "t.parquet", "SELECT :v AS v FROM t", {"v": value})
        assert columns == (("v", kind),)
    assert len(found) == 3
    assert not duck._database._found  # its text names variables of one session


def test_a_query_of_repeated_names_is_bound_each_time(session, monkeypatch):
    """Columns of the same name cannot be cast to the types that they are said to have."""
    found, duck = bound(session, monkeypatch), engine()
    for kind in ("UTINYINT", "SMALLINT"):  # which are one type to Spark
        with duck.session() as opened:
            opened.register("t", opened.query_in("duckdb", f"SELECT CAST(1 AS {kind}) AS a, 2 AS b, 3 AS b"))
            opened.query(GeneratedStatement("SELECT a FROM t"))
    assert len(found) == 4


def test_what_duckdbs_own_sql_reads_is_bound_each_time(tmp_path):
    """Only it knows the files that it names."""
    duck, file = engine(), tmp_path / "t.parquet"
    for kind, given in ((pa.int32(), "int"), (pa.string(), "string")):
        pq.write_table(pa.table({"a": pa.array([None], kind)}), file)
        with duck.session() as session:
            session.register("t", session.query_in("duckdb", f"SELECT * FROM '{file}'"))
            assert session.columns(session.query("SELECT * FROM t")) == (("a", given),)
