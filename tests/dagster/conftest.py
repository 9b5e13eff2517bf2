"""Projects as Dagster definitions."""

from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest
from support.folders import Files, ProjectFolder


@pytest.fixture
def folder(tmp_path: Path) -> Callable[[Files], ProjectFolder]:
    """Write a project that is loaded and never run."""
    return lambda files: ProjectFolder(tmp_path / "project", files)


@pytest.fixture
def instance():
    """An event log of the test's own."""
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance
