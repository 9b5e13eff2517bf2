"""Sessions of the engines ``polars`` and ``arrow``: types, files, checks, interrupts, and what they refuse."""

import datetime as dt
import random
import time
from decimal import Decimal
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.stored_types import NOON, TABLE

from rivet_dagster.checks.contract import kind_of
from rivet_dagster.engines.arrow import ArrowEngine
from rivet_dagster.engines.arrow import files as arrow_files
from rivet_dagster.engines.duckdb import DuckDBEngine
from rivet_dagster.engines.polars import PolarsEngine, engine
from rivet_dagster.errors import RivetError
from rivet_dagster.model.check import Check
from rivet_dagster.model.check_plan import ByQuery, one_pass
from rivet_dagster.model.finding import OK
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.model.relations import ArrowRows, Files

ENGINES = {"polars": PolarsEngine, "arrow": ArrowEngine, "duckdb": DuckDBEngine}


def open_session(type_, tmp_path, check_interrupt=None):
    options = {"config": {"TimeZone": "UTC"}} if type_ == "duckdb" else {}
    made = ENGINES[type_](EngineSpec("e", type_, options=options), check_interrupt=check_interrupt)
    made.root = tmp_path
    return made.session()


@pytest.fixture(params=["polars", "arrow"])
def session(request, tmp_path):
    with open_session(request.param, tmp_path) as opened:
        yield opened


@pytest.fixture
def polars(tmp_path):
    with open_session("polars", tmp_path) as opened:
        yield opened


@pytest.fixture
def duck(tmp_path):
    with open_session("duckdb", tmp_path) as opened:
        yield opened


def folder(tmp_path: Path, name: str, **options) -> Files:
    (tmp_path / name).mkdir()
    return Files("parquet", (str(tmp_path / name),), options)


def rows(session, relation) -> list[str]:
    return [repr(row) for row in session.to_arrow(session.load(relation)).to_pylist()]


def refused(code, action, *arguments):
    with pytest.raises(RivetError) as caught:
        action(*arguments)
    assert caught.value.code == code
    return str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["snappy", "zstd", "lz4_raw", "none"])
def test_all_types_go_both_ways(session, duck, tmp_path, codec):
    mine, theirs = folder(tmp_path, "mine", compression=codec), folder(tmp_path, "theirs")
    session.write(session.from_value(TABLE), mine)
    duck.write(duck.load(ArrowRows(TABLE.schema, TABLE.to_reader)), theirs)
    assert session.columns(session.load(theirs)) == duck.columns(duck.load(mine))
    assert session.columns(session.from_value(TABLE)) == duck.columns(duck.load(theirs))
    assert session.schema(session.load(mine)) == duck.schema(duck.load(theirs))
    assert rows(session, theirs) == rows(duck, mine) == rows(session, mine) == rows(duck, theirs)


def test_a_lazy_frame_is_passed_on_with_spark_types(polars, tmp_path):
    moment = pl.Series([NOON])
    given = pl.LazyFrame({
        "u8": pl.Series([255], dtype=pl.UInt8),
        "u64": pl.Series([2**64 - 1], dtype=pl.UInt64),
        "kind": pl.Series(["x"], dtype=pl.Categorical),
        "state": pl.Series(["new"], dtype=pl.Enum(["new"])),
        "inner": pl.Series([[1, 2]], dtype=pl.List(pl.UInt16)),
        "berlin": moment.dt.replace_time_zone("Europe/Berlin"),
        "ms": moment.dt.cast_time_unit("ms"),
    })  # fmt: skip
    frame = polars.from_value(given)
    assert isinstance(frame, pl.LazyFrame)
    assert polars.columns(frame) == (
        ("u8", "smallint"),
        ("u64", "decimal(20,0)"),
        ("kind", "string"),
        ("state", "string"),
        ("inner", "array<int>"),
        ("berlin", "timestamp"),
        ("ms", "timestamp_ntz"),
    )
    target = folder(tmp_path, "t")
    polars.write(frame, target)
    (row,) = polars.to_arrow(polars.load(target)).to_pylist()
    assert (row["u8"], row["u64"], row["kind"], row["inner"]) == (255, Decimal(2**64 - 1), "x", [1, 2])
    assert row["berlin"] == NOON.replace(tzinfo=dt.UTC) - dt.timedelta(hours=2)
    assert row["ms"] == NOON.replace(microsecond=123000)


@pytest.mark.parametrize("kind", [pl.Time, pl.Duration, pl.Datetime("ns"), pl.Int128, pl.List(pl.Time)], ids=str)
def test_what_spark_has_no_type_for_is_refused_by_the_name_of_its_column(polars, kind):
    lazy = pl.LazyFrame({"fine": [], "odd": []}, schema={"fine": pl.Int8, "odd": kind})
    assert "the column odd is of Polars' type" in refused("RVT-503", polars.from_value, lazy)
    polars.register("t", lazy)
    assert "the column odd" in refused("RVT-503", polars.query_in, "polars", "SELECT * FROM t")


def test_arrow_refuses_them_too(session):
    odd = pa.table({"odd": pa.array([1], pa.time64("us"))})
    assert "the column odd is of" in refused("RVT-503", session.from_value, odd)


@pytest.mark.nightly(but=3)
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_checks_count_what_they_count_on_duckdb(session, duck, seed):
    """The queries of checks, on random rows with NULL, -0.0 and repeated keys."""
    chosen = random.Random(seed)
    size = chosen.choice([0, 1, 200])
    table = pa.table({
        "id": pa.array([chosen.choice([None, *range(50)]) for _ in range(size)], pa.int32()),
        "state": pa.array([chosen.choice([None, "new", "paid", "late", ""]) for _ in range(size)], pa.string()),
        "net": pa.array([chosen.choice([None, 0.0, -0.0, 1.5, 2.0]) for _ in range(size)], pa.float64()),
        "yes": pa.array([chosen.choice([None, True, False]) for _ in range(size)], pa.bool_()),
    })  # fmt: skip
    wanted = [
        ("not_null", {"columns": ("ID", "state")}),
        ("unique", {"columns": ("id",)}),
        ("unique", {"columns": ("id", "state")}),
        ("row_count", {"min": 100, "max": 150}),
        ("row_count", {"min": 1}),
        ("accepted_values", {"column": "state", "values": ("new", "paid")}),
        ("accepted_values", {"column": "id", "values": (1, 2, 3)}),
        ("accepted_values", {"column": "net", "values": (0.0, 1.5)}),
        ("accepted_values", {"column": "yes", "values": (True,)}),
    ]
    for each in (session, duck):
        each.register("orders", each.from_value(table))
    for kind, options in wanted:
        check = kind_of(Check(kind=kind, name="c", phase="audit", options=options))
        counting = check.counting("orders", 0)
        query = counting.query if isinstance(counting, ByQuery) else one_pass("`orders`", [counting])
        mine, theirs = (each.rows(query.sql, query.parameters) for each in (session, duck))
        assert mine == theirs, (kind, options)
        samples = check.samples("orders", 1000)
        if samples is not None:
            mine, theirs = (each.rows(samples.sql, samples.parameters) for each in (session, duck))
            assert sorted(map(str, mine)) == sorted(map(str, theirs)), (kind, options)


def test_equal_doubles_are_one_key_as_on_spark(session):
    numbers = pa.table({"net": [0.0, -0.0, float("nan"), float("nan"), None, None, 1.5]})
    session.register("t", session.from_value(numbers))
    counting = kind_of(Check(kind="unique", name="c", phase="audit", options={"columns": ("net",)})).counting("t", 0)
    assert session.rows(counting.query.sql) == [{"violations": 2}]


def test_fields_are_checked_too(session):
    places = pa.array([{"X": 1}, {"X": None}, None, {"X": 1}, {"X": 1}], pa.struct([("X", pa.int64())]))
    session.register("t", session.from_value(pa.table({"place": places})))
    counted = []
    for kind in ("not_null", "unique"):
        check = kind_of(Check(kind=kind, name="c", phase="audit", options={"columns": ("place.x",)}))
        counting = check.counting("t", 0)
        query = counting.query if isinstance(counting, ByQuery) else one_pass("`t`", [counting])
        counted += session.rows(query.sql)[0].values()
    assert counted == [2, 2]


def test_values_that_spark_would_convert_are_not_compared(session):
    session.register("t", session.from_value(pa.table({"s": ["1"], "d": [dt.date(2024, 1, 1)], "n": [1]})))
    for column, value in (("s", 1), ("d", "2024-01-01"), ("n", 1.5), ("n", "1")):
        sql = f"SELECT COUNT_IF(NOT `{column}` IN (:v)) AS v FROM `t`"
        assert "is not compared" in refused("RVT-503", session.rows, sql, {"v": value})


def test_a_condition_of_a_user_is_no_plain_query(session):
    session.register("t", session.from_value(pa.table({"a": [1], "s": ["x"]})))
    for condition in ("a > 0", "s = 'x'", "CAST(s AS INT) IN (1)", "upper(s) IS NULL", "a IN (SELECT 1)"):
        refused("RVT-329", session.query, f"SELECT * FROM t WHERE {condition}")


def test_declared_columns_are_widened_and_missing_ones_are_null(session, tmp_path):
    pq.write_table(pa.table({"ID": pa.array([1], pa.int32()), "more": ["x"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": pa.array([2], pa.int16())}), tmp_path / "b.parquet")
    paths = (str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet"))
    refused("RVT-519", session.load, Files("parquet", paths))
    frame = session.load(Files("parquet", paths, {"schema": "id BIGINT, note STRING"}))
    assert session.columns(frame) == (("id", "bigint"), ("note", "string"))
    assert session.to_arrow(frame).to_pylist() == [{"id": 1, "note": None}, {"id": 2, "note": None}]
    assert session.columns(session.load(Files("parquet", (), {"schema": "id BIGINT"}))) == (("id", "bigint"),)


def test_what_is_not_read_or_written_is_refused(session, tmp_path):
    frame = session.from_value(pa.table({"a": [1]}))
    refused("RVT-519", session.load, Files("csv", (str(tmp_path),), {"schema": "a INT"}))
    refused("RVT-519", session.load, Files("parquet", ("s3a://lake/t",)))
    refused("RVT-503", session.load, Files("parquet", (str(tmp_path / "nowhere"),)))
    (tmp_path / "broken.parquet").write_text("no parquet")
    refused("RVT-503", session.load, Files("parquet", (str(tmp_path / "broken.parquet"),)))
    pq.write_table(pa.table({"at": pa.array([NOON], pa.timestamp("ns"))}), tmp_path / "ns.parquet")
    assert "nanoseconds" in refused("RVT-519", session.load, Files("parquet", (str(tmp_path / "ns.parquet"),)))
    (tmp_path / "parts" / "day=1").mkdir(parents=True)
    pq.write_table(pa.table({"a": [1]}), tmp_path / "parts" / "day=1" / "a.parquet")
    refused("RVT-519", session.load, Files("parquet", (str(tmp_path / "parts"),)))
    refused("RVT-519", session.write, frame, Files("csv", (str(tmp_path),)))
    refused("RVT-519", session.write, frame, Files("parquet", ("s3a://lake/t",)))
    refused("RVT-204", session.write, frame, folder(tmp_path, "t", compression="lzo"))
    refused("RVT-204", session.write, frame, folder(tmp_path, "u", maxRecordsPerFile="1"))
    nothing = session.from_value(pa.table({"a": pa.nulls(1)}))
    assert "no type" in refused("RVT-503", session.write, nothing, folder(tmp_path, "v"))


def test_a_reader_streams_and_is_read_once(tmp_path):
    with open_session("arrow", tmp_path) as session:
        asked = []

        def batches():
            for number in range(3):
                asked.append(number)
                yield pa.RecordBatch.from_pydict({"n": [number]})

        frame = session.from_value(pa.RecordBatchReader.from_batches(pa.schema([("n", pa.int64())]), batches()))
        assert (session.columns(frame), asked) == ((("n", "bigint"),), [])
        target = folder(tmp_path, "t")
        session.write(frame, target)
        assert rows(session, target) == ["{'n': 0}", "{'n': 1}", "{'n': 2}"]
        assert "wanted again" in refused("RVT-503", session.to_arrow, frame)


def test_large_results_of_arrow_are_several_files(tmp_path, monkeypatch):
    monkeypatch.setattr(arrow_files, "FILE_BYTES", 2**16)
    monkeypatch.setattr(arrow_files, "_GROUP_BYTES", 2**15)
    with open_session("arrow", tmp_path) as session:
        target = folder(tmp_path, "t")
        numbers = pa.table({"n": pa.array(random.Random(1).sample(range(10**9), 50_000))})
        session.write(session.from_value(numbers.to_reader(max_chunksize=5_000)), target)
        assert len(list(Path(target.paths[0]).iterdir())) > 2
        assert sorted(session.to_arrow(session.load(target))["n"].to_pylist()) == sorted(numbers["n"].to_pylist())


@pytest.mark.parametrize(
    ("sql", "line"),
    [("SELECT a,\n  nowhere\nFROM t", 2), ("SELECT a\nFROM nowhere", 2), ("SELECT a\nFROM t\nWHER a", 3)],
)
def test_mistakes_in_polars_sql_are_told_with_their_line(polars, sql, line):
    polars.register("t", pl.LazyFrame({"a": [1]}))
    with pytest.raises(RivetError, match="RVT-503") as caught:
        polars.query_in("polars", sql)
    assert caught.value.diagnostics[0].line == line


def test_an_error_of_a_row_is_an_error_of_the_write(polars, tmp_path):
    frame = polars.from_value(pl.LazyFrame({"a": ["x"]}).with_columns(pl.col("a").cast(pl.Int64)))
    assert "conversion" in refused("RVT-503", polars.write, frame, folder(tmp_path, "t"))
    assert polars.query_in("polars", "SELECT 1 AS v").collect().rows() == [(1,)]


class _Stop(BaseException):
    pass


@pytest.mark.slow
@pytest.mark.parametrize("what", ["write", "batches"])
def test_an_interrupt_stops_a_stream_of_polars(tmp_path, what):
    started = []

    def check():
        if started and time.monotonic() > started[0] + 0.5:
            raise _Stop

    with open_session("polars", tmp_path, check) as session:
        numbers = pl.LazyFrame({"n": range(60_000)})
        frame = session.from_value(numbers.join(numbers, how="cross"))
        target = folder(tmp_path, "t")
        started.append(time.monotonic())
        actions = {
            "write": lambda: session.write(frame, target),
            "batches": lambda: [None for _ in session.batches(frame)],
        }
        with pytest.raises(_Stop):
            actions[what]()
        assert time.monotonic() - started[0] < 20
        ends, sizes = time.monotonic() + 20, [-1, 0]
        while sizes[-1] != sizes[-2] and time.monotonic() < ends:
            time.sleep(0.5)
            sizes.append(sum(path.stat().st_size for path in Path(target.paths[0]).iterdir()))
        assert sizes[-1] == sizes[-2]


@pytest.mark.parametrize("what", ["write", "rows"])
def test_an_interrupt_or_a_timeout_stops_rows_of_arrow(tmp_path, what):
    checks = []

    def check():
        checks.append(1)
        if what == "write" and len(checks) > 5:
            raise _Stop

    def endless():
        while True:
            yield pa.RecordBatch.from_pydict({"n": [1] * 1000})

    rows = ArrowRows(pa.schema([("n", pa.int64())]), lambda: pa.RecordBatchReader.from_batches(schema, endless()))
    schema = rows.schema
    with open_session("arrow", tmp_path, check) as session:
        session.register("t", session.load(rows))
        frame, target = session.query("SELECT * FROM t"), folder(tmp_path, "t")
        if what == "write":
            with pytest.raises(_Stop):
                session.write(frame, target)
        else:
            with pytest.raises(TimeoutError):
                session.rows("SELECT count(*) AS n FROM t", timeout=0.2)


def test_a_missing_or_other_version_of_polars_is_named(monkeypatch):
    made = PolarsEngine(EngineSpec("small", "polars"))
    assert [finding.status for finding in made.examine()] == [OK]
    monkeypatch.setattr(engine, "version", lambda name: "1.30.0")
    assert "polars 1.30.0 is installed" in refused("RVT-123", made.session)
    assert "rivet_dagster[polars]" in str(next(iter(made.examine())))

    def missing(name):
        raise engine.PackageNotFoundError(name)

    monkeypatch.setattr(engine, "version", missing)
    assert "not installed" in refused("RVT-123", made.import_packages)


def test_options_are_checked():
    refused("RVT-104", PolarsEngine, EngineSpec("small", "polars", options={"dialect": "duckdb"}))
    refused("RVT-104", PolarsEngine, EngineSpec("small", "polars", options={"max_fusion_depth": 0}))
    refused("RVT-103", ArrowEngine, EngineSpec("copier", "arrow", options={"threads": 2}))
