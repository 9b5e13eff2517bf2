"""The manifest of a version: its statistics, the run that published it, and its base, as catalogs store them.

The positions of its inputs are JSON, here and in the mark of a withheld version. The consumed files of landing zones
have a key of their own, under which the first releases wrote them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from rivet_dagster.catalogs.versions.facts import describe_published, record_of
from rivet_dagster.model.inputs import (
    ConsumedFiles,
    DatabasePosition,
    FilesPosition,
    Inputs,
    LandedFile,
    Position,
    SnapshotPosition,
    TargetPosition,
    UnknownPosition,
    VersionPosition,
)
from rivet_dagster.model.storage import Provenance, Published, Record, Statistics

_KINDS: dict[str, type[Any]] = {
    "data": FilesPosition,
    "version": VersionPosition,
    "snapshot": SnapshotPosition,
    "database": DatabasePosition,
    "target": TargetPosition,
    "unknown": UnknownPosition,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def landed_as_json(inputs: Inputs) -> dict[str, Any]:
    """Return the consumed files of landing zones by source, in the form that ``inputs_from_json`` reads."""
    return {name: _files(position) for name, position in inputs.items() if isinstance(position, ConsumedFiles)}


def _files(consumed: ConsumedFiles) -> dict[str, Any]:
    # Not by `asdict`, which takes thirty times as long for many files.
    lists = {
        key: [{"path": file.path, "size": file.size, "mtime_ns": file.mtime_ns} for file in files]
        for key, files in (("files", consumed.files), ("earlier", consumed.earlier))
    }
    return {**lists, "schema": consumed.schema}


def positions_as_json(inputs: Inputs) -> dict[str, Any]:
    """Return all other positions by joint and source, in the form that ``inputs_from_json`` reads.

    >>> positions_as_json({"orders": FilesPosition("5be2")})
    {'orders': {'kind': 'data', 'data_version': '5be2'}}
    """
    others = {name: position for name, position in inputs.items() if not isinstance(position, ConsumedFiles)}
    return {name: {"kind": _NAMES[type(position)], **_set(position)} for name, position in others.items()}


def inputs_from_json(landed: Mapping[str, Any], positions: Mapping[str, Any]) -> dict[str, Position]:
    """Return the positions of both arguments by joint and source.

    >>> inputs_from_json({"orders": {"files": [{"path": "a.csv", "size": 1, "mtime_ns": 2}]}}, {})["orders"].files
    (LandedFile(path='a.csv', size=1, mtime_ns=2),)
    """
    inputs: dict[str, Position] = {name: _position(**fields) for name, fields in positions.items()}
    return inputs | {name: _consumed(**fields) for name, fields in landed.items()}


def _set(position: Position) -> dict[str, Any]:
    return {key: value for key, value in asdict(position).items() if value is not None}


def _position(kind: str, **fields: Any) -> Position:
    if kind == "target":
        return TargetPosition(tuple(fields["versions"]))
    position: Position = _KINDS[kind](**fields)
    return position


def _consumed(files: Any = (), earlier: Any = (), schema: str | None = None) -> ConsumedFiles:
    return ConsumedFiles(tuple(map(_file, files)), tuple(map(_file, earlier)), schema)


def _file(fields: Mapping[str, Any]) -> LandedFile:
    return LandedFile(fields["path"], fields["size"], fields["mtime_ns"])


UNKNOWN = Provenance()
"""The origin of a version whose manifest is lost."""


@dataclass(frozen=True)
class Manifest:
    """A version; ``base`` is the version that it replaced as the published one, and ``rows_before`` its row count.

    ``identity`` is the run that published it; if a person did, ``made_by`` is the run that made it. ``inputs`` are the
    positions of the inputs that it was made from, ``code_versions`` those of the joints and sources that made it.
    """

    version: str
    base: str | None
    identity: str
    rows: int
    rows_before: int
    bytes: int
    columns: tuple[tuple[str, str], ...]
    published_at: str
    record: Record
    inputs: Inputs = field(default_factory=dict)
    made_by: str = ""
    code_versions: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def now(
        cls,
        version: str,
        base: Manifest | None,
        identity: str,
        statistics: Statistics,
        origin: Provenance = UNKNOWN,
    ) -> Manifest:
        """Return the manifest of a version to publish after ``base``."""
        before = base.rows if base else 0
        return cls(
            version=version,
            base=base.version if base else None,
            identity=identity,
            rows=statistics.rows,
            rows_before=before,
            bytes=statistics.bytes,
            columns=statistics.columns,
            published_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            record=record_of(origin.record, statistics, before),
            inputs=origin.inputs,
            made_by=origin.identity,
            code_versions=origin.code_versions,
        )

    @property
    def statistics(self) -> Statistics:
        """The statistics of the data."""
        return Statistics(self.rows, self.bytes, self.columns)

    def published(self, catalog: str, table: str, uri: str) -> Published:
        """Return the version as a published version of a table of a catalog."""
        return describe_published(self, catalog, table, self.version, uri, self.statistics)

    def as_json(self) -> dict[str, Any]:
        """Return its JSON; keys that the first releases do not know are left out if they are empty."""
        fields = summary(self) | {"columns": self.columns, LANDED: landed_as_json(self.inputs)}
        positions = positions_as_json(self.inputs)
        fields |= {"inputs": positions} if positions else {}
        fields |= {"code_versions": dict(self.code_versions)} if self.code_versions else {}
        return fields if self.made_by else {key: value for key, value in fields.items() if key != "made_by"}


LANDED = "landed"
"""The key of the consumed files of landing zones in the JSON of a manifest."""


def summary(manifest: Manifest) -> dict[str, Any]:
    """Return the fields without columns, inputs and code, in the form that ``manifest_from`` takes."""
    left_out: dict[str, Any] = {"columns": (), "inputs": {}, "code_versions": {}}
    fields = asdict(replace(manifest, **left_out))  # which copies deeply, so that these are taken out before
    return {key: value for key, value in fields.items() if key not in left_out}


def manifest_from(fields: dict[str, Any]) -> Manifest:
    """Return the manifest with these JSON fields. Raises KeyError, TypeError, AttributeError if they are damaged."""
    columns = tuple((name, type_) for name, type_ in fields.pop("columns", ()))
    replaced = Record(fields["rows"], 0, fields["rows_before"])  # the only kind of write of the first release
    record = Record(**fields.pop("record")) if "record" in fields else replaced
    inputs = inputs_from_json(fields.pop(LANDED, {}), fields.pop("inputs", {}))
    return Manifest(**fields, columns=columns, record=record, inputs=inputs)
