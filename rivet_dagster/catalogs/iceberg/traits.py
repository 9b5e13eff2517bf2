"""The class methods of the catalog ``iceberg``, which need no open catalog: only options and names of tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from glob import escape
from pathlib import Path
from typing import Any, ClassVar, get_args

from rivet_dagster.catalogs.capabilities.targets import PlanType
from rivet_dagster.catalogs.iceberg.metadata.declared_layout import columns_named, wrong_layout
from rivet_dagster.catalogs.iceberg.names import wrong_name
from rivet_dagster.catalogs.iceberg.settings.options import NESSIE, OPTIONS, uri, warehouse, wrong_options
from rivet_dagster.catalogs.iceberg.sources import wrong_source
from rivet_dagster.entry_points import is_unexpanded
from rivet_dagster.model.plugins import Wrong
from rivet_dagster.model.relations import CatalogTable, Kinds
from rivet_dagster.model.target import Location
from rivet_dagster.model.write_plan import WritePlan


class IcebergTraits:
    """Its options, and the methods that the compiler calls on the class."""

    type: ClassVar[str] = "iceberg"
    gives: ClassVar[Kinds] = frozenset({CatalogTable})
    write_plans: ClassVar[frozenset[PlanType]] = frozenset(get_args(WritePlan))
    options: ClassVar[frozenset[str]] = OPTIONS
    other_options: ClassVar[bool] = True

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Return what is wrong with the values of ``options``, by key."""
        return wrong_options(options)

    @classmethod
    def check_table(
        cls, options: Mapping[str, Any], table: str, own: Mapping[str, Any], is_written: bool
    ) -> Iterable[Wrong]:
        """Check the name of a table, and the layout of a sink or the state that a source names."""
        return _wrong_table(options, table, own, is_written)

    @classmethod
    def columns_named(cls, own: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
        """Return the columns of the partitions and of the sort order."""
        return columns_named(own)

    @classmethod
    def in_one_commit(cls, options: Mapping[str, Any]) -> bool:
        """Return whether the catalog is one of Nessie."""
        return options.get("catalog") == NESSIE

    @classmethod
    def wants_upkeep(cls, options: Mapping[str, Any]) -> bool:
        """Return whether the option ``upkeep`` is not off."""
        return options.get("upkeep") is not False

    @classmethod
    def resolved(cls, options: Mapping[str, Any], root: Path) -> Mapping[str, Any]:
        """Return the options with absolute paths."""
        places = {"warehouse": warehouse(options, root), "uri": uri(options, root)}
        return {**options, **{key: place for key, place in places.items() if place is not None}}

    @classmethod
    def written_locations(cls, options: Mapping[str, Any], table: str) -> Iterable[Location]:
        """Return the address of the catalog, and the table's name in it."""
        return _locations(options, table)

    @classmethod
    def read_locations(cls, options: Mapping[str, Any], table: str, look: bool = False) -> Iterable[Location]:
        """Return the same as of a table that is written."""
        return _locations(options, table)


def _wrong_table(options: Mapping[str, Any], table: str, own: Mapping[str, Any], is_written: bool) -> Iterator[Wrong]:
    namespace = options.get("default-namespace")
    why = None if is_unexpanded(table) else wrong_name(table, None if namespace is None else str(namespace))
    if why is not None:
        yield Wrong(
            "RVT-204", "table", why, "Write it as `namespace.table`, or give the catalog a `default-namespace`."
        )
    yield from wrong_layout(own) if is_written else wrong_source(own)


def _locations(options: Mapping[str, Any], table: str) -> Iterator[Location]:
    address = [str(options.get(key, "")) for key in ("catalog", "uri", "warehouse")]
    if any(is_unexpanded(part) for part in (*address, table)):
        return
    namespace = () if "." in table else (str(options.get("default-namespace", "")),)
    yield ("iceberg", *map(escape, (*address, *namespace, *table.split("."))))
