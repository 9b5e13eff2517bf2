"""What publications ask of the database: as much with many other published tables as with few."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from support.databases import DatabaseSession, execute, rows
from support.postgres import Database, postgres_server

from rivet_dagster.catalogs.jdbc import JdbcCatalog
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.write_plan import ReplaceAll, Upsert, WritePlan

ROWS = pa.table({"id": pa.array(range(20), pa.int64()), "n": pa.array([1] * 20, pa.int64())})


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    """Return a database of a server that counts statements."""
    with postgres_server({"shared_preload_libraries": "pg_stat_statements"}) as server:
        found = server.database()
        execute(found, "CREATE EXTENSION pg_stat_statements")
        yield found


@pytest.fixture
def session(database: Database) -> Iterator[DatabaseSession]:
    with DatabaseSession(database) as session:
        yield session


def opened(database: Database) -> JdbcCatalog:
    """Return the catalog as another process has it."""
    options = {"url": database.jdbc, "user": database.user, "password": database.password}
    return JdbcCatalog(CatalogSpec("shop", "jdbc", options), Path())


def publish(database: Database, session: DatabaseSession, table: str, plan: WritePlan) -> None:
    with opened(database).begin(table, session) as transaction:
        transaction.write(plan, session.from_value(ROWS))
        transaction.commit(f"run/{table}")


def counted(database: Database) -> tuple[int, int]:
    """Return how many statements there were since this was called before, and how many connections."""
    ((statements,),) = rows(database, "SELECT coalesce(sum(calls), 0)::int FROM pg_stat_statements")
    execute(database, "SELECT pg_stat_force_next_flush()")
    ((connections,),) = rows(database, "SELECT sessions::int FROM pg_stat_database WHERE datname = current_database()")
    execute(database, "SELECT pg_stat_statements_reset()")
    return statements, connections


@pytest.mark.nightly
@pytest.mark.parametrize("plan", [ReplaceAll(), Upsert(keys=("id",))], ids=["replace", "merge"])
def test_a_publication_costs_the_same_with_many_other_tables(database, session, plan):
    """The first one of a table, and a later one."""
    costs = {}
    name = type(plan).__name__.lower()
    for others in (5, 50):
        for number in range(others):
            publish(database, session, f"{name}_other_{number}", ReplaceAll())
        turns = []
        for _ in range(2):
            _, before = counted(database)
            publish(database, session, f"{name}_{others}", plan)
            statements, after = counted(database)
            turns.append((statements, after - before))
        costs[others] = turns
    assert costs[5] == costs[50]
    assert max(statements for statements, _ in costs[50]) < 80


@pytest.mark.nightly
def test_each_table_of_a_run_costs_the_same(database, session):
    """Of tables that are published in one transaction."""
    costs, heartbeats = [], []
    for count in (4, 8, 12):
        catalog = opened(database)
        waiting = []
        for number in range(count):
            transaction = catalog.begin(f"of_{count}_{number}", session)
            transaction.write(ReplaceAll(), session.from_value(ROWS))
            transaction.stage("run")
            waiting.append((transaction, "run"))
        counted(database)
        versions = {transaction.version for transaction, _ in waiting}
        assert catalog.keep_all_alive(versions, 600.0) == versions
        heartbeats.append(counted(database)[0])
        later = "SELECT count(*) FROM rivet_heartbeats WHERE sent > clock_timestamp() + interval '500 seconds'"
        assert rows(database, later) == [(count,)]
        counted(database)
        assert len(catalog.publish_together(waiting)) == count
        costs.append(counted(database)[0])
    assert costs[2] - costs[1] == costs[1] - costs[0]
    assert costs[2] / 12 < 40
    assert heartbeats[0] == heartbeats[1] == heartbeats[2]
