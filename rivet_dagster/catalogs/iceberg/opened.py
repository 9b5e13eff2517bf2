"""A table of the catalog as its metadata says it is now."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast
from weakref import WeakKeyDictionary

from rivet_dagster.catalogs.iceberg.metadata.summary import ENVIRONMENT_OF
from rivet_dagster.catalogs.iceberg.names import ENVIRONMENTS, TableName, environment_of
from rivet_dagster.catalogs.iceberg.reaching import OTHER_NAME, translate_errors
from rivet_dagster.catalogs.versions.heartbeat import DEAD_AFTER
from rivet_dagster.errors import RivetError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


RECENT = DEAD_AFTER / 2
"""Seconds for which a list of tables or branches is good enough to find what dead runs have left."""

T = TypeVar("T")

EVERYTHING = "*"
"""In place of an environment: the base and all environments."""


@dataclass(frozen=True)
class OpenedTable:
    """The table ``name`` of a PyIceberg catalog; each ``load`` reads its metadata anew.

    ``environment`` is the one that looks at it, by a branch of the table; None for the base.
    """

    catalog: Catalog
    name: TableName
    environment: str | None = None

    def load(self) -> Table:
        """Return the table. Raises RVT-403 if it does not exist, or cannot be reached."""
        with translate_errors(self.name.catalog, f"the table {'.'.join(self.name.identifier)}"):
            return self.catalog.load_table(self.name.identifier)

    def load_if_any(self) -> Table | None:
        """Return the table, None if it does not exist.

        Raises RVT-403 if that cannot be determined, or the name is that of a table that is not Iceberg's.
        """
        from pyiceberg.exceptions import NoSuchIcebergTableError, NoSuchNamespaceError, NoSuchTableError

        with translate_errors(self.name.catalog, f"the table {'.'.join(self.name.identifier)}"):
            try:
                return self.catalog.load_table(self.name.identifier)
            except NoSuchIcebergTableError:
                raise
            except (NoSuchTableError, NoSuchNamespaceError):
                return None

    def refuse_view(self) -> None:
        """Raise RVT-404 if the name is that of a view."""
        from pyiceberg.exceptions import RESTError

        # Most catalogs, and some servers, know no views; of one that cannot be asked, the commit finds it out.
        with suppress(NotImplementedError, RESTError):
            if self.catalog.view_exists(self.name.identifier):
                raise RivetError("RVT-404", f"'{self.name}' is a view", remediation=OTHER_NAME)

    @property
    def published(self) -> OpenedTable:
        """Return the table where readers find it; a run on a branch of a server does not write to that."""
        return self

    def staged(self, key: str, suffix: str = "") -> OpenedTable:
        """Return the staging table of the attempt ``key``."""
        return self.beside(self.name.staged(key, suffix))

    def beside(self, name: TableName) -> OpenedTable:
        """Return another table of the catalog, as the same environment sees it."""
        return replace(self, name=name)

    def sees(self, key: str) -> bool:
        """Return whether a run that has staged something under ``key`` runs where this is looked at from."""
        return self.environment in (environment_of(key), EVERYTHING)


Opener = Callable[[str], OpenedTable]
"""A function that opens a table by the name that joints give it."""


def tables_in(catalog: Catalog, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the identifiers of the tables of a namespace, in order; none if there is no such namespace."""
    from pyiceberg.exceptions import NoSuchNamespaceError

    # Not asked before whether there is one: that would be a request more, of each run for each of its tables.
    try:
        return sorted(catalog.list_tables(namespace))
    except NoSuchNamespaceError:
        return []


_SEEN: WeakKeyDictionary[object, dict[Hashable, tuple[float, Any]]] = WeakKeyDictionary()


def look(of: object, what: Hashable, list_: Callable[[], T]) -> T:
    """Return what there is now."""
    return list_()


def look_recently(of: object, what: Hashable, list_: Callable[[], T]) -> T:
    """Return what there is now, or what this has returned within the last RECENT seconds for ``what`` of a catalog.

    That is enough to find what dead runs have left: who has made something since does not count as dead yet.
    """
    seen = _SEEN.setdefault(of, {})
    then, value = seen.get(what, (-inf, None))
    now = monotonic()
    if now - then > RECENT:
        value = list_()
        seen[what] = now, value
    return cast(T, value)


class Look(Protocol):
    """The type of ``look`` and ``look_recently``."""

    def __call__(self, of: object, what: Hashable, list_: Callable[[], T], /) -> T:
        """Return a list of what a catalog has."""


def has_table_of_environment(table: OpenedTable) -> bool:
    """Return whether an environment has a table that will be ``table``, among whose files its own files lie."""
    wanted = json.dumps(table.name.identifier)
    for identifier in tables_in(table.catalog, (ENVIRONMENTS,)):
        iceberg_table = table.beside(replace(table.name, namespace=(ENVIRONMENTS,), name=identifier[-1])).load_if_any()
        if iceberg_table is not None and iceberg_table.metadata.properties.get(ENVIRONMENT_OF) == wanted:
            return True
    return False
