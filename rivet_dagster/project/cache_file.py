"""Where a CompileCache lies between two compilations: one file of the project that may be deleted at any time."""

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
"""One line that says by what the rest was made, and its hash; then a line for each value, its key and its JSON."""

_UNFINISHED = "compile-"


def read_cache(root: Path) -> CompileCache:
    """The cache of the project in ``root``; an empty one where there is none, or it is damaged or another version's."""
    try:
        head, _, body = (root / FILE).read_bytes().partition(b"\n")
    except OSError:
        return CompileCache()
    if head != _head(body):
        return CompileCache()
    return CompileCache(dict([line.split("\t", 1) for line in body.decode().splitlines()]))


def write_cache(root: Path, cache: CompileCache) -> None:
    """Put down what this compilation used, where that is news; in a folder that cannot be written nothing happens.

    Whoever reads meanwhile sees the old file or the new one; of several that write, the last one stays.
    """
    used = cache.used
    if used.keys() == cache.known.keys():
        return
    body = "\n".join([f"{key}\t{text}" for key, text in used.items()]).encode()
    file = root / FILE
    try:
        make_own_folder(file.parent)
        _remove_abandoned(file.parent)
        with tempfile.NamedTemporaryFile(dir=file.parent, prefix=_UNFINISHED, delete=False) as written:
            try:
                written.write(_head(body) + b"\n" + body)
                written.close()
                os.replace(written.name, file)
            except BaseException:
                os.unlink(written.name)
                raise
    except OSError:
        return


def _remove_abandoned(folder: Path) -> None:
    """Remove what processes that were killed while they wrote have left: nobody writes for an hour."""
    for left in folder.glob(f"{_UNFINISHED}*"):
        with suppress(FileNotFoundError):
            if time.time() - left.stat().st_mtime > 3600:
                left.unlink()


def _head(body: bytes) -> bytes:
    return f"{_maker()} {hashlib.sha256(body).hexdigest()}".encode()


@cache
def _maker() -> str:
    """What decides about the values: this package's own code, sqlglot's version and Python's."""
    package = Path(__file__).parents[1]
    code = hashlib.sha256()
    for file in sorted((*package.glob("*.py"), *(f for room in _ROOMS for f in (package / room).rglob("*.*")))):
        if file.suffix in (".py", ".txt"):
            code.update(file.read_bytes())
    return f"{version('rivet-dagster')} {code.hexdigest()} {version('sqlglot')} {sys.implementation.cache_tag}"


_ROOMS = ("model", "project", "sql", "checks", "compiler", "catalogs")
