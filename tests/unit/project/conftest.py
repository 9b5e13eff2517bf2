"""Fixtures for projects written from a few texts, so that a test shows only what it tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from rivet_dagster.model.project import Project
from rivet_dagster.project.load import load_project

MANIFEST = "profiles: profiles.yaml\nsources: sources\njoints: joints\nsinks: sinks\n"
PROFILES = """\
default:
  catalogs:
    lake: {type: filesystem, path: data}
  engines:
    - {name: spark, type: pyspark, catalogs: [lake]}
"""

Write = Callable[..., Path]
Load = Callable[[Mapping[str, str | bytes]], Project]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes a valid manifest and profile, and files, which may replace them."""

    def write(files: Mapping[str, str | bytes]) -> Path:
        for folder in ("sources", "joints", "sinks"):
            (tmp_path / folder).mkdir(exist_ok=True)
        for name, content in {"rivet.yaml": MANIFEST, "profiles.yaml": PROFILES, **files}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return tmp_path

    return write


@pytest.fixture
def load(write: Write) -> Load:
    """Return a function that writes a project and loads it without environment variables."""

    def load(files: Mapping[str, str | bytes]) -> Project:
        return load_project(write(files), environ={})

    return load
