"""Tables that somebody else has made, taken over in processes that are killed, beside a reader."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rivet_dagster.model.schema import Field
from support.killing import PROCESSES, ended, start, work_killed_before_a_change
from support.tables import catalog


def make_folder(folder: Path, files: Mapping[str, Any]) -> Path:
    """Write files into a folder: rows of a column ``id`` in Parquet, bytes as they are, tables of Arrow."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            table = content if isinstance(content, pa.Table) else pa.table({"id": pa.array(content, pa.int64())})
            pq.write_table(table, path)
    return folder


def adopt_orders(root: Path) -> None:
    """Take over the table ``orders`` of the catalog ``lake``."""
    assert catalog(root, "lake").adopt("orders") is not None


def give_up_orders(root: Path) -> None:
    """Give it up again."""
    assert catalog(root, "lake").give_up("orders")


DAYS = (Field("day", "date"),)


def adopt_days(root: Path) -> None:
    """Take over the table ``orders`` of the catalog ``lake``, which lies in folders of days."""
    assert catalog(root, "lake").adopt("orders", DAYS) is not None


@contextmanager
def reading(read: Callable[[], object]) -> Iterator[list[object]]:
    """Read a table again and again while the block runs; yield what each read gave, rows or an error."""
    seen: list[object] = []
    begun, stop = threading.Event(), threading.Event()

    def read_on() -> None:
        while not stop.is_set():
            try:
                seen.append(read())
            except Exception as error:
                seen.append(error)
            begun.set()

    reader = threading.Thread(target=read_on)
    reader.start()
    begun.wait()
    try:
        yield seen
    finally:
        stop.set()
        reader.join()


def killed(root: Path, work: Callable[[Path], None], at: int) -> tuple[int, int | None]:
    """Kill ``work`` before its change number ``at``; return how many changes it began, and its exit code."""
    test, child = PROCESSES.Pipe(duplex=False)
    process = start(work_killed_before_a_change, child, work, root, at)
    child.close()
    changes = 0
    while True:
        try:
            test.recv()
        except EOFError:
            break
        changes += 1
    return changes, ended(process)


def adopt_of_iceberg(root: Path) -> None:
    """Take over the table ``orders`` of an Iceberg catalog of folders."""
    from support.iceberg_runs import lake

    lake({"catalog": "hadoop", "warehouse": str(root / "lake/warehouse")}, root).adopt("orders")
