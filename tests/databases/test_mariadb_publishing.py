"""Tables that a project publishes in MariaDB: what readers see, what the database keeps, and what is refused."""

from __future__ import annotations

import threading
import time

import pytest
from support.folders import ProjectFolder
from support.maria_publications import catalog_of, engine, leftovers
from support.mariadb import MariaSchema, publishing
from support.publications import BY_ID, publish, staged

from rivet_dagster import compile_directory
from rivet_dagster.catalogs.jdbc import JdbcCatalog
from rivet_dagster.catalogs.jdbc.mariadb.kind import MariaKind
from rivet_dagster.cli.main import main
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.environments import merge, use_environment
from rivet_dagster.execution.group_run import run_group
from rivet_dagster.execution.runtime import Runtime

ROWS = "SELECT id, id * 2 AS n, concat('it''s \\\\ ', id) AS `order` FROM range({})"
MERGE = {"mode": "merge", "key_columns": ["key"]}


@pytest.fixture
def database(mariadb) -> MariaSchema:
    return mariadb.database()


@pytest.mark.nightly
def test_a_replaced_table_keeps_what_belongs_to_it(project, database):
    """Views, constraints, indexes, triggers and numbers that count up stay; readers see no empty table."""
    database.execute(
        "CREATE TABLE orders (number int AUTO_INCREMENT PRIMARY KEY, id bigint UNIQUE, n bigint CHECK (n >= 0), "
        "`order` varchar(50) CHARACTER SET latin1, twice bigint AS (n * 2) STORED)",
        "CREATE INDEX by_n ON orders (n)",
        "CREATE VIEW seen AS SELECT id, n FROM orders",
        "INSERT INTO orders (id, n) VALUES (100, 1)",
    )
    folder = project(publishing(database, ROWS.format(10), adopt=True))
    counts: set[int] = set()
    stop = threading.Event()
    reader = threading.Thread(target=lambda: read_counts(database, counts, stop))
    reader.start()
    result = folder.run("orders")
    stop.set()
    reader.join()
    assert counts <= {1, 10}
    assert (result.rows.inserted, result.rows.deleted, result.rows.total) == (10, 1, 10)
    assert database.rows("SELECT count(*), CAST(sum(n) AS SIGNED), min(number) FROM orders") == [(10, 90, 2)]
    assert database.rows("SELECT `order`, twice FROM orders WHERE id = 3") == [("it's \\ 3", 12)]
    assert database.rows("SELECT count(*) FROM seen") == [(10,)]
    assert leftovers(database) == []
    with pytest.raises(RivetError, match="the database refuses a row") as caught:
        folder.write(publishing(database, "SELECT id, -1L AS n, 'x' AS `order` FROM range(3)", adopt=True)).run(
            "orders"
        )
    assert caught.value.code == "RVT-527"
    assert database.rows("SELECT count(*) FROM orders") == [(10,)]


def read_counts(database: MariaSchema, counts: set[int], stop: threading.Event) -> None:
    while not stop.is_set():
        counts.update(count for (count,) in database.rows("SELECT count(*) FROM orders"))
        time.sleep(0.01)


def test_a_first_version_that_is_not_published_leaves_no_table(project, database):
    """The gate counts in the database what it judges as Spark does: by the bytes of texts."""
    query = "SELECT * FROM VALUES (1L, 'a'), (2L, 'A'), (3L, 'a '), (4L, 'a') AS t(id, state)"
    checks = [
        {"type": "not_null", "columns": ["id"]},
        {"type": "unique", "columns": ["state"]},
        {"type": "accepted_values", "column": "state", "values": ["a"]},
    ]
    folder = project(publishing(database, query, quality={"assertions": checks}))
    result = folder.run("orders")
    assert [(check.check.kind, check.violations) for check in result.checks] == [
        ("not_null", 0),
        ("unique", 1),
        ("accepted_values", 2),
    ]
    assert database.rows("SHOW TABLES LIKE 'orders'") == []
    assert leftovers(database) == []


def test_keys_are_compared_by_their_bytes(project, database):
    """Although the column's collation takes upper and lower case, and trailing spaces, for equal."""
    database.execute(
        "CREATE TABLE orders (`key` varchar(20) COLLATE utf8mb4_general_ci, n bigint)",
        "CREATE INDEX by_key ON orders (`key`)",
        "INSERT INTO orders VALUES ('a', 1), ('A', 2), ('a ', 3), (NULL, 4), ('same', 5)",
    )
    batch = "SELECT * FROM VALUES ('A', 20L), (NULL, 40L), ('b', 6L), ('B', 7L), ('same', 5L) AS t(key, n)"
    folder = project(publishing(database, batch, adopt=True, write_strategy=MERGE))
    result = folder.run("orders")
    assert (result.rows.inserted, result.rows.updated, result.rows.total) == (2, 2, 7)
    expected = {("a", 1), ("A", 20), ("a ", 3), (None, 40), ("same", 5), ("b", 6), ("B", 7)}
    assert set(database.rows("SELECT * FROM orders")) == expected


def test_columns_are_never_changed(project, database):
    """They would be committed before the rows: told when it runs, and `add` when the project compiles."""
    folder = project(publishing(database, ROWS.format(3)))
    folder.run("orders")
    with pytest.raises(RivetError, match="commits a change of columns at once") as caught:
        folder.write(publishing(database, "SELECT id, 1L AS other FROM range(3)")).run("orders")
    assert caught.value.code == "RVT-514"
    assert database.rows("SELECT count(*) FROM orders") == [(3,)]
    assert leftovers(database) == []


@pytest.mark.parametrize(
    ("fields", "code", "told"),
    [
        ({"write_strategy": {"mode": "append", "on_schema_change": "add"}}, "RVT-312", "cannot add columns"),
        ({"options": {"replace_by": "swap"}}, "RVT-204", "commits a RENAME TABLE at once"),
    ],
)
def test_what_mariadb_cannot_do_is_refused_when_the_project_compiles(tmp_path, fields, code, told):
    files = publishing(MariaSchema("shop", 3306), ROWS.format(3), **fields)
    (error,) = compile_directory(ProjectFolder(tmp_path, files).root).errors
    assert (error.code, told in error.message) == (code, True)


@pytest.mark.nightly
def test_errors_of_rows_are_published_with_the_rows(project, database):
    query = "SELECT id, 10 DIV (id - {}) AS part FROM range(4)"
    folder = project(publishing(database, query.format(2), on_error="quarantine"))
    assert folder.run("orders").rows.total == 3
    assert database.rows("SELECT code FROM orders__errors") == [("DIVIDE_BY_ZERO",)]
    folder.write(publishing(database, query.format(9), on_error="quarantine")).run("orders")
    assert database.rows("SELECT count(*) FROM orders__errors") == [(0,)]
    folder.write(publishing(database, query.format(9))).run("orders")
    assert leftovers(database) == []


def test_values_that_the_database_has_not(project, database):
    for value, told in [
        ("double('NaN')", "NaN and infinity"),
        ("timestamp'2100-01-01 00:00:00'", "Incorrect datetime value"),
    ]:
        with pytest.raises(RivetError, match=told) as caught:
            project(publishing(database, f"SELECT 1L AS id, {value} AS v")).run("orders")
        assert caught.value.code == "RVT-527"
    with pytest.raises(RivetError, match="which a published table cannot have") as caught:
        project(publishing(database, "SELECT 1L AS id, array(1) AS v")).run("orders")
    assert caught.value.code == "RVT-422"
    assert leftovers(database) == []


def test_an_environment_is_a_database(project, database):
    """It begins with the rows of the base, with whose indexes its tables are made; the merge is one transaction."""
    own = database.of_own_user()
    base = "SELECT id AS key, 1L AS n FROM range(4)"
    folder = project(publishing(own, base, write_strategy=MERGE))
    folder.run("orders")
    environment = Runtime(folder.assembly, folder.root, environment="pr-7")
    use_environment(environment)
    changed = folder.write(publishing(own, "SELECT 9L AS key, 2L AS n", write_strategy=MERGE))
    environment = Runtime(changed.assembly, changed.root, environment="pr-7")
    run_group(environment, "orders", changed.assembly.group("orders").joints, "run/orders")
    place = f"{database.name}__pr-7"
    assert database.rows(f"SELECT count(*), max(n) FROM `{place}`.orders") == [(5, 2)]
    assert database.rows("SELECT count(*), max(n) FROM orders") == [(4, 1)]
    assert indexes(database, place) == indexes(database, database.name) == ["rivet_keys"]
    assert [name for name in environment.base_catalog("shop").tables("") if "orders" in name] == ["orders"]
    merge(environment, "pr-7")
    assert database.rows("SELECT count(*), max(n) FROM orders") == [(5, 2)]
    assert database.rows(f"SELECT 1 FROM information_schema.schemata WHERE schema_name = '{place}'") == []


def indexes(database: MariaSchema, schema: str, table: str = "orders") -> list[str]:
    query = f"SELECT DISTINCT index_name FROM information_schema.statistics WHERE table_name = '{table}' AND "
    return [name for (name,) in database.rows(f"{query}table_schema = '{schema}'")]


def test_staged_rows_are_found_by_their_keys(database):
    """Without an index each of them is compared with each row of the table."""
    catalog = catalog_of(database)
    with engine() as session:
        publish(catalog, session, BY_ID, 1)
        transaction = staged(catalog, session, BY_ID, 2)
        (table,) = leftovers(database)
        assert indexes(database, database.name, table) == ["rivet_keys"]
        transaction.abort()
    assert leftovers(database) == []


def test_a_table_that_an_environment_has_made_has_its_index_in_the_base(project, database):
    folder = project(publishing(database, "SELECT id AS key, 1L AS n FROM range(4)", write_strategy=MERGE))
    environment = Runtime(folder.assembly, folder.root, environment="pr-7")
    use_environment(environment)
    run_group(environment, "orders", folder.assembly.group("orders").joints, "run/orders")
    merge(environment, "pr-7")
    assert indexes(database, database.name) == ["rivet_keys"]
    assert folder.run("orders").rows.total == 4
    assert leftovers(database) == []


def test_a_first_run_in_an_environment_that_fails_publishes_nothing_there(project, database):
    """Though its table has been made already, like that of the base."""
    database.execute("CREATE TABLE orders (`key` bigint, n bigint CHECK (n < 5))", "CREATE INDEX i ON orders (`key`)")
    fields = {"adopt": True, "write_strategy": MERGE}
    folder = project(publishing(database, "SELECT 1L AS key, 1L AS n", **fields))
    folder.run("orders")
    folder.write(publishing(database, "SELECT 1L AS key, 9L AS n", **fields))
    environment = Runtime(folder.assembly, folder.root, environment="pr-7")
    use_environment(environment)
    with pytest.raises(RivetError) as caught:
        run_group(environment, "orders", folder.assembly.group("orders").joints, "run/orders")
    assert caught.value.code == "RVT-527"
    versions = f"SELECT count(*) FROM `{database.name}__pr-7`.rivet_versions WHERE state = 'published'"
    assert database.rows(versions) == [(0,)]


def test_columns_are_not_changed_in_an_environment(project, database):
    """Since the merge could not change them in the base."""
    folder = project(publishing(database, ROWS.format(3)))
    folder.run("orders")
    changed = folder.write(publishing(database, "SELECT id, 1L AS other FROM range(3)"))
    environment = Runtime(changed.assembly, changed.root, environment="pr-7")
    use_environment(environment)
    with pytest.raises(RivetError, match="commits a change of columns at once") as caught:
        run_group(environment, "orders", changed.assembly.group("orders").joints, "run/orders")
    assert caught.value.code == "RVT-514"


def test_an_environment_that_was_made_or_dropped_by_half_is_swept(project, database, monkeypatch):
    """Its database may be there, or not; one of somebody else is never used or dropped."""
    folder = project(publishing(database, ROWS.format(3)))
    catalog = Runtime(folder.assembly, folder.root).base_catalog("shop")

    def interrupted(*_):
        raise KeyboardInterrupt

    for method in ("create_schema", "drop_schema"):
        with monkeypatch.context() as patched:
            patched.setattr(MariaKind, method, interrupted)
            with pytest.raises(KeyboardInterrupt):
                used_and_dropped(catalog)
        assert not catalog.has_environment("pr-7")
        assert catalog.sweep_environments() == ("pr-7",)
        databases = "SELECT count(*) FROM information_schema.schemata WHERE schema_name = "
        assert database.rows(f"{databases}'{database.name}__pr-7'") == [(0,)]
    database.execute(f"CREATE DATABASE `{database.name}__pr-7`")
    with pytest.raises(RivetError, match="which somebody else has made") as caught:
        catalog.use_environment("pr-7", "default")
    assert caught.value.code == "RVT-404"
    assert catalog.sweep_environments() == ("pr-7",)
    assert database.rows(f"{databases}'{database.name}__pr-7'") == [(1,)]


def used_and_dropped(catalog: JdbcCatalog) -> None:
    catalog.use_environment("pr-7", "default")
    catalog.drop("pr-7")


def test_what_a_table_would_refuse_is_told_before_anything_runs(project, database, capsys):
    """By `compile --introspect`: a replaced table has the columns of its batch."""
    database.execute("CREATE TABLE orders (id bigint, n bigint)", "CREATE VIEW seen AS SELECT 1 AS id")

    def compiled(query: str, **fields: object) -> str:
        code = main(["compile", "--introspect", "-p", str(project(publishing(database, query, **fields)).root)])
        captured = capsys.readouterr()
        return f"{code} {captured.out}{captured.err}"

    assert compiled("SELECT 1L AS id, 2L AS n")[0] == "0"
    assert "RVT-514 sinks/orders.yaml:1: joint orders" in compiled("SELECT 1L AS id, 2L AS n, 3 AS more")
    assert "RVT-404" in compiled("SELECT 1 AS id", table="seen")
