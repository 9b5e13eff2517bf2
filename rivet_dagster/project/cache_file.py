"""The file that stores a CompileCache between compilations; it may be deleted at any time."""

from __future__ import annotations

import hashlib
import os
import secrets
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from itertools import islice
from pathlib import Path

from rivet_dagster.cache import CompileCache
from rivet_dagster.file_replacement import replace_file
from rivet_dagster.paths import make_rivet_folder

FILE = ".rivet/cache/compile.json"
"""Parts, those that later compilations append at the end; of two values of a key the later one holds.

A part is an empty line, a line with the code and versions that made it and its hash, and two lines for each value: its
key and its JSON.
"""

_UNFINISHED = "compile-"

_APPENDED_FROM = 1_000
"""The least number of values in a file to which others are appended; a smaller one is written anew."""

_VALUES_OF_PART = 2_000
"""The most values of a part of a file that is written anew, so that no copy of all of them is needed at once."""

_MOST_UNUSED = 0.1
"""The greatest share of values in a file that no compilation needs."""


def read_cache(root: Path) -> CompileCache:
    """Return the cache of the project in ``root``, without parts that are damaged or of another version."""
    try:
        content = (root / FILE).read_bytes()
    except OSError:
        return CompileCache()
    return CompileCache(values_in(content))


def values_in(content: bytes) -> dict[str, str]:
    """Return the values of parts, without those that are damaged or of another version."""
    known: dict[str, str] = {}
    head, whole = _head(), memoryview(content)
    begin = content.find(head)
    while begin >= 0:
        end = content.find(head, begin + len(head))
        line_end = content.find(b"\n", begin + len(head))
        body = whole[line_end + 1 : end if end >= 0 else len(content)]
        if content[begin + len(head) : line_end] == _digest(body):
            lines = str(body, "utf-8").split("\n")
            known.update(zip(lines[::2], lines[1::2], strict=False))  # an empty part has one empty line
        begin = end
    return known


def write_cache(root: Path, cache: CompileCache) -> None:
    """Store the values that this compilation used, if they have changed; do nothing if the folder is not writable.

    Few new values are appended to many that are there. A concurrent reader sees the old or the new file, or the part
    that is being appended not at all; of concurrent writers of the whole file the last one wins.
    """
    added, many = cache.added, len(cache.known) >= _APPENDED_FROM
    if not added and cache.unused <= (len(cache.known) * _MOST_UNUSED if many else 0):
        return
    file = root / FILE
    try:
        if many and cache.unused + len(added) <= len(cache.known) * _MOST_UNUSED:
            _append(file, added)
        else:
            _replace(file, _parts(cache.used))
    except OSError:
        return


def _append(file: Path, values: Mapping[str, str]) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(descriptor, part(values))
    finally:
        os.close(descriptor)


def _replace(file: Path, parts: Iterable[bytes]) -> None:
    make_rivet_folder(file.parent)
    _remove_abandoned(file.parent)
    replace_file(file, parts, file.with_name(f"{_UNFINISHED}{secrets.token_hex(4)}"), 0o600)


def _remove_abandoned(folder: Path) -> None:
    """Remove the unfinished files of killed processes: those older than an hour, as no write takes that long."""
    for abandoned in folder.glob(f"{_UNFINISHED}*"):
        with suppress(FileNotFoundError):
            if time.time() - abandoned.stat().st_mtime > 3600:
                abandoned.unlink()


def _parts(values: Mapping[str, str]) -> Iterator[bytes]:
    items = iter(values.items())
    while some := dict(islice(items, _VALUES_OF_PART)):
        yield part(some)


def part(values: Mapping[str, str]) -> bytes:
    """Return the part of a file that holds ``values``."""
    body = "\n".join([line for pair in values.items() for line in pair]).encode()
    return b"%b%b\n%b" % (_head(), _digest(body), body)


def _digest(body: bytes | memoryview) -> bytes:
    return hashlib.sha256(body).hexdigest().encode()


def _head() -> bytes:
    return f"\n{_maker()} ".encode()


@cache
def _maker() -> str:
    """Return what determines the values: this package's code, and the versions of sqlglot and Python."""
    package = str(Path(__file__).parents[1])
    folders = [(package, os.listdir(package))]
    folders += [(folder, names) for part in _PACKAGES for folder, _, names in os.walk(os.path.join(package, part))]
    code = hashlib.sha256()
    for file in sorted([f"{folder}/{name}" for folder, names in folders for name in names]):
        if file.endswith((".py", ".txt")):
            with open(file, "rb") as opened:
                code.update(opened.read())
    return f"{version('rivet-dagster')} {code.hexdigest()} {version('sqlglot')} {sys.implementation.cache_tag}"


_PACKAGES = ("model", "project", "sql", "checks", "compiler", "catalogs")
