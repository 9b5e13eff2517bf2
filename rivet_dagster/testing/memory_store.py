"""What catalogs in memory store: tables with versions, whose rows an engine has written, and environments."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pyarrow as pa

from rivet_dagster.catalogs.capabilities.transaction import TableTransaction, WriteContext
from rivet_dagster.catalogs.environments.state import EnvironmentState
from rivet_dagster.catalogs.rewriting.intervals import Affected
from rivet_dagster.catalogs.rewriting.version import Remaining, RewritableVersion
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import ArrowRows
from rivet_dagster.model.storage import Base, Provenance, Published, Statistics, StoredRows


@dataclass(frozen=True)
class Errors:
    """The rows of the error table ``table``."""

    table: str
    rows: StoredRows


@dataclass
class StoredTable:
    """The published versions of a table, the oldest first, the withheld ones by name, and the errors of both kinds."""

    published: list[tuple[Published, StoredRows]] = field(default_factory=list)
    errors: dict[str, Errors] = field(default_factory=dict)
    withheld: dict[str, tuple[StoredRows, str, Provenance]] = field(default_factory=dict)
    publishers: dict[str, str] = field(default_factory=dict)
    """The version that each identity made or published."""

    def keep_errors(self, version: str, errors: Errors | None) -> None:
        """Add the errors of a version, if it has an error table."""
        if errors is not None:
            self.errors[version] = errors

    @property
    def current(self) -> Published | None:
        """The version that readers see."""
        return self.published[-1][0] if self.published else None

    def add_copy(self, other: StoredTable, environment: str | None) -> Published:
        """Publish the current version of another table here, with its errors, and return it."""
        known, rows = other.published[-1]
        before = self.current.statistics.rows if self.current is not None else 0
        published = replace(known, environment=environment, rows_before=before)
        self.published.append((published, rows))
        self.keep_errors(published.version, other.errors.get(published.version))
        self.publishers |= {name: version for name, version in other.publishers.items() if version == published.version}
        return published


@dataclass
class StoredEnvironmentTables:
    """The tables of an environment.

    ``bases`` are the versions of the base that those were made of which a run has written. ``writers`` are the
    transactions that were begun there.
    """

    state: EnvironmentState | None = None
    tables: dict[str, StoredTable] = field(default_factory=dict)
    bases: dict[str, Published | None] = field(default_factory=dict)
    writers: list[TableTransaction] = field(default_factory=list)


@dataclass
class MemoryStore:
    """The tables of the base, and those of environments by name."""

    tables: dict[str, StoredTable] = field(default_factory=dict)
    environments: dict[str, StoredEnvironmentTables] = field(default_factory=dict)

    def environment(self, name: str) -> StoredEnvironmentTables:
        """Return what is stored of an environment, without a state if there is none."""
        return self.environments.setdefault(name, StoredEnvironmentTables())


_STORES: dict[str, MemoryStore] = {}


def store_of(catalog: str) -> MemoryStore:
    """Return what this process stores for the catalogs of that name."""
    return _STORES.setdefault(catalog, MemoryStore())


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
