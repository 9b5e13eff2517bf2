"""What versions were made of, as JSON: in their manifests, and in the marks of those that are kept back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rivet_dagster.model.storage import LandedFile, Reading


def readings_as_json(readings: Mapping[str, Reading]) -> dict[str, Any]:
    """What ``readings_from_json`` reads."""
    return {source: asdict(reading) for source, reading in readings.items()}


def readings_from_json(fields: Mapping[str, Any]) -> dict[str, Reading]:
    """The readings by source.

    >>> readings_from_json({"orders": {"files": [{"path": "a.csv", "size": 1, "mtime_ns": 2}]}})["orders"].files
    (LandedFile(path='a.csv', size=1, mtime_ns=2),)
    """
    return {source: _reading(**reading) for source, reading in fields.items()}


def _reading(files: Any = (), earlier: Any = (), schema: str | None = None) -> Reading:
    return Reading(tuple(LandedFile(**file) for file in files), tuple(LandedFile(**file) for file in earlier), schema)
