"""Translations that runs of a project have made, in a file below its ``.rivet``, so that the next process need not.

The compiler knows the types of few tables, so a query is translated when its tables are there: by each process anew.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from threading import Lock

from rivet_dagster.cache import key_of
from rivet_dagster.file_replacement import replace_file
from rivet_dagster.project.cache_file import part, values_in

FILE = ".rivet/cache/translations.json"
"""Parts as those of the compile cache, of which each holds what one process has added; it may be deleted any time."""

MOST_BYTES = 4 * 2**20
"""The size that the file does not exceed: what would make it larger takes the place of all that is there."""

_UNFINISHED = "compile-translations-"
"""The beginning of a name of which the compile cache removes what killed processes have left."""


class KeptTranslations:
    """The translations of the project in ``root``; they are read when the first is asked for.

    They only save time: without a folder for them, or with one that is not writable, none are kept.
    """

    def __init__(self, root: Path) -> None:
        self._file = root / FILE
        self._lock = Lock()
        self._known: dict[str, str] | None = None
        self._size = 0

    def get(self, text: str) -> str | None:
        """Return the translation that is kept for ``text``, None where there is none."""
        with self._lock:
            kept = self._read().get(_key(text))
        found: str | None = json.loads(kept) if kept is not None else None
        return found

    def put(self, text: str, translation: str) -> None:
        """Keep a translation for ``text``, which is all that it depends on besides the code of this package."""
        with self._lock:
            self._add({_key(text): json.dumps(translation)})

    def _read(self) -> dict[str, str]:
        if self._known is None:
            try:
                content = self._file.read_bytes()
            except OSError:
                content = b""
            self._known = values_in(content)
            self._size = len(content) if self._known else MOST_BYTES  # nothing is appended to what is of no use
        return self._known

    def _add(self, values: Mapping[str, str]) -> None:
        self._read().update(values)
        content = part(values)
        self._size += len(content)
        try:
            if self._size <= MOST_BYTES:
                descriptor = os.open(self._file, os.O_WRONLY | os.O_APPEND)
                try:
                    os.write(descriptor, content)
                finally:
                    os.close(descriptor)
            elif self._file.parent.is_dir():  # which the compiler has made for its own cache
                unfinished = self._file.with_name(f"{_UNFINISHED}{secrets.token_hex(4)}")
                replace_file(self._file, content, unfinished, 0o600)
                self._size = len(content)
        except OSError:
            return


def _key(text: str) -> str:
    return key_of("translated", text)
