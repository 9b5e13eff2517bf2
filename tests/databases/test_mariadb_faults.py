"""Publications in MariaDB while it crashes, its disk is full, and runs and connections die: the table stays whole."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.commit_proxy import commit_proxy
from support.duckdb_engine import DuckDBSession
from support.maria_publications import catalog_of, content, engine, holding, leftovers, waiting
from support.mariadb import MariaDB, MariaSchema, mariadb_server
from support.publications import (
    BY_ID,
    ROWS,
    batch,
    publish,
    refused,
    staged,
)

from rivet_dagster.model.write_plan import ReplaceAll

FORGET_HEARTBEATS = "UPDATE rivet_heartbeats SET sent = sent - INTERVAL 61 SECOND"
DURABLE = {"innodb-flush-log-at-trx-commit": "2"}
"""What has been committed survives a crash of the server, if not of the machine."""


@pytest.fixture
def database(mariadb: MariaDB) -> MariaSchema:
    return mariadb.database()


@pytest.fixture
def session() -> Iterator[DuckDBSession]:
    with engine() as session:
        yield session


def test_a_lost_answer_to_the_commit_is_looked_up(database, session):
    with commit_proxy(database.port) as proxy:
        with staged(catalog_of(database, proxy.port), session, ReplaceAll(), 1) as transaction:
            proxy.lose.set()
            published = transaction.commit("run")
        assert proxy.lost == 1
    for found in (catalog_of(database).current("orders"), catalog_of(database).published_by("orders", "run")):
        assert found is not None
        assert (found.version, found.identity) == (published.version, "run")
    assert content(database) == (ROWS, 1, 1)


def test_a_commit_that_has_not_come_to_the_database_fails_the_run(database, session):
    publish(catalog_of(database), session, ReplaceAll(), 0, "first")
    with commit_proxy(database.port, forwards=False) as proxy:
        transaction = staged(catalog_of(database, proxy.port), session, ReplaceAll(), 1)
        proxy.lose.set()
        assert refused(lambda: transaction.commit("run")).code == "RVT-510"
        assert proxy.lost == 1
    transaction.abort()
    assert content(database) == (ROWS, 0, 0)
    assert leftovers(database) == []


def test_a_session_that_is_killed_in_the_publication_leaves_the_table(database, session):
    """The database rolls back; the error can be retried."""
    catalog = catalog_of(database)
    publish(catalog, session, ReplaceAll(), 0, "first")
    with holding(database, "UPDATE orders SET n = 5 WHERE id = 1"):
        transaction = staged(catalog, session, ReplaceAll(), 1)
        killer = threading.Thread(target=kill_waiting, args=(database,))
        killer.start()
        error = refused(lambda: transaction.commit("run"))
        killer.join()
    transaction.abort()
    assert error.code == "RVT-510"
    assert content(database) == (ROWS, 0, 0)
    publish(catalog, session, ReplaceAll(), 1, "run")
    assert content(database) == (ROWS, 1, 1)


def kill_waiting(database: MariaSchema) -> None:
    """Kill the connection whose DELETE waits."""
    database.execute(f"KILL CONNECTION {waiting(database)}")


@contextmanager
def own_server(**settings: str) -> Iterator[tuple[MariaDB, MariaSchema]]:
    with mariadb_server({**DURABLE, **{key.replace("_", "-"): value for key, value in settings.items()}}) as server:
        yield server, server.database()


@pytest.mark.nightly
@pytest.mark.parametrize("plan", [ReplaceAll(), BY_ID], ids=["replace", "merge"])
def test_a_crash_of_the_database_between_staging_and_publishing(plan):
    """Its rows and its heartbeat survive: the run publishes what it has staged, unless it counts as dead by then."""
    with own_server() as (server, database), engine() as session:
        catalog = catalog_of(database)
        publish(catalog, session, plan, 0, "first")
        transaction = staged(catalog, session, plan, 1)
        server.crash()
        assert content(database) == (ROWS, 0, 0)
        transaction.commit("run")
        assert content(database) == (ROWS, 1, 1)
        late = staged(catalog, session, plan, 2)
        server.crash()
        database.execute(FORGET_HEARTBEATS)
        assert refused(lambda: late.commit("late")).code == "RVT-406"
        publish(catalog, session, plan, 3, "next")
        assert content(database) == (ROWS, 3, 3)
        assert leftovers(database) == []


def test_a_crash_of_the_database_in_the_publication():
    """It rolls back; the run, whose connection is lost, fails, and the next one publishes."""
    with own_server() as (server, database), engine() as session:
        catalog = catalog_of(database)
        publish(catalog, session, ReplaceAll(), 0, "first")
        transaction = staged(catalog, session, ReplaceAll(), 1)
        codes: list[str] = []
        thread = threading.Thread(target=lambda: codes.append(refused(lambda: transaction.commit("run")).code))
        with holding(database, "UPDATE orders SET n = 5 WHERE id = 1"):
            thread.start()
            waiting(database)
            server.crash()
        thread.join()
        assert codes == ["RVT-510"]
        assert content(database) == (ROWS, 0, 0)
        publish(catalog, session, ReplaceAll(), 2, "next")
        assert content(database) == (ROWS, 2, 2)


def test_staged_rows_that_somebody_has_changed_are_not_published(database, session):
    catalog = catalog_of(database)
    publish(catalog, session, ReplaceAll(), 0, "first")
    with staged(catalog, session, ReplaceAll(), 1) as transaction:
        (name,) = [name for name in leftovers(database) if name.endswith("_batch")]
        database.execute(f"DELETE FROM {name} WHERE id < 10")
        error = refused(lambda: transaction.commit("run"))
    assert error.code == "RVT-407"
    assert content(database) == (ROWS, 0, 0)


KILLED = """
import sys
from support.mariadb import MariaSchema
from support.publications import staged
from support.maria_publications import catalog_of, engine
from rivet_dagster.model.write_plan import ReplaceAll

database = MariaSchema(sys.argv[1], int(sys.argv[2]))
with engine() as session:
    transaction = staged(catalog_of(database), session, ReplaceAll(), 1)
    print("staged", flush=True)
    sys.stdin.read()
"""


@pytest.mark.nightly
def test_what_a_killed_run_has_staged_is_swept(database, session):
    """Not before a minute without a heartbeat, and by the next run of the table, or by a sweep."""
    catalog = catalog_of(database)
    publish(catalog, session, ReplaceAll(), 0, "first")
    for value in (1, 2):
        kill_run(database)
        (waiting,) = catalog.building()
        assert catalog.sweep() == ()
        assert content(database)[0] == ROWS
        database.execute(FORGET_HEARTBEATS)
        if value == 1:
            assert catalog.sweep() == (waiting,)
            assert (leftovers(database), content(database)) == ([], (ROWS, 0, 0))
        publish(catalog, session, ReplaceAll(), value, "next")
        assert (catalog.building(), leftovers(database)) == ((), [])
        assert content(database) == (ROWS, value, value)


def kill_run(database: MariaSchema) -> None:
    """Kill the process of a run that has staged rows."""
    folders = [str(Path(__file__).parent), str(Path(__file__).parents[1]), *sys.path]
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, database.name, str(database.port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        assert process.stdout.readline() == b"staged\n"
        process.kill()
        process.wait()


def test_a_run_without_a_heartbeat_publishes_nothing(database, session):
    catalog = catalog_of(database)
    publish(catalog, session, ReplaceAll(), 0, "first")
    transaction = staged(catalog, session, ReplaceAll(), 1)
    database.execute(FORGET_HEARTBEATS)
    assert refused(transaction.beat).code == "RVT-406"
    assert refused(lambda: transaction.commit("run")).code == "RVT-406"
    assert catalog.sweep() == (f"{database.name}.orders/{transaction.version}",)
    assert content(database) == (ROWS, 0, 0)


@pytest.mark.nightly
@pytest.mark.parametrize("count", [400_000, 180_000], ids=["when it stages", "when it publishes"])
def test_a_full_disk_leaves_the_table(count):
    """Nothing is published, and there is room for the next run once the staged rows are gone."""
    # All tables are in one file, which cannot grow.
    full = {"innodb_file_per_table": "0", "innodb_data_file_path": "ibdata1:32M"}
    with own_server(**full) as (_, database), engine() as session:
        catalog = catalog_of(database)
        publish(catalog, session, ReplaceAll(), 0, "first")
        transaction = catalog.begin("orders", session)

        def run() -> None:
            transaction.write(ReplaceAll(), session.from_value(batch(1, count)))
            transaction.commit("run")

        error = refused(run)
        assert (error.code, "is full" in str(error)) == ("RVT-404", True)
        assert len(leftovers(database)) == 1
        assert content(database) == (ROWS, 0, 0)
        transaction.abort()
        publish(catalog, session, ReplaceAll(), 2, "next")
        assert content(database) == (ROWS, 2, 2)
        assert leftovers(database) == []
