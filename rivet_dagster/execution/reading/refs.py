"""MaterializedRef: the handle by which a joint reads the rows of another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs import parquet_rows
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import RivetError
from rivet_dagster.model.inputs import Inputs, Position, UnknownPosition
from rivet_dagster.model.relations import ArrowRows, Relation

if TYPE_CHECKING:
    import pyarrow as pa

NOTHING: Inputs = {}


class MaterializedRef:
    """A lazy handle on a joint's rows, however and wherever they are stored.

    Nothing is read before one of its methods is called, and calling a method again gives the same rows.
    """

    def __init__(
        self,
        joint: str,
        open_session: Callable[[], EngineSession],
        frame: Callable[[EngineSession], Frame],
        *,
        stored: Relation | None = None,
        rows: int | None = None,
        position: Callable[[], Position] = UnknownPosition,
        separated: Callable[[EngineSession], tuple[Frame, Frame] | None] | None = None,
        passes_on: Inputs = NOTHING,
        untransformed: MaterializedRef | None = None,
    ) -> None:
        self.joint = joint
        self._open_session = open_session
        self._make_frame = frame
        self._stored = stored
        self._rows = rows
        self._separated = separated
        self.position = position
        """Returns the current position of the rows, before they are read."""
        self.passes_on = passes_on
        """What a version that is made from the rows records besides their position."""
        self.untransformed = untransformed
        """A handle on the rows of a source before its inline transforms; None for other joints, and derived rows."""
        self._session: EngineSession | None = None
        self._frame: Frame | None = None
        self._closed = False

    def to_arrow(self) -> pa.Table:
        """Return all rows in this process's memory. Raises RVT-401 if they are gone, RVT-503 if the query fails."""
        self._check_open()
        if parquet_rows.needs_no_engine(self._stored):
            with _evicted_as_error(self.joint):
                return parquet_rows.table(self._stored)
        session = self._own_session()
        return session.to_arrow(self.to_spark())

    def to_spark(self) -> Any:
        """Return the rows as a lazy frame of the joint's engine: a Spark DataFrame. Raises RVT-401, RVT-503."""
        self._check_open()
        if self._frame is None:
            self._frame = self._make_frame(self._own_session())
        return self._frame

    def to_arrow_batches(self) -> pa.RecordBatchReader:
        """Return all rows batch by batch, a few of them in this process's memory at a time: an iterator of RecordBatch.

        Raises RVT-401; reading raises RVT-503.
        """
        self._check_open()
        if parquet_rows.needs_no_engine(self._stored):
            with _evicted_as_error(self.joint):
                return parquet_rows.batches(self._stored)
        if self._session is not None:
            return self._session.batches(self.to_spark())
        return self._batches_of_a_session()

    @property
    def schema(self) -> pa.Schema:
        """The names and Arrow types of the columns, for which stored rows are not read."""
        self._check_open()
        if parquet_rows.needs_no_engine(self._stored):
            with _evicted_as_error(self.joint):
                return parquet_rows.schema(self._stored)
        return self._ask("SELECT * FROM {rows} LIMIT 0").schema

    @property
    def row_count(self) -> int:
        """The number of rows: known for stored rows, counted by the engine for others."""
        self._check_open()
        if self._rows is None:
            self._rows = self._ask("SELECT count(*) AS n FROM {rows}")["n"][0].as_py()
        return self._rows

    def stored_rows(self) -> pa.RecordBatchReader | None:
        """Return all rows, batch by batch, if this process can read them without an engine, else None.

        Raises RVT-401.
        """
        self._check_open()
        if not parquet_rows.needs_no_engine(self._stored):
            return None
        with _evicted_as_error(self.joint):
            return parquet_rows.batches(self._stored)

    def frame_in(self, session: EngineSession) -> Frame:
        """Return the rows as a frame that queries of ``session`` can use."""
        self._check_open()
        return self._make_frame(session)

    def separated_in(self, session: EngineSession) -> tuple[Frame, Frame] | None:
        """Return the rows as ``frame_in`` does, without the corrupt records of a source, and these, as ``record``.

        None if there can be none.
        """
        self._check_open()
        return self._separated(session) if self._separated is not None else None

    def bound_to(self, session: EngineSession) -> MaterializedRef:
        """Return a handle whose frames belong to ``session``, which the caller closes."""
        handle = MaterializedRef(
            self.joint,
            lambda: session,
            self._make_frame,
            stored=self._stored,
            rows=self._rows,
            position=self.position,
            separated=self._separated,
            passes_on=self.passes_on,
        )
        handle._session = session
        return handle

    def with_rows(self, change: Callable[[EngineSession, Frame], Frame]) -> MaterializedRef:
        """Return a handle on the rows that ``change`` derives from these; corrupt records stay as they are."""

        def separated(session: EngineSession) -> tuple[Frame, Frame] | None:
            frames = self.separated_in(session)
            return None if frames is None else (change(session, frames[0]), frames[1])

        return MaterializedRef(
            self.joint,
            self._open_session,
            lambda session: change(session, self.frame_in(session)),
            position=self.position,
            separated=separated,
            passes_on=self.passes_on,
        )

    def passed_as_arrow(self) -> MaterializedRef:
        """Return a handle on the same rows, whose frames read them batch by batch through this process."""

        def load(session: EngineSession) -> Frame:
            first = [self.to_arrow_batches()]

            def batches() -> pa.RecordBatchReader:
                return first.pop() if first else self.to_arrow_batches()

            return session.load(ArrowRows(first[0].schema, batches))

        def separated(session: EngineSession) -> tuple[Frame, Frame] | None:
            with self._open_session() as opened:
                if self.separated_in(opened) is None:
                    return None
            rows, records = self._part(0).passed_as_arrow(), self._part(1).passed_as_arrow()
            return rows.frame_in(session), records.frame_in(session)

        return MaterializedRef(
            self.joint,
            self._open_session,
            load,
            stored=self._stored,
            rows=self._rows,
            position=self.position,
            separated=separated if self._separated is not None else None,
            passes_on=self.passes_on,
        )

    def _part(self, number: int) -> MaterializedRef:
        """Return a handle on the rows without corrupt records, or on these, where there can be any."""

        def load(session: EngineSession) -> Frame:
            frames = self.separated_in(session)
            assert frames is not None
            return frames[number]

        return MaterializedRef(self.joint, self._open_session, load)

    def end(self) -> None:
        """End the handle: using it raises RVT-401 from now on. Frames that were made of it stay valid."""
        self._closed = True
        self._frame = None
        self._session = None

    def __repr__(self) -> str:
        return f"MaterializedRef({self.joint!r})"

    def _batches_of_a_session(self) -> pa.RecordBatchReader:
        """Return the rows from a session of their own, which is closed after the last batch."""
        import pyarrow as pa

        session = self._open_session()
        try:
            reader = session.batches(self._make_frame(session))
        except BaseException:
            session.close()
            raise

        def batches() -> Iterator[pa.RecordBatch]:
            with session:
                yield from reader

        return pa.RecordBatchReader.from_batches(reader.schema, batches())

    def _ask(self, sql: str) -> pa.Table:
        session, frame = self._own_session(), self.to_spark()
        with session.views():
            session.register("rivet_rows", frame)
            return session.to_arrow(session.query(sql.format(rows="rivet_rows")))

    def _own_session(self) -> EngineSession:
        """Return the session that the handle opens at first use and keeps: one frame gives the same rows each time."""
        if self._session is None:
            self._session = self._open_session()
        return self._session

    def _check_open(self) -> None:
        if self._closed:
            raise RivetError(
                "RVT-401",
                f"this handle on '{self.joint}' has ended: it lives as long as the call it was given to",
                joint=self.joint,
                remediation="Read what you need before the function returns.",
            )


@contextmanager
def _evicted_as_error(joint: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise RivetError("RVT-401", f"the rows of '{joint}' have been evicted", joint=joint) from error
