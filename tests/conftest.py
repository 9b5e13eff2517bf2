"""Fixtures for all tests: one Spark for each process, since starting it takes longer than most tests."""

import gc
import os
import random
import re
import signal
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import hypothesis
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from support.class_archive import use_archive
from support.comet import with_comet
from support.example import example, example_run  # noqa: F401, these are fixtures
from support.folders import Files, ProjectFolder
from support.iceberg import jar_settings, jars_of_spark
from support.maven import are_there
from support.servers import database, iceberg_rest, mariadb, nessie, postgres, s3  # noqa: F401, these are fixtures
from support.spark import (
    MASTER,
    OF_PROCESSES,
    REMOTE,
    SqlExecutions,
    of_sessions,
    on_sail,
    settings,
    share_sail,
    where,
    without_unused_defaults,
)
from support.torture import TORTURE, spread

from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.engines.pyspark.class_archive.store import VARIABLE
from rivet_dagster.engines.registry import declared_class
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.secrets import redaction

# A shell lets background processes ignore SIGINT, which some tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Each JVM of Spark that a process of these tests starts, by whatever profile.
os.environ["SPARK_SUBMIT_OPTS"] = OF_PROCESSES
# None in the cache of the user who runs the tests.
os.environ[VARIABLE] = "false"

# Scripts for an environment of dbt, which has none of this project's packages.
collect_ignore = ["dbt"]

# Files whose tests one worker runs: they look at the one run of the example, or need a server of Nessie, which each
# worker else would start.
OF_ONE_WORKER = (
    re.compile("tests/(e2e/test_example_|browser/)"),
    re.compile(
        "tests/iceberg/test_(conformance|connected|environment_branches|evicting|killed_at_random|nessie|publish"
        "|readers_and_writers|refused|rollback)"
    ),
)

# Each of Dagster's storages reads all its revisions, which are files of Python, when it is made: here but once.
_read_revisions, _revisions = ScriptDirectory.from_config, {}


def _known_revisions(config: Config) -> ScriptDirectory:
    key = config.config_file_name, config.get_main_option("script_location")
    if key not in _revisions:
        _revisions[key] = _read_revisions(config)
    return _revisions[key]


ScriptDirectory.from_config = _known_revisions  # type: ignore[assignment, method-assign]

# The same examples each time, on busy machines as well.
hypothesis.settings.register_profile(
    "suite",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add options of single files, and ``--shuffle SEED`` for a random order of files and their tests."""
    parser.addoption("--shuffle", metavar="SEED", help="run the files, and the tests of each file, in a random order")
    parser.addoption("--examples", type=int, help="how many projects test_fusion_random.py tries (default: its own)")
    parser.addoption("--rewrite-golden", action="store_true", help="write the files of tests/unit/cli/golden anew")
    parser.addoption("--pictures", help="the folder for pictures that the browser takes (default: none)")


@pytest.fixture(autouse=True)
def no_secrets_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the secrets that other tests have expanded."""
    monkeypatch.setattr(redaction, "_process", redaction.Redactor())


def pytest_sessionstart(session: pytest.Session) -> None:
    """Have Maven fetch, while workers collect tests, the jars that each of them waits for before its first Spark."""
    if session.config.getoption("numprocesses", None) and not hasattr(session.config, "workerinput"):
        Thread(target=are_there, args=(jars_of_spark(),), daemon=True).start()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Make the archive of classes, if there is none, before the first of many tests that may start Spark.

    And leave what was collected out of the collections of garbage.
    """
    quick = (session.config.rootpath / "tests" / "unit", session.config.rootpath / "rivet_dagster")
    starting = [item for item in session.items if not any(item.path.is_relative_to(folder) for folder in quick)]
    cache = getattr(session.config, "cache", None)  # none with ``-p no:cacheprovider``
    if starting and cache is not None:
        use_archive(cache.mkdir("class-archives"), len(starting))
    # Modules and tests live to the end: each collection of garbage would look at them all again.
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give some files to one worker."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            together = next((files.pattern for files in OF_ONE_WORKER if files.match(nodeid)), None)
            return together or super()._split_scope(nodeid)

    return Scheduling(config, log)


@pytest.hookimpl(tryfirst=True)  # before pytest chooses tests by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Settle what is nightly, and shuffle."""
    mark_nightly(items)
    seed = config.getoption("--shuffle")
    if seed is not None:
        shuffle(items, random.Random(seed))


def mark_nightly(items: list[pytest.Item]) -> None:
    """Take the mark ``nightly(but=N)`` from N cases of a test, spread evenly, which ``make test`` tries."""
    cases: dict[tuple[Path, str], list[pytest.Item]] = {}
    for item in items:
        mark = item.get_closest_marker("nightly")
        if mark is not None and "but" in mark.kwargs:
            cases.setdefault((item.path, item.nodeid.partition("[")[0]), []).append(item)
    for found in cases.values():
        few: int = found[0].get_closest_marker("nightly").kwargs["but"]  # type: ignore[union-attr]
        for item in spread(found, few):
            item.own_markers = [mark for mark in item.own_markers if mark.name != "nightly"]


def shuffle(items: list[pytest.Item], chance: random.Random) -> None:
    """Shuffle whole files, so that module fixtures are set up once, and the tests of each."""
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
    """Return an engine on the one Spark, which knows Iceberg, or on a server; it starts with its first session."""
    if REMOTE in os.environ:
        config = {key: value for key, value in settings(Path()).items() if key in of_sessions()}
        spec = EngineSpec("spark", "pyspark", options={**where(), "config": config})
        engine = declared_class(spec)(spec)
        if on_sail():
            engine.root = tmp_path_factory.mktemp("project")
            share_sail(engine.root)
        return engine
    config = with_comet(settings(tmp_path_factory.mktemp("spark")) | jar_settings())
    return PySparkEngine(EngineSpec("spark", "pyspark", options={"master": MASTER, "config": config}))


@pytest.fixture(scope="session")
def application(engine: PySparkEngine) -> PySparkEngine:
    """Return the engine after starting it, so that its settings come before those of a test's own engines."""
    with engine.session() as session:
        if REMOTE not in os.environ and not TORTURE:
            without_unused_defaults(session.spark)
    return engine


@pytest.fixture
def project(tmp_path: Path, application: PySparkEngine) -> Callable[[Files], ProjectFolder]:
    """Return a function that writes a project that runs on the one Spark."""
    return lambda files: ProjectFolder(tmp_path / "project", files)


@pytest.fixture
def in_this_process() -> None:
    """Skip the test on a server: it looks into the JVM of this process."""
    if REMOTE in os.environ:
        pytest.skip("it looks into the JVM of this process")


@pytest.fixture
def sql_executions(in_this_process: None, application: PySparkEngine) -> SqlExecutions:
    """Return a counter of Spark's SQL executions from now on."""
    session = application.session()
    counter = SqlExecutions(session.spark)
    session.close()
    return counter
