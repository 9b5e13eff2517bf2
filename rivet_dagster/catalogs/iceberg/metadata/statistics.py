"""Statistics of a snapshot from its manifests alone, without reading data files.

Checks are proven by these numbers: what is not certainly exact is left out. A manifest never changes, so this process
reads each of them once: a write that adds one to a table reads that one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from struct import calcsize, unpack
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

from rivet_dagster.catalogs.iceberg.metadata.snapshot_rows import entries_of, manifests_of
from rivet_dagster.catalogs.iceberg.metadata.text_bounds import WholeTexts, whole_texts
from rivet_dagster.catalogs.iceberg.metadata.types import sql_columns
from rivet_dagster.catalogs.totals import Totals
from rivet_dagster.errors import RivetError
from rivet_dagster.model.storage import ColumnStatistics, Statistics

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.types import NestedField, PrimitiveType

_PATH = 2147483546
"""The reserved id of the column of delete files that holds the paths of data files."""


def statistics_of(table: Table, snapshot_id: int, schema: Schema, written_after: int | None = None) -> Statistics:
    """Return the statistics of a snapshot, with the columns of ``schema``.

    Rows that delete files remove are not counted; data files are read only if the delete files do not tell how many
    those are. Files with higher sequence numbers than ``written_after`` are those of a run that is not published yet.
    Raises RVT-407 for delete files that only an engine can apply.
    """
    from pyiceberg.manifest import ManifestContent

    manifests = [manifest for manifest in _manifests(table, snapshot_id) if _has_files(manifest)]
    metrics = _Metrics(table, schema, whole_texts(table, snapshot_id, written_after))
    data = [manifest for manifest in manifests if manifest.content == ManifestContent.DATA]
    written = metrics.together([metrics.of_manifest(manifest) for manifest in data])
    if len(data) == len(manifests):
        return written
    deleted = _deleted_rows(*_divided(_entries(table, manifests)))
    rows = _scanned_rows(table, snapshot_id, schema) if deleted is None else written.rows - deleted
    return _after_deletes(written, rows)


def added_statistics_of(table: Table, snapshot_id: int, schema: Schema, written_after: int | None = None) -> Statistics:
    """Return the statistics of the data files that a snapshot itself added, as they were written."""
    manifests = [manifest for manifest in _manifests(table, snapshot_id) if manifest.added_snapshot_id == snapshot_id]
    entries = [entry for entry in _entries(table, manifests) if _is_added_by(entry, snapshot_id)]
    data, deletes = _divided(entries)
    metrics = _Metrics(table, schema, whole_texts(table, snapshot_id, written_after))
    written = metrics.together([metrics.of_files(data, metrics.texts)])
    paths = {entry.data_file.file_path for entry in data}
    is_touched = any((path := _referenced(entry.data_file)) is None or path in paths for entry in deletes)
    return _after_deletes(written, written.rows) if is_touched else written


def _after_deletes(written: Statistics, rows: int) -> Statistics:
    """Return statistics of which some rows have been deleted: a column without NULLs still has none."""
    nulls = {name: ColumnStatistics(0 if known.nulls == 0 else None) for name, known in written.values.items()}
    return Statistics(rows, written.bytes, written.columns, nulls)


_KNOWN: dict[tuple[Any, ...], Statistics] = {}
"""Statistics of manifests; those of the one that was asked for last are at the end."""

_MOST = 1_000
"""The manifests that are known at once: 40 MB of them for 200 columns."""

_LOCK = Lock()


@dataclass(frozen=True)
class _Metrics:
    """Reads the metrics of data files of a table, for the columns of ``schema``."""

    table: Table
    schema: Schema
    texts: WholeTexts

    def together(self, parts: Sequence[Statistics]) -> Statistics:
        """Return the statistics of all files of these parts."""
        none = Statistics(0, 0, sql_columns(self.schema), dict.fromkeys(self._leaves, ColumnStatistics()))
        return Totals.of(parts).statistics(none)

    def of_manifest(self, manifest: ManifestFile) -> Statistics:
        """Return the statistics of the data files of a manifest, read if they are not known."""
        texts = self.texts.before(manifest.sequence_number or 0)
        key = (manifest.manifest_path, self._columns, texts)
        with _LOCK:
            known = _KNOWN.pop(key, None)
        if known is None:
            known = self.of_files(entries_of(manifest, self.table.io), texts)
        with _LOCK:
            if len(_KNOWN) >= _MOST:
                del _KNOWN[next(iter(_KNOWN))]
            _KNOWN[key] = known
        return known

    def of_files(self, entries: Sequence[ManifestEntry], texts: WholeTexts) -> Statistics:
        """Return the statistics of data files, without their columns."""
        rows = sum(entry.data_file.record_count for entry in entries)
        size = sum(entry.data_file.file_size_in_bytes for entry in entries)
        reader = _Reader([_File.of(entry) for entry in entries if entry.data_file.record_count], texts, self._ids)
        return Statistics(rows, size, values={path: reader.column(field) for path, field in self._leaves.items()})

    @cached_property
    def _leaves(self) -> Mapping[str, NestedField]:
        return _leaves(self.schema)

    @cached_property
    def _columns(self) -> str:
        """The columns as a text, which hashes once: branches of a table may use one schema id for different ones."""
        return repr(self._leaves)

    @cached_property
    def _ids(self) -> Mapping[int | None, frozenset[int]]:
        """The ids of the fields of the table when each snapshot was committed."""
        metadata = self.table.metadata
        schemas = {schema.schema_id: frozenset(schema._lazy_id_to_field) for schema in metadata.schemas}
        return {
            snapshot.snapshot_id: schemas[snapshot.schema_id]
            for snapshot in metadata.snapshots
            if snapshot.schema_id in schemas
        }


@dataclass(frozen=True, slots=True)
class _File:
    """The metrics of a data file with rows, by the ids of fields, as plain dicts: those of PyIceberg are slow."""

    rows: int
    snapshot: int | None
    sequence: int | None
    is_parquet: bool
    nulls: Mapping[int, int]
    values: Mapping[int, int]
    nans: Mapping[int, int]
    lower: Mapping[int, bytes]
    upper: Mapping[int, bytes]

    @classmethod
    def of(cls, entry: ManifestEntry) -> _File:
        """Return the metrics of the file of an entry."""
        file = entry.data_file
        counts = (file.null_value_counts, file.value_counts, file.nan_value_counts)
        nulls, values, nans = (dict(each or {}) for each in counts)
        lower, upper = (dict(each or {}) for each in (file.lower_bounds, file.upper_bounds))
        is_parquet = file.file_format == "PARQUET"
        sequence = entry.file_sequence_number
        return cls(file.record_count, entry.snapshot_id, sequence, is_parquet, nulls, values, nans, lower, upper)


@dataclass(frozen=True)
class _Reader:
    """Reads the metrics of data ``files``; ``ids`` are those of the fields at each snapshot."""

    files: Sequence[_File]
    texts: WholeTexts
    ids: Mapping[int | None, frozenset[int]]

    def column(self, field: NestedField) -> ColumnStatistics:
        """Return the statistics of one column or field of a struct."""
        nulls = 0
        bounded: list[_File] = []
        for file in self.files:
            known = self._nulls(file, field)
            if known is None:
                return ColumnStatistics()
            nulls += known
            if known < file.rows:
                bounded.append(file)
        bounds = self._bounds(bounded, field)
        if not bounds:
            return ColumnStatistics(nulls)
        lowest, highest = (_bound(field, of_files, choose) for of_files, choose in zip(bounds, (min, max), strict=True))
        return ColumnStatistics(nulls) if None in (lowest, highest) else ColumnStatistics(nulls, lowest, highest)

    def _nulls(self, file: _File, field: NestedField) -> int | None:
        id_ = field.field_id
        nulls = file.nulls.get(id_)
        if nulls is not None:
            values = file.values.get(id_, file.rows)
            return nulls if values == file.rows and 0 <= nulls <= values else None
        # A file that was written before the column was added has only NULLs in it.
        ids = self.ids.get(file.snapshot)
        is_older = ids is not None and id_ not in ids and field.initial_default is None
        return file.rows if is_older else None

    def _bounds(self, files: Sequence[_File], field: NestedField) -> tuple[list[bytes], list[bytes]] | None:
        """Return the lower and upper bounds of a column; None if they may not be its min and max."""
        id_, name = field.field_id, str(field.field_type)
        if name not in _EXACT and not name.startswith("decimal"):
            return None
        if not all(file.is_parquet for file in files):  # ORC rounds times
            return None
        if name in ("float", "double") and any(file.nans.get(id_) != 0 for file in files):
            return None  # NaN is in no bounds
        try:
            lower = [file.lower[id_] for file in files]
            upper = [file.upper[id_] for file in files]
        except KeyError:
            return None
        numbers = [file.sequence for file in files]
        if name == "string" and not all(map(self.texts.are_in, numbers, lower, upper)):
            return None
        return (lower, upper) if lower else None


_EXACT = frozenset("boolean int long float double date timestamp timestamptz string".split())

_LAYOUTS = {"int": "i", "date": "i", "long": "q", "timestamp": "q", "timestamptz": "q", "float": "f", "double": "d"}
"""The types whose bounds ``struct`` decodes all at once, as in Iceberg's binary single-value serialization."""


def _decoded(type_: PrimitiveType, bounds: Sequence[bytes]) -> Iterable[Any]:
    from pyiceberg.conversions import from_bytes

    layout = _LAYOUTS.get(str(type_))
    if layout is not None and {*map(len, bounds)} == {calcsize(f"<{layout}")}:
        return unpack(f"<{len(bounds)}{layout}", b"".join(bounds))
    return (from_bytes(type_, bound) for bound in bounds)


def _bound(field: NestedField, bounds: Sequence[bytes], choose: Any) -> Any:
    """Return the min or max of encoded bounds as a value; None for times that Python has none for."""
    type_ = cast("PrimitiveType", field.field_type)
    chosen = choose(_decoded(type_, bounds))
    epoch = datetime(1970, 1, 1)
    try:
        match str(type_):
            case "date":
                return date(1970, 1, 1) + timedelta(days=chosen)
            case "timestamp":
                return epoch + timedelta(microseconds=chosen)
            case "timestamptz":
                return epoch.replace(tzinfo=UTC) + timedelta(microseconds=chosen)
    except OverflowError:
        return None
    return chosen


def _leaves(schema: Schema) -> dict[str, NestedField]:
    """Return the columns, and the fields of structs, by path in lower case: ``place.city``.

    Columns with dots in their names, and the elements of lists and maps, are left out.
    """
    leaves: dict[str, NestedField] = {}
    ambiguous = set()
    for path, field in _walked(schema.fields, ""):
        if path in leaves:
            ambiguous.add(path)
        leaves[path] = field
    return {path: field for path, field in leaves.items() if path not in ambiguous}


def _walked(fields: Iterable[NestedField], prefix: str) -> Iterator[tuple[str, NestedField]]:
    from pyiceberg.types import StructType

    for field in fields:
        path = prefix + field.name.lower()
        if isinstance(field.field_type, StructType) and "." not in field.name:
            yield from _walked(field.field_type.fields, f"{path}.")
        elif field.field_type.is_primitive and "." not in field.name:
            yield path, field


def _manifests(table: Table, snapshot_id: int) -> list[ManifestFile]:
    snapshot = table.metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise RivetError("RVT-407", f"the table {'.'.join(table.name())} has no snapshot {snapshot_id} any more")
    return manifests_of(snapshot, table.io)


def _entries(table: Table, manifests: Iterable[ManifestFile]) -> Iterator[ManifestEntry]:
    for manifest in manifests:
        if _has_files(manifest):
            yield from entries_of(manifest, table.io)


def _has_files(manifest: ManifestFile) -> bool:
    """Return whether a manifest has more than deleted entries: PyIceberg keeps such ones, unlike Spark."""
    return manifest.has_added_files() or manifest.has_existing_files()


def _is_added_by(entry: ManifestEntry, snapshot_id: int) -> bool:
    from pyiceberg.manifest import ManifestEntryStatus

    return entry.status == ManifestEntryStatus.ADDED and entry.snapshot_id == snapshot_id


def _divided(entries: Iterable[ManifestEntry]) -> tuple[list[ManifestEntry], list[ManifestEntry]]:
    """Return the entries of data files, and those of delete files."""
    from pyiceberg.manifest import DataFileContent

    data: list[ManifestEntry] = []
    deletes: list[ManifestEntry] = []
    for entry in entries:
        (data if entry.data_file.content == DataFileContent.DATA else deletes).append(entry)
    return data, deletes


def _deleted_rows(data: Sequence[ManifestEntry], deletes: Sequence[ManifestEntry]) -> int | None:
    """Return how many rows the delete files remove; None if that depends on what is in them.

    It is certain where each names the rows of one data file of this snapshot, and no two of them the same one.
    """
    sequences = {entry.data_file.file_path: entry.sequence_number or 0 for entry in data}
    paths = [_referenced(entry.data_file) for entry in deletes]
    for path, entry in zip(paths, deletes, strict=True):
        if path is None or path not in sequences or sequences[path] > (entry.sequence_number or 0):
            return None
    return sum(entry.data_file.record_count for entry in deletes) if len(set(paths)) == len(paths) else None


def _referenced(file: DataFile) -> str | None:
    """Return the path of the one data file whose rows a delete file names."""
    from pyiceberg.manifest import DataFileContent, FileFormat

    if file.content != DataFileContent.POSITION_DELETES or file.file_format == FileFormat.PUFFIN:
        return None
    lower, upper = ((bounds or {}).get(_PATH) for bounds in (file.lower_bounds, file.upper_bounds))
    return lower.decode() if lower and lower == upper else None


def _scanned_rows(table: Table, snapshot_id: int, schema: Schema) -> int:
    column = next((name for name in schema.column_names if "." not in name), "*")
    try:
        return table.scan(snapshot_id=snapshot_id, selected_fields=(column,)).count()
    except (ValueError, NotImplementedError) as error:
        message = f"the rows of the table {'.'.join(table.name())} cannot be counted: {error}"
        remedy = "Apply its delete files: CALL <catalog>.system.rewrite_data_files('<table>')."
        raise RivetError("RVT-407", message, remediation=remedy) from error
