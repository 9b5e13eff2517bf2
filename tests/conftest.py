"""One Spark for all tests of a process: starting it costs more than everything that most of them do."""

import random
import signal
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest
from support.folders import Files, ProjectFolder
from support.spark import MASTER, SqlExecutions, settings

from rivet_dagster import redaction
from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.model.profile import EngineSpec

# A shell has what it starts in the background ignore SIGINT, which some tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples each time, however busy the machine is.
hypothesis.settings.register_profile(
    "suite",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of single files, and ``--shuffle SEED``: the files in another order, and the tests of each."""
    parser.addoption("--shuffle", metavar="SEED", help="run the files, and the tests of each file, in a random order")
    parser.addoption("--examples", type=int, help="how many projects test_fusion_random.py tries (default: its own)")
    parser.addoption("--pictures", help="the folder for the pictures that the browser takes (default: a temporary one)")


@pytest.fixture(autouse=True)
def secrets_of_this_test_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests have expanded is no secret here."""
    monkeypatch.setattr(redaction, "_process", redaction.Redactor())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffle whole files, since what a module sets up for its tests is set up once."""
    seed = config.getoption("--shuffle")
    if seed is not None:
        chance = random.Random(seed)
        files: dict[Path, list[pytest.Item]] = {}
        for item in items:
            files.setdefault(item.path, []).append(item)
        order = list(files.values())
        chance.shuffle(order)
        for tests in order:
            chance.shuffle(tests)
        items[:] = [item for tests in order for item in tests]


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
