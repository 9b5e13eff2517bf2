"""What catalogs in memory store: tables, and environments with tables of their own."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rivet_dagster.catalogs.capabilities.transaction import TableTransaction
from rivet_dagster.catalogs.environments.state import EnvironmentState
from rivet_dagster.model.storage import Provenance, Published, StoredRows


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
class Store:
    """The tables of the base, and those of environments by name."""

    tables: dict[str, StoredTable] = field(default_factory=dict)
    environments: dict[str, StoredEnvironmentTables] = field(default_factory=dict)

    def environment(self, name: str) -> StoredEnvironmentTables:
        """Return what is stored of an environment, without a state if there is none."""
        return self.environments.setdefault(name, StoredEnvironmentTables())


_STORES: dict[str, Store] = {}


def store_of(catalog: str) -> Store:
    """Return what this process stores for the catalogs of that name."""
    return _STORES.setdefault(catalog, Store())
