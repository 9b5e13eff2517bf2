"""The catalog ``spark``: the session's own catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from rivet_dagster.catalogs.capabilities.sources import TellsLocations
from rivet_dagster.catalogs.capabilities.staging import StagesForRuns
from rivet_dagster.catalogs.capabilities.targets import Adopts, HasVersions, HasWatermarks, PlanType
from rivet_dagster.catalogs.contract import NeedsEngine
from rivet_dagster.catalogs.filesystem.declared import wrong_writer_options
from rivet_dagster.catalogs.filesystem.files.file_status import translate_read_errors, translate_write_errors
from rivet_dagster.catalogs.filesystem.sources import table_files
from rivet_dagster.catalogs.filesystem.sources.file_tree import LocalTree
from rivet_dagster.catalogs.filesystem.sources.source_schema import parquet_in
from rivet_dagster.catalogs.filesystem.sources.table_files import TableFiles
from rivet_dagster.catalogs.filesystem.version_folders import VersionFolders
from rivet_dagster.catalogs.filesystem.versions.layout import HOMES, TableLayout, is_version_name
from rivet_dagster.catalogs.spark import adoption, partitioned_adoption
from rivet_dagster.catalogs.spark.metastore import Described, Metastore
from rivet_dagster.catalogs.spark.names import OPTIONS, SparkTableName, resolve_paths, session_settings, wrong_options
from rivet_dagster.catalogs.spark.partitioned import PartitionedTable, require_columns
from rivet_dagster.catalogs.versions.refusals import ADOPT
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.entry_points import refuse_wrong_options
from rivet_dagster.errors import NotFound, RivetError
from rivet_dagster.machine import amount, any_server, free_space, little_space, servers_in, try_to_write
from rivet_dagster.model.finding import Finding, broken, in_order
from rivet_dagster.model.plugins import Wrong
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.relations import CatalogTable, Files, Kinds
from rivet_dagster.model.schema import Field, Schema
from rivet_dagster.model.session_needs import SessionNeeds
from rivet_dagster.model.storage import ExistingTable, Published
from rivet_dagster.model.target import Location
from rivet_dagster.model.write_plan import Append, AppendNewer, Refresh, ReplaceAll, ReplacePartitions
from rivet_dagster.paths import scheme, shown_from
from rivet_dagster.sql.write_strategies.alignment import PART, part_further

_ROWS = "rivet_rows"


class SparkCatalog(VersionFolders, NeedsEngine, HasVersions, Adopts, StagesForRuns, HasWatermarks, TellsLocations):
    """The tables and views of the session's own catalog, Hive's unless ``hive`` is false.

    Options: ``database`` of tables that name none (default ``default``); ``metastore``, the ``thrift://`` address of
    Hive's, or a folder for an embedded one (default: as Spark is configured); ``warehouse``, the folder of new
    databases; ``hive`` (default true); ``versions``, the number of published versions of a table that are retained
    (default 2).
    """

    type: ClassVar[str] = "spark"
    options: ClassVar[frozenset[str]] = OPTIONS
    gives: ClassVar[Kinds] = frozenset({CatalogTable, Files})
    write_plans: ClassVar[frozenset[PlanType]] = frozenset(
        {ReplaceAll, Append, AppendNewer, ReplacePartitions, Refresh}
    )
    """The plans that are one switch of a table to files written before; the others change single rows."""

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Return what is wrong with the values of ``options``, by key."""
        return wrong_options(options)

    @classmethod
    def check_table(
        cls, options: Mapping[str, Any], table: str, joint_options: Mapping[str, Any], is_written: bool
    ) -> Iterable[Wrong]:
        """Check the table's name, and the Parquet writer options of a sink; a source has no options."""
        try:
            SparkTableName.of(table, "default")
        except RivetError as error:
            diagnostic = error.diagnostics[0]
            yield Wrong(diagnostic.code, "table", diagnostic.message, diagnostic.remediation)
        if is_written and options.get("hive", True) is False:
            message = "the catalog is not Hive's, and only Hive's tables are published by a switch of their location"
            yield Wrong("RVT-402", "catalog", message, "Use a catalog of another type for what is written.")
        if is_written:
            yield from wrong_writer_options(joint_options)
        else:
            for key in joint_options:
                yield Wrong("RVT-203", f"options.{key}", f"unknown option '{key}': the table says how it is read")

    @classmethod
    def resolved(cls, options: Mapping[str, Any], root: Path) -> Mapping[str, Any]:
        """Return the options with an absolute path of an embedded metastore."""
        return resolve_paths(options, root)

    @classmethod
    def written_locations(cls, options: Mapping[str, Any], table: str) -> Iterable[Location]:
        """Return the metastore, the database and the table."""
        database = str(options.get("database", "default"))
        try:
            name = SparkTableName.of(table, database)
        except RivetError:
            return  # reported as an error of the table itself
        yield ("spark_catalog", str(options.get("metastore", "")), name.database, name.table)

    @classmethod
    def read_locations(cls, options: Mapping[str, Any], table: str, look: bool = False) -> Iterable[Location]:
        """Return the metastore, the database and the table."""
        return cls.written_locations(options, table)

    def __init__(self, spec: CatalogSpec, root: Path) -> None:
        refuse_wrong_options(SparkCatalog, f"catalog '{spec.name}'", spec.options)
        self.name = spec.name
        self.keep = int(spec.options.get("versions", 2))
        self._root = root
        self._options = resolve_paths(spec.options, root)
        self._database: str = self._options.get("database", "default")
        self._metastore = Metastore(self._no_engine)
        self._folders: dict[SparkTableName, Path] = {}

    def attach(self, open_session: Callable[[], EngineSession]) -> None:
        """Look up and change tables through the session that ``open_session`` begins."""
        self._metastore = Metastore(open_session)

    def session_needs(self, engine_type: str) -> SessionNeeds:
        """Return the settings by which Spark finds Hive's metastore and the warehouse."""
        return SessionNeeds(config=session_settings(self._options)) if engine_type == "pyspark" else SessionNeeds()

    def relation(self, table: str, options: Mapping[str, Any]) -> CatalogTable:
        """Return the table or view by its name."""
        self._found(table)
        return CatalogTable(self._name(table).identifier)

    def columns(self, table: str, options: Mapping[str, Any]) -> Schema | None:
        """Return the columns that Spark finds; None if no engine is at hand."""
        try:
            session = self._metastore.session
        except NotFound:
            return None
        return tuple(Field(*column) for column in session.columns(session.load(self.relation(table, options))))

    def data_version(self, table: str, options: Mapping[str, Any]) -> str:
        """Return the version of a table that was published here, of others a hash of their files' names and times."""
        described = self._found(table)
        folder = described.folder
        if folder is None:
            where = described.location or "a view"
            message = f"{self._name(table)} is {where}: whether its data changed is not known here"
            raise RivetError("RVT-403", message, remediation="Observe tables whose files are on this machine.")
        if is_version_name(folder.name):
            return folder.name
        if described.version is not None and (version := self.layout(table).published()) is not None:
            return version
        return table_files.fingerprint(TableFiles(LocalTree(folder, self._root), "parquet", (folder,), table))

    def uri(self, table: str) -> str:
        """Return the table's name in Spark."""
        return ".".join(self._name(table).identifier)

    def examine(self, publishes: bool) -> Iterable[Finding]:
        """Return findings about Hive's metastore, and about the folders that the options name."""
        return examine(f"catalog {self.name}", self._options, self._root, publishes)

    def layout(self, table: str) -> HiveLayout:
        """Return the layout of a table in its database's folder, or where its versions are already."""
        name = self._name(table)
        if name not in self._folders:
            self._folders[name] = self._home(name)
        return HiveLayout(self._folders[name], table, self._metastore, name)

    def existing(self, table: str, partitioned_by: Schema = ()) -> ExistingTable | None:
        """Return a table whose location is no version."""
        name, layout = self._name(table), self.layout(table)
        described = self._metastore.describe(name)
        if described is None or adoption.published_version(layout) is not None:
            return None
        with translate_read_errors(layout.home):
            if described.partitioned_by:
                return partitioned_adoption.describe(layout.partitioned(described), described)
            return adoption.describe(self._metastore, name, described)

    def adopt(self, table: str, partitioned_by: Schema = ()) -> Published | None:
        """Link the files of the table into a folder, and make that its location."""
        layout = self.layout(table)
        with translate_write_errors(layout.home):
            described = self._metastore.describe(self._name(table))
            if described is not None and described.partitioned_by:
                manifest = partitioned_adoption.adopt(layout.partitioned(described))
            else:
                manifest = adoption.adopt(layout, self._metastore, self._name(table))
        return self.committed(layout, manifest) if manifest is not None else None

    def give_up(self, table: str) -> bool:
        """Give the table its old location back, as long as no other version has been published."""
        layout = self.layout(table)
        with translate_write_errors(layout.home):
            described = self._metastore.describe(self._name(table))
            if described is not None and described.partitioned_by:
                return partitioned_adoption.give_up(layout.partitioned(described))
            return adoption.give_up(layout, self._metastore, self._name(table))

    def _home(self, name: SparkTableName) -> Path:
        database = self._metastore.folder_of(name.database)
        described = self._metastore.describe(name)
        if described is None:
            return database / name.table
        if described.folder is not None and is_version_name(described.folder.name):
            return described.folder.parent
        return database / HOMES / name.table  # what lies in the folder of the table would be read as a part of it

    def _found(self, table: str) -> Described:
        name = self._name(table)
        described = self._metastore.describe(name)
        if described is None:
            message = f"there is no table or view {name} in the session's own catalog"
            raise RivetError("RVT-403", message, remediation="Create it, or correct `table` and the catalog's options.")
        return described

    def _name(self, table: str) -> SparkTableName:
        return SparkTableName.of(table, self._database)

    def _no_engine(self) -> EngineSession:
        raise RivetError("RVT-403", f"only an engine can look into the catalog '{self.name}'")


@dataclass(frozen=True)
class HiveLayout(TableLayout):
    """The paths of one table, whose versions are in ``folder``, and the table's place in the metastore."""

    has_link: ClassVar[bool] = False

    metastore: Metastore
    hive_name: SparkTableName

    @property
    def home(self) -> Path:
        """The folder that contains the versions."""
        return self.folder

    @property
    def link(self) -> Path:
        """The folder that contains the versions: readers open no link."""
        return self.folder

    def published(self) -> str | None:
        """Return the version that is the table's location, None if there is no table.

        Raises RVT-404 if the table is at another location, or a view; RVT-403 if it cannot be looked up.
        """
        described = self.metastore.describe(self.hive_name)
        if described is None:
            return None
        folder = described.folder
        if folder is not None and folder.parent == self.folder and is_version_name(folder.name):
            return folder.name
        if described.version is not None:
            version = self.partitioned(described).published(described.version, described.before)
            if version is not None:
                return version
        what = f"a table at {described.location}" if described.location else "a view"
        raise RivetError(
            "RVT-404",
            f"{self.hive_name} is {what}, which was not published here",
            remediation=ADOPT if described.location else "Drop it, or choose another table name.",
        )

    def switch(self, version: str) -> None:
        """Make the version the table's location, or the folders of its partitions theirs, in one change of it."""
        described = self.metastore.describe(self.hive_name)
        if described is not None and described.version is not None:
            before = self.published()
            assert before is not None  # a table that was not published from here is refused before
            self.partitioned(described).switch(version, before, described.before is None)
            return
        folder = self.data(version)
        files = parquet_in(folder, self.name)
        self.metastore.switch(self.hive_name, folder, files)

    @cached_property
    def has_parts(self) -> bool:
        """Whether the table is PARTITIONED BY."""
        return bool(self._partition_columns)

    def check_batch(self, columns: Iterable[str]) -> None:
        """Raise RVT-514 if a batch lacks columns by which the table is PARTITIONED BY."""
        given = {name.lower() for name in columns}
        lacking = [name for name in self._partition_columns if name.lower() not in given]
        if lacking:
            message = f"the batch lacks {', '.join(lacking)}, by which {self.hive_name} is PARTITIONED BY"
            raise RivetError("RVT-514", message, remediation="Have the query give all columns of the partitions.")

    def lay_out(self, session: EngineSession, frame: Frame, split_by: str | None) -> tuple[Frame, str | None]:
        """Return rows with a part for each partition, if the table has partitions. Raises RVT-404."""
        if not self.has_parts:
            return frame, split_by
        columns = session.columns(frame)
        self.metastore.refresh(self.hive_name)
        require_columns(self.hive_name, self.metastore.columns(self.hive_name), columns)
        session.register(_ROWS, frame)
        return session.query(part_further(_ROWS, [name for name, _ in columns], self._partition_columns)), PART

    def forget(self, version: str) -> None:
        """Remove the folders of the version's partitions that no other version has."""
        PartitionedTable(self, self.metastore, self.hive_name, ()).forget(version)

    def partitioned(self, described: Described) -> PartitionedTable:
        """Return the table with its partitions."""
        return PartitionedTable(self, self.metastore, self.hive_name, described.partitioned_by)

    @cached_property
    def _partition_columns(self) -> tuple[str, ...]:
        described = self.metastore.describe(self.hive_name)
        return described.partitioned_by if described is not None else ()

    def unpublish(self) -> None:
        """Drop the table; its versions stay."""
        self.metastore.drop(self.hive_name)


_PORT = 9083
_START = "Start it, or correct `metastore`."
_RIGHTS = "Give this user the right to write there, or the catalog another folder."


def examine(subject: str, options: Mapping[str, Any], root: Path, publishes: bool) -> Iterator[Finding]:
    """Yield findings about the metastore and, if a project ``publishes`` here, its folders; ``options`` are resolved.

    What Spark's own configuration names is not known without Spark.
    """
    metastore = options.get("metastore")
    if metastore is not None and scheme(metastore) == "thrift":
        yield from any_server(subject, "metastore of Hive", servers_in(metastore, _PORT), "RVT-403", _START)
    for key in ("metastore", "warehouse"):
        path = options.get(key)
        if publishes and path is not None and scheme(path) is None:
            yield from _folder(subject, key, Path(path), root)


def _folder(subject: str, key: str, folder: Path, root: Path) -> Iterator[Finding]:
    shown = shown_from(root, folder)
    try:
        try_to_write(folder)
        free = free_space(folder)
    except OSError as error:
        message = f"the {key} {shown} cannot be written: {error.strerror}"
        yield from broken(subject, RivetError("RVT-404", message, remediation=_RIGHTS))
        return
    yield in_order(subject, f"the {key} {shown} can be written, {amount(free)} free")
    yield from little_space(subject, folder, shown)
