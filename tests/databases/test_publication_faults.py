"""Publications while others read, lock, crash and fill the disk: readers see one version, whole, or the one before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from support.commit_proxy import commit_proxy
from support.databases import DatabaseSession, execute, rows
from support.postgres import Database, Postgres, postgres_server
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
from rivet_dagster.catalogs.jdbc.postgres import kind
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.write_plan import Append, ReplaceAll


@pytest.fixture
def database(postgres) -> Database:
    return postgres.database()


@pytest.fixture
def session(database: Database) -> Iterator[DatabaseSession]:
    with DatabaseSession(database) as session:
        yield session


def catalog_of(database: Database, port: int | None = None) -> JdbcCatalog:
    url = f"jdbc:postgresql://127.0.0.1:{port or database.port}/{database.name}"
    options = {"url": url, "user": database.user, "password": database.password}
    return JdbcCatalog(CatalogSpec("shop", "jdbc", options), Path())


def leftovers(database: Database) -> list[str]:
    return [name for (name,) in rows(database, r"SELECT relname FROM pg_class WHERE relname ~ '^rivet_[0-9a-f]{12}'")]


def reading(database: Database, isolation: psycopg.IsolationLevel) -> Callable[[], AbstractContextManager[Read]]:
    @contextmanager
    def connected() -> Iterator[Read]:
        with psycopg.connect(database.dsn) as connection:
            connection.isolation_level = isolation

            def read() -> list[Any]:
                with connection.transaction():
                    return [connection.execute(SEEN).fetchone() for _ in range(2)]

            yield read

    return connected


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("plan", [ReplaceAll(), BY_ID], ids=["replace", "merge"])
def test_readers_see_one_version_at_a_time(database, session, plan):
    """All rows have one value, in every transaction; one that began earlier sees the same rows to its end."""
    catalog = catalog_of(database)
    publish(catalog, session, plan, 0, "first")
    with ExitStack() as stack:
        levels = psycopg.IsolationLevel.READ_COMMITTED, psycopg.IsolationLevel.REPEATABLE_READ
        committed, repeatable = [stack.enter_context(readers(reading(database, level))) for level in levels]
        for value in range(1, examples(15, 1_000)):
            publish(catalog, session, plan, value, str(value))
    assert_whole(committed, repeatable)
    assert leftovers(database) == []


def test_two_runs_at_once(database, session):
    """One of them is overtaken, whoever commits first: rows are never added twice, or mixed."""
    catalog = catalog_of(database)
    publish(catalog, session, ReplaceAll(), 0, "first")
    one, other = (staged(catalog, session, Append(), value) for value in (1, 2))
    assert committed_at_once(one, other).count("RVT-405") == 1
    assert rows(database, "SELECT count(*), count(DISTINCT n) FROM orders") == [(2 * ROWS, 2)]


def test_a_lost_answer_to_the_commit_is_looked_up(database, session):
    with commit_proxy(database.port) as proxy:
        catalog = catalog_of(database, proxy.port)
        with staged(catalog, session, ReplaceAll(), 1) as transaction:
            proxy.lose.set()
            published = transaction.commit("run")
        assert proxy.lost == 1
    for found in (catalog_of(database).current("orders"), catalog_of(database).published_by("orders", "run")):
        assert found is not None
        assert (found.version, found.identity) == (published.version, "run")


def test_a_commit_that_has_not_come_to_the_database_fails_the_run(database, session):
    with commit_proxy(database.port, forwards=False) as proxy:
        transaction = staged(catalog_of(database, proxy.port), session, ReplaceAll(), 1)
        proxy.lose.set()
        assert refused(lambda: transaction.commit("run")).code == "RVT-510"
        assert proxy.lost == 1
    transaction.abort()
    assert catalog_of(database).current("orders") is None
    assert leftovers(database) == []


def test_a_connection_that_dies_in_the_publication_leaves_the_table(database, session, monkeypatch):
    """The database rolls back; the error can be retried."""
    catalog = catalog_of(database)
    publish(catalog, session, ReplaceAll(), 0, "first")
    with psycopg.connect(database.dsn) as holder:
        holder.execute("LOCK TABLE orders IN EXCLUSIVE MODE")
        transaction = staged(catalog, session, ReplaceAll(), 1)
        timer = threading.Timer(1, lambda: terminated(database))
        timer.start()
        error = refused(lambda: transaction.commit("run"))
        timer.join()
    transaction.abort()
    assert error.code == "RVT-510"
    assert rows(database, "SELECT count(*), max(n) FROM orders") == [(ROWS, 0)]
    publish(catalog, session, ReplaceAll(), 1, "run")
    assert rows(database, "SELECT count(*), min(n) FROM orders") == [(ROWS, 1)]


def terminated(database: Database) -> None:
    execute(
        database,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name = 'rivet_dagster writer' AND wait_event_type = 'Lock'",
    )


def test_a_lock_is_waited_for_so_long_and_no_longer(database, session, monkeypatch):
    monkeypatch.setattr(kind, "_LIMIT", "SET LOCAL lock_timeout = '300ms'")
    catalog = catalog_of(database)
    publish(catalog, session, ReplaceAll(), 0, "first")
    with psycopg.connect(database.dsn) as holder:
        holder.execute("LOCK TABLE orders IN EXCLUSIVE MODE")
        with staged(catalog, session, ReplaceAll(), 1) as transaction:
            error = refused(lambda: transaction.commit("run"))
    assert (error.code, "another session has held a lock" in str(error)) == ("RVT-404", True)
    assert leftovers(database) == []


@contextmanager
def own_server(**settings: str) -> Iterator[tuple[Postgres, Database]]:
    with postgres_server(settings) as server:
        yield server, server.database()


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("plan", [ReplaceAll(), BY_ID], ids=["replace", "merge"])
def test_a_crash_of_the_database_between_staging_and_publishing(plan):
    """Its staged rows are gone, and nothing is published; the next run publishes."""
    with own_server() as (_, database), DatabaseSession(database) as session:
        catalog = catalog_of(database)
        publish(catalog, session, plan, 0, "first")
        transaction = staged(catalog, session, plan, 1)
        crash(database)
        error = refused(lambda: transaction.commit("run"))
        assert error.code == "RVT-406"
        assert rows(database, "SELECT count(*), max(n) FROM orders") == [(ROWS, 0)]
        publish(catalog, session, plan, 2, "next")
        assert rows(database, "SELECT count(*), min(n) FROM orders") == [(ROWS, 2)]
        assert leftovers(database) == []


def test_a_withheld_version_survives_a_crash_of_the_database():
    with own_server() as (_, database), DatabaseSession(database) as session:
        catalog = catalog_of(database)
        publish(catalog, session, ReplaceAll(), 0, "first")
        with staged(catalog, session, ReplaceAll(), 1) as transaction:
            transaction.withhold("run")
        crash(database)
        with catalog.take_up("orders", transaction.version) as taken:
            taken.commit("by hand")
        assert rows(database, "SELECT count(*), min(n) FROM orders") == [(ROWS, 1)]


def crash(database: Database) -> None:
    """Kill a process of the server, which then restarts all others; wait until it answers again."""
    with suppress(psycopg.OperationalError), psycopg.connect(database.dsn) as connection:
        (pid,) = connection.execute("SELECT pg_backend_pid()").fetchone() or (0,)
        os.kill(pid, signal.SIGKILL)
        connection.execute("SELECT 1")
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            rows(database, "SELECT 1")
        except psycopg.OperationalError:
            time.sleep(0.2)
        else:
            return
    raise AssertionError("the server has not come back")


def test_staged_rows_that_somebody_has_changed_are_not_published(database, session):
    catalog = catalog_of(database)
    publish(catalog, session, ReplaceAll(), 0, "first")
    with staged(catalog, session, ReplaceAll(), 1) as transaction:
        (name,) = [name for name in leftovers(database) if name.endswith("_batch")]
        execute(database, f"DELETE FROM {name} WHERE id < 10")
        error = refused(lambda: transaction.commit("run"))
    assert error.code == "RVT-407"
    assert rows(database, "SELECT count(*), max(n) FROM orders") == [(ROWS, 0)]


KILLED = """
import sys
from pathlib import Path
from support.commit_proxy import commit_proxy
from support.databases import DatabaseSession
from support.postgres import Database
from support.publications import staged
from test_publication_faults import ReplaceAll, catalog_of

database = Database(sys.argv[1], int(sys.argv[2]))
with DatabaseSession(database) as session:
    transaction = staged(catalog_of(database), session, ReplaceAll(), 1)
    print("staged", flush=True)
    sys.stdin.read()
"""


def test_what_a_killed_run_has_staged_is_swept(database, session):
    """Not before a minute without a heartbeat, and by the next run of the table."""
    catalog = catalog_of(database)
    publish(catalog, session, ReplaceAll(), 0, "first")
    folders = [str(Path(__file__).parent), str(Path(__file__).parents[1]), *sys.path]
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, database.name, str(database.port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"staged\n"
    process.kill()
    process.wait()
    (waiting,) = catalog.building()
    assert catalog.sweep() == ()
    execute(database, "UPDATE rivet_heartbeats SET sent = sent - interval '61 seconds'")
    assert catalog.building() == (waiting,)
    publish(catalog, session, ReplaceAll(), 2, "next")
    assert (catalog.building(), leftovers(database)) == ((), [])
    assert rows(database, "SELECT count(*), min(n) FROM orders") == [(ROWS, 2)]


def test_a_run_without_a_heartbeat_publishes_nothing(database, session):
    catalog = catalog_of(database)
    publish(catalog, session, ReplaceAll(), 0, "first")
    transaction = staged(catalog, session, ReplaceAll(), 1)
    execute(database, "UPDATE rivet_heartbeats SET sent = sent - interval '61 seconds'")
    assert refused(transaction.beat).code == "RVT-406"
    assert refused(lambda: transaction.commit("run")).code == "RVT-406"
    assert catalog.sweep() == (f"public.orders/{transaction.version}",)
    assert rows(database, "SELECT count(*), max(n) FROM orders") == [(ROWS, 0)]


def test_a_full_disk_leaves_the_table(tmp_path):
    """At any point: nothing is published, and there is room for the next run once there is room."""
    place = tmp_path / "disk"
    place.mkdir()
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", place], check=True, capture_output=True)
    except subprocess.CalledProcessError:
        pytest.skip("needs the right to mount")
    try:
        with own_server(fsync="off") as (_, database), DatabaseSession(database) as session:
            place.chmod(0o777)
            (space,) = rows(database, "SELECT current_setting('data_directory')")
            owner = Path(space[0]).stat()
            os.chown(place, owner.st_uid, owner.st_gid)
            tmp_path.chmod(0o755)
            for parent in tmp_path.parents[:3]:
                parent.chmod(parent.stat().st_mode | 0o055)
            execute(
                database,
                f"CREATE TABLESPACE small LOCATION '{place}'",
                f"ALTER DATABASE {database.name} SET default_tablespace = small",
            )
            catalog = catalog_of(database)
            publish(catalog, session, ReplaceAll(), 0, "first")
            with psycopg.connect(database.dsn) as connection:
                before = connection.execute("SELECT count(*), max(n) FROM orders").fetchone()
            error = refused(lambda: staged(catalog, session, ReplaceAll(), 1, count=400_000))
            assert "No space left" in str(error) or "disk" in str(error), str(error)
            assert rows(database, "SELECT count(*), max(n) FROM orders") == [before]
            execute(database, "UPDATE rivet_heartbeats SET sent = sent - interval '61 seconds'")
            publish(catalog, session, ReplaceAll(), 2, "next")
            assert rows(database, "SELECT count(*), min(n) FROM orders") == [(ROWS, 2)]
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def test_a_table_that_somebody_makes_meanwhile_is_left_alone(database, session):
    catalog = catalog_of(database)
    with staged(catalog, session, ReplaceAll(), 1) as transaction:
        execute(database, "CREATE TABLE orders (id bigint, n bigint)", "INSERT INTO orders VALUES (7, 7)")
        error = refused(lambda: transaction.commit("run"))
    assert (error.code, "somebody else has made a table" in str(error)) == ("RVT-405", True)
    assert rows(database, "SELECT * FROM orders") == [(7, 7)]


def test_a_run_reads_the_versions_of_its_own_table_by_an_index(database, session):
    """However many versions other tables have; while another run is staging, and with an error table."""
    catalog = catalog_of(database)
    publish(catalog, session, ReplaceAll(), 0, "first")
    waiting = catalog.begin("waiting", session)
    waiting.write(ReplaceAll(), session.from_value(batch(1)))
    execute(
        database,
        "INSERT INTO rivet_versions (version, table_name, state, number, published_at) "
        "SELECT 'v' || n, 'public.other' || n % 2000, 'published', n, now() FROM generate_series(1, 100000) n",
        "ANALYZE rivet_versions",
    )
    read = "SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = 'rivet_versions'"
    execute(database, "SELECT pg_stat_force_next_flush()")
    (before,) = rows(database, read)[0]
    with staged(catalog, session, ReplaceAll(), 1) as transaction:
        transaction.write_errors("orders__errors", None)
        transaction.commit("second")
    waiting.abort()
    time.sleep(1.2)  # the database counts a while later
    (after,) = rows(database, read)[0]
    assert after - before < 1_000
