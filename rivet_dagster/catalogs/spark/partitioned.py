"""Publishing versions of a Hive table that is PARTITIONED BY: all its partitions are moved by one call of Hive.

A version is a folder of files as that of any other table, with all columns in the files, and no file holds rows of two
partitions. When it is published, the files of each partition that differs from the one before are linked into a folder
of their own, which becomes the partition's location::

    /warehouse/sales.db/.rivet/orders/00000002-9c41d0aa/                    the version
    /warehouse/sales.db/.rivet/orders/00000002-9c41d0aa.partitions.json     its partitions, folders and files
    /warehouse/sales.db/.rivet/orders/partitions/00000001-5be2f7c3/7/       the location of a partition as it was
    /warehouse/sales.db/.rivet/orders/partitions/00000002-9c41d0aa/0/       the location of one that has changed
    /warehouse/sales.db/.rivet/orders/partitions/empty/                     the location of one without rows

The calls of the metastore are, in this order:

1. The table's property ``rivet.version`` names the new version, and ``rivet.version.before`` that before it.
2. Partitions that are new are added without rows.
3. All partitions that change are moved, those that vanish to the empty folder. This call, one transaction of the
   metastore's database, is the publication.
4. Partitions that have been emptied are dropped.
5. ``rivet.version.before`` is removed.

After a kill in between, the location of one partition that is moved, the *witness*, tells whether the third call has
happened, and so which of the two versions is published.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rivet_dagster.catalogs.filesystem.files.data_files import share
from rivet_dagster.catalogs.filesystem.files.file_status import damage, names_in
from rivet_dagster.catalogs.filesystem.files.footers import is_data, parquet_files
from rivet_dagster.catalogs.filesystem.versions.layout import TableLayout
from rivet_dagster.catalogs.spark.definition import NOTHING
from rivet_dagster.catalogs.spark.metastore import Metastore, local_folder
from rivet_dagster.catalogs.spark.names import SparkTableName
from rivet_dagster.catalogs.spark.partitions import (
    NULL,
    Switch,
    Values,
    VersionPartitions,
    added_columns,
    is_text_of,
    plan_switch,
    unused_folders,
)
from rivet_dagster.errors import RivetError
from rivet_dagster.file_replacement import replace_file, sync
from rivet_dagster.model.relations import Files
from rivet_dagster.sql.write_strategies.alignment import values_of_files
from rivet_dagster.sql.write_strategies.trees import Columns

_FILES = "rivet_files"
_ENDING = ".partitions.json"


@dataclass(frozen=True)
class PartitionedTable:
    """A table that is PARTITIONED BY ``columns``, and the layout of its versions."""

    table: TableLayout
    metastore: Metastore
    name: SparkTableName
    columns: tuple[str, ...]

    @property
    def folder(self) -> Path:
        """The folder with the locations of partitions."""
        return self.table.home / "partitions"

    @property
    def empty(self) -> Path:
        """The location of partitions without rows, for a moment."""
        return self.folder / "empty"

    def published(self, version: str, before: str | None) -> str | None:
        """Return which of two versions is published: ``version``, unless its switch from ``before`` has not happened.

        None if none was published before. Raises RVT-402, RVT-403, RVT-407.
        """
        if before is None:
            return version
        partitions = self.partitions_of(version)
        # The version that was not published may have been removed since.
        witness = partitions.witness if partitions is not None else None
        if witness is not None:
            location = self.metastore.partition_location(self.name, self.columns, witness.values)
            if witness.saw_switch(None if location is None else local_folder(location)):
                return version
        return None if before == NOTHING else before

    def partitions_of(self, version: str) -> VersionPartitions | None:
        """Return the partitions of a version; None if it does not exist. Raises RVT-407, OSError."""
        path = self._file(version)
        try:
            text = path.read_text("utf-8")
        except FileNotFoundError:
            return None
        with damage(path, "Look at the disk, and restore the file."):
            return VersionPartitions.from_json(text)

    def switch(self, version: str, before: str, is_settled: bool) -> None:
        """Switch readers from the version ``before`` to another one, whose files are complete.

        Unless ``is_settled``, a switch before has been interrupted. Raises RVT-404, RVT-407, OSError.
        """
        old = self.partitions_of(before)
        if old is None:
            raise RivetError("RVT-407", f"{self._file(before)} is gone, which tells the partitions of {self.name}")
        self.metastore.refresh(self.name)  # its columns may be others than this session knows
        more = self._new_columns(version)
        switch = plan_switch(old, self.read_partitions(version, old), self.folder / version)
        self._refuse_other_files(old, switch)
        if not is_settled:
            self._drop_leftovers()
        self.make_folders(version, switch)
        self.carry_out(version, before, switch, more)

    def make_folders(self, version: str, switch: Switch) -> None:
        """Make the folders of the partitions that change, and the file that tells them, durably. Raises OSError."""
        data, table = self.table.data(version), self.table
        # First, since by this file the folders are found when the version is removed.
        replace_file(self._file(version), switch.after.to_json().encode(), table.home / f".{version}{_ENDING}")
        self.empty.mkdir(parents=True, exist_ok=True)
        (self.folder / version).mkdir(exist_ok=True)
        for partition in switch.folders.values():
            partition.folder.mkdir()
            for name in sorted(partition.files):
                if not share(data / name, partition.folder / name):
                    sync(partition.folder / name)
            shutil.copymode(data, partition.folder)
            sync(partition.folder)
        for folder in (self.folder / version, self.folder, table.home):
            sync(folder)

    def carry_out(self, version: str, before: str, switch: Switch, more: tuple[str, ...] = ()) -> None:
        """Have the metastore publish a version, whose folders exist, in place of that ``before``, or of ``NOTHING``.

        ``more`` are columns that the table gets. Raises RVT-404.
        """
        metastore, name, columns = self.metastore, self.name, self.columns
        if switch.after.witness is None:
            metastore.set_version(name, version, None, more)
            return
        metastore.set_version(name, version, before, more)
        if switch.added:
            metastore.create_partitions(name, columns, switch.added, self.empty)
        folders = {values: partition.folder for values, partition in switch.folders.items()}
        metastore.move_partitions(name, columns, folders | dict.fromkeys(switch.emptied, self.empty))
        # The version is published: what fails now is done by the next switch.
        with suppress(RivetError):
            metastore.drop_partitions(name, columns, switch.emptied)
            metastore.set_version(name, version)

    def forget(self, version: str) -> None:
        """Remove the folders of partitions that no other version has, when a version is removed. Raises OSError."""
        removed = self.partitions_of(version)
        if removed is None:
            return
        names = (name for name in names_in(self.table.home) if name.endswith(_ENDING))
        others = (self.partitions_of(name.removesuffix(_ENDING)) for name in names if name != self._file(version).name)
        for folder in unused_folders(removed, [other for other in others if other is not None]):
            shutil.rmtree(folder, ignore_errors=True)
            with suppress(OSError):  # it holds folders that other versions have
                folder.parent.rmdir()
        self._file(version).unlink(missing_ok=True)

    def read_partitions(self, version: str, known: VersionPartitions) -> Mapping[str, Values]:
        """Return the partition of each file of a version; those that are ``known`` are not read.

        Raises RVT-404 for a value that is the name of no partition, RVT-407 for a file with rows of several.
        """
        names = {path.name: path for path in parquet_files(self.table.data(version))}
        before = known.partition_of
        found = {name: before[name] for name in names if name in before}
        unknown = tuple(str(path) for name, path in names.items() if name not in found)
        if not unknown:
            return found
        session = self.metastore.session
        with session.views():
            session.register(_FILES, session.load(Files("parquet", unknown)))
            read = session.batches(session.query(values_of_files(_FILES, self.columns))).read_all()
        types = dict(self.metastore.columns(self.name))
        by_column = {name.lower(): type_ for name, type_ in types.items()}
        for uri, *texts in zip(*(column.to_pylist() for column in read.columns), strict=True):
            name = uri.rpartition("/")[2]
            if name in found:
                raise RivetError("RVT-407", f"the file {names[name]} has rows of several partitions of {self.name}")
            for column, text in zip(self.columns, texts, strict=True):
                if not is_text_of(by_column[column.lower()], text):
                    raise _no_partition(self.name, column, text)
            found[name] = tuple(texts)
        return found

    def _file(self, version: str) -> Path:
        return self.table.home / f"{version}{_ENDING}"

    def _new_columns(self, version: str) -> tuple[str, ...]:
        """Return the columns of a version that the table lacks, each as the JSON of a StructField. Raises RVT-404."""
        session = self.metastore.session
        files = tuple(str(path) for path in parquet_files(self.table.data(version))[:1])
        frame = session.load(Files("parquet", files))
        new, wrong = added_columns(self.metastore.columns(self.name), session.columns(frame))
        if wrong:
            raise other_types(self.name, wrong)
        fields = {field["name"]: field for field in json.loads(session.schema(frame))["fields"]}
        return tuple(json.dumps(fields[name]) for name in new)

    def _refuse_other_files(self, before: VersionPartitions, switch: Switch) -> None:
        """Raise RVT-404 if somebody else has written to a partition that is to be moved."""
        for values in (*switch.moved, *switch.emptied):
            partition = before.partitions[values]
            if {name for name in names_in(partition.folder) if is_data(name)} != partition.files:
                raise written_by_others(self.name, self.columns, values, partition.folder)

    def _drop_leftovers(self) -> None:
        """Drop the partitions without rows that an interrupted switch has left."""
        found = self.metastore.partition_locations(self.name, self.columns)
        empty = [values for values, location in found.items() if local_folder(location) == self.empty]
        self.metastore.drop_partitions(self.name, self.columns, empty)


def written_by_others(name: SparkTableName, columns: tuple[str, ...], values: Values, folder: Path) -> RivetError:
    """Return RVT-404 for a partition with other files than its version has."""
    message = f"{name} has other files in its partition {shown(columns, values)} than were published from here"
    remedy = (
        f"Somebody else writes to the table, and that would be lost. Move the files that are not the version's out of "
        f"{folder}, and back what is missing; then run it again."
    )
    return RivetError("RVT-404", message, remediation=remedy)


def require_columns(name: SparkTableName, table: Columns, batch: Columns) -> None:
    """Raise RVT-404 unless a batch has all columns of the table, with their types; it may have more.

    Readers would meet the rows of one version with the columns of another otherwise: a new column, which is NULL in the
    rows before, is the one change that no reader can mistake.
    """
    _, wrong = added_columns(table, batch)
    if wrong:
        raise other_types(name, wrong)
    given = {column.lower() for column, _ in batch}
    lacking = [f"{column} ({type_})" for column, type_ in table if column.lower() not in given]
    if lacking:
        message = f"{name} is PARTITIONED BY, and keeps its columns: the batch lacks {', '.join(lacking)}"
        remedy = "Have the query give them, as in CAST(NULL AS INT) AS name; or write to a table of another name."
        raise RivetError("RVT-404", message, remediation=remedy)


def shown(columns: tuple[str, ...], values: Values) -> str:
    """Return a partition for a message.

    >>> shown(("day", "region"), ("2024-01-01", None))
    'day=2024-01-01/region=__HIVE_DEFAULT_PARTITION__'
    """
    return "/".join(
        f"{column}={NULL if value is None else value}" for column, value in zip(columns, values, strict=True)
    )


def other_types(name: SparkTableName, wrong: list[str]) -> RivetError:
    """Return RVT-404 for columns that a table with partitions cannot get."""
    message = f"{name} is PARTITIONED BY, and its columns keep their types: {'; '.join(wrong)}"
    return RivetError("RVT-404", message, remediation="Have the query give the table's types, with CAST.")


def _no_partition(name: SparkTableName, column: str, text: str | None) -> RivetError:
    if text in ("", NULL):
        message = f"Hive takes the value '{text}' of {column} for NULL, by which {name} is PARTITIONED BY"
        remedy = f"Give the rows another value, or NULL: NULLIF({column}, '')."
        return RivetError("RVT-404", message, remediation=remedy)
    message = f"the value '{text}' of {column} is that of no partition of {name}"
    return RivetError("RVT-404", message, remediation="Leave the rows out, or give them another value.")
