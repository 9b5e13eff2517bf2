"""The partitions of one table in Hive's metastore: their locations, and the calls that change several at once.

Spark's SQL has no statement that moves several partitions, so these are calls of its catalog, which Spark Connect does
not reach. That of ``move`` is one transaction of the metastore's database, so that readers find all partitions where
they were, or all where they are to be.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rivet_dagster.catalogs.spark.definition import client_of, copy_with, entries_of, is_remote
from rivet_dagster.catalogs.spark.names import SparkTableName
from rivet_dagster.catalogs.spark.partitions import NULL, Values
from rivet_dagster.errors import RivetError


class HivePartitions:
    """The partitions of a table by these columns. Raises RVT-402 on Spark Connect."""

    def __init__(self, spark: Any, name: SparkTableName, columns: Iterable[str]) -> None:
        if is_remote(spark):
            message = f"{name} is PARTITIONED BY, and Spark Connect cannot move all its partitions in one change"
            raise RivetError("RVT-402", message, remediation="Use an engine that runs on a `master`.")
        self._name = name
        self._columns = [column.lower() for column in columns]
        self._jvm = spark._jvm
        self._client = client_of(spark)
        self._catalog = spark._jsparkSession.sharedState().externalCatalog()

    def locations(self) -> dict[Values, str]:
        """Return the locations of all partitions, as paths or URIs without escapes."""
        found = self._catalog.listPartitions(self._name.database, self._name.table, self._jvm.scala.Option.empty())
        if found.isEmpty():
            return {}
        # Spark gives the columns of a table that was created with USING their letter case back.
        spelled = {key.lower(): key for key, _ in entries_of(found.head().spec())}
        columns = [spelled[column] for column in self._columns]
        locations = {}
        for position in range(found.size()):
            partition = found.apply(position)
            spec = partition.spec()
            locations[tuple(_value(spec.apply(column)) for column in columns)] = self._location(partition)
        return locations

    def location(self, values: Values) -> str | None:
        """Return the location of a partition; None if it does not exist."""
        found = self._catalog.getPartitionOption(self._name.database, self._name.table, self._spec(values))
        return None if found.isEmpty() else self._location(found.get())

    def create(self, partitions: Iterable[Values], folder: Path) -> None:
        """Add partitions whose location is ``folder``."""
        made = self._made(dict.fromkeys(partitions, folder))
        self._catalog.createPartitions(self._name.database, self._name.table, made, False)

    def move(self, folders: Mapping[Values, Path]) -> None:
        """Make these folders the locations of their partitions, all in one transaction of the metastore."""
        self._catalog.alterPartitions(self._name.database, self._name.table, self._made(folders))

    def drop(self, partitions: Iterable[Values]) -> None:
        """Remove partitions that exist; the files at their locations stay."""
        specs = self._jvm.java.util.ArrayList()
        for values in partitions:
            specs.add(self._spec(values))
        if specs.size():
            retained = (True, False, True)  # ignoreIfNotExists, purge, retainData
            self._catalog.dropPartitions(self._name.database, self._name.table, self._seq(specs), *retained)

    def _made(self, folders: Mapping[Values, Path]) -> Any:
        """Return partitions at these folders, of the table's own format and without statistics of other files."""
        jvm = self._jvm
        made, option = jvm.java.util.ArrayList(), jvm.scala.Option
        storage = self._client.getTable(self._name.database, self._name.table).storage()
        # Of a table that was created with USING these have its location.
        storage = copy_with(storage, {"properties": self._map({})})
        names = [storage.productElementName(position) for position in range(storage.productArity())]
        parts = [storage.productElement(position) for position in range(storage.productArity())]
        at, nothing, unknown = names.index("locationUri"), self._map({}), option.empty()
        partition_of = jvm.org.apache.spark.sql.catalyst.catalog.CatalogTablePartition
        now = int(time.time() * 1000)
        located: dict[Path, Any] = {}
        for values, folder in folders.items():
            if folder not in located:
                uri = option.apply(jvm.org.apache.hadoop.fs.Path(f"file:{folder}").toUri())
                located[folder] = storage.copy(*parts[:at], uri, *parts[at + 1 :])
            made.add(partition_of(self._spec(values), located[folder], nothing, now, -1, unknown))
        return self._seq(made)

    def _spec(self, values: Values) -> Any:
        texts = (NULL if value is None else value for value in values)
        return self._map(dict(zip(self._columns, texts, strict=True)))

    def _location(self, partition: Any) -> str:
        path = self._jvm.org.apache.hadoop.fs.Path(partition.storage().locationUri().get())
        return str(path.toString())

    def _map(self, entries: Mapping[str, str]) -> Any:
        return self._jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(dict(entries))

    def _seq(self, array: Any) -> Any:
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(array)


def _value(text: str) -> str | None:
    return None if text == NULL else text
