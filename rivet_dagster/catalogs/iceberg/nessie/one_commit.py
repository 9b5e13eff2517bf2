"""Changes of several tables that Nessie makes in one commit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from rivet_dagster.catalogs.iceberg.commits.committing import OutcomeUnknownError, is_refusal, look_for, send
from rivet_dagster.catalogs.iceberg.metadata.snapshot_rows import manifests_of
from rivet_dagster.catalogs.iceberg.nessie.nessie_catalog import NessieCatalog
from rivet_dagster.catalogs.iceberg.nessie.server import (
    TABLE,
    Content,
    ContentsAtCommit,
    Key,
    NessieConflictError,
    Reference,
    delete,
    put,
)
from rivet_dagster.catalogs.iceberg.reaching import first_line


class OneCommit(NessieCatalog):
    """A branch as it was at one commit, and changes to it that ``publish`` makes with the next one.

    Until then nobody else sees any of them. Files that they name are written at once.
    """

    def __init__(self, branch: NessieCatalog) -> None:
        super().__init__(branch.name, **{**branch.properties, "ref": branch.ref})
        self._head: Reference = self.server.reference(branch.ref)
        self._before = ContentsAtCommit(self.server, self._head)
        self._changes: dict[Key, Content | None] = {}
        self.carried: set[int] = set()
        """Snapshots that others have written, which ``discard`` leaves alone."""

    def look_up(self, keys: Iterable[Key]) -> None:
        """Ask for the contents of keys, of all in one request, which the methods of the catalog then know."""
        self._before.look_up(keys)

    def publish(self, message: str) -> None:
        """Commit all changes, or none.

        Raises NessieConflictError if others have changed one of these keys, and OutcomeUnknownError if nobody can tell
        whether the commit is made.
        """
        if not self._changes:
            return
        operations = [delete(key) if content is None else put(key, content) for key, content in self._changes.items()]
        try:
            send(lambda: self.server.commit(self._head, message, operations))
        except NessieConflictError:
            if not self._is_there():  # else the refusal answers a request that was sent twice
                raise
        except Exception as error:
            if is_refusal(error):
                raise
            if not look_for(self._is_there):
                raise OutcomeUnknownError(first_line(error)) from error

    def discard(self) -> None:
        """Remove the files that were written for the changes, after a commit that failed."""
        for key, content in self._changes.items():
            if content is not None and content["type"] == TABLE:
                for path in [*self._written(key, content), str(content["metadataLocation"])]:
                    with suppress(FileNotFoundError):
                        self._load_file_io(location=path).delete(path)
        self._changes.clear()

    def _found(self, keys: list[Key]) -> tuple[str, Mapping[Key, Content]]:
        contents = self._before.of(keys)
        for key in self._changes.keys() & set(keys):
            content = self._changes[key]
            if content is None:
                contents.pop(key, None)
            else:
                contents[key] = content
        return self._head.hash, contents

    def _commit(self, head: str, message: str, *operations: dict[str, Any]) -> None:
        self._changes |= {tuple(each["key"]["elements"]): each.get("content") for each in operations}

    def _entries(self) -> list[tuple[Key, str]]:
        before = dict(self.server.entries(f"{self._head.name}@{self._head.hash}"))
        changed = {key: content["type"] for key, content in self._changes.items() if content is not None}
        unchanged = {key: type_ for key, type_ in before.items() if key not in self._changes}
        return sorted({**unchanged, **changed}.items())

    def _is_there(self) -> bool:
        """Return whether the branch has one of the changes, and so had all of them."""
        tables = {key: content for key, content in self._changes.items() if content and content["type"] == TABLE}
        now = self.server.contents(self._head.name, list(tables))[1]
        return any(key in now and _place(now[key]) == _place(content) for key, content in tables.items())

    def _written(self, key: Key, content: Content) -> Iterator[str]:
        """Yield the manifests and lists of them that were written for the new snapshots of a table."""
        old = self._before.of([key]).get(key)
        known = {snapshot.snapshot_id for snapshot in self._table(key, old).metadata.snapshots} if old else set()
        new = self._table(key, content)
        for snapshot in new.metadata.snapshots:
            if snapshot.snapshot_id not in known | self.carried:
                manifests = manifests_of(snapshot, new.io)
                yield from (each.manifest_path for each in manifests if each.added_snapshot_id == snapshot.snapshot_id)
                yield snapshot.manifest_list


def _place(content: Content) -> Any:
    return content.get("metadataLocation")
