"""Snapshots that are made of metadata alone: of the manifests of another one, or of the data files of another table.

PyIceberg writes the manifests and their lists; what is new is only which of them make up a snapshot.
"""

from __future__ import annotations

import secrets
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.iceberg.metadata.snapshot_rows import entries_of, manifests_of
from rivet_dagster.catalogs.iceberg.metadata.summary import ORDER, SPEC
from rivet_dagster.errors import RivetError

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import AddSnapshotUpdate

FORMAT = 2
"""The version of the table format in which PyIceberg writes manifests."""


def new_snapshot_id() -> int:
    """Return an id that no snapshot has yet: by chance, as Iceberg itself makes them."""
    return secrets.randbits(62) + 1


class SnapshotWriter:
    """Writes one new snapshot of a table with ``metadata``, whose id is ``snapshot_id``, upon ``parent``."""

    def __init__(self, io: FileIO, metadata: TableMetadata, snapshot_id: int, parent: Snapshot | None) -> None:
        refuse_later_format(metadata)
        self._io = io
        self._metadata = metadata
        self._id = snapshot_id
        self._parent = parent
        self._uuid = uuid.uuid4()
        self._manifests = 0
        self.written: list[str] = []

    def same_rows(self, summary: Mapping[str, str]) -> AddSnapshotUpdate:
        """Return a snapshot with exactly the parent's rows; without a parent it has none."""
        manifests = manifests_of(self._parent, self._io)
        return self._snapshot(manifests, _totals(self._parent, {}, {}), "append", summary)

    def replaced(
        self, files: Sequence[DataFile], schema: Schema, spec_id: int, summary: Mapping[str, str]
    ) -> AddSnapshotUpdate:
        """Return a snapshot that has the rows of ``files`` alone, all of them laid out by the spec ``spec_id``."""
        live = _live_entries(self._parent, self._io)
        manifests = self._deleted(live, schema)
        if files:
            manifests.append(self._added(files, schema, spec_id))
        removed = [entry.data_file for entries in live.values() for entry in entries]
        totals = _replaced_totals(files, removed)
        return self._snapshot(manifests, totals, "overwrite" if removed else "append", summary)

    def appended(
        self, files: Sequence[DataFile], schema: Schema, spec_id: int, summary: Mapping[str, str]
    ) -> AddSnapshotUpdate:
        """Return a snapshot that has the rows of ``files`` beside those of the parent."""
        manifests = manifests_of(self._parent, self._io)
        added = [self._added(files, schema, spec_id)] if files else []
        facts = _facts("added", files)
        return self._snapshot([*added, *manifests], _totals(self._parent, facts, {}), "append", summary)

    def discard(self) -> None:
        """Remove what was written, after a commit that failed."""
        for path in self.written:
            with suppress(FileNotFoundError):
                self._io.delete(path)
        self.written.clear()

    def _added(self, files: Sequence[DataFile], schema: Schema, spec_id: int) -> ManifestFile:
        from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus

        with self._writer(schema, spec_id) as writer:
            for file in files:
                entry = ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED,
                    snapshot_id=self._id,
                    sequence_number=None,
                    file_sequence_number=None,
                    data_file=file,
                )
                writer.add(entry)
        manifest: ManifestFile = writer.to_manifest_file()
        return manifest

    def _deleted(self, live: Mapping[int, Sequence[Any]], schema: Schema) -> list[ManifestFile]:
        from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus

        manifests = []
        for spec_id, entries in live.items():
            with self._writer(self._with_sources(spec_id, schema), spec_id) as writer:
                for entry in entries:
                    deleted = ManifestEntry.from_args(
                        status=ManifestEntryStatus.DELETED,
                        snapshot_id=self._id,
                        sequence_number=entry.sequence_number,
                        file_sequence_number=entry.file_sequence_number,
                        data_file=entry.data_file,
                    )
                    writer.add_entry(deleted)
            manifests.append(writer.to_manifest_file())
        return manifests

    def _with_sources(self, spec_id: int, schema: Schema) -> Schema:
        """Return ``schema``, or the newest one of the table with the columns of a spec that it lacks."""
        sources = {field.source_id for field in self._metadata.specs()[spec_id].fields}
        schemas = (schema, *reversed(self._metadata.schemas))
        return next((known for known in schemas if sources <= known._lazy_id_to_field.keys()), schema)

    def _writer(self, schema: Schema, spec_id: int) -> Any:
        from pyiceberg.manifest import write_manifest

        path = self._path(f"{self._uuid}-m{self._manifests}.avro")
        self._manifests += 1
        return write_manifest(
            format_version=self._metadata.format_version,
            spec=self._metadata.specs()[spec_id],
            schema=schema,
            output_file=self._io.new_output(path),
            snapshot_id=self._id,
            avro_compression=self._compression,
        )

    def _snapshot(
        self,
        manifests: list[ManifestFile],
        totals: Mapping[str, str],
        operation: str,
        summary: Mapping[str, str],
    ) -> AddSnapshotUpdate:
        from pyiceberg.manifest import write_manifest_list
        from pyiceberg.table.snapshots import Operation, Snapshot, Summary
        from pyiceberg.table.update import AddSnapshotUpdate

        path = self._path(f"snap-{self._id}-0-{self._uuid}.avro")
        parent = self._parent.snapshot_id if self._parent is not None else None
        sequence_number = self._metadata.next_sequence_number()
        with write_manifest_list(
            format_version=self._metadata.format_version,
            output_file=self._io.new_output(path),
            snapshot_id=self._id,
            parent_snapshot_id=parent,
            sequence_number=sequence_number,
            avro_compression=self._compression,
        ) as writer:
            writer.add_manifests(manifests)
        layout = {SPEC: str(self._metadata.default_spec_id), ORDER: str(self._metadata.default_sort_order_id)}
        snapshot = Snapshot.model_validate(
            {
                "snapshot-id": self._id,
                "parent-snapshot-id": parent,
                "manifest-list": path,
                "sequence-number": sequence_number,
                "summary": Summary(operation=Operation(operation), **totals, **{**layout, **summary}),
                "schema-id": self._metadata.current_schema_id,
            }
        )
        return AddSnapshotUpdate(snapshot=snapshot)

    def _path(self, name: str) -> str:
        folder = (
            self._metadata.properties.get("write.metadata.path") or f"{self._metadata.location.rstrip('/')}/metadata"
        )
        self.written.append(f"{folder.rstrip('/')}/{name}")
        return self.written[-1]

    @property
    def _compression(self) -> Any:
        return self._metadata.properties.get("write.avro.compression-codec", "gzip")


def refuse_later_format(metadata: TableMetadata) -> None:
    """Raise RVT-402 for a table of a format version that PyIceberg cannot write."""
    if metadata.format_version > FORMAT:
        message = f"the table in {metadata.location} has the format version {metadata.format_version}"
        remedy = f"Publish to a table of the format version {FORMAT}; others can be read."
        raise RivetError("RVT-402", message, remediation=remedy)


def live_files(snapshot: Snapshot | None, io: FileIO) -> list[DataFile]:
    """Return the data files of a snapshot."""
    return [entry.data_file for entries in _live_entries(snapshot, io).values() for entry in entries]


def _live_entries(snapshot: Snapshot | None, io: FileIO) -> dict[int, list[Any]]:
    """Return the entries of the data files of a snapshot, by the id of their partition spec."""
    from pyiceberg.manifest import ManifestContent

    entries: dict[int, list[Any]] = defaultdict(list)
    for manifest in manifests_of(snapshot, io):
        if manifest.content == ManifestContent.DATA and (manifest.has_added_files() or manifest.has_existing_files()):
            entries[manifest.partition_spec_id] += entries_of(manifest, io)
    return entries


_TOTALS = (
    "total-data-files", "total-delete-files", "total-records", "total-files-size", "total-position-deletes",
    "total-equality-deletes",
)  # fmt: skip


def _totals(parent: Snapshot | None, added: Mapping[str, int], removed: Mapping[str, int]) -> dict[str, str]:
    """Return the totals of a parent's summary after files were added, with those of the added ones."""
    known = parent.summary.additional_properties if parent is not None and parent.summary is not None else {}
    totals = {key: int(known.get(key) or 0) for key in _TOTALS}
    totals["total-data-files"] += added.get("added-data-files", 0)
    totals["total-records"] += added.get("added-records", 0)
    totals["total-files-size"] += added.get("added-files-size", 0)
    return {key: str(value) for key, value in {**added, **removed, **totals}.items()}


def _replaced_totals(files: Sequence[DataFile], removed: Sequence[DataFile]) -> dict[str, str]:
    gone = _facts("deleted", removed)
    if "deleted-files-size" in gone:
        gone["removed-files-size"] = gone.pop("deleted-files-size")
    return _totals(None, _facts("added", files), gone)


def _facts(verb: str, files: Sequence[DataFile]) -> dict[str, int]:
    if not files:
        return {}
    return {
        f"{verb}-data-files": len(files),
        f"{verb}-records": sum(file.record_count for file in files),
        f"{verb}-files-size": sum(file.file_size_in_bytes for file in files),
    }
