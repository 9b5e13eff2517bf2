"""The engine ``postgres``: what a project declares of it, and what is refused before anything runs."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from support.folders import Files, ProjectFolder

from rivet_dagster import compile_directory
from rivet_dagster.catalogs.jdbc import JdbcCatalog
from rivet_dagster.engines.postgres import PostgresEngine
from rivet_dagster.engines.postgres.session import PostgresFrame, PostgresSession
from rivet_dagster.errors import RivetError
from rivet_dagster.model.profile import CatalogSpec, EngineSpec
from rivet_dagster.model.relations import Files as FilesRelation

PG: dict[str, Any] = {"name": "pg", "type": "postgres", "catalogs": ["shop"]}
SPARK = {"name": "spark", "type": "pyspark", "catalogs": ["shop", "lake"]}
SHOP = {"type": "jdbc", "url": "jdbc:postgresql://127.0.0.1/shop", "user": "rivet"}
OTHER = {"type": "jdbc", "url": "jdbc:mariadb://127.0.0.1/shop", "user": "rivet"}
ORDERS = {"type": "source", "catalog": "shop", "table": "orders"}
OWN = "-- rivet:dialect: postgres\n"
TO_SHOP = "-- rivet:catalog: shop\n"


def project(tmp_path, joints: Files, *engines: dict[str, Any], workspace: str = "shop") -> ProjectFolder:
    catalogs = {"shop": SHOP, "maria": OTHER, "lake": {"type": "filesystem", "path": "lake"}}
    declared = {"catalogs": catalogs, "engines": [*engines] or [PG], "workspace": workspace}
    declared["default_engine"] = declared["engines"][0]["name"]
    files = {"profiles.yaml": {"default": declared}, "sources/orders.yaml": ORDERS}
    return ProjectFolder(tmp_path, {**files, **joints})


def errors(folder: ProjectFolder) -> list[tuple[str, str | None, int | None]]:
    return [(error.code, error.joint, error.line) for error in compile_directory(folder.root).errors]


def test_joints_in_its_own_sql_are_one_group(tmp_path):
    folder = project(tmp_path, {
        "joints/a.sql": f"{OWN}SELECT id FROM orders",
        "joints/b.sql": f"{OWN}{TO_SHOP}SELECT id FROM a",
    })  # fmt: skip
    (group,) = folder.assembly.fused_groups
    assert (group.joints, group.engine, group.ctes[0].dialect) == (("orders", "a", "b"), "pg", "postgres")


def test_the_plan_tells_where_rows_cross_to_another_engine(tmp_path):
    folder = project(tmp_path, {
        "joints/a.sql": f"{OWN}{TO_SHOP}SELECT id FROM orders",
        "joints/b.sql": "-- rivet:engine: spark\n-- rivet:catalog: lake\nSELECT id FROM a",
    }, PG, SPARK)  # fmt: skip
    (edge,) = [edge for edge in folder.assembly.engine_boundaries if edge.joint == "a"]
    assert (edge.engines, edge.method) == (("pg", "spark"), "native_reference")
    assert edge.reason == "'spark' reads the tables of 'shop' in place"


@pytest.mark.parametrize(
    ("joints", "code", "joint"),
    [
        ({"joints/a.sql": f"{TO_SHOP}SELECT id FROM orders"}, "RVT-329", "a"),
        ({"joints/a.sql": f"{OWN}{TO_SHOP}-- rivet:on_error: quarantine\nSELECT id FROM orders"}, "RVT-329", "a"),
        ({"joints/a.sql": f"-- rivet:dialect: duckdb\n{TO_SHOP}SELECT id FROM orders"}, "RVT-329", "a"),
        ({"joints/a.sql": f"{OWN}-- rivet:catalog: lake\nSELECT id FROM orders"}, "RVT-309", "a"),
        ({"joints/a.sql": f"{OWN}SELECT '{{{{ ds }}}}' AS d FROM orders"}, "RVT-329", "a"),
        ({"joints/a.sql": f"{OWN}{TO_SHOP}SELECT 1 AS a; SELECT 2 AS a"}, "RVT-207", "a"),
        (
            {
                "sources/orders.yaml": {**ORDERS, "filter": "id > 1"},
                "joints/a.sql": f"{OWN}{TO_SHOP}SELECT id FROM orders",
            },
            "RVT-329",
            "orders",
        ),
        (
            {
                "sources/orders.yaml": {**ORDERS, "options": {"partitions": 4}},
                "joints/a.sql": f"{OWN}{TO_SHOP}SELECT id FROM orders",
            },
            "RVT-204",
            "orders",
        ),
    ],
    ids=["spark", "quarantine", "duckdb", "catalog", "template", "two", "filter", "partitions"],
)
def test_what_it_does_not_run_is_an_error_with_a_remedy(tmp_path, joints, code, joint):
    (error,) = compile_directory(project(tmp_path, joints).root).errors
    assert (error.code, error.joint, bool(error.file), bool(error.line)) == (code, joint, True, True)
    assert error.remediation


def test_a_joint_in_sparks_sql_is_told_how_to_be_written(tmp_path):
    (error,) = compile_directory(project(tmp_path, {"joints/a.sql": f"{TO_SHOP}SELECT id FROM orders"}).root).errors
    assert error.message == "its SQL is Spark's, and the engine 'pg' (postgres) runs postgres alone"
    assert error.remediation == ("Write it in that SQL, with `dialect: postgres`; or run it on an engine of Spark.")


def test_rows_of_other_storage_do_not_enter_the_database(tmp_path):
    """Neither those that Spark has stored elsewhere, nor those of a workspace of another kind."""
    joints = {
        "joints/there.sql": "-- rivet:engine: spark\n-- rivet:catalog: lake\nSELECT id FROM orders",
        "joints/here.sql": f"{OWN}{TO_SHOP}SELECT id FROM there",
    }
    (error,) = compile_directory(project(tmp_path / "a", joints, PG, SPARK).root).errors
    assert (error.code, error.joint) == ("RVT-328", "there")
    assert "cannot cross from the engine 'spark' to 'pg'" in error.message
    joints = {
        "joints/a.sql": f"{OWN}-- rivet:eager: true\nSELECT id FROM orders",
        "joints/b.sql": f"{OWN}{TO_SHOP}SELECT id FROM a",
    }
    for workspace in ("lake", "maria"):
        folder = project(tmp_path / workspace, joints, workspace=workspace)
        assert {code for code, *_ in errors(folder)} == {"RVT-328"}


@pytest.mark.parametrize(
    ("catalogs", "message"),
    [
        ([], "it names none"),
        (["shop", "maria"], "it names shop, maria"),
        (["maria"], "'maria' is another database"),
        (["lake"], "'lake' is of the type filesystem"),
    ],
)
def test_it_needs_the_catalog_of_one_database_of_postgresql(tmp_path, catalogs, message):
    folder = project(tmp_path, {}, {**PG, "catalogs": catalogs})
    error = next(error for error in compile_directory(folder.root).errors if error.code == "RVT-104")
    assert message in error.message
    assert (error.file, bool(error.line)) == ("profiles.yaml", True)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"dialect": "spark"}, "`dialect` must be one of postgres, not 'spark'"),
        ({"config": ["work_mem"]}, "`config` must be a mapping"),
        ({"config": {"work mem": "1GB"}}, "`config` work mem is no name of a setting of PostgreSQL"),
        ({"max_fusion_depth": 0}, "`max_fusion_depth` must be"),
        ({"threads": 2}, "unknown option 'threads'"),
    ],
)
def test_wrong_options_are_named(tmp_path, option, message):
    (error,) = compile_directory(project(tmp_path, {}, {**PG, **option}).root).errors
    assert message in error.message


@pytest.mark.parametrize(
    ("condition", "refused"),
    [
        ("id > 0 AND NOT (id IN (7, 8) OR id IS NULL)", False),
        ("day BETWEEN DATE '2024-01-01' AND DATE '2024-12-31'", False),
        ("id - n >= 0", False),
        ("lower(name) = 'a'", True),
        ("id / 2 > 1", True),
        ("name LIKE 'a%'", True),
        ("CAST(name AS INT) > 1", True),
        ("id > 1e3", True),
    ],
)
def test_a_condition_of_a_check_is_spark_sql_that_means_the_same(tmp_path, condition, refused):
    quality = {"assertions": [{"type": "expression", "sql": condition}]}
    sink = {"type": "sink", "catalog": "shop", "table": "s", "upstream": ["a"], "quality": quality}
    folder = project(tmp_path, {"joints/a.sql": f"{OWN}SELECT * FROM orders", "sinks/s.yaml": sink})
    assert [(code, joint) for code, joint, _ in errors(folder)] == ([("RVT-329", "s")] if refused else [])


def test_without_a_database_it_does_not_start():
    with pytest.raises(RivetError, match=r"RVT-104.*must name one catalog of the type jdbc"):
        PostgresEngine(EngineSpec("pg", "postgres", ("shop",))).session()


class _NoDatabase:
    url = "jdbc:postgresql://127.0.0.1/shop"


def test_it_reads_the_tables_of_its_own_database_alone():
    session = PostgresSession(_NoDatabase(), {})  # type: ignore[arg-type]
    assert session.runs_in("jdbc:postgresql://127.0.0.1/shop?ApplicationName=reader")
    assert not session.runs_in("jdbc:postgresql://127.0.0.1/other")
    with pytest.raises(RivetError, match="RVT-519"):
        session.load(FilesRelation("parquet", ("/x",)))
    session.register("a", PostgresFrame("SELECT 1 AS a", "1"))
    session.register("b", PostgresFrame("SELECT 1 AS a", "2"))
    with pytest.raises(RivetError, match="two snapshots"):
        session.query_in("postgres", "SELECT * FROM a, b")


def test_without_the_extra_the_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    catalog = JdbcCatalog(CatalogSpec("shop", "jdbc", {"url": SHOP["url"]}), tmp_path)
    engine = PostgresEngine(EngineSpec("pg", "postgres", ("shop",)), needs=[catalog.session_needs("postgres")])
    (finding,) = engine.examine()
    assert (finding.code, finding.remedy) == ("RVT-123", "pip install 'rivet_dagster[postgres]'")
