"""Temporary files of a session, for rows that do not fit into memory."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path


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
