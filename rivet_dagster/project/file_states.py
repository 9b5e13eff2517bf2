"""The states of files (times, size, inode), by which a file that has not changed need not be read again."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from rivet_dagster.cache import CompileCache

_SETTLED_NS = 2_000_000_000
"""The age from which a state is trusted: within one tick of its file system's clock a file may change unseen."""

_Entries = dict[str, list[Any]]
"""By the name of a file its state, and last the key of what was read from it."""


class FileStates:
    """The states that files below ``root`` had when earlier compilations read them, with the keys of the results."""

    def __init__(self, root: Path, cache: CompileCache) -> None:
        self._root = str(root)
        self._cache = cache
        self._settled = time.time_ns() - _SETTLED_NS
        self._known: dict[str, _Entries] = {}
        self._now: dict[str, _Entries] = {}
        self._states: dict[str, list[Any] | None] = {}
        self.fresh: _Entries = {}
        """By path the state, and last the key, of each file that was read by this process, or by another one."""

    def key(self, path: str) -> str | None:
        """Return the key that was recorded for the file in its present state, None where there is none."""
        folder, _, name = path.rpartition("/")
        if folder not in self._known:
            self._known[folder] = self._cache.get("states", folder) or {}
            self._now[folder] = {}
        state = self._states[path] = self._state(path)
        entry = self._known[folder].get(name)
        if entry is None or entry[:-1] != state:
            read = self.fresh.get(path)
            if read is None or read[:-1] != state:
                return None
            self.record(path, read[-1])
            return str(read[-1])
        self._now[folder][name] = entry
        return str(entry[-1])

    def record(self, path: str, key: str) -> None:
        """Record the key of what was read from the file, after ``key`` has looked at its state."""
        state = self._states[path]
        if state is None:
            return
        self.fresh[path] = [*state, key]
        if max(state[:2]) < self._settled:
            folder, _, name = path.rpartition("/")
            self._now[folder][name] = self.fresh[path]

    def store(self) -> None:
        """Put what has changed into the cache; files of which no key was asked are forgotten."""
        for folder, entries in self._now.items():
            if entries != self._known[folder]:
                self._cache.put("states", folder, entries)

    def _state(self, path: str) -> list[Any] | None:
        try:
            status = os.stat(f"{self._root}/{path}")
        except OSError:
            return None
        return [status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino]
