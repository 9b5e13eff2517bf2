"""Several writers and readers of one Iceberg table at once: nothing is lost, and readers see whole versions alone."""

import os
import threading
from collections import Counter
from collections.abc import Callable

import duckdb
import pytest
from pyspark.errors import AnalysisException
from support.iceberg import declared
from support.iceberg_duckdb import session
from support.iceberg_runs import APPEND, NAMESPACE, TABLE, Work, lake, run, written
from support.killing import PROCESSES, ended, start
from support.tables import refused
from support.torture import examples

from rivet_dagster.catalogs.iceberg.settings.connection import connect_catalog
from rivet_dagster.errors import RivetError
from rivet_dagster.model.storage import CURRENT, OLDER, WITHHELD

ROWS, PUBLISHES = 50, examples(8, 50)
EACH, MOST = examples(2, 4), 50
SPARK_CATALOG = "org.apache.iceberg.spark.SparkCatalog"


@pytest.fixture(autouse=True)
def without_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip fsync: no power fails here."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def publish_appended(options, root, numbers, failures) -> None:
    """Append each number in a run of its own, which is computed again if another one has published in between."""
    catalog = lake(options, root)
    for number in numbers:
        work = Work([number], number, APPEND, identity=f"run-{number}/orders")
        for _ in range(MOST):
            try:
                run(catalog, work, root)
                break
            except RivetError as error:
                failures.append(error.code)


@pytest.mark.nightly(but=2)
@pytest.mark.parametrize("kind", ["hadoop", "sqlite", "postgres", "rest"])
def test_of_two_writers_at_once_none_is_lost(iceberg_options, tmp_path, kind):
    options = iceberg_options(kind)
    run(lake(options, tmp_path), Work([0], 0), tmp_path)
    failures: list[str] = []
    numbers = [range(1, 1 + EACH), range(101, 101 + EACH)]
    threads = [threading.Thread(target=publish_appended, args=(options, tmp_path, mine, failures)) for mine in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    table = connect_catalog("lake", options, tmp_path).load_table((NAMESPACE, TABLE))
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, *numbers[0], *numbers[1]]
    assert set(failures) <= {"RVT-405"}
    assert list(table.metadata.refs) == ["main"]
    versions = lake(options, tmp_path).versions(TABLE)
    assert [version.state for version in versions] == [CURRENT, *[OLDER] * 2 * EACH]
    assert len({version.identity for version in versions}) == 1 + 2 * EACH


@pytest.mark.parametrize("kind", ["hadoop", "sqlite"])
def test_a_writer_that_was_overtaken_may_withhold_its_version(iceberg_options, tmp_path, kind):
    options = iceberg_options(kind)
    catalog = lake(options, tmp_path)
    run(catalog, Work([0]), tmp_path)
    for work in (Work([1], identity="one/orders"), Work([1], adds=True, identity="two/orders")):
        slow = written(catalog, work, tmp_path)
        run(catalog, Work([2]), tmp_path)
        assert refused(slow.commit, work.identity).code == "RVT-405"
        slow.withhold(work.identity)
        catalog.sweep()
        (withheld,) = [version for version in catalog.versions(TABLE) if version.state == WITHHELD]
        assert (withheld.name, withheld.identity) == (slow.version, work.identity)
        catalog.take_up(TABLE, slow.branch).commit("a person")
        assert catalog.published_by(TABLE, work.identity).version == slow.version
    plain = connect_catalog("lake", options, tmp_path)
    assert plain.load_table((NAMESPACE, TABLE)).scan().to_arrow().to_pylist() == [{"id": 1, "net": 0, "more": 0}]
    assert plain.list_tables(NAMESPACE) == [(NAMESPACE, TABLE)]


def pyiceberg_reader(options, root) -> list[int]:
    """Read by PyIceberg."""
    return connect_catalog("lake", options, root).load_table((NAMESPACE, TABLE)).scan().to_arrow()["net"].to_pylist()


def duckdb_reader(options, root) -> list[int]:
    """Read the data files by DuckDB."""
    tasks = connect_catalog("lake", options, root).load_table((NAMESPACE, TABLE)).scan().plan_files()
    files = [task.file.file_path.removeprefix("file://") for task in tasks]
    return [net for (net,) in duckdb.read_parquet(files).project("net").fetchall()]


def our_reader(options, root) -> list[int]:
    """Read the current version by an engine."""
    catalog = lake(options, root)
    with session(root, lake=options) as engine:
        return engine.to_arrow(engine.load(catalog.read(catalog.current(TABLE))))["net"].to_pylist()


def spark_reader(spark) -> Callable[..., list[int]]:
    """Return a reader that is a session of Spark as others have it."""

    def spark_sql(options, root) -> list[int]:
        while True:
            try:
                return [row["net"] for row in spark.sql(f"SELECT net FROM others.{NAMESPACE}.{TABLE}").collect()]
            except AnalysisException as error:
                # Spark's own answer to columns that changed between its analysis and its reading: ask again
                if not (error.getCondition() or "").startswith("INCOMPATIBLE_TABLE_CHANGE_AFTER_ANALYSIS"):
                    raise

    return spark_sql


READERS = (pyiceberg_reader, duckdb_reader, our_reader)
"""Readers in processes of their own."""


def read_repeatedly(test, stop, read, options, root) -> None:
    """Read until stopped, and once more; send the versions that were read whole, and everything else."""
    whole, other = set(), []

    def look() -> None:
        found = Counter(read(options, root))
        if list(found.values()) == [ROWS]:
            whole.update(found)
        else:
            other.append(dict(found))

    look()  # the first time takes some seconds
    test.send("begun")
    while not stop.wait(0.1):
        look()
    look()
    test.send((whole, other))


def test_readers_see_whole_versions_while_others_are_published(iceberg_session, tmp_path):
    options = declared("hadoop", tmp_path / "lake")
    spark = iceberg_session().spark.newSession()
    for key, value in {"": SPARK_CATALOG, ".type": "hadoop", ".cache-enabled": "false"}.items():
        spark.conf.set(f"spark.sql.catalog.others{key}", value)
    spark.conf.set("spark.sql.catalog.others.warehouse", options["warehouse"])
    readers = (*READERS, spark_reader(spark))
    catalog = lake(options, tmp_path)
    run(catalog, Work(range(ROWS), 0), tmp_path)
    stop = PROCESSES.Event()
    pipes = [PROCESSES.Pipe(duplex=False) for _ in readers]
    processes = [
        start(read_repeatedly, there, stop, read, options, tmp_path)
        for read, (_, there) in zip(READERS, pipes, strict=False)
    ]
    arguments = (pipes[-1][1], stop, readers[-1], options, tmp_path)
    thread = threading.Thread(target=read_repeatedly, args=arguments, daemon=True)
    thread.start()
    here = [connection for connection, _ in pipes]
    for _, there in pipes[:-1]:
        there.close()
    assert [connection.recv() for connection in here] == ["begun"] * len(readers)
    for number in range(1, PUBLISHES + 1):
        run(catalog, Work(range(ROWS), number, adds=number % 5 == 0, identity=f"run-{number}/orders"), tmp_path)
    stop.set()
    for read, connection in zip(readers, here, strict=True):
        assert connection.poll(60), read.__name__
        whole, other = connection.recv()
        assert other == [], read.__name__
        assert whole >= {0, PUBLISHES}
        assert whole <= set(range(PUBLISHES + 1))
    assert [ended(process) for process in processes] == [0] * len(READERS)
    thread.join()
    assert len(catalog.versions(TABLE)) == PUBLISHES + 1
