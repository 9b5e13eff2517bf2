"""The positions of a version's inputs as JSON, for its manifest and for the mark of a withheld version.

The consumed files of landing zones have a key of their own, under which the first releases wrote them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

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
