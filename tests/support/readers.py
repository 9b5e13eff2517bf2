"""Readers and writers of one table, each in its own process. All rows of a version have the same number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from rivet_dagster.catalogs.filesystem.writes.transaction import FilesystemTransaction
from rivet_dagster.errors import RivetError
from support.standin import write_as_spark_does
from support.tables import catalog

TABLE, ROWS = "orders", 1000


def warehouse(root: Path, retained: int) -> FilesystemCatalog:
    """Return the catalog that all processes share."""
    return catalog(root, versions=retained)


def staged(warehouse: FilesystemCatalog, number: int) -> FilesystemTransaction:
    """Stage a version whose rows have this number, ready to be published."""
    version = warehouse.begin(TABLE)
    write_as_spark_does([number] * ROWS, Path(version.target.paths[0]))
    return version


def pyarrow_reader(root: Path, retained: int) -> list[int]:
    """Return a reader that opens the table's path."""
    return _listed(ds.dataset(root / "warehouse" / TABLE, format="parquet").to_table())["id"].to_pylist()


def pandas_reader(root: Path, retained: int) -> list[int]:
    """Return a reader that opens the table's path."""
    return _listed(pd.read_parquet(root / "warehouse" / TABLE))["id"].tolist()


def duckdb_reader(root: Path, retained: int) -> list[int]:
    """Return a reader that opens the table's path."""
    try:
        return [n for (n,) in duckdb.sql(f"SELECT id FROM '{root}/warehouse/{TABLE}/*.parquet'").fetchall()]
    except duckdb.IOException as error:
        if "No such file" in str(error) or "No files found" in str(error):
            raise FileNotFoundError from error
        raise


def our_reader(root: Path, retained: int) -> list[int]:
    """Return a reader by the catalog: the published version, then its files, which exist while it is retained."""
    lake = warehouse(root, retained)
    published = lake.current(TABLE)
    assert published is not None
    try:
        return _listed(pq.read_table(lake.read(published).paths[0]))["id"].to_pylist()
    except (FileNotFoundError, RivetError) as error:
        now = lake.current(TABLE)
        if now is None or int(now.version[:8]) - int(published.version[:8]) < retained:
            raise AssertionError("a version that is retained has gone") from error
        raise FileNotFoundError from error


def _listed(frame: Any) -> Any:
    """Arrow ignores files that vanish while it lists them: if all have, it returns a table without columns."""
    if not frame.shape[1]:
        raise FileNotFoundError
    return frame


READERS = (pyarrow_reader, pandas_reader, duckdb_reader, our_reader)


def read_repeatedly(test: Connection, stop: Any, read: Callable[..., list[int]], root: Path, retained: int) -> None:
    """Read until stopped; send how often each version was read completely, other results, and missing files."""
    whole: Counter[int] = Counter()
    other: list[dict[int, int]] = []
    missed = 0
    while not stop.is_set():
        try:
            found = Counter(read(root, retained))
        except FileNotFoundError:
            missed += 1
            continue
        if list(found.values()) == [ROWS]:
            whole.update(found.keys())
            test.send(whole)
        else:
            other.append(dict(found))
    test.send((whole, other, missed))


def write_repeatedly(test: Connection, writers: Any, everybody: Any, stop: Any, root: Path, numbers: list[int]) -> None:
    """Publish each number at the same moment as the other writers; send each result and the table afterwards.

    ``writers`` is a barrier for the writers, ``everybody`` one that includes the test, which may stop them before it.
    """
    lake = warehouse(root, 2)
    for number in numbers:
        version = staged(lake, number)
        writers.wait(300)
        try:
            outcome = version.commit(f"run {number}").version
        except RivetError as error:
            outcome = error.code
            version.abort()
        writers.wait(300)
        test.send((number, outcome, dict(Counter(pyarrow_reader(root, 2)))))
        everybody.wait(300)
        if stop.is_set():
            return
