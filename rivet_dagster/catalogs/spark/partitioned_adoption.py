"""Taking over a table of Hive that is PARTITIONED BY, and that somebody else has made, as a table's first version.

The files of a version hold all columns, and those of partitions lack the columns that the metastore tells. So Spark
writes the rows anew, and one call of the metastore moves all partitions to the new files, as for any later version. The
files where they were stay, and the file beside the version tells where: the partitions get their locations back if the
table is given up.

Giving up is the same switch in the other direction. First the table's properties say that it may not be published any
more, then one call moves all partitions back, by which it is not, then the properties are removed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rivet_dagster.catalogs.filesystem.files.data_files import Footers, flatten, keep_permissions, stamp_of
from rivet_dagster.catalogs.filesystem.files.file_status import damage, is_folder, names_in
from rivet_dagster.catalogs.filesystem.files.footer_cache import FileStamp
from rivet_dagster.catalogs.filesystem.files.footers import footer_of, is_data, parquet_files
from rivet_dagster.catalogs.filesystem.versions import lifecycle
from rivet_dagster.catalogs.filesystem.versions.layout import ADOPTED_FROM
from rivet_dagster.catalogs.filesystem.versions.records import forget_publishers, write_manifest
from rivet_dagster.catalogs.spark.adoption import adopted_version, published_version, refused, remove_unswitched
from rivet_dagster.catalogs.spark.definition import NOTHING
from rivet_dagster.catalogs.spark.metastore import Described, local_folder
from rivet_dagster.catalogs.spark.partitioned import PartitionedTable, shown, written_by_others
from rivet_dagster.catalogs.spark.partitions import TYPES, Partition, Values, VersionPartitions, is_text_of, plan_switch
from rivet_dagster.catalogs.versions.facts import ADOPTED
from rivet_dagster.catalogs.versions.manifest import Manifest
from rivet_dagster.errors import RivetError
from rivet_dagster.file_replacement import replace_file, sync
from rivet_dagster.model.relations import CatalogTable, Files
from rivet_dagster.model.storage import ExistingTable, Provenance, Record, Statistics
from rivet_dagster.sql.write_strategies.alignment import nothing_of

_ROWS = "rivet_rows"


@dataclass(frozen=True)
class OldPartitions:
    """The partitions of a table that somebody else has made, by their values, and the folders of their files."""

    of: PartitionedTable
    folders: Mapping[Values, Path]

    @cached_property
    def stamps(self) -> Mapping[Path, FileStamp]:
        """The files. Raises RVT-404 for files in folders of their own, RVT-407, OSError."""
        files = {}
        for values, folder in self.folders.items():
            for path in (folder / name for name in names_in(folder)):
                if is_data(path.name):
                    if is_folder(path):
                        partition = shown(self.of.columns, values)
                        raise refused(self.of.name, f"has files of {partition} in folders, as in {path.name}")
                    files[path] = stamp_of(path)
        return files

    @cached_property
    def rows(self) -> int:
        """The rows of the files. Raises RVT-407."""
        return sum(footer_of(path).statistics.rows for path in self.stamps)


def describe(partitioned: PartitionedTable, described: Described) -> ExistingTable:
    """Return a table that can be taken over. Raises RVT-402 on Spark Connect, RVT-404, OSError."""
    found = _find(partitioned, described)
    size = sum(size for _, size, _ in found.stamps.values())
    by = ", ".join(partitioned.columns)
    layout = {
        "format": described.format,
        "location": str(described.location),
        "partitions": f"{len(found.folders):,} by {by}, whose rows are written anew",
    }
    statistics = Statistics(found.rows, size, partitioned.metastore.columns(partitioned.name))
    return ExistingTable(".".join(partitioned.name.identifier), statistics, layout)


def adopt(partitioned: PartitionedTable) -> Manifest | None:
    """Make the rows of the table its first version, and return what is published; None if there is no table.

    Raises RVT-402 on Spark Connect, RVT-404, RVT-405 if somebody writes to the table meanwhile, OSError.
    """
    table, metastore, name = partitioned.table, partitioned.metastore, partitioned.name
    lifecycle.make_durable(table.home)
    with lifecycle.hold_lock(table):
        published, described = published_version(table), metastore.describe(name)
        if published is not None or described is None:
            return None if published is None else lifecycle.manifest_of(table, published)
        old = _find(partitioned, described)
        remove_unswitched(table)
        version = table.new_version()
        # First, since by this file the next attempt finds what is left of this one.
        before = {"partitions": [[list(values), str(folder)] for values, folder in old.folders.items()]}
        replace_file(table.adopted(version), json.dumps(before).encode(), table.home / f".{version}{ADOPTED_FROM}")
        try:
            return _write_anew(partitioned, version, old)
        except BaseException:
            if published_version(table) is None:
                lifecycle.remove(table, version)
            raise


def _write_anew(partitioned: PartitionedTable, version: str, old: OldPartitions) -> Manifest:
    table, metastore, name = partitioned.table, partitioned.metastore, partitioned.name
    data, session, files_before = table.data(version), metastore.session, old.stamps
    data.mkdir()
    with session.views():
        rows = session.load(CatalogTable(name.identifier))
        frame, split_by = table.lay_out(session, rows, None)
        written = Files("parquet", (str(data),))
        session.write(frame, written, None, split_by)
        flatten(data)
        if not parquet_files(data):  # a split write of no rows leaves no file
            session.register(_ROWS, rows)
            session.write(session.query(nothing_of(_ROWS, [column for column, _ in session.columns(rows)])), written)
    footers = Footers()
    files = lifecycle.tidy(data, footers)
    statistics = footers.statistics(files)
    if old.stamps:
        keep_permissions(next(iter(old.stamps)).parent, data, files)
    manifest = Manifest.now(version, None, ADOPTED, statistics, Provenance(record=Record(0)))
    footers.write(files, table.files(version))
    lifecycle.sync_data(table, version)
    known = VersionPartitions(
        partitioned.columns, {values: Partition(folder) for values, folder in old.folders.items()}
    )
    found = partitioned.read_partitions(version, known)
    unknown = sorted(set(found.values()) - set(old.folders), key=str)
    if unknown:
        why = f"has rows that Spark writes to another partition, {shown(partitioned.columns, unknown[0])}"
        raise refused(name, why)
    # Those without rows have their own folders, too, until the next version.
    switch = plan_switch(known, found, partitioned.folder / version)
    switch = switch.keep_emptied(partitioned.folder / version)
    partitioned.make_folders(version, switch)
    write_manifest(manifest, table.manifest(version))
    sync(table.home)
    forget_publishers(table)
    now = OldPartitions(partitioned, _folders(partitioned))
    if now.folders != old.folders or now.stamps != files_before or statistics.rows != old.rows:
        raise RivetError("RVT-405", f"{name} has been written to by somebody while it was taken over")
    partitioned.carry_out(version, NOTHING, switch)
    return manifest


def give_up(partitioned: PartitionedTable) -> bool:
    """Give the partitions their locations back, and return whether the table was taken over.

    Raises RVT-404 if another version has been published, or rows have been written, since, or the files at an old
    location are gone; OSError.
    """
    table, metastore, name = partitioned.table, partitioned.metastore, partitioned.name
    if not is_folder(table.home):
        return False
    with lifecycle.hold_lock(table):
        adopted = adopted_version(table)
        if adopted is not None:
            _require_same_rows(partitioned, adopted.version)
            old = _before(partitioned, adopted.version)
            if old:
                metastore.set_version(name, adopted.version, NOTHING)
                metastore.move_partitions(name, partitioned.columns, old)
        metastore.set_version(name, None)
        remove_unswitched(table)
    return adopted is not None


def _find(partitioned: PartitionedTable, described: Described) -> OldPartitions:
    """Return the partitions of a table that somebody else has made. Raises RVT-402, RVT-404 if it is not taken over."""
    name, columns = partitioned.name, partitioned.columns
    if described.unlike_version is not None:
        raise refused(name, described.unlike_version)
    partitioned.metastore.refresh(name)
    types = {column.lower(): type_ for column, type_ in partitioned.metastore.columns(name)}
    for column in columns:
        if types[column.lower()] not in TYPES:
            raise refused(name, f"is PARTITIONED BY {column}, whose type is {types[column.lower()]}")
    folders = _folders(partitioned)
    for values, folder in folders.items():
        for column, text in zip(columns, values, strict=True):
            if not is_text_of(types[column.lower()], text):
                why = f"has a partition {shown(columns, values)}, which Spark would write with another text"
                raise refused(name, why)
        if partitioned.folder in folder.parents:
            why = f"has a partition in {folder}, of a version that was published from here"
            remedy = "Somebody has removed the table's property `rivet.version`: set it again."
            raise refused(name, why, remedy)
    return OldPartitions(partitioned, folders)


def _folders(partitioned: PartitionedTable) -> dict[Values, Path]:
    """Return the folders of all partitions. Raises RVT-404 if one is on another store."""
    found = partitioned.metastore.partition_locations(partitioned.name, partitioned.columns)
    folders = {}
    for values, location in found.items():
        folder = local_folder(location)
        if folder is None:
            why = f"has a partition {shown(partitioned.columns, values)} at {location}, where no table can be switched"
            raise refused(partitioned.name, why)
        folders[values] = folder
    return folders


def _before(partitioned: PartitionedTable, version: str) -> dict[Values, Path]:
    """Return the locations that the partitions had. Raises RVT-404 if the folder of one with rows is gone."""
    table, known = partitioned.table, partitioned.partitions_of(version)
    file, partitions = table.adopted(version), known.partitions if known is not None else {}
    with damage(file, "Set the locations by hand: ALTER TABLE ... PARTITION (...) SET LOCATION."):
        stored = json.loads(file.read_text("utf-8"))["partitions"]
        folders = {tuple(values): Path(folder) for values, folder in stored}
    gone = [folder for values, folder in folders.items() if partitions[values].files and not is_folder(folder)]
    if gone:
        message = f"'{table.name}' was taken over from {gone[0]}, which is gone"
        raise RivetError("RVT-404", message, remediation="Keep the version that was taken over.")
    return folders


def _require_same_rows(partitioned: PartitionedTable, version: str) -> None:
    """Raise RVT-404 if somebody has written to the version since."""
    known, found = partitioned.partitions_of(version), _folders(partitioned)
    partitions = known.partitions if known is not None else {}
    for values in sorted(found.keys() | partitions.keys(), key=str):
        partition, folder = partitions.get(values), found.get(values)
        names = {name for name in names_in(folder) if is_data(name)} if folder is not None else set()
        if partition is None or partition.folder != folder or partition.files != names:
            where = folder or (partition.folder if partition is not None else partitioned.folder)
            raise written_by_others(partitioned.name, partitioned.columns, values, where)
