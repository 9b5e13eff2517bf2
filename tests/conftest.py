"""One Spark for all tests of a process: starting it costs more than everything that most of them do."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from support.folders import Files, ProjectFolder
from support.spark import MASTER, SqlExecutions, settings

from rivet_dagster import redaction
from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.model.profile import EngineSpec

# A shell has what it starts in the background ignore SIGINT, which some tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--examples``: as many random projects as one likes, others each time; ``--pictures``: where they are kept."""
    parser.addoption("--examples", type=int, help="how many projects test_fusion_random.py tries (default: its own)")
    parser.addoption("--pictures", help="the folder for the pictures that the browser takes (default: a temporary one)")


@pytest.fixture(autouse=True)
def secrets_of_this_test_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests have expanded is no secret here."""
    monkeypatch.setattr(redaction, "_process", redaction.Redactor())


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> PySparkEngine:
    """An engine on the one Spark; it starts with its first session."""
    options = {"master": MASTER, "config": settings(tmp_path_factory.mktemp("spark"))}
    return PySparkEngine(EngineSpec("spark", "pyspark", options=options))


@pytest.fixture(scope="session")
def application(engine: PySparkEngine) -> PySparkEngine:
    """The same, started: whatever a test's own engines ask for, the settings of this one came first."""
    engine.session().close()
    return engine


@pytest.fixture
def project(tmp_path: Path, application: PySparkEngine) -> Callable[[Files], ProjectFolder]:
    """Write a project that runs on the one Spark."""
    return lambda files: ProjectFolder(tmp_path / "project", files)


@pytest.fixture
def sql_executions(application: PySparkEngine) -> SqlExecutions:
    """Counts the SQL executions of Spark from here on."""
    session = application.session()
    counter = SqlExecutions(session.spark)
    session.close()
    return counter
