"""The catalog ``filesystem``: what it can do, in terms of sources and versions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.capabilities.targets import NO_OPTIONS
from rivet_dagster.catalogs.filesystem import examining, sources, versions, withheld
from rivet_dagster.catalogs.filesystem.columns import source_columns
from rivet_dagster.catalogs.filesystem.data_files import Footers
from rivet_dagster.catalogs.filesystem.footers import parquet_files
from rivet_dagster.catalogs.filesystem.formats import as_texts, chosen_format, format_of, reader_options
from rivet_dagster.catalogs.filesystem.landing import FilesystemLandingZone
from rivet_dagster.catalogs.filesystem.layout import HOMES, TableLayout, is_table_name
from rivet_dagster.catalogs.filesystem.listing import source_files
from rivet_dagster.catalogs.filesystem.manifest import Manifest
from rivet_dagster.catalogs.filesystem.place import Place, is_remote
from rivet_dagster.catalogs.filesystem.presence import exists, is_folder, looking, names_in
from rivet_dagster.catalogs.filesystem.source_schema import with_schema
from rivet_dagster.catalogs.filesystem.sources import Found
from rivet_dagster.catalogs.filesystem.sweep import building, sweep
from rivet_dagster.catalogs.filesystem.traits import FilesystemTraits
from rivet_dagster.catalogs.filesystem.watermark import max_of, read_override, write_override
from rivet_dagster.catalogs.filesystem.whereabouts import Whereabouts
from rivet_dagster.catalogs.filesystem.withheld_mark import Mark
from rivet_dagster.catalogs.filesystem.writing import writing
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.entry_points import refuse_wrong_options
from rivet_dagster.errors import RivetError
from rivet_dagster.model.finding import Finding
from rivet_dagster.model.inputs import LandedFile
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.relations import Files
from rivet_dagster.model.schema import Schema
from rivet_dagster.model.storage import Published, Statistics, Version
from rivet_dagster.model.watermark import Override

if TYPE_CHECKING:
    from rivet_dagster.catalogs.filesystem.transaction import FilesystemTransaction


class FilesystemCatalog(FilesystemTraits):
    """A directory of tables.

    Options: ``path``, seen from the project's directory; ``format`` of the sources whose names do not tell it
    (default parquet); ``versions``, how many published versions of a table are kept (default 2). Sinks are always
    Parquet. A ``path`` on a remote store (``s3://``, ``hdfs://``, ...) can only be read.
    """

    def __init__(self, spec: CatalogSpec, root: Path) -> None:
        refuse_wrong_options(FilesystemCatalog, f"catalog '{spec.name}'", spec.options)
        self.name = spec.name
        self._place = Place.of(spec.options["path"], root)
        self._format: str = spec.options.get("format", "parquet")
        self._keep = int(spec.options.get("versions", 2))
        self._whereabouts = Whereabouts(self._place)

    def relation(self, table: str, options: Mapping[str, Any]) -> Files:
        """The files of ``table``; a table that this catalog published is read in the version it has now."""
        where = self._place.join(table)
        if is_remote(where):
            format = chosen_format(options) or format_of(table) or self._format
            return Files(format, (where,), reader_options(format, table, options))
        found = sources.find(self._place, table, self._format, options)
        return with_schema(sources.relation(found, options), found)

    def data_version(self, table: str, options: Mapping[str, Any]) -> str:
        """A hash over the names, sizes and times of the table's files."""
        where = self._place.join(table)
        if is_remote(where):
            raise RivetError(
                "RVT-403",
                f"only the engine can look into {self._place.shown(where)}: whether its data changed is not known here",
                remediation="Observe sources on a local or mounted file system.",
            )
        return sources.fingerprint(sources.find(self._place, table, self._format, options), self._place)

    def columns(self, table: str, options: Mapping[str, Any]) -> Schema | None:
        """What the first file's footer or header tells; None for JSON and for folders that may be partitions."""
        found = sources.find(self._place, table, self._format, options)
        return source_columns(found, sources.relation(found, options).options)

    def files(self, table: str, options: Mapping[str, Any]) -> tuple[LandedFile, ...]:
        """A file, or all at and below a directory or what a glob matches; the folder that they come to must exist."""
        return source_files(self._place, table, self._format)

    def landing_zone(self, table: str, options: Mapping[str, Any]) -> FilesystemLandingZone:
        """A directory or a glob."""
        return FilesystemLandingZone(self._place, table, self._format, options)

    def current(self, table: str) -> Published | None:
        """The published version; None also where its data is gone, or something stands that is not ours.

        Raises RVT-403 where it cannot be looked up.
        """
        if self._place.remote:
            return None
        layout = self._layout(table)
        try:
            manifest = versions.current(layout)
        except RivetError as error:
            if error.code != "RVT-404":
                raise
            return None
        if manifest is None:
            self._whereabouts.require()
            return None
        return self._described(layout, manifest)

    def tables(self, prefix: str) -> tuple[str, ...]:
        """Those that have versions, and whose links are there."""
        found = [table for table in self._layouts() if table.name.startswith(prefix)]
        with looking(self._place.folder):
            return tuple(table.name for table in found if exists(table.link, follow=False))

    def published_by(self, table: str, identity: str) -> Published | None:
        """One of the versions that are kept, or that expired not long ago."""
        if self.current(table) is None:
            return None
        layout = self._layout(table)
        with looking(layout.link):
            manifest = versions.published_by(layout, identity)
        return self._described(layout, manifest) if manifest else None

    def versions(self, table: str) -> tuple[Version, ...]:
        """All of the table's folder, but what is being built."""
        if self._place.remote:
            return ()
        layout = self._layout(table)
        with looking(layout.link):
            return withheld.all_versions(layout)

    def read(self, published: Published) -> Files:
        """The version's own folder: a query planned on it finishes even when another version is published."""
        folder = versions.folder(self._layout(published.table), published.version)
        found = Found("parquet", (folder,), published.table)
        return with_schema(Files("parquet", (str(folder),)), found)

    def statistics(self, published: Published) -> Statistics:
        """What the footers of its files tell."""
        layout = self._layout(published.table)
        folder = versions.folder(layout, published.version)
        with looking(folder):
            return Footers(layout.files(published.version)).statistics(parquet_files(folder))

    def max_of(self, published: Published, column: str) -> Any:
        """The column is read through this process where its files' footers do not tell."""
        statistics = self.statistics(published)
        folder = versions.folder(self._layout(published.table), published.version)
        with looking(folder):
            return max_of(folder, statistics, column)

    def watermark_override(self, published: Published) -> Override | None:
        """A file beside the version."""
        layout = self._layout(published.table)
        with looking(layout.home):
            return read_override(layout, published.version)

    def override_watermark(self, published: Published, override: Override) -> None:
        """A file beside the version, which thereby ends with it."""
        layout = self._layout(published.table)
        with writing(layout.home):
            write_override(layout, published.version, override)

    def begin(
        self, table: str, session: EngineSession | None = None, options: Mapping[str, Any] = NO_OPTIONS
    ) -> FilesystemTransaction:
        """Make an empty folder beside the published ones; ``options`` are the engine's Parquet writer options."""
        if self._place.remote:
            message = f"{self.uri(table)} has no atomic switch from one version of a table to the next"
            raise RivetError("RVT-402", message)
        if chosen_format(options) not in (None, "parquet"):
            raise RivetError("RVT-204", "the table of a filesystem sink is always Parquet: `format` cannot be another")
        writer_options = as_texts(options)
        layout = self._layout(table)
        self._whereabouts.require()
        base = layout.published()
        with writing(layout.home):
            sweep(layout)  # first: what a dead run left may be what fills the disk
            version = versions.begin(layout)
        return self._transaction(layout, version, base, session, writer_options)

    def take_up(self, table: str, version: str) -> FilesystemTransaction:
        """The version without its mark, upon what is published now."""
        layout = self._layout(table)
        with writing(layout.home):
            mark = withheld.take_up(layout, version)
        return self._transaction(layout, version, layout.published(), origin=mark)

    def restage(self, table: str, version: str) -> FilesystemTransaction:
        """A new version that shares the older one's files on disk."""
        layout = self._layout(table)
        base = layout.published()
        with writing(layout.home):
            new, inputs = withheld.restage(layout, version)
        return self._transaction(layout, new, base, origin=Mark(inputs), beside=(layout.files(version),))

    def evict(self, published: Published) -> None:
        """Remove the link, then the versions."""
        layout = self._layout(published.table)
        with writing(layout.home):
            withheld.evict(layout, published.version)

    def sweep(self, failed: Callable[[RivetError], None] | None = None) -> tuple[str, ...]:
        """Remove the versions of dead runs in all tables; each as ``table/version``."""
        swept: list[str] = []
        wrong: list[RivetError] = []
        for table in self._layouts():
            try:
                with writing(table.home):
                    swept += [f"{table.name}/{version}" for version in sweep(table)]
            except RivetError as error:
                (failed or wrong.append)(error)
        if wrong:
            raise RivetError.of(diagnostic for error in wrong for diagnostic in error.diagnostics)
        return tuple(swept)

    def building(self) -> tuple[str, ...]:
        """The versions beside which signs of life stand; each as ``table/version``."""
        with looking(self._place.folder):
            return tuple(f"{table.name}/{version}" for table in self._layouts() for version in building(table))

    def uri(self, table: str) -> str:
        """The table's place as a URI, without a password."""
        where = self._place.join(table)
        return self._place.shown(where) if is_remote(where) else Path(where).as_uri()

    def examine(self, publishes: bool) -> Iterable[Finding]:
        """What a run does there is tried in a hidden folder."""
        return examining.examine(f"catalog {self.name}", self._place, self._layouts, publishes)

    def _transaction(
        self,
        layout: TableLayout,
        version: str,
        base: str | None,
        session: EngineSession | None = None,
        options: Mapping[str, str] = NO_OPTIONS,
        origin: Mark | None = None,
        beside: tuple[Path, ...] = (),
    ) -> FilesystemTransaction:
        footers = Footers(*beside, *((layout.files(base),) if base is not None else ()))
        shown = self._place.shown(layout.data(version))
        # Here, since whoever compiles, reads or lists builds no queries.
        from rivet_dagster.catalogs.filesystem.staging import StagedVersion
        from rivet_dagster.catalogs.filesystem.transaction import FilesystemTransaction

        staged = StagedVersion(layout, version, base, options, session, footers, shown)

        def published(manifest: Manifest) -> Published:
            self._whereabouts.note()
            return self._described(layout, manifest)

        return FilesystemTransaction(staged, self._keep, published, origin)

    def _layouts(self) -> list[TableLayout]:
        if self._place.remote:
            return []
        self._whereabouts.require()
        homes = self._place.folder / HOMES
        with looking(homes):
            return [self._layout(name) for name in names_in(homes) if is_table_name(name) and is_folder(homes / name)]

    def _layout(self, table: str) -> TableLayout:
        return TableLayout(self._place.folder, table)

    def _described(self, layout: TableLayout, manifest: Manifest) -> Published:
        return manifest.published(self.name, layout.name, self.uri(layout.name))
