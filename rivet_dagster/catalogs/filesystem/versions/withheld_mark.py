"""The mark: the file beside a withheld version that says that it is one."""

from __future__ import annotations

import json
import os
import secrets

from rivet_dagster.catalogs.filesystem.files.damage import damage
from rivet_dagster.catalogs.filesystem.versions import lifecycle
from rivet_dagster.catalogs.filesystem.versions.layout import TableLayout
from rivet_dagster.catalogs.filesystem.versions.manifest import Origin
from rivet_dagster.catalogs.inputs_json import inputs_from_json, landed_as_json, positions_as_json

_IDENTITY, _LANDED, _INPUTS, _CODE = "by", "landed files", "inputs", "code_versions"
"""The keys of a mark. A mark of the first releases consists only of what is below ``_LANDED`` now."""


def write_mark(table: TableLayout, version: str, mark: Origin) -> None:
    """Write the mark durably. Raises OSError."""
    written = table.home / f".kept-{secrets.token_hex(4)}"
    with open(written, "w", encoding="utf-8") as file:
        fields = {
            _LANDED: landed_as_json(mark.inputs),
            _INPUTS: positions_as_json(mark.inputs),
            _IDENTITY: mark.identity,
            _CODE: dict(mark.code_versions),
        }
        json.dump(fields, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(written, table.withheld(version))
    lifecycle.sync(table.home)


def read_mark(table: TableLayout, version: str) -> Origin:
    """Return the mark of a version. Raises RVT-407, OSError."""
    file = table.withheld(version)
    with damage(file, "Give the file the content {}: files that have been read are read again then."):
        fields = json.loads(file.read_text("utf-8", errors="replace") or "{}")
        # A mark of the first releases: no source has a name with a blank in it, as this key has.
        if _LANDED not in fields:
            fields = {_LANDED: fields, _IDENTITY: ""}
        inputs = inputs_from_json(fields[_LANDED], fields.get(_INPUTS, {}))
        return Origin(inputs, fields[_IDENTITY], fields.get(_CODE, {}))
