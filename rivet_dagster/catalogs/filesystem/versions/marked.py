"""Versions that stay for a person or for the last step of a run: withheld, staged and older ones.

The mark is a file beside a version that is not published, which says why it stays. A staged version also has a
heartbeat, without which the sweep removes it.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass, replace
from functools import cached_property

from rivet_dagster.catalogs.filesystem.files.data_files import Footers
from rivet_dagster.catalogs.filesystem.files.file_status import damage, exists, is_folder
from rivet_dagster.catalogs.filesystem.files.footers import parquet_files, read_statistics
from rivet_dagster.catalogs.filesystem.versions import lifecycle, links
from rivet_dagster.catalogs.filesystem.versions.layout import TableLayout
from rivet_dagster.catalogs.filesystem.versions.links import find_unlinked
from rivet_dagster.catalogs.filesystem.versions.records import (
    FileHeartbeat,
    forget_publishers,
    read_manifest,
    read_publishers,
)
from rivet_dagster.catalogs.versions.facts import describe_version
from rivet_dagster.catalogs.versions.heartbeat import send_heartbeats
from rivet_dagster.catalogs.versions.manifest import (
    UNKNOWN,
    Manifest,
    inputs_from_json,
    landed_as_json,
    positions_as_json,
)
from rivet_dagster.catalogs.versions.marks import find_staged_by, list_versions, require_withheld
from rivet_dagster.catalogs.versions.refusals import no_staged_version, unknown_version
from rivet_dagster.errors import RivetError
from rivet_dagster.file_replacement import replace_file
from rivet_dagster.model.storage import CURRENT, OLDER, STAGED, WITHHELD, Provenance, Record, Version

_IDENTITY, _LANDED, _INPUTS, _CODE, _STAGED = "by", "landed files", "inputs", "code_versions", "staged"
"""The keys of a mark. A mark of the first releases consists only of what is below ``_LANDED`` now."""


@dataclass(frozen=True)
class StagedFor:
    """The facts by which the last step of a run publishes a staged version: the version that it was begun ``upon``.

    ``record`` is that of its write, None where it replaced all rows.
    """

    upon: str | None
    record: Record | None = None


@dataclass(frozen=True)
class Mark:
    """How a version came about; ``staged`` is None if it is withheld."""

    origin: Provenance = UNKNOWN
    staged: StagedFor | None = None


def write_mark(table: TableLayout, version: str, mark: Mark) -> None:
    """Write the mark durably. Raises OSError."""
    fields = {
        _LANDED: landed_as_json(mark.origin.inputs),
        _INPUTS: positions_as_json(mark.origin.inputs),
        _IDENTITY: mark.origin.identity,
        _CODE: dict(mark.origin.code_versions),
    }
    content = json.dumps(fields if mark.staged is None else fields | {_STAGED: asdict(mark.staged)}).encode()
    replace_file(table.withheld(version), content, table.home / f".kept-{secrets.token_hex(4)}")


def read_mark(table: TableLayout, version: str) -> Mark:
    """Return the mark of a version. Raises RVT-407, OSError."""
    file = table.withheld(version)
    with damage(file, "Give the file the content {}: files that have been read are read again then."):
        fields = json.loads(file.read_text("utf-8", errors="replace") or "{}")
        # A mark of the first releases: no source has a name with a blank in it, as this key has.
        if _LANDED not in fields:
            fields = {_LANDED: fields, _IDENTITY: ""}
        inputs = inputs_from_json(fields[_LANDED], fields.get(_INPUTS, {}))
        origin = Provenance(inputs, fields.get(_CODE, {}), fields[_IDENTITY])
        staged = fields.get(_STAGED)
        if staged is None:
            return Mark(origin)
        record = Record(**staged["record"]) if staged["record"] is not None else None
        return Mark(replace(origin, record=record), StagedFor(staged["upon"], record))


@dataclass(frozen=True)
class MarkedFolder:
    """A version with a mark, which is read when something of it is asked for."""

    table: TableLayout
    name: str

    @cached_property
    def mark(self) -> Mark:
        """The mark. Raises RVT-407, OSError."""
        return read_mark(self.table, self.name)

    @property
    def is_staged(self) -> bool:
        """Whether it is staged for a run; a version whose mark is damaged, or gone, is not."""
        try:
            return self.mark.staged is not None
        except (RivetError, FileNotFoundError):
            return False

    @property
    def identity(self) -> str:
        """The run that has made it."""
        return self.mark.origin.identity

    def describe(self) -> Version:
        """Return it with the number of its rows, by the footers of its files."""
        rows = _rows(self.table, self.name)
        if not self.is_staged:
            return Version(self.name, WITHHELD, rows)
        return Version(self.name, STAGED, rows, None, self.identity, self.mark.origin.inputs)


def is_staged(table: TableLayout, version: str) -> bool:
    """Return whether a version is staged for a run; one whose mark is damaged is not. Raises OSError."""
    return exists(table.withheld(version)) and MarkedFolder(table, version).is_staged


def all_versions(table: TableLayout) -> tuple[Version, ...]:
    """Return the published versions, the newest first, then the withheld ones, then those that runs have staged."""
    current = table.published()
    published = [_published(table, name, current) for name in lifecycle.history(table) if is_folder(table.data(name))]
    return list_versions(published, _marked(table))


def stage(table: TableLayout, version: str, mark: Mark) -> None:
    """Mark a version that is being built as staged, durably; it stays as long as its heartbeat is renewed.

    Raises RVT-406.
    """
    _mark_built(table, version, mark)


def withhold(table: TableLayout, version: str, origin: Provenance) -> None:
    """Mark a version that is being built as withheld, durably, so that no sweep removes it. Raises RVT-406."""
    _mark_built(table, version, Mark(origin))


def _mark_built(table: TableLayout, version: str, mark: Mark) -> None:
    heartbeat = FileHeartbeat(table, version)
    with heartbeat.required():
        lifecycle.sync_data(table, version)
        since = heartbeat.now()
        with lifecycle.hold_lock(table):
            heartbeat.beat(since)
            write_mark(table, version, mark)
            if mark.staged is None:
                heartbeat.end()


def take_up_withheld(table: TableLayout, version: str) -> Provenance:
    """Reopen a withheld version, as one that is being built, and return how it came about. Raises RVT-408.

    It keeps its mark until it is published or removed: if this process dies, it is withheld as before.
    """
    if not exists(table.withheld(version)):
        raise _unknown(table, version, WITHHELD)
    with lifecycle.hold_lock(table):
        withheld = require_withheld(_marked(table), table.name, version)
        heartbeat = FileHeartbeat(table, version)
        if heartbeat.is_alive():
            message = f"somebody else is publishing or dropping the version {version} of '{table.name}'"
            raise RivetError("RVT-408", message, remediation="Wait a minute, then look at `versions list`.")
        origin = withheld.mark.origin
        heartbeat.begin()
    return origin


def staged_by(table: TableLayout, identity: str) -> str | None:
    """Return the version that was staged under ``identity`` and is not published; None if there is none."""
    version = find_staged_by(reversed(_marked(table)), identity)
    return version.name if version is not None else None


def staged_manifest(table: TableLayout, version: str) -> Manifest:
    """Return the manifest that a staged version would be published with now. Raises RVT-407, OSError."""
    mark = read_mark(table, version)
    staged = mark.staged or StagedFor(None)
    base = lifecycle.manifest_of(table, staged.upon) if staged.upon is not None else None
    statistics = Footers(table.files(version)).statistics(parquet_files(table.data(version)))
    return Manifest.now(version, base, mark.origin.identity, statistics, replace(mark.origin, identity=""))


def keep_alive(table: TableLayout, version: str, seconds: float) -> bool:
    """Renew the heartbeat of a staged version, and return whether there is such a version. Raises OSError.

    A version that has been silent may be revived: it is removed under the same lock.
    """
    if not exists(table.withheld(version)):
        return False
    with lifecycle.hold_lock(table):
        if not is_staged(table, version):
            return False
        FileHeartbeat(table, version).extend(seconds)
    return True


def take_up_staged(table: TableLayout, version: str) -> Mark:
    """Return the mark of a staged version, whose heartbeat is renewed. Raises RVT-418."""
    if not keep_alive(table, version, 0.0):
        raise no_staged_version(table.name, version)
    return read_mark(table, version)


def withhold_staged(table: TableLayout, version: str) -> None:
    """Withhold a staged version: no sweep removes it. Raises RVT-418."""
    if not exists(table.withheld(version)):
        raise no_staged_version(table.name, version)
    with lifecycle.hold_lock(table):
        staged = MarkedFolder(table, version)
        if not staged.is_staged:
            raise no_staged_version(table.name, version)
        write_mark(table, version, Mark(staged.mark.origin))
        FileHeartbeat(table, version).end()


def restage(table: TableLayout, version: str) -> tuple[str, Provenance]:
    """Begin a version with the files of an older one, and return its name and from what the older one was made.

    Raises RVT-402, RVT-404, RVT-408.
    """
    if not _is_older(table, version):
        raise _unknown(table, version, OLDER)
    manifest = read_manifest(table.manifest(version))
    new = lifecycle.begin(table)
    try:
        # Not under the lock, which heartbeats wait for: files that cannot be shared are copied, which may take long.
        with send_heartbeats(lambda: lifecycle.beat(table, new), table.name):
            lifecycle.copy(table, version, new)
    except BaseException as error:
        lifecycle.remove(table, new)
        if isinstance(error, FileNotFoundError):
            raise _unknown(table, version, OLDER) from error
        raise
    return new, Provenance(manifest.inputs, code_versions=manifest.code_versions) if manifest else Provenance()


def evict(table: TableLayout, version: str) -> None:
    """Remove the links and all published versions of the table if readers see that version."""
    with lifecycle.hold_lock(table):
        if table.published() == version:
            published = lifecycle.history(table)
            table.unpublish()
            links.remove_links(table)
            forget_publishers(table)
            for name in reversed(find_unlinked(table, published)):
                lifecycle.remove(table, name)


def _is_older(table: TableLayout, version: str) -> bool:
    """Return whether a version is published, and another one has replaced it; no other is looked at."""
    if version not in table.versions() or version == table.published() or not is_folder(table.data(version)):
        return False
    return version in read_publishers(table).versions or bool(lifecycle.find_published(table, [version]))


def _marked(table: TableLayout) -> list[MarkedFolder]:
    """Return the versions with a mark that are not published."""
    return [MarkedFolder(table, name) for name in lifecycle.list_marked(table)]


def _published(table: TableLayout, name: str, current: str | None) -> Version:
    manifest = read_manifest(table.manifest(name))
    state = CURRENT if name == current else OLDER
    if manifest is None:
        return Version(name, state, _rows(table, name))
    return describe_version(manifest, name, state, manifest.published_at)


def _rows(table: TableLayout, name: str) -> int | None:
    files = parquet_files(table.data(name))
    return read_statistics(files).rows if files else None


def _unknown(table: TableLayout, version: str, state: str) -> RivetError:
    names = [known.name for known in all_versions(table) if known.state == state]
    return unknown_version(table.name, version, state, names)
