"""The rows of a version of the catalog in memory, written by an engine or taken from another version."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from rivet_dagster.catalogs.capabilities.transaction import WriteContext
from rivet_dagster.catalogs.rewriting.intervals import Affected
from rivet_dagster.catalogs.rewriting.version import Remaining, RewritableVersion
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import ArrowRows
from rivet_dagster.model.storage import Base, Published, Statistics, StoredRows

Columns = tuple[tuple[str, str], ...]


class MemoryVersion(RewritableVersion):
    """A version as a list of Arrow tables; ``upon`` is the name of the version that it builds upon."""

    def __init__(self, session: EngineSession | None, upon: tuple[Published, StoredRows] | None) -> None:
        self._session = session
        self._before = upon
        self.upon = upon[0].version if upon is not None else None
        self._parts: list[pa.Table] = []
        self._columns: Columns = ()

    @property
    def session(self) -> EngineSession:
        """The session that computes its rows."""
        assert self._session is not None, "begun without a session, a version already has its rows"
        return self._session

    @property
    def base(self) -> Base | None:
        """The rows of the version that it builds upon."""
        if self._before is None:
            return None
        _, rows = self._before
        return Base(rows.relation, rows.statistics.columns)

    def add(self, frame: Frame, context: WriteContext, split_by: str | None = None) -> None:
        """Add the rows as an Arrow table."""
        rows = self.session.to_arrow(frame)
        self._columns = tuple(column for column in self.session.columns(frame) if column[0] != split_by)
        self._parts.append(rows.drop_columns([split_by]) if split_by is not None else rows)

    def take(self, rows: StoredRows) -> None:
        """Add rows that are already stored."""
        self._columns = rows.statistics.columns
        self._parts.append(arrow_rows(rows).batches().read_all())

    def added(self) -> StoredRows:
        """Return the rows that have been added so far."""
        return self.audit()

    def share(self, affected: Affected) -> Remaining:
        """Share nothing: there are no statistics, so each row may change."""
        if self._before is None:
            return Remaining(0, None)
        _, rows = self._before
        return Remaining(rows.statistics.rows, rows.relation)

    def audit(self) -> StoredRows:
        """Return all rows as one table."""
        if not self._parts:
            raise RivetError("RVT-402", "nothing has been written")
        table = pa.concat_tables(self._parts)
        statistics = Statistics(table.num_rows, table.nbytes, self._columns)
        return StoredRows(ArrowRows(table.schema, table.to_reader), statistics)

    @contextmanager
    def scratch(self) -> Iterator[MemoryVersion]:
        """Yield another version, which is not published."""
        yield MemoryVersion(self._session, None)


def arrow_rows(rows: StoredRows) -> ArrowRows:
    """Return the relation of stored rows of this catalog."""
    assert isinstance(rows.relation, ArrowRows)
    return rows.relation
