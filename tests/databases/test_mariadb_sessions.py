"""Publications in MariaDB among other sessions, which read, publish, and hold locks: they see one version, whole."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Any

import pymysql
import pytest
from support.duckdb_engine import DuckDBSession
from support.maria_publications import catalog_of, content, engine, holding, leftovers, waiting
from support.mariadb import MariaDB, MariaSchema
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

from rivet_dagster.catalogs.jdbc.mariadb.connection import MariaDatabase
from rivet_dagster.catalogs.jdbc.mariadb.kind import MariaKind
from rivet_dagster.catalogs.jdbc.published.records import Records
from rivet_dagster.errors import RivetError
from rivet_dagster.model.write_plan import Append, ReplaceAll

LOCK_SECONDS = "rivet_dagster.catalogs.jdbc.mariadb.kind.LOCK_SECONDS"


@pytest.fixture
def database(mariadb: MariaDB) -> MariaSchema:
    return mariadb.database()


@pytest.fixture
def session() -> Iterator[DuckDBSession]:
    with engine() as session:
        yield session


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


@pytest.mark.nightly(but=1)
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


@pytest.mark.nightly
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


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("statement", ["UPDATE orders SET n = 5 WHERE id = 1", "LOCK TABLES orders READ"])
def test_a_lock_is_waited_for_so_long_and_no_longer(database, session, monkeypatch, statement):
    """One on a row, or on the table."""
    monkeypatch.setattr(LOCK_SECONDS, 1)
    catalog = catalog_of(database)
    publish(catalog, session, ReplaceAll(), 0, "first")
    with holding(database, statement), staged(catalog, session, ReplaceAll(), 1) as transaction:
        began = time.monotonic()
        error = refused(lambda: transaction.commit("run"))
        assert time.monotonic() - began < 20
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


def test_a_deadlock_is_told_though_it_has_ended_the_savepoints(database):
    own = MariaDatabase("shop", database.jdbc, {"user": database.user, "password": database.password})
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    connection = own.open()
    with database.connect() as other, other.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("UPDATE t SET id = 20 WHERE id = 2")
        cursor.execute("INSERT INTO t SELECT 1000 + seq FROM seq_1_to_5000")  # the database ends the lighter one
        thread = threading.Thread(target=cursor.execute, args=("UPDATE t SET id = 11 WHERE id = 1",))

        def update() -> None:
            with connection.transaction():
                connection.execute("UPDATE t SET id = 10 WHERE id = 1")
                thread.start()
                time.sleep(1)
                with connection.transaction():
                    connection.execute("UPDATE t SET id = 21 WHERE id = 2")

        with pytest.raises(pymysql.err.OperationalError, match="Deadlock"):
            update()
        thread.join()
        other.rollback()
    connection.close()


def test_a_table_that_somebody_makes_meanwhile_is_left_alone(database, session):
    catalog = catalog_of(database)
    with staged(catalog, session, ReplaceAll(), 1) as transaction:
        database.execute("CREATE TABLE orders (id bigint, n bigint)", "INSERT INTO orders VALUES (7, 7)")
        error = refused(lambda: transaction.commit("run"))
    assert (error.code, "somebody else has made a table" in str(error)) == ("RVT-405", True)
    assert database.rows("SELECT * FROM orders") == [(7, 7)]


def test_a_table_that_another_run_is_making_is_left_alone(database, session, monkeypatch):
    """Also if that has begun just after this one has looked."""
    transaction = staged(catalog_of(database), session, ReplaceAll(), 1)
    database.execute(
        "CREATE TABLE orders (id bigint, n bigint)",
        "INSERT INTO rivet_versions (version, table_name, state) VALUES ('other', 'elsewhere', 'building')",
        "INSERT INTO rivet_heartbeats VALUES ('other', now(6))",
        "INSERT INTO rivet_staged (table_schema, table_name, version) VALUES (database(), 'orders', 'other')",
    )
    assert "just being published" in str(refused(lambda: transaction.commit("run")))
    with monkeypatch.context() as patched:
        patched.setattr(Records, "stager_of", lambda *_: None)
        patched.setattr(MariaKind, "find_target", lambda *_: None)
        error = refused(lambda: transaction.commit("run"))
    assert (error.code, "just being published" in str(error)) == ("RVT-405", True)
    transaction.abort()
    assert database.rows("SELECT count(*) FROM orders") == [(0,)]


def test_a_table_that_somebody_makes_in_the_publication_is_not_dropped(database, session, monkeypatch):
    """Though the run has noted already that it makes it."""
    transaction = staged(catalog_of(database), session, ReplaceAll(), 1)
    add = Records.add_staged

    def noted(records, connection, name, version):
        add(records, connection, name, version)
        database.execute("CREATE TABLE orders (id bigint, n bigint)", "INSERT INTO orders VALUES (7, 7)")

    with monkeypatch.context() as patched:
        patched.setattr(Records, "add_staged", noted)
        assert refused(lambda: transaction.commit("run")).code == "RVT-405"
    transaction.abort()
    catalog_of(database).sweep()
    assert database.rows("SELECT * FROM orders") == [(7, 7)]
