"""The mark: the file beside a version that is not published that says why it stays: withheld, or staged for a run."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass, replace

from rivet_dagster.catalogs.filesystem.files.file_status import damage, exists
from rivet_dagster.catalogs.filesystem.versions.layout import TableLayout
from rivet_dagster.catalogs.inputs_json import inputs_from_json, landed_as_json, positions_as_json
from rivet_dagster.catalogs.manifest import UNKNOWN
from rivet_dagster.errors import RivetError
from rivet_dagster.file_replacement import replace_file
from rivet_dagster.model.storage import Provenance, Record

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


def is_staged(table: TableLayout, version: str) -> bool:
    """Return whether a version is staged for a run; one whose mark is damaged is not. Raises OSError."""
    if not exists(table.withheld(version)):
        return False
    try:
        return read_mark(table, version).staged is not None
    except (RivetError, FileNotFoundError):
        return False
