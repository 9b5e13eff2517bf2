"""Plugins installed for one test, found by entry points like any other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest


def install(monkeypatch: pytest.MonkeyPatch, folder: Path, **groups: Mapping[str, str]) -> None:
    """Install the ``engines`` and ``catalogs``, given by type as "package.module:Class"."""
    place = folder / "test_plugins-1.dist-info"
    place.mkdir(parents=True)
    (place / "METADATA").write_text("Metadata-Version: 2.1\nName: test_plugins\nVersion: 1\n")
    lines = []
    for group, classes in groups.items():
        lines += [f"[rivet_dagster.{group}]", *(f"{name} = {value}" for name, value in classes.items())]
    (place / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(folder)
