"""The catalog ``filesystem``: options, and the five verbs in terms of sources and versions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from rivet_dagster.catalogs.filesystem import examining, heartbeat, shelf, sources, versions
from rivet_dagster.catalogs.filesystem.carry import flatten, keep_permissions, share, sorted_out
from rivet_dagster.catalogs.filesystem.columns import source_columns
from rivet_dagster.catalogs.filesystem.footers import Marks, marks, parquet_files, read_statistics
from rivet_dagster.catalogs.filesystem.formats import as_texts, chosen_format, format_of, reader_options
from rivet_dagster.catalogs.filesystem.kept_mark import Mark
from rivet_dagster.catalogs.filesystem.landing import FilesystemLandingZone
from rivet_dagster.catalogs.filesystem.layout import HOMES, TableLayout, is_table_name
from rivet_dagster.catalogs.filesystem.listing import source_files
from rivet_dagster.catalogs.filesystem.manifest import Manifest
from rivet_dagster.catalogs.filesystem.place import Place, is_remote
from rivet_dagster.catalogs.filesystem.presence import exists, is_folder, looking, names_in
from rivet_dagster.catalogs.filesystem.staging import base_folder, base_of, files_of, publish, staged_files
from rivet_dagster.catalogs.filesystem.sweep import building, sweep
from rivet_dagster.catalogs.filesystem.traits import FilesystemTraits
from rivet_dagster.catalogs.filesystem.watermark import greatest, read_override, write_override
from rivet_dagster.catalogs.filesystem.whereabouts import Whereabouts
from rivet_dagster.catalogs.filesystem.writing import write_rows, writing
from rivet_dagster.errors import RivetError
from rivet_dagster.model.entry_points import refuse_wrong_options
from rivet_dagster.model.finding import Finding
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.relations import Files
from rivet_dagster.model.schema import Schema
from rivet_dagster.model.storage import Base, LandedFile, Published, Record, Rest, Staged, Statistics, Touched, Version
from rivet_dagster.model.watermark import Override


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
        self._kept = int(spec.options.get("versions", 2))
        self._audited: dict[str, Marks] = {}
        self._whereabouts = Whereabouts(self._place)

    def source(self, table: str, options: Mapping[str, Any]) -> Files:
        """The files of ``table``; a table that this catalog published is read in the version it has now."""
        where = self._place.join(table)
        if is_remote(where):
            format = chosen_format(options) or format_of(table) or self._format
            return Files(format, (where,), reader_options(format, table, options))
        return sources.relation(sources.find(self._place, table, self._format, options), options)

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
            return shelf.all_versions(layout)

    def read(self, published: Published) -> Files:
        """The version's own folder: a query planned on it finishes even when another version is published."""
        return Files("parquet", (str(versions.folder(self._layout(published.table), published.version)),))

    def statistics(self, published: Published) -> Statistics:
        """What the footers of its files tell."""
        folder = versions.folder(self._layout(published.table), published.version)
        with looking(folder):
            return read_statistics(parquet_files(folder))

    def greatest(self, published: Published, column: str) -> Any:
        """The column is read through this process."""
        folder = versions.folder(self._layout(published.table), published.version)
        with looking(folder):
            return greatest(folder, column)

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

    def stage(self, table: str, options: Mapping[str, Any]) -> Staged:
        """An empty folder beside the published ones; ``options`` are the engine's Parquet writer options."""
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
        return self._staged(layout, version, base, writer_options)

    def put(self, staged: Staged, rows: Any) -> bool:
        """One more file, of columns that Spark reads as what they are."""
        layout = self._layout(staged.table)
        folder = layout.data(staged.version)
        with writing(folder), heartbeat.required(layout, staged.version):
            return write_rows(rows, folder)

    def base(self, staged: Staged) -> Base | None:
        """The base's own folder, with the columns of its first file."""
        layout = self._layout(staged.table)
        with looking(layout.home), heartbeat.required(layout, staged.version):
            return base_of(layout, staged)

    def written(self, staged: Staged) -> tuple[Files, Statistics] | None:
        """The files that are there, as a list: others may come beside them."""
        layout = self._layout(staged.table)
        folder = layout.data(staged.version)
        with writing(folder), heartbeat.required(layout, staged.version):
            flatten(folder)
            files = parquet_files(folder)
            return (files_of(files), read_statistics(files)) if files else None

    def carry(self, staged: Staged, touched: Touched) -> Rest:
        """Share the files whose footers tell that they hold nothing that is touched."""
        layout = self._layout(staged.table)
        folder = layout.data(staged.version)
        with writing(folder), heartbeat.required(layout, staged.version):
            base = base_folder(layout, staged)
            if base is None:
                return Rest(0, None)
            untouched, mixed, rows = sorted_out(parquet_files(base), touched)
            for path in untouched:
                share(path, folder)
            shared = sum(path.stat().st_size for path in untouched)
            return Rest(rows, files_of(mixed) if mixed else None, shared)

    def audit(self, staged: Staged) -> tuple[Files, Statistics]:
        """What was staged, and what the footers of its files tell of it."""
        layout = self._layout(staged.table)
        folder = layout.data(staged.version)
        with writing(folder), heartbeat.required(layout, staged.version):
            base = base_folder(layout, staged)
            flatten(folder)
            if base is not None:
                keep_permissions(base, folder)
            files = staged_files(folder, self._place.shown(folder))
            self._audited[staged.version] = marks(files)
            return files_of([folder]), read_statistics(files)

    def beat(self, staged: Staged) -> None:
        """A new time for the file beside the staged version."""
        versions.beat(self._layout(staged.table), staged.version)

    def publish(self, staged: Staged, identity: str, record: Record | None = None) -> Published:
        """Switch the link; publishing again what is published already changes nothing."""
        layout = self._layout(staged.table)
        with writing(layout.home):
            audited = self._audited.pop(staged.version, None)
            shown = self._place.shown(layout.data(staged.version))
            published = publish(layout, staged, identity, record, audited, self._kept, shown)
        self._whereabouts.note()
        return self._described(layout, published)

    def discard(self, staged: Staged) -> None:
        """Remove what was staged unless it has been published; nothing happens where it is gone already.

        What the file system does not let go now is swept by a later run.
        """
        layout = self._layout(staged.table)
        self._audited.pop(staged.version, None)
        with suppress(OSError), versions.locked(layout):
            if not versions.may_be_read(layout, staged.version):
                versions.remove(layout, staged.version)

    def keep_back(self, staged: Staged, identity: str = "") -> None:
        """A mark beside the staged version."""
        layout = self._layout(staged.table)
        with writing(layout.home):
            shelf.keep_back(layout, staged.version, Mark(staged.landed, identity or staged.identity))

    def take_up(self, table: str, version: str) -> Staged:
        """The version without its mark, upon what is published now."""
        layout = self._layout(table)
        with writing(layout.home):
            mark = shelf.take_up(layout, version)
        staged = self._staged(layout, version, layout.published())
        return replace(staged, landed=mark.landed, identity=mark.identity)

    def restage(self, table: str, version: str) -> Staged:
        """A new version that shares the older one's files on disk."""
        layout = self._layout(table)
        base = layout.published()
        with writing(layout.home):
            new, landed = shelf.restage(layout, version)
        return replace(self._staged(layout, new, base), landed=landed)

    def evict(self, published: Published) -> None:
        """Remove the link, then the versions."""
        layout = self._layout(published.table)
        with writing(layout.home):
            shelf.evict(layout, published.version)

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

    def _staged(
        self, layout: TableLayout, version: str, base: str | None, options: Mapping[str, str] | None = None
    ) -> Staged:
        target = Files("parquet", (str(layout.data(version)),), options or {})
        return Staged(self.name, layout.name, version, base, target)

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
