"""The metastore behind a session's own catalog: what it knows of a table, and the changes that publish tables.

Each change is one statement, or one call, that the metastore carries out in a transaction of its own.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

from rivet_dagster.catalogs.spark.definition import VERSION, VERSION_BEFORE, Buckets, redefine, set_buckets, set_version
from rivet_dagster.catalogs.spark.hive_partitions import HivePartitions
from rivet_dagster.catalogs.spark.names import OWN, SparkTableName, columns_ddl
from rivet_dagster.catalogs.spark.partitions import Values
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.engines.pyspark.messages import spark_error
from rivet_dagster.engines.pyspark.waiting import THREAD_PREFIX
from rivet_dagster.errors import QueryRefused, RivetError
from rivet_dagster.model.relations import CatalogTable, Files
from rivet_dagster.paths import scheme

_FILE = re.compile(r"^file:(//(?=/))?", re.IGNORECASE)
_SERDES = ("parquet", "orc", "avro", "csv", "json")
"""The formats of Hive's own tables, by words in the names of their classes."""
_IMPLEMENTATION = "spark.sql.catalogImplementation"
_REMEDY = "Look after the metastore, or correct the settings by which Spark reaches it."


@dataclass(frozen=True)
class Described:
    """A table or view as the metastore has it; ``location`` is a path or URI without escapes, None of a view.

    ``format`` is that of its files, in lower case; ``buckets`` is their number and their columns, "" without any.
    ``version`` is the one that a table that is PARTITIONED BY was switched to last, and ``before`` that before it,
    or ``NOTHING``, as long as it is not certain that the switch has happened. ``has_listed_partitions`` is false if
    Spark finds the partitions in folders alone.
    """

    type: str
    location: str | None
    format: str = ""
    partitioned_by: tuple[str, ...] = ()
    buckets: str = ""
    version: str | None = None
    before: str | None = None
    has_listed_partitions: bool = True

    @property
    def unlike_version(self) -> str | None:
        """Why no version can be such a table, as the end of a sentence; None if one can."""
        if self.location is None:
            return "is a view"
        if self.folder is None:
            return f"is at {self.location}, where no table can be switched"
        if self.format != "parquet":
            return f"is of the format {self.format}, not Parquet"
        if self.partitioned_by and not self.has_listed_partitions:
            return "has its partitions in folders alone: have `MSCK REPAIR TABLE` list them in the metastore"
        return None

    @property
    def folder(self) -> Path | None:
        """The folder of its files; None if it is none on a file system that this process sees."""
        return local_folder(self.location) if self.location is not None else None


def local_folder(location: str) -> Path | None:
    """Return the folder that a location of Hive's is, with links resolved; None if it is on another store.

    >>> local_folder("file:/warehouse/a b"), local_folder("s3a://bucket/orders")
    (PosixPath('/warehouse/a b'), None)
    """
    if scheme(location) not in (None, "file"):
        return None
    return Path(os.path.realpath(_FILE.sub("", location)))


class Metastore:
    """The metastore of the session that ``open_session`` begins, which happens when it is first asked for something."""

    def __init__(self, open_session: Callable[[], EngineSession]) -> None:
        self._open_session = open_session

    @cached_property
    def session(self) -> EngineSession:
        """The session; it ends with this process. Raises RVT-403 if no engine is at hand."""
        return self._open_session()

    def describe(self, name: SparkTableName) -> Described | None:
        """Return the table or view of that name; None if there is none, or no such database. Raises RVT-403."""
        try:
            (row,) = self._rows(f"DESCRIBE TABLE EXTENDED {name.quoted_in(self.session.own_catalog)} AS JSON")
        except RivetError as error:
            if _is_missing(error):
                return None
            raise
        known = json.loads(row["json_metadata"])
        provider = str(known.get("provider", "")).lower()
        if provider == "hive":
            provider = next((each for each in _SERDES if each in known.get("serde_library", "").lower()), provider)
        number = int(known.get("num_buckets") or 0)
        buckets = f"{number:,} by {', '.join(known.get('bucket_columns', ()))}" if number > 0 else ""
        columns = tuple(known.get("partition_columns", ()))
        given = known.get("table_properties", {}) if columns else {}
        versions = (given.get(VERSION), given.get(VERSION_BEFORE))
        is_listed = "partition_provider" in known
        return Described(known.get("type", ""), known.get("location"), provider, columns, buckets, *versions, is_listed)

    def folder_of(self, database: str) -> Path:
        """Return the folder for the tables of a database.

        Raises RVT-402 if tables cannot be published there, RVT-403 if there is no such database.
        """
        settings = self._rows(f"SET {_IMPLEMENTATION}")
        if settings[0]["value"] != "hive":
            raise RivetError(
                "RVT-402",
                f"the session's own catalog is not Hive's ({_IMPLEMENTATION} is {settings[0]['value']})",
                remediation=f"Publish to a catalog of another type, or set {_IMPLEMENTATION} where Spark is started.",
            )
        try:
            rows = self._rows(f"DESCRIBE DATABASE EXTENDED `{OWN}`.`{database}`")
        except RivetError as error:
            if "[SCHEMA_NOT_FOUND]" not in str(error):
                raise
            message = f"there is no database '{database}' in the session's own catalog"
            raise RivetError("RVT-403", message, remediation=f"Create it: CREATE DATABASE {database}") from error
        location = next(str(row["info_value"]) for row in rows if row["info_name"] == "Location")
        folder = local_folder(location)
        if folder is None:
            message = f"the database '{database}' is at {location}, where no table can be switched atomically"
            remedy = "Use a database whose location is on a POSIX file system that Spark and Dagster both see."
            raise RivetError("RVT-402", message, remediation=remedy)
        return folder

    def switch(self, name: SparkTableName, folder: Path, files: Files) -> None:
        """Have the table, which may be new, consist of the ``files`` in ``folder``, with their columns, in one change.

        Raises RVT-404 for columns that a Hive table cannot have, or if the change is refused; RVT-403.
        """
        schema = self.session.schema(self.session.load(files))
        columns = columns_ddl(schema)
        location = _literal(f"file:{folder}")
        spark = self._spark
        present = self._columns(name)
        if present is None:
            create = f"CREATE TABLE {name.quoted} ({columns}) STORED AS PARQUET LOCATION {location}"
            self._change(name, lambda: spark.sql(create))
        elif present == columns:
            self.set_location(name, folder)
        else:
            self._change(name, lambda: redefine(spark, name, schema, folder))

    def set_location(self, name: SparkTableName, folder: Path) -> None:
        """Have the table consist of the files in ``folder``; all else of it stays. Raises RVT-404, RVT-403."""
        spark = self._spark
        location = _literal(f"file:{folder}")
        self._change(name, lambda: spark.sql(f"ALTER TABLE {name.quoted} SET LOCATION {location}"))

    def buckets(self, name: SparkTableName) -> Buckets:
        """Return the buckets of a table that has some. Raises RVT-402, RVT-403."""
        with _refused("RVT-403", f"{name} cannot be read"):
            return Buckets.of(self._spark, name)

    def set_buckets(self, name: SparkTableName, folder: Path, buckets: Buckets | None) -> None:
        """Do as ``set_location`` does, and give the table other buckets, or none, in the same change."""
        spark = self._spark
        self._change(name, lambda: set_buckets(spark, name, folder, buckets))

    def set_version(
        self, name: SparkTableName, version: str | None, before: str | None = None, more: Sequence[str] = ()
    ) -> None:
        """Have a table that is PARTITIONED BY name the version, and that before it as long as it may not be switched.

        ``more`` are columns that it gets, each as the JSON of a StructField. Raises RVT-404.
        """
        spark = self._spark
        given = {} if version is None else {VERSION: version}
        given |= {} if before is None else {VERSION_BEFORE: before}
        self._change(name, lambda: set_version(spark, name, given, more))

    def partition_locations(self, name: SparkTableName, columns: Sequence[str]) -> dict[Values, str]:
        """Return the locations of all partitions, as paths or URIs without escapes. Raises RVT-402, RVT-403."""
        with _refused("RVT-403", f"the partitions of {name} cannot be read"):
            return HivePartitions(self._spark, name, columns).locations()

    def partition_location(self, name: SparkTableName, columns: Sequence[str], values: Values) -> str | None:
        """Return the location of one; None if it does not exist. Raises RVT-402, RVT-403."""
        with _refused("RVT-403", f"the partitions of {name} cannot be read"):
            return HivePartitions(self._spark, name, columns).location(values)

    def create_partitions(
        self, name: SparkTableName, columns: Sequence[str], partitions: Sequence[Values], folder: Path
    ) -> None:
        """Add partitions, which do not exist yet, at ``folder``. Raises RVT-404."""
        self._change(name, lambda: HivePartitions(self._spark, name, columns).create(partitions, folder))

    def move_partitions(self, name: SparkTableName, columns: Sequence[str], folders: Mapping[Values, Path]) -> None:
        """Make these folders the locations of their partitions, in one transaction of the metastore. Raises RVT-404."""
        self._change(name, lambda: HivePartitions(self._spark, name, columns).move(folders))

    def drop_partitions(self, name: SparkTableName, columns: Sequence[str], partitions: Sequence[Values]) -> None:
        """Remove partitions; the files at their locations stay. Raises RVT-404."""
        self._change(name, lambda: HivePartitions(self._spark, name, columns).drop(partitions))

    def refresh(self, name: SparkTableName) -> None:
        """Have the session forget the files that it has listed of a table. Raises RVT-403."""
        self._rows(f"REFRESH TABLE {name.quoted_in(self.session.own_catalog)}")

    def columns(self, name: SparkTableName) -> tuple[tuple[str, str], ...]:
        """Return the columns of a table, with Spark's types. Raises RVT-403."""
        with _refused("RVT-403", f"{name} cannot be read"):
            return tuple(self.session.columns(self.session.load(CatalogTable(name.identifier))))

    def drop(self, name: SparkTableName) -> None:
        """Remove the table, whose files stay where they are. Raises RVT-404."""
        spark = self._spark
        self._change(name, lambda: spark.sql(f"DROP TABLE IF EXISTS {name.quoted}"))

    def _columns(self, name: SparkTableName) -> str | None:
        """Return the columns of a table as DDL; None if it does not exist."""
        try:
            return columns_ddl(self.session.schema(self.session.load(CatalogTable(name.identifier))))
        except RivetError as error:
            if _is_missing(error):
                return None
            raise

    def _rows(self, sql: str) -> list[dict[str, Any]]:
        """Return the rows of a command, which Spark answers without a job. Raises RVT-403."""
        session = self.session
        with _refused("RVT-403", "the session's own catalog does not answer"):
            return session.rows(sql)

    def _change(self, name: SparkTableName, change: Callable[[], object]) -> None:
        with _refused("RVT-404", f"the metastore refuses to change {name}"):
            finish_uninterrupted(change)

    @property
    def _spark(self) -> Any:
        return self.session.spark  # type: ignore[attr-defined]


@contextmanager
def _refused(code: str, message: str) -> Iterator[None]:
    """Turn what Spark refuses in the block into an error with that code; a lost connection stays what it is."""
    try:
        yield
    except Exception as error:
        translated = error if isinstance(error, RivetError) else spark_error(error)
        if translated is None:
            raise
        if not isinstance(translated, QueryRefused):
            raise translated from error
        reason = translated.diagnostics[0].message
        raise RivetError(code, f"{message}: {reason}", remediation=_REMEDY) from error


def _is_missing(error: RivetError) -> bool:
    return "[TABLE_OR_VIEW_NOT_FOUND]" in str(error)


def _literal(text: str) -> str:
    """Return a text as a string literal of Spark's SQL.

    >>> print(_literal(r"file:/o'brien\\n"))
    'file:/o\\'brien\\\\n'
    """
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


_POLL_SECONDS = 0.1


def finish_uninterrupted(work: Callable[[], object]) -> None:
    """Do ``work`` in another thread, and wait until it has ended; an interrupt meanwhile is raised after that.

    >>> done = []
    >>> finish_uninterrupted(lambda: done.append("switched"))
    >>> done
    ['switched']
    """
    errors: list[BaseException] = []
    begun, ended = Lock(), Event()

    def run() -> None:
        if begun.acquire(blocking=False):
            try:
                work()
            except BaseException as error:
                errors.append(error)
            finally:
                ended.set()

    interrupt: BaseException | None = None
    try:
        Thread(target=run, name=f"{THREAD_PREFIX}metastore", daemon=True).start()
    except BaseException as error:
        if begun.acquire(blocking=False):
            raise  # now it never begins
        interrupt = error
    while not ended.is_set():
        try:
            ended.wait(_POLL_SECONDS)
        except BaseException as error:  # KeyboardInterrupt, or what Dagster raises for a cancel
            interrupt = error
    if errors:
        raise errors[0]
    if interrupt is not None:
        raise interrupt
