"""The conformance suite of engines: subclass EngineConformance in a test module of your own.

from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.testing.engine import EngineConformance

class TestMyEngine(EngineConformance):
    def new_engine(self, check_interrupt=None):
        return MyEngine(EngineSpec("mine", "my_engine"), check_interrupt=check_interrupt)
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rivet_dagster.engines.contract import Engine, EngineSession, Frame, Typed
from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import ArrowRows, CatalogTable, Files, JdbcTable, Relation
from rivet_dagster.model.storage import Projection

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["one", None, "it's 3"]})

_VALUES = [
    7,
    2.5,
    True,
    "it's; DROP :name",
    "",
    None,
    Decimal("12.50"),
    dt.date(2024, 2, 29),
    dt.datetime(2024, 7, 1, 12, 30, 0, 123456, tzinfo=dt.UTC),
]


class _Stop(BaseException):
    """The interrupt that ``check_interrupt`` raises in these tests."""


class EngineConformance:
    """The tests of one type of engine. Their queries are simple SQL in Spark's dialect.

    >>> from rivet_dagster.engines.pyspark import PySparkEngine
    >>> from rivet_dagster.model.profile import EngineSpec
    >>> class TestSpark(EngineConformance):
    ...     def new_engine(self, check_interrupt=None):
    ...         return PySparkEngine(EngineSpec("spark", "pyspark"), check_interrupt=check_interrupt)
    >>> sorted(kind.__name__ for kind in TestSpark().new_engine().reads)
    ['ArrowRows', 'CatalogTable', 'Files', 'JdbcTable']
    """

    tells_lines: ClassVar[bool] = True
    """Whether the engine reports the line of an error in a query."""

    ignores_case: ClassVar[bool] = True
    """Whether queries may write the name of a view in another letter case."""

    runs_spark_sql: ClassVar[bool] = True
    """Whether ``query`` runs any simple SQL of Spark's, with parameters, and sources can have expressions.

    An engine that runs plain queries alone (``sql_support``) has False, and overrides ``query`` with its own SQL.
    """

    endless: ClassVar[str] = "SELECT sum(a.n * b.n - c.n) AS v FROM numbers a CROSS JOIN numbers b CROSS JOIN numbers c"
    """A query that takes hours; ``numbers`` has 30,000 rows. Override it if the engine cannot cancel this query."""

    def new_engine(self, check_interrupt: Callable[[], None] | None = None) -> Engine:
        """Return a new engine of the type under test. To be overridden."""
        raise NotImplementedError

    def relation_of(self, kind: type, rows: pa.Table, folder: Path) -> Relation:
        """Return a relation of that kind with these rows. To be overridden for kinds other than Files and ArrowRows."""
        if kind is ArrowRows:
            return ArrowRows(rows.schema, lambda: rows.to_reader(max_chunksize=max(rows.num_rows // 3, 1)))
        if kind is Files:
            path = folder / f"{time.time_ns()}.parquet"
            pq.write_table(rows, path)
            return Files("parquet", (str(path),))
        pytest.skip(f"no {kind.__name__} to read")

    def target_of(self, kind: type, rows: pa.Table, folder: Path) -> Relation:
        """Return an empty relation for rows of that schema. To be overridden for kinds other than Files."""
        if kind is Files:
            target = folder / f"target-{time.time_ns()}"
            target.mkdir()
            return Files("parquet", (str(target),))
        pytest.skip(f"no {kind.__name__} to write to")

    def query(self, session: EngineSession, sql: str) -> Frame:
        """Return the result of a simple query. To be overridden for engines that run their own SQL, or none."""
        if not self.runs_spark_sql:
            pytest.skip("the engine runs no SQL")
        return session.query(sql)

    def rows(self, session: EngineSession, sql: str) -> list[dict[str, Any]]:
        """Return the rows of a simple query."""
        if self.runs_spark_sql:
            return session.rows(sql)
        rows: list[dict[str, Any]] = session.to_arrow(self.query(session, sql)).to_pylist()
        return rows

    def three_rows(self, session: EngineSession) -> Frame:
        """Return a frame with ROWS: by a query, or as a value where the engine does not run one."""
        frame = session.query(_SELECT) if self.runs_spark_sql else session.from_value(ROWS)
        assert frame is not None
        return frame

    def one_row(self, session: EngineSession, **values: int | str) -> Frame:
        """Return a frame with one row: by a query, or as a value where the engine does not run one."""
        if self.runs_spark_sql:
            items = [
                f"'{value}' AS {name}" if isinstance(value, str) else f"CAST({value} AS BIGINT) AS {name}"
                for name, value in values.items()
            ]
            return session.query(f"SELECT {', '.join(items)}")
        frame = session.from_value(pa.table({name: [value] for name, value in values.items()}))
        assert frame is not None
        return frame

    @pytest.fixture
    def engine_under_test(self) -> Engine:
        """The engine under test."""
        return self.new_engine()

    @pytest.fixture
    def session(self, engine_under_test: Engine) -> Iterator[EngineSession]:
        """A session of it."""
        with engine_under_test.session() as session:
            yield session

    @pytest.fixture
    def numbers(self, engine_under_test: Engine, session: EngineSession, tmp_path: Path) -> Frame:
        """A frame with so many rows that the query ``endless`` takes hours."""
        rows = pa.table({"n": pa.array(range(30_000), pa.int64())})
        return session.load(self.relation_of(_read_kind(engine_under_test), rows, tmp_path))

    def test_a_session_is_a_context_manager_and_closes_once(self, engine_under_test: Engine) -> None:
        """A closed session can be closed again."""
        with engine_under_test.session() as session:
            assert _rows(session, self.three_rows(session)) == ROWS.to_pylist()
        session.close()

    @pytest.mark.parametrize("kind", [ArrowRows, CatalogTable, Files, JdbcTable], ids=lambda kind: kind.__name__)
    def test_each_kind_is_read_that_the_engine_says_it_reads(
        self, engine_under_test: Engine, session: EngineSession, tmp_path: Path, kind: type
    ) -> None:
        """Rows, names and NULLs are unchanged; a kind that the engine cannot read is RVT-519."""
        relation = _some(kind) if kind not in engine_under_test.reads else self.relation_of(kind, ROWS, tmp_path)
        if kind not in engine_under_test.reads:
            _refused("RVT-519", session.load, relation)
            return
        frame = session.load(relation)
        assert _rows(session, frame) == ROWS.to_pylist()
        assert [name.lower() for name, _ in session.columns(frame)] == ["id", "name"]
        computed = Projection((("id", None), ("double", "id * 2")), "id >= 2", None)
        if self.runs_spark_sql:
            assert _rows(session, session.load(relation, computed)) == [{"id": 2, "double": 4}, {"id": 3, "double": 6}]
        else:
            _refused("RVT-329", session.load, relation, computed)
        renamed = session.load(relation, Projection((("name", None), ("ID", None))))
        assert [name for name, _ in session.columns(renamed)] == ["name", "ID"]
        assert session.to_arrow(session.load(relation, Projection(limit=1))).num_rows == 1

    def test_corrupt_records_are_set_apart(
        self, engine_under_test: Engine, session: EngineSession, tmp_path: Path
    ) -> None:
        """By all columns, whichever are used; a relation without records that can be corrupt has none."""
        assert session.load_separated(self.relation_of(_read_kind(engine_under_test), ROWS, tmp_path)) is None
        path = tmp_path / "records.csv"
        path.write_text("id,name\n1,one\n2\nthree,three\n4,four,4\n5,five\n")
        options = {"header": "true", "schema": "id BIGINT, name STRING"}
        relation = Files("csv", (str(path),), options)
        separated = session.load_separated(relation, Projection((("name", None),), "id > 1"))
        if separated is None:
            assert not engine_under_test.separates_errors
            return
        good, records = separated
        assert _rows(session, good) == [{"name": "five"}]
        assert session.columns(records) == (("record", "string"),)
        assert sorted(session.to_arrow(records)["record"].to_pylist()) == ["2", "4,four,4", "three,three"]
        theirs = Files("csv", (str(path),), {**options, "mode": "DROPMALFORMED"})
        assert session.load_separated(theirs) is None

    @pytest.mark.parametrize("kind", [CatalogTable, Files, JdbcTable], ids=lambda kind: kind.__name__)
    def test_each_kind_is_written_that_the_engine_says_it_writes(
        self, engine_under_test: Engine, session: EngineSession, tmp_path: Path, kind: type
    ) -> None:
        """A second write appends rows, of views that have ended; a kind that the engine cannot write is RVT-519."""
        frame = self.three_rows(session)
        if kind not in engine_under_test.writes:
            _refused("RVT-519", session.write, frame, _some(kind))
            return
        target = self.target_of(kind, ROWS, tmp_path)
        session.write(frame, target)
        with session.views():
            session.register("last", self.one_row(session, name="four", id=4))
            last = session.query("SELECT * FROM last")
        session.write(last, target)
        with engine_under_test.session() as other:
            written = other.load(target) if kind in engine_under_test.reads else None
            rows = _rows(other, written) if written is not None else _stored(target)
        assert rows == [*ROWS.to_pylist(), {"id": 4, "name": "four"}]

    def test_no_file_has_rows_of_two_parts(
        self, engine_under_test: Engine, session: EngineSession, tmp_path: Path
    ) -> None:
        """``split_by`` splits rows into files, and is not stored."""
        if Files not in engine_under_test.writes:
            pytest.skip("the engine writes no files")
        target = self.target_of(Files, ROWS, tmp_path)
        assert isinstance(target, Files)
        rows = pa.table({"id": [1, 2, 3], "part": pa.array([1, 0, 1], pa.int32())})
        session.write(session.from_value(rows), target, split_by="part")
        files = [pq.ParquetFile(path).read() for path in Path(target.paths[0]).rglob("*.parquet")]
        assert sorted(sorted(file["id"].to_pylist()) for file in files) == [[1, 3], [2]]
        assert {tuple(file.column_names) for file in files} == {("id",)}

    def test_an_observed_write_sees_each_row(
        self, engine_under_test: Engine, session: EngineSession, tmp_path: Path
    ) -> None:
        """A condition that is NULL for a row is not true."""
        observed = session.observe(self.three_rows(session), ["id > 2", "name IS NULL AND id = 1", "name = 'two'"])
        if observed is None or Files not in engine_under_test.writes:
            pytest.skip("the engine observes no writes of files")
        session.write(observed.frame, self.target_of(Files, ROWS, tmp_path))
        assert list(observed.result()) == [None, 3, 3]

    def test_views_belong_to_one_session(self, engine_under_test: Engine, session: EngineSession) -> None:
        """No other session sees the views of a session."""
        session.register("mine", self.one_row(session, v=1))
        with engine_under_test.session() as other:
            _refused("RVT-503", other.rows, "SELECT * FROM mine")
            other.register("mine", self.one_row(other, v=2))
        assert session.rows(f"SELECT v FROM {'Mine' if self.ignores_case else 'mine'}") == [{"v": 1}]

    def test_views_of_a_scope_end_with_it(self, session: EngineSession) -> None:
        """The views that they replaced are restored, also if the block fails."""
        session.register("a", self.query(session, "SELECT 1 AS v"))
        before = self.query(session, "SELECT v FROM a")
        with suppress(ZeroDivisionError), session.views():
            session.register("A", self.query(session, "SELECT 2 AS v"))
            session.register("b", self.query(session, "SELECT v + 1 AS v FROM a"))
            with session.views():
                session.register("b", self.query(session, "SELECT 10 AS v"))
                assert self.rows(session, "SELECT a.v + b.v AS v FROM a CROSS JOIN b") == [{"v": 12}]
            assert self.rows(session, "SELECT a.v + b.v AS v FROM a CROSS JOIN b") == [{"v": 5}]
            raise ZeroDivisionError
        assert self.rows(session, "SELECT v FROM a") == [{"v": 1}]
        assert session.to_arrow(before)["v"].to_pylist() == [1]
        _refused("RVT-503", self.rows, session, "SELECT v FROM b")

    def test_a_frame_keeps_the_meaning_that_names_had(self, session: EngineSession) -> None:
        """Registering a view again does not change the frames that were made before."""
        session.register("a", self.query(session, "SELECT 1 AS v"))
        before = self.query(session, "SELECT v FROM a")
        session.register("a", self.query(session, "SELECT v + 1 AS v FROM a"))
        assert session.to_arrow(before)["v"].to_pylist() == [1]
        assert self.rows(session, "SELECT v FROM a") == [{"v": 2}]

    @pytest.mark.parametrize("value", _VALUES, ids=repr)
    def test_parameters_bind_as_values(self, session: EngineSession, value: Any) -> None:
        """With their own types, and never inserted as text."""
        if not self.runs_spark_sql:
            pytest.skip("the engine runs no SQL of Spark's")
        bound = "CAST(:v AS STRING)" if value is None else ":v"  # a column of NULL alone has no type
        assert session.rows(f"SELECT {bound} AS v", {"v": value}) == [{"v": value}]

    def test_typed_parameters_have_their_type(self, session: EngineSession) -> None:
        """Also if the engine would infer another type from the value."""
        if not self.runs_spark_sql:
            pytest.skip("the engine runs no SQL of Spark's")
        for value, kind in ((5, "bigint"), (dt.date(2024, 2, 29), "date"), ("x", "string")):
            frame = session.query("SELECT :v AS v", {"v": Typed(value, kind)})
            assert session.columns(frame) == (("v", kind),)
            assert session.to_arrow(frame)["v"].to_pylist() == [value]

    def test_a_text_that_looks_like_a_parameter_is_none(self, session: EngineSession) -> None:
        """Text in quotes is not replaced by parameters."""
        if not self.runs_spark_sql:
            pytest.skip("the engine runs no SQL of Spark's")
        assert session.rows("SELECT ':v' AS text, :v AS v", {"v": 1}) == [{"text": ":v", "v": 1}]

    def test_unions_go_by_name(self, session: EngineSession) -> None:
        """Frames with different columns are RVT-503."""
        frames = [self.one_row(session, id=1, name="x"), self.one_row(session, name="y", id=2)]
        assert _rows(session, session.union_by_name(frames)) == [{"id": 1, "name": "x"}, {"id": 2, "name": "y"}]
        _refused("RVT-503", session.union_by_name, [*frames, self.one_row(session, id=1)])

    def test_rows_come_in_batches_too(self, session: EngineSession) -> None:
        """The batches have the schema of the frame, also if there are no rows."""
        reader = session.batches(self.three_rows(session))
        assert reader.schema.names == ["id", "name"]
        assert reader.read_all().sort_by("id").to_pylist() == ROWS.to_pylist()
        session.register("three", self.three_rows(session))
        none = session.batches(session.query("SELECT * FROM three LIMIT 0")).read_all()
        assert (none.num_rows, none.column_names) == (0, ["id", "name"])
        moment = dt.datetime(2024, 7, 1, 12, 30, tzinfo=dt.UTC)
        columns = {"at": pa.array([moment], pa.timestamp("us", "UTC")), "day": [dt.date(2024, 7, 1)]}
        frame = session.from_value(pa.table(columns))
        assert session.batches(frame).read_all() == session.to_arrow(frame)

    def test_values_of_arrow_are_frames(self, session: EngineSession) -> None:
        """Values that a Python joint returns are frames; a value without rows is None."""
        for value in (ROWS, ROWS.to_reader(max_chunksize=1)):
            frame = session.from_value(value)
            assert frame is not None
            assert _rows(session, frame) == ROWS.to_pylist()
        assert session.from_value(object()) is None
        _refused("RVT-316", session.from_value, pa.table([[1], [2]], names=["a", "A"]))

    def test_a_mistake_is_told_with_its_line(self, session: EngineSession) -> None:
        """An error in a query is RVT-503 with its line in the query."""
        error = _refused("RVT-503", self.query, session, "SELECT 1 AS v,\n  nowhere AS w")
        assert "nowhere" in str(error)
        if self.tells_lines:
            assert error.diagnostics[0].line == 2

    def test_a_session_goes_on_after_a_mistake(self, session: EngineSession) -> None:
        """Other queries can be run after an error."""
        _refused("RVT-503", self.rows, session, "SELECT * FROM nowhere")
        assert self.rows(session, "SELECT 1 AS v") == [{"v": 1}]

    def test_what_takes_too_long_is_stopped(self, session: EngineSession, numbers: Frame) -> None:
        """A timeout raises TimeoutError, and the session can still be used."""
        if not self.runs_spark_sql:
            pytest.skip("the engine runs no SQL of Spark's")
        session.register("numbers", numbers)
        with pytest.raises(TimeoutError):
            session.rows(self.endless, timeout=1.0)
        assert session.rows("SELECT 1 AS v") == [{"v": 1}]

    def test_an_interrupt_stops_what_runs(self, numbers: Frame, tmp_path: Path) -> None:
        """The exception of ``check_interrupt`` is raised within seconds."""
        if not self.runs_spark_sql:
            pytest.skip("the engine runs no SQL of Spark's")
        started: list[float] = []

        def check() -> None:
            if started and time.monotonic() - started[0] > 1:
                raise _Stop

        engine = self.new_engine(check)
        rows = pa.table({"n": pa.array(range(30_000), pa.int64())})
        with engine.session() as session:
            session.register("numbers", session.load(self.relation_of(_read_kind(engine), rows, tmp_path)))
            started.append(time.monotonic())
            with pytest.raises(_Stop):
                session.rows(self.endless)
        assert time.monotonic() - started[0] < 30


_SELECT = """
SELECT CAST(1 AS BIGINT) AS id, 'one' AS name
UNION ALL SELECT CAST(2 AS BIGINT) AS id, CAST(NULL AS STRING) AS name
UNION ALL SELECT CAST(3 AS BIGINT) AS id, concat('it', "'", 's 3') AS name
"""


def _read_kind(engine: Engine) -> type:
    """Return a kind of relation that the engine reads, best one of which the suite can make relations."""
    return next(kind for kind in (Files, ArrowRows, CatalogTable, JdbcTable) if kind in engine.reads)


def _some(kind: type) -> Relation:
    """Return any relation of a kind, to be refused."""
    relations: dict[type, Relation] = {
        ArrowRows: ArrowRows(ROWS.schema, ROWS.to_reader),
        CatalogTable: CatalogTable(("t",)),
        Files: Files("parquet", ("/nowhere",)),
        JdbcTable: JdbcTable("jdbc:none:", "t"),
    }
    return relations[kind]


def _rows(session: EngineSession, frame: Frame) -> list[dict[str, Any]]:
    """Return the rows ordered by id, without one by name, with column names in lower case."""
    table = session.to_arrow(frame)
    table = table.rename_columns([name.lower() for name in table.column_names])
    names = [name for name in ("id", "name", "double") if name in table.column_names]
    rows: list[dict[str, Any]] = table.select(names).sort_by(names[0]).to_pylist()
    return rows


def _stored(target: Relation) -> list[dict[str, Any]]:
    assert isinstance(target, Files), (
        "rows of a kind that the engine only writes can be read here only if they are files"
    )
    rows: list[dict[str, Any]] = pq.read_table(target.paths[0]).select(["id", "name"]).sort_by("id").to_pylist()
    return rows


def _refused(code: str, action: Callable[..., Any], *arguments: Any) -> RivetError:
    with pytest.raises(RivetError) as caught:
        action(*arguments)
    assert caught.value.code == code
    return caught.value
