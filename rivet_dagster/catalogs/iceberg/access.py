"""How the tables of a catalog are opened: by which connection, under which names, and with which errors."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.iceberg.names import TableName, table_name
from rivet_dagster.catalogs.iceberg.opened import OpenedTable
from rivet_dagster.catalogs.iceberg.reaching import translate_errors
from rivet_dagster.catalogs.iceberg.settings.connection import connect_catalog
from rivet_dagster.catalogs.iceberg.settings.options import NESSIE

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from rivet_dagster.catalogs.iceberg.nessie.nessie_catalog import NessieCatalog


class TableAccess:
    """The tables of a catalog of that ``name`` and ``options``; relative paths start at ``root``.

    ``environment`` is the one whose tables these are; None for those of the base.
    """

    environment: str | None = None

    def __init__(self, name: str, options: Mapping[str, Any], root: Path) -> None:
        self.name = name
        self.options = options
        self.root = root

    @cached_property
    def catalog(self) -> Catalog:
        """The catalog as PyIceberg connects to it."""
        return connect_catalog(self.name, self.options, self.root)

    def table_name(self, table: str) -> TableName:
        """Return the name under which the table that joints call ``table`` is found."""
        return self.declared_name(table)

    def declared_name(self, table: str) -> TableName:
        """Return the name that joints give a table, with its namespace."""
        namespace = self.options.get("default-namespace")
        return table_name(self.name, table, None if namespace is None else str(namespace))

    def open(self, table: str) -> OpenedTable:
        """Return the table, without accessing storage."""
        return OpenedTable(self.catalog, self.table_name(table))

    def load(self, table: str) -> Table:
        """Return the table as it is now. Raises RVT-403 if there is none."""
        return self.open(table).load()

    def reaching(self, table: str = "", code: str = "RVT-403") -> AbstractContextManager[None]:
        """Turn errors of PyIceberg, and of what it uses, in the block into RivetErrors of ``code``."""
        return translate_errors(self.name, f"the table {table}" if table else "", code)


class NessieAccess(TableAccess):
    """The tables on a branch of Nessie: the catalog's, or with ``ref`` that of an environment.

    Spark names the latter ``table@branch``, so that one session reaches those of the base, too.
    """

    def __init__(
        self,
        name: str,
        options: Mapping[str, Any],
        root: Path,
        environment: str | None = None,
        ref: str | None = None,
    ) -> None:
        super().__init__(name, options if ref is None else {**options, "ref": ref}, root)
        self.environment = environment
        self._ref = ref

    @property
    def nessie(self) -> NessieCatalog:
        """The catalog."""
        from rivet_dagster.catalogs.iceberg.nessie.nessie_catalog import NessieCatalog

        assert isinstance(self.catalog, NessieCatalog)
        return self.catalog

    def table_name(self, table: str) -> TableName:
        """Return the name of the table on the branch."""
        name = self.declared_name(table)
        return name if self._ref is None else replace(name, ref=self._ref)

    def at(self, environment: str, ref: str) -> NessieAccess:
        """Return the tables on the branch of an environment."""
        return NessieAccess(self.name, self.options, self.root, environment, ref)


def access_to(name: str, options: Mapping[str, Any], root: Path) -> TableAccess:
    """Return the access to the tables of a catalog that is declared with ``options``."""
    of_kind = NessieAccess if options.get("catalog") == NESSIE else TableAccess
    return of_kind(name, options, root)
