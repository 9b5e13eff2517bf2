"""The class methods of the catalog ``filesystem``, which need no open catalog: only options and names of tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, get_args

from rivet_dagster.catalogs.capabilities.staging import wrong_publish
from rivet_dagster.catalogs.capabilities.targets import PlanType
from rivet_dagster.catalogs.filesystem import table_locations
from rivet_dagster.catalogs.filesystem.declared import wrong_sink, wrong_source
from rivet_dagster.catalogs.filesystem.sources.formats import FORMATS
from rivet_dagster.catalogs.filesystem.stores.options import wrong_store
from rivet_dagster.entry_points import is_unexpanded
from rivet_dagster.errors import nearest
from rivet_dagster.model.convert import show
from rivet_dagster.model.location import Location
from rivet_dagster.model.plugins import Wrong
from rivet_dagster.model.target import PUBLISH
from rivet_dagster.model.write_plan import WritePlan


class FilesystemTraits:
    """Its options, and the methods that the compiler calls on the class."""

    type: ClassVar[str] = "filesystem"
    write_plans: ClassVar[frozenset[PlanType]] = frozenset(get_args(WritePlan))
    options: ClassVar[frozenset[str]] = frozenset({"path", "format", "versions", "options", PUBLISH})

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Return what is wrong with the values of ``options``, by key."""
        wrong: dict[str, str] = {}
        path, format, versions = options.get("path"), options.get("format", "parquet"), options.get("versions", 2)
        if not isinstance(path, str) or not path:
            wrong["path"] = f"must be a path, not {show(path)}" if "path" in options else "is missing"
        else:
            wrong |= wrong_store(path, options.get("options", {}))
        if not is_unexpanded(format) and format not in FORMATS:
            wrong["format"] = f"must be one of {', '.join(FORMATS)}, not {show(format)}{nearest(str(format), FORMATS)}"
        # An expanded variable is always a text.
        is_number = not isinstance(versions, bool) and str(versions).isdecimal() and int(versions) >= 1
        if not is_unexpanded(versions) and not is_number:
            wrong["versions"] = f"must be a whole number of at least 1, not {show(versions)}"
        return wrong | wrong_publish(options)

    @classmethod
    def check_table(
        cls, options: Mapping[str, Any], table: str, own: Mapping[str, Any], is_written: bool
    ) -> Iterable[Wrong]:
        """Check the name of a sink and its Parquet writer options, or the name and reader options of a source."""
        return wrong_sink(options, table, own) if is_written else wrong_source(options, table, own)

    @classmethod
    def resolved(cls, options: Mapping[str, Any], root: Path) -> Mapping[str, Any]:
        """Return the options with an absolute path, links resolved."""
        return table_locations.resolved(options, root)

    @classmethod
    def written_locations(cls, options: Mapping[str, Any], table: str) -> Iterable[Location]:
        """Return the paths of the table's link and of its versions."""
        return table_locations.written(options, table)

    @classmethod
    def read_locations(cls, options: Mapping[str, Any], table: str, look: bool = False) -> Iterable[Location]:
        """Return the paths that the table names, and patterns of paths for a glob."""
        return table_locations.read(options, table, look)
