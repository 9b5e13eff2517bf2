"""Rows that do not fit into memory: temporary files of a session, and a queue of Arrow batches that is never full."""

from __future__ import annotations

import shutil
import tempfile
from collections import deque
from contextlib import suppress
from pathlib import Path
from queue import Empty
from threading import Condition
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


class BatchQueue:
    """Batches of one schema, from one thread to another; at most ``ahead`` of them are in memory.

    >>> import pyarrow as pa, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     queue = BatchQueue(Path(folder) / "batches.arrow", ahead=1)
    ...     for number in range(3):
    ...         queue.put(pa.record_batch({"n": [number]}))
    ...     [queue.get_nowait().to_pylist() for _ in range(3)]
    [[{'n': 0}], [{'n': 1}], [{'n': 2}]]
    """

    def __init__(self, path: Path, ahead: int = 2) -> None:
        self._path = path
        self._ahead = ahead
        self._batches: deque[pa.RecordBatch | None] = deque()
        """None stands for the next batch in the file."""
        self._in_memory = 0
        self._changed = Condition()
        self._writer: Any = None
        self._reader: Any = None

    def put(self, item: pa.RecordBatch, timeout: float | None = None) -> None:
        """Add a batch; this never waits."""
        with self._changed:
            if self._in_memory < self._ahead:
                self._batches.append(item)
                self._in_memory += 1
            else:
                self._write(item)
                self._batches.append(None)
            self._changed.notify()

    def get(self, timeout: float | None = None) -> pa.RecordBatch:
        """Remove and return the first batch. Raises Empty if there is none for ``timeout`` seconds."""
        with self._changed:
            if not self._batches:
                self._changed.wait(timeout)
            return self.get_nowait()

    def get_nowait(self) -> pa.RecordBatch:
        """Remove and return the first batch. Raises Empty."""
        with self._changed:
            if not self._batches:
                raise Empty
            batch = self._batches.popleft()
            if batch is None:
                return self._read()
            self._in_memory -= 1
            return batch

    def close(self) -> None:
        """Remove the file."""
        with self._changed:
            for opened in (self._writer, self._reader):
                if opened is not None:
                    opened.close()
            with suppress(FileNotFoundError):
                self._path.unlink()

    def _write(self, batch: pa.RecordBatch) -> None:
        import pyarrow as pa

        if self._writer is None:
            self._writer = pa.ipc.new_stream(str(self._path), batch.schema)
        self._writer.write_batch(batch)

    def _read(self) -> pa.RecordBatch:
        import pyarrow as pa

        if self._reader is None:
            self._reader = pa.ipc.open_stream(pa.OSFile(str(self._path)))
        return self._reader.read_next_batch()


class Spool:
    """A temporary folder that is made when it is first needed."""

    def __init__(self) -> None:
        self._root: Path | None = None
        self._files = 0

    def new_file(self) -> Path:
        """Return a unique path for a file of rows."""
        if self._root is None:
            self._root = Path(tempfile.mkdtemp(prefix="rivet-spool-"))
        self._files += 1
        return self._root / f"{self._files}.parquet"

    def close(self) -> None:
        """Remove the folder and all files in it."""
        if self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)
            self._root = None
