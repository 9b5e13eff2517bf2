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
    """Reset Dagster's cache of reconstructed jobs, which makes later loads look like loads for a run."""
    monkeypatch.setattr(DefinitionsLoadContext, "_instance", None)
    ReconstructableJob.get_repository_definition.cache_clear()
    ReconstructableJob.get_definition.cache_clear()


@pytest.fixture
def folder(tmp_path: Path) -> Callable[[Files], ProjectFolder]:
    """Return a function that writes a project that is loaded and never run."""
    return lambda files: ProjectFolder(tmp_path / "project", files)


@pytest.fixture
def instance():
    """Yield an instance with an event log of its own."""
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance
