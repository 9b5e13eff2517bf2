"""Projects as Dagster definitions."""

from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.definitions_load_context import DefinitionsLoadContext
from dagster._core.definitions.reconstruct import ReconstructableJob
from support.folders import Files, ProjectFolder


@pytest.fixture(autouse=True)
def definitions_load_as_in_a_fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that Dagster has reconstructed is kept, and tells the process that definitions are loaded for a run."""
    monkeypatch.setattr(DefinitionsLoadContext, "_instance", None)
    ReconstructableJob.get_repository_definition.cache_clear()
    ReconstructableJob.get_definition.cache_clear()


@pytest.fixture
def folder(tmp_path: Path) -> Callable[[Files], ProjectFolder]:
    """Write a project that is loaded and never run."""
    return lambda files: ProjectFolder(tmp_path / "project", files)


@pytest.fixture
def instance():
    """An event log of the test's own."""
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance
