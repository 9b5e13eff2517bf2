"""The file that stores a CompileCache between compilations; it may be deleted at any time."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import time
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

from rivet_dagster.cache import CompileCache
from rivet_dagster.project.own_folder import make_own_folder

FILE = ".rivet/cache/compile.json"
"""A line with the code and versions that made the rest, and its hash; then a line for each value: its key and JSON."""

_UNFINISHED = "compile-"


def read_cache(root: Path) -> CompileCache:
    """Return the cache of the project in ``root``; an empty one where it is missing, damaged or of another version."""
    try:
        head, _, body = (root / FILE).read_bytes().partition(b"\n")
    except OSError:
        return CompileCache()
    if head != _head(body):
        return CompileCache()
    return CompileCache(dict([line.split("\t", 1) for line in body.decode().splitlines()]))


def write_cache(root: Path, cache: CompileCache) -> None:
    """Store the values that this compilation used, if they have changed; do nothing if the folder is not writable.

    A concurrent reader sees the old or the new file; of concurrent writers the last one wins.
    """
    used = cache.used
    if used.keys() == cache.known.keys():
        return
    body = "\n".join([f"{key}\t{text}" for key, text in used.items()]).encode()
    file = root / FILE
    try:
        make_own_folder(file.parent)
        _remove_abandoned(file.parent)
        with tempfile.NamedTemporaryFile(dir=file.parent, prefix=_UNFINISHED, delete=False) as unfinished:
            try:
                unfinished.write(_head(body) + b"\n" + body)
                unfinished.close()
                os.replace(unfinished.name, file)
            except BaseException:
                os.unlink(unfinished.name)
                raise
    except OSError:
        return


def _remove_abandoned(folder: Path) -> None:
    """Remove the unfinished files of killed processes: those older than an hour, as no write takes that long."""
    for abandoned in folder.glob(f"{_UNFINISHED}*"):
        with suppress(FileNotFoundError):
            if time.time() - abandoned.stat().st_mtime > 3600:
                abandoned.unlink()


def _head(body: bytes) -> bytes:
    return f"{_maker()} {hashlib.sha256(body).hexdigest()}".encode()


@cache
def _maker() -> str:
    """Return what determines the values: this package's code, and the versions of sqlglot and Python."""
    package = Path(__file__).parents[1]
    code = hashlib.sha256()
    for file in sorted((*package.glob("*.py"), *(f for room in _ROOMS for f in (package / room).rglob("*.*")))):
        if file.suffix in (".py", ".txt"):
            code.update(file.read_bytes())
    return f"{version('rivet-dagster')} {code.hexdigest()} {version('sqlglot')} {sys.implementation.cache_tag}"


_ROOMS = ("model", "project", "sql", "checks", "compiler", "catalogs")
