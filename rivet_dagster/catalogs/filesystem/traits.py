"""Facts about the catalog ``filesystem`` that need no open catalog: from its options, and from names of tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, get_args

from rivet_dagster.catalogs.capabilities.landing import HasLandingZones
from rivet_dagster.catalogs.capabilities.listing import ListsFiles
from rivet_dagster.catalogs.capabilities.locations import TellsLocations
from rivet_dagster.catalogs.capabilities.names import ListsTables
from rivet_dagster.catalogs.capabilities.sweeping import Sweeps
from rivet_dagster.catalogs.capabilities.targets import PlanType
from rivet_dagster.catalogs.capabilities.versions import HasVersions
from rivet_dagster.catalogs.capabilities.watermarks import HasWatermarks
from rivet_dagster.catalogs.filesystem import locations
from rivet_dagster.catalogs.filesystem.declared import wrong_sink, wrong_source
from rivet_dagster.catalogs.filesystem.formats import FORMATS
from rivet_dagster.catalogs.filesystem.place import is_remote
from rivet_dagster.entry_points import is_unexpanded
from rivet_dagster.errors import nearest
from rivet_dagster.model.convert import show
from rivet_dagster.model.location import Location
from rivet_dagster.model.plugins import Wrong
from rivet_dagster.model.write_plan import WritePlan


class FilesystemTraits(HasVersions, HasWatermarks, HasLandingZones, ListsFiles, ListsTables, Sweeps, TellsLocations):
    """Its options, its capabilities, and what the compiler asks its class."""

    type: ClassVar[str] = "filesystem"
    write_plans: ClassVar[frozenset[PlanType]] = frozenset(get_args(WritePlan))
    options: ClassVar[frozenset[str]] = frozenset({"path", "format", "versions"})

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Return the problems of the values of ``options``, by key."""
        wrong = {}
        path, format, kept = options.get("path"), options.get("format", "parquet"), options.get("versions", 2)
        if not isinstance(path, str) or not path:
            wrong["path"] = f"must be a path, not {show(path)}" if "path" in options else "is missing"
        if not is_unexpanded(format) and format not in FORMATS:
            wrong["format"] = f"must be one of {', '.join(FORMATS)}, not {show(format)}{nearest(str(format), FORMATS)}"
        # An expanded variable is always a text.
        if not is_unexpanded(kept) and (isinstance(kept, bool) or not str(kept).isdecimal() or int(kept) < 1):
            wrong["versions"] = f"must be a whole number of at least 1, not {show(kept)}"
        return wrong

    @classmethod
    def refuses_landing(cls, options: Mapping[str, Any], table: str) -> str | None:
        """Only the engine can list a remote store."""
        remote = is_remote(str(options.get("path"))) or is_remote(table)
        return "only the engine can look into a remote store" if remote else None

    @classmethod
    def refuses_listing(cls, options: Mapping[str, Any], table: str) -> str | None:
        """Return why files cannot be listed, for the same reason."""
        return cls.refuses_landing(options, table)

    @classmethod
    def check_table(
        cls, options: Mapping[str, Any], table: str, own: Mapping[str, Any], is_written: bool
    ) -> Iterable[Wrong]:
        """Of a sink its name and the options that Spark's Parquet writer knows; those of a source are the reader's."""
        return wrong_sink(options, table, own) if is_written else wrong_source(table, own)

    @classmethod
    def resolved(cls, options: Mapping[str, Any], root: Path) -> Mapping[str, Any]:
        """Their path without links."""
        return locations.resolved(options, root)

    @classmethod
    def written_places(cls, options: Mapping[str, Any], table: str) -> Iterable[Location]:
        """Paths."""
        return locations.written(options, table)

    @classmethod
    def read_places(cls, options: Mapping[str, Any], table: str, look: bool = False) -> Iterable[Location]:
        """Paths, and patterns of them."""
        return locations.read(options, table, look)
