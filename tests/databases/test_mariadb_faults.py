"""Publications in MariaDB while others read, lock, crash and fill the disk: readers see one version, whole."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pymysql
import pytest
from support.commit_proxy import commit_proxy
from support.duckdb_engine import DuckDBSession
from support.mariadb import MariaDB, MariaSchema, mariadb_server
from support.publications import (
    BY_ID,
    ROWS,
    SEEN,
    Read,
    assert_whole,
    batch,
    committed_at_once,
    publish,
    readers,
    refused,
    staged,
)
from support.torture import examples

from rivet_dagster.catalogs.jdbc import JdbcCatalog
from rivet_dagster.errors import RivetError
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.relations import ArrowRows, JdbcTable
from rivet_dagster.model.write_plan import Append, ReplaceAll

LOCK_SECONDS = "rivet_dagster.catalogs.jdbc.mariadb.kind.LOCK_SECONDS"
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


def engine() -> DuckDBSession:
    return DuckDBSession(frozenset({ArrowRows, JdbcTable}), lambda: None)


def catalog_of(database: MariaSchema, port: int | None = None) -> JdbcCatalog:
    url = f"jdbc:mariadb://127.0.0.1:{port or database.port}/{database.name}"
    options = {"url": url, "user": database.user, "password": database.password, "reads": "locked"}
    return JdbcCatalog(CatalogSpec("shop", "jdbc", options), Path())


def leftovers(database: MariaSchema) -> list[str]:
    query = "SELECT table_name FROM information_schema.tables WHERE table_schema = database() AND table_name REGEXP "
    return [name for (name,) in database.rows(f"{query} '^rivet_[0-9a-f]{{12}}'")]


def content(database: MariaSchema) -> tuple[Any, ...]:
    """Return the number of rows, and the least and the greatest value."""
    return database.rows(SEEN)[0]


def reading(database: MariaSchema, isolation: str) -> Callable[[], AbstractContextManager[Read]]:
    @contextmanager
    def connected() -> Iterator[Read]:
        with database.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {isolation}")

            def selected() -> Any:
                cursor.execute(SEEN)
                return cursor.fetchone()

            def read() -> list[Any]:
                connection.begin()
                found = [selected() for _ in range(2)]
                connection.commit()
                return found

            yield read

    return connected


@pytest.mark.parametrize("plan", [ReplaceAll(), BY_ID], ids=["replace", "merge"])
def test_readers_see_one_version_at_a_time(database, session, plan):
    """All rows have one value, in every transaction; one that began earlier sees the same rows to its end."""
    catalog = catalog_of(database)
    publish(catalog, session, plan, 0, "first")
    with ExitStack() as stack:
        levels = "READ COMMITTED", "REPEATABLE READ"
        committed, repeatable = [stack.enter_context(readers(reading(database, level))) for level in levels]
        for value in range(1, examples(15, 1_000)):
            publish(catalog, session, plan, value, str(value))
    assert_whole(committed, repeatable)
    assert leftovers(database) == []


def test_two_runs_at_once(database, session):
    """One of them is overtaken, whoever commits first: rows are never added twice, or mixed."""
    catalog = catalog_of(database)
    publish(catalog, session, ReplaceAll(), 0, "first")
    for runs in range(1, examples(5, 100)):
        one, other = (staged(catalog, session, Append(), value) for value in (2 * runs, 2 * runs + 1))
        assert committed_at_once(one, other).count("RVT-405") == 1
        assert database.rows("SELECT count(*), count(DISTINCT n) FROM orders") == [((runs + 1) * ROWS, runs + 1)]


def test_two_first_runs_at_once(database, session):
    """One of them makes the table; the other one drops nothing of it."""
    for _ in range(examples(5, 100)):
        one, other = (staged(catalog_of(database), session, ReplaceAll(), value) for value in (1, 2))
        assert committed_at_once(one, other).count("RVT-405") == 1
        assert database.rows("SELECT count(*), count(DISTINCT n) FROM orders") == [(ROWS, 1)]
        assert leftovers(database) == []
        catalog = catalog_of(database)
        catalog.evict(catalog.current("orders"))


def test_a_run_of_another_table_does_not_wait_for_a_publication(database, session):
    """Neither when it begins, and sweeps, nor when it publishes."""
    catalog = catalog_of(database)
    publish(catalog, session, ReplaceAll(), 0, "first")
    transaction = staged(catalog, session, ReplaceAll(), 1)
    with holding(database, "UPDATE orders SET n = 5 WHERE id = 1"):
        thread = threading.Thread(target=transaction.commit, args=("run",))
        thread.start()
        waiting(database)
        began = time.monotonic()
        with catalog.begin("other", session) as other:
            other.write(ReplaceAll(), session.from_value(batch(3)))
            other.commit("other")
        assert catalog.sweep() == ()
        assert time.monotonic() - began < 10
        assert thread.is_alive()
    thread.join()
    assert content(database) == (ROWS, 1, 1)


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


def waiting(database: MariaSchema) -> int:
    """Wait until the DELETE of a publication waits for a lock, and return its connection."""
    query = (
        "SELECT id FROM information_schema.processlist "
        "WHERE info LIKE 'DELETE%orders%' AND state <> '' AND db = database()"
    )
    deadline = time.monotonic() + 20
    while not (found := database.rows(query)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    connection: int = found[0][0]
    return connection


@contextmanager
def holding(database: MariaSchema, statement: str) -> Iterator[None]:
    """Hold the locks of a statement for the block."""
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute(statement)
        try:
            yield
        finally:
            connection._force_close()  # the server may be gone, or have killed it


@pytest.mark.parametrize("statement", ["UPDATE orders SET n = 5 WHERE id = 1", "LOCK TABLES orders READ"])
def test_a_lock_is_waited_for_so_long_and_no_longer(database, session, monkeypatch, statement):
    """One on a row, or on the table."""
    monkeypatch.setattr(LOCK_SECONDS, 1)
    catalog = catalog_of(database)
    publish(catalog, session, ReplaceAll(), 0, "first")
    with holding(database, statement), staged(catalog, session, ReplaceAll(), 1) as transaction:
        error = refused(lambda: transaction.commit("run"))
    assert (error.code, "another session has held a lock" in str(error)) == ("RVT-404", True)
    assert content(database) == (ROWS, 0, 0)
    assert leftovers(database) == []


def test_a_deadlock_fails_the_run_and_leaves_the_table(database, session):
    """Whichever of the two the database ends."""
    catalog = catalog_of(database)
    publish(catalog, session, ReplaceAll(), 0, "first")
    transaction = staged(catalog, session, ReplaceAll(), 1)
    committed = threading.Event()
    errors: list[RivetError] = []

    def commit() -> None:
        try:
            transaction.commit("run")
        except RivetError as error:
            errors.append(error)
        committed.set()

    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        cursor.execute("BEGIN")
        cursor.execute(f"UPDATE orders SET n = 5 WHERE id = {ROWS - 1}")
        cursor.execute("INSERT INTO orders SELECT 1000 + seq, 5 FROM seq_1_to_5000")
        thread = threading.Thread(target=commit)
        thread.start()
        time.sleep(1)  # the DELETE waits for the last row, and has locked the first
        with suppress(pymysql.err.OperationalError):
            cursor.execute("UPDATE orders SET n = 6 WHERE id = 0")
        cursor.execute("ROLLBACK")
        assert committed.wait(60)
        thread.join()
    (error,) = errors
    assert (error.code, "Deadlock" in str(error)) == ("RVT-404", True)
    transaction.abort()
    assert content(database) == (ROWS, 0, 0)


@contextmanager
def own_server(**settings: str) -> Iterator[tuple[MariaDB, MariaSchema]]:
    with mariadb_server({**DURABLE, **{key.replace("_", "-"): value for key, value in settings.items()}}) as server:
        yield server, server.database()


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
from test_mariadb_faults import ReplaceAll, catalog_of, engine

database = MariaSchema(sys.argv[1], int(sys.argv[2]))
with engine() as session:
    transaction = staged(catalog_of(database), session, ReplaceAll(), 1)
    print("staged", flush=True)
    sys.stdin.read()
"""


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


def test_a_table_that_somebody_makes_meanwhile_is_left_alone(database, session):
    catalog = catalog_of(database)
    with staged(catalog, session, ReplaceAll(), 1) as transaction:
        database.execute("CREATE TABLE orders (id bigint, n bigint)", "INSERT INTO orders VALUES (7, 7)")
        error = refused(lambda: transaction.commit("run"))
    assert (error.code, "somebody else has made a table" in str(error)) == ("RVT-405", True)
    assert database.rows("SELECT * FROM orders") == [(7, 7)]
