"""The files of a store, as sources are read from them through pyarrow."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from operator import attrgetter
from pathlib import PurePath, PurePosixPath
from typing import Any

from rivet_dagster.catalogs.filesystem.sources.file_tree import FileStatus, FileTree, Move, is_ignored
from rivet_dagster.catalogs.filesystem.stores.store import Store, StoreUri
from rivet_dagster.model.inputs import LandedFile
from rivet_dagster.paths import scheme
from rivet_dagster.secrets.redaction import redacted

_FOLDER = FileStatus(0, 0, is_folder=True)
_SECOND = 10**9
_AT_ONCE = 8
"""The number of folders that are listed at the same time."""

_MOVED_AT_ONCE = 24
"""The number of files that are moved at the same time: pyarrow's client of S3 has 25 connections."""

_MOVES = 1000
"""The number of files whose moves are begun before the first of them is waited for."""

_BLOCK = 1 << 20


class StoreTree(FileTree):
    """Remembers the answers of the store: the listing of a folder also tells the status of each file in it."""

    def __init__(self, store: Store) -> None:
        self.folder: PurePath = store.uri.path
        self.keeps_folders = store.uri.scheme == "hdfs"
        self._store = store
        self._statuses: dict[PurePath, FileStatus | None] = {}
        self._names: dict[PurePath, list[str]] = {}
        self._data: dict[PurePath, tuple[list[LandedFile], list[PurePath]]] = {}
        self._is_there = False

    def path_of(self, table: str) -> PurePath:
        """Return the path from the root of the store for a URI and for a path with ``..``, else the table itself."""
        path = StoreUri.of(table).path if scheme(table) else PurePosixPath(table)
        return PurePosixPath(posixpath.normpath(self.folder / path)) if ".." in path.parts else path

    def uri(self, path: PurePath) -> str:
        """Return the URI of a path, in which nothing is escaped."""
        return f"{self._store.uri.root}{path}"

    def shown(self, path: PurePath) -> str:
        """Return the URI."""
        return redacted(self.uri(path))

    def status(self, path: PurePath) -> FileStatus | None:
        """Return the status as it was when the store was first asked about the path or its folder."""
        if path not in self._statuses:
            listed = path.parent in self._names
            self._statuses[path] = None if listed else self._status_now(path)
        return self._statuses[path]

    def names_in(self, folder: PurePath) -> list[str]:
        """Return the names in a folder, as they were when the store was first asked."""
        if folder not in self._names:
            self._list(folder)
        return self._names[folder]

    def data_files(self, paths: Sequence[PurePath]) -> Iterator[LandedFile]:
        """Yield them, folder by folder, so that what has been archived in ignored folders is not listed."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for path in paths:
                if self.is_folder(path):
                    yield from self._files_below(path, pool)
                elif not is_ignored(path.name) and (file := self.described(path)) is not None:
                    yield file

    def open(self, path: PurePath) -> Any:
        """Open a file of pyarrow."""
        return self._store.client.open_input_file(self._store.key(path))

    def move(self, path: PurePath, target: PurePath, expected: FileStatus) -> None:
        """Copy the file and delete it; rename it in HDFS, which has no copies.

        In an object store, a file that replaces this one between the last look at it and its deletion is deleted:
        pyarrow has no deletion of exactly one version.
        """
        if self._status_now(path) != expected:
            return
        if self._store.uri.scheme == "hdfs":
            self._rename(path, target, self._status_now(target), expected)
            return
        # What is copied there after the listing is another run's copy of the same file, which is here unchanged.
        self.names_in(target.parent)
        present = self.status(target)
        if present is None:
            self._copy(path, target)
        elif not self._is_copy(path, target, present, expected):
            raise FileExistsError(f"{self.shown(target)} exists already")
        now = self._status_now(path)
        if now == expected:
            self._delete(path)
        elif now is not None and present is None:  # another file has replaced it, which the copy may be of
            self._delete(target)
        # If it is gone, another run may have moved it, and this be the only copy of it.

    def move_all(self, moves: Iterable[Move]) -> Iterator[tuple[Move, OSError]]:
        """Move several files at the same time; where they go is listed, not asked for each of them."""
        waiting = iter(moves)
        with ThreadPoolExecutor(_MOVED_AT_ONCE) as pool:
            while some := list(islice(waiting, _MOVES)):
                list(pool.map(self._list_ahead, {target.parent for _, target, _ in some}))
                errors = zip(some, pool.map(self.try_move, some), strict=True)
                yield from ((move, error) for move, error in errors if error is not None)

    def trouble(self, error: Exception) -> tuple[str, str | None]:
        """Return an explanation of the store's answer."""
        return explain_error(error, self._store.uri, self._probe)

    def _status_now(self, path: PurePath) -> FileStatus | None:
        from pyarrow.fs import FileType

        if path == PurePosixPath("/"):
            return (
                _FOLDER  # asking about a bucket itself needs a right of its own; whether it exists, its listing tells
            )
        info = self._store.client.get_file_info(self._store.key(path))
        if info.type != FileType.NotFound:
            return self._status_of(info)
        if not self._is_there:
            self._probe()  # the answer is the same if there is no bucket
            self._is_there = True
        return None

    def _status_of(self, info: Any) -> FileStatus:
        from pyarrow.fs import FileType

        if info.type == FileType.Directory:
            return _FOLDER
        time = info.mtime_ns or 0
        # Some S3 stores tell fractions of seconds in listings, but not when they are asked about one object.
        return FileStatus(info.size or 0, time - time % _SECOND if self._store.uri.scheme == "s3a" else time)

    def _list_ahead(self, folder: PurePath) -> None:
        with suppress(OSError):  # each move to the folder reports it
            self.names_in(folder)

    def _list(self, folder: PurePath) -> None:
        infos = self._infos(folder)
        for info in infos:
            self._statuses[folder / info.base_name] = self._status_of(info)
        self._names[folder] = sorted({info.base_name for info in infos})

    def _infos(self, folder: PurePath) -> list[Any]:
        from pyarrow.fs import FileSelector

        try:
            infos: list[Any] = self._store.client.get_file_info(FileSelector(self._store.key(folder)))
        except FileNotFoundError:
            return []
        return infos

    def _files_below(self, folder: PurePath, pool: ThreadPoolExecutor) -> Iterator[LandedFile]:
        folders = [folder]
        while folders:
            below: list[PurePath] = []
            for files, subfolders in pool.map(self._data_in, folders):
                yield from files
                below += subfolders
            folders = below

    def _data_in(self, folder: PurePath) -> tuple[list[LandedFile], list[PurePath]]:
        """Return the data files in a folder, and its folders, as they were when the store was first asked for them.

        A folder may hold hundreds of thousands: less is remembered of each than of those that ``names_in`` lists.
        """
        if folder not in self._data:
            shown = self.text(folder)
            beginning = "" if shown == "." else f"{shown}/"
            files, folders = [], []
            infos = self._infos(folder)
            while infos:
                info = infos.pop()
                name = info.base_name
                if is_ignored(name):
                    continue
                status = self._status_of(info)
                if status.is_folder:
                    folders.append(folder / name)
                else:
                    files.append(LandedFile(f"{beginning}{name}", status.size, status.mtime_ns))
            self._data[folder] = sorted(files, key=attrgetter("path")), sorted(folders)
        return self._data[folder]

    def _copy(self, path: PurePath, target: PurePath) -> None:
        self._store.client.copy_file(self._store.key(path), self._store.key(target))

    def _delete(self, path: PurePath) -> None:
        with suppress(FileNotFoundError):  # another run has moved it
            self._store.client.delete_file(self._store.key(path))

    def _is_copy(self, path: PurePath, target: PurePath, present: FileStatus, expected: FileStatus) -> bool:
        """Return whether the target is a copy of the file, such as one that an interrupted move has left."""
        if present.is_folder or present.size != expected.size:
            return False
        with self.open(path) as one, self.open(target) as other:
            while block := one.read(_BLOCK):
                if block != other.read(_BLOCK):
                    return False
        return True

    def _rename(self, path: PurePath, target: PurePath, present: FileStatus | None, expected: FileStatus) -> None:
        if present is not None:
            raise FileExistsError(f"{self.shown(target)} exists already")
        client, key = self._store.client, self._store.key
        client.create_dir(key(target.parent))
        client.move(key(path), key(target))
        # Another file may have replaced it between the check and the rename: only after the rename is it certain.
        if self._status_now(target) != expected:
            client.move(key(target), key(path))

    def _probe(self) -> None:
        """List a folder that does not exist. Raises OSError if the store refuses that, which it gives a reason for."""
        from pyarrow.fs import FileSelector

        with suppress(FileNotFoundError):
            self._store.client.get_file_info(FileSelector(self._store.key(self.folder / ".rivet")))


_AWS = re.compile(r"AWS Error (?P<code>[A-Z_]+)(?: \(HTTP status (?P<status>\d+)\))? during (?P<call>\w+) operation")
_CURL = re.compile(r"curlCode: \d+, ([^;]+)")
_REQUEST_ID = re.compile(r" *\(Request ID: [^)]*\)")

_KEYS = "Correct `access_key` and `secret_key` in the catalog's `options`, or what the environment has in their place."
_RIGHTS = "Give these keys the right to list and read there; archiving also needs those to write and delete."
_BUCKET = "Create it, or correct the catalog's `path`."
_REGION = "Name the bucket's `region` in the catalog's `options`."
_ADDRESS = "Correct `endpoint` and `region` in the catalog's `options`, or look after the store."
_LIBRARY = "pyarrow reads HDFS through libhdfs: set JAVA_HOME, HADOOP_HOME and CLASSPATH, or ARROW_LIBHDFS_DIR."

_WRONG_KEYS = frozenset(
    "INVALID_ACCESS_KEY_ID SIGNATURE_DOES_NOT_MATCH INVALID_CLIENT_TOKEN_ID INCOMPLETE_SIGNATURE INVALID_SIGNATURE "
    "MISSING_AUTHENTICATION_TOKEN UNRECOGNIZED_CLIENT REQUEST_EXPIRED INVALID_TOKEN EXPIRED_TOKEN".split()
)
_SILENT = frozenset({"NETWORK_CONNECTION", "REQUEST_TIMEOUT", "CLIENT_SIGNING_FAILURE"})


def explain_error(error: Exception, uri: StoreUri, probe: Callable[[], None]) -> tuple[str, str | None]:
    """Return the end of a sentence about an exception of pyarrow, and a remedy; None for the usual one.

    S3 refuses a request about one object without a reason; ``probe`` makes one that it gives a reason for.

    >>> lake = StoreUri.of("s3a://lake/raw")
    >>> refusal = OSError("When listing: AWS Error NO_SUCH_BUCKET during ListObjectsV2 operation: it does not exist")
    >>> explain_error(refusal, lake, lambda: None)
    ("there is no bucket 'lake'", "Create it, or correct the catalog's `path`.")
    """
    text = str(error)
    match = _AWS.search(text)
    if match is None:
        return _other(error, text)
    if _is_refusal(match) and match["call"].startswith("Head"):
        try:
            probe()
        except OSError as reason:
            text = str(reason)
            match = _AWS.search(text) or match
    return _of_s3(match, text, uri)


def _of_s3(match: re.Match[str], text: str, uri: StoreUri) -> tuple[str, str]:
    code, status, call = match["code"], match["status"], match["call"]
    if code == "NO_SUCH_BUCKET":
        return f"there is no bucket '{uri.bucket}'", _BUCKET
    if code in _WRONG_KEYS or status == "401":
        return f"the store does not accept the keys ({code.lower()})", _KEYS
    if _is_refusal(match):
        return f"the store does not permit {call} with these keys", _RIGHTS
    if code == "PERMANENT_REDIRECT" or status in ("301", "307"):
        return "the bucket is in another region", _REGION
    if code in _SILENT:
        curl = _CURL.search(text)
        return f"the store does not answer{f': {curl[1]}' if curl else ''}", _ADDRESS
    return _short(text[match.start() :]), _ADDRESS


def _is_refusal(match: re.Match[str]) -> bool:
    return match["code"] == "ACCESS_DENIED" or match["status"] == "403"


def _other(error: Exception, text: str) -> tuple[str, str | None]:
    if isinstance(error, FileNotFoundError):
        return "it does not exist any more", None
    if "libhdfs" in text or "libjvm" in text:
        return _short(text), _LIBRARY
    return _short(text), None


def _short(text: str) -> str:
    return redacted(_REQUEST_ID.sub("", text.partition("\n")[0]).strip())
