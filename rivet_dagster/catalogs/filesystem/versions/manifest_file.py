"""The manifest as a file beside its version."""

from __future__ import annotations

import dataclasses
import json
import os
from functools import lru_cache
from pathlib import Path

from rivet_dagster.catalogs.filesystem.files.file_status import damage
from rivet_dagster.catalogs.versions.manifest import LANDED, Manifest, manifest_from
from rivet_dagster.errors import RivetError

_REMEDY = (
    "Bring it back from a backup. Or remove it: its version is then read off the data, older ones are not known any "
    "more, and landing zones are read from the start."
)


def write_manifest(manifest: Manifest, path: Path) -> None:
    """Write it to disk durably."""
    with open(path, "w", encoding="utf-8") as file:
        # A line for each key: with `indent`, Python's slow encoder would write a hundred thousand landed files.
        lines = (f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in manifest.as_json().items())
        file.write("{\n" + ",\n".join(lines) + "\n}\n")
        file.flush()
        os.fsync(file.fileno())


def read_manifest(path: Path) -> Manifest | None:
    """Return the manifest in ``path``, None without one. Raises RVT-407 if it is damaged or of a newer release."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    with damage(path, _REMEDY):
        return _parsed(text, path)


@lru_cache(4)  # a run reads the one of the base some ten times
def _parsed(text: str, path: Path) -> Manifest:
    fields = json.loads(text)
    newer = sorted(fields.keys() - {field.name for field in dataclasses.fields(Manifest)} - {LANDED})
    if newer:
        message = f"{path} is a newer release's: this one does not know {', '.join(newer)}"
        raise RivetError("RVT-407", message, remediation="Update rivet_dagster here.")
    return manifest_from(fields)
