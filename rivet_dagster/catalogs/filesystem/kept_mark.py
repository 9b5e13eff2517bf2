"""The mark beside a version that was kept back for a person."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from rivet_dagster.catalogs.filesystem import versions
from rivet_dagster.catalogs.filesystem.damage import damage
from rivet_dagster.catalogs.filesystem.layout import TableLayout
from rivet_dagster.catalogs.filesystem.readings import readings_as_json, readings_from_json
from rivet_dagster.model.storage import Reading

_IDENTITY = "by"
"""Where a mark says it, beside ``_LANDED``; those of the first releases are what is below the latter now."""

_LANDED = "landed files"


@dataclass(frozen=True)
class Mark:
    """The files that a version was made of, by landing zone, and the identity of the run that made it."""

    landed: Mapping[str, Reading] = field(default_factory=dict)
    identity: str = ""


def write_mark(table: TableLayout, version: str, mark: Mark) -> None:
    """Put it on disk for good. Raises OSError."""
    written = table.home / f".kept-{secrets.token_hex(4)}"
    with open(written, "w", encoding="utf-8") as file:
        json.dump({_LANDED: readings_as_json(mark.landed), _IDENTITY: mark.identity}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(written, table.kept(version))
    versions.sync(table.home)


def read_mark(table: TableLayout, version: str) -> Mark:
    """The mark that is there. Raises RVT-407, OSError."""
    file = table.kept(version)
    with damage(file, "Give the file the content {}: files that have been read are read again then."):
        fields = json.loads(file.read_text("utf-8", errors="replace") or "{}")
        # No source has a name with a blank in it.
        landed, identity = (fields[_LANDED], fields[_IDENTITY]) if _LANDED in fields else (fields, "")
        return Mark(readings_from_json(landed), identity)
