"""Writing rows without an engine, and errors of the operating system while writing, with their remediations."""

from __future__ import annotations

import errno
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rivet_dagster.catalogs.filesystem.files.footers import sql_type
from rivet_dagster.errors import RivetError

_RIGHTS = "Give this user the right to write there, or the catalog another `path`."
_SPACE = "Free space on that file system, or give the catalog another `path`."
_REMEDIES = {
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
    errno.EROFS: _RIGHTS,
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.EIO: "Look after that file system, then run it again.",
    errno.ESTALE: "Look after that file system, then run it again.",
}


@contextmanager
def translate_write_errors(path: Path) -> Iterator[None]:
    """Turn an OSError of the block, which writes to ``path``, into RVT-404.

    >>> with translate_write_errors(Path("/warehouse")):
    ...     raise OSError(errno.ENOSPC, "No space left on device")
    Traceback (most recent call last):
    rivet_dagster.errors.NotWritable: RVT-404 cannot write to /warehouse: No space left on device
        Free space on that file system, or give the catalog another `path`.
    """
    try:
        yield
    except OSError as error:
        message = f"cannot write to {path}: {error.strerror or error}"
        raise RivetError("RVT-404", message, remediation=_REMEDIES.get(error.errno or 0)) from error


def write_rows(rows: Any, folder: Path) -> bool:
    """Write the rows of a pyarrow.RecordBatchReader to one more file of a version, a few batches in memory at a time.

    Return False, without having read any row, if Spark would not read a column with its own type.
    """
    import pyarrow.parquet as pq

    if any(sql_type(field.type) is None for field in rows.schema):
        return False
    with pq.ParquetWriter(folder / f"part-{secrets.token_hex(4)}.snappy.parquet", rows.schema) as file:
        for batch in rows:
            file.write_batch(batch)
    return True
