"""Joints in another SQL than Spark's: what they read, where they run, and what is refused."""

import pytest
from support.folders import ProjectFolder

from rivet_dagster import compile_directory

DUCK = {"name": "duck", "type": "duckdb", "catalogs": ["raw", "lake"]}
SPARK = {"name": "spark", "type": "pyspark", "catalogs": ["raw", "lake"]}
CATALOGS = {"raw": {"type": "filesystem", "path": "data"}, "lake": {"type": "filesystem", "path": "lake"}}
ORDERS = "name: orders\ntype: source\ncatalog: raw\ntable: orders.csv\noptions: {schema: 'id INT, day DATE, n INT'}\n"
OWN = "-- rivet:dialect: duckdb\n-- rivet:catalog: lake\n"
CSV = "id,day,n\n1,2024-01-01,10\n2,2024-01-02,20\n3,2024-01-02,30\n"


@pytest.fixture
def made(tmp_path):
    """Return a function that writes a project with these joints, whose default engine is the first one."""

    def write(joints, *engines):
        profile = {
            "catalogs": CATALOGS,
            "engines": list(engines or [DUCK]),
            "default_engine": (engines or [DUCK])[0]["name"],
        }
        files = {f"joints/{name}.sql": text for name, text in joints.items()}
        return ProjectFolder(
            tmp_path,
            {"profiles.yaml": {"default": profile}, "sources/orders.yaml": ORDERS, "data/orders.csv": CSV, **files},
        )

    return write


def test_what_it_reads_follows_from_its_own_sql_and_it_runs_as_written(made):
    folder = made({
        "days": f"{OWN}FROM Orders SELECT day, list(id ORDER BY id) AS ids, sum(n)::BIGINT AS n GROUP BY ALL",
        "counted": "-- rivet:catalog: lake\nSELECT count(*) AS n FROM days",
    })  # fmt: skip
    plan = folder.assembly
    assert plan.joint("days").upstream == ("orders",)
    assert (plan.joint("days").schema, plan.joint("days").schema_confidence) == (None, "none")
    assert {m.joint: m.reason for m in plan.materializations}["days"] == "dialect_change"
    folder.run("days")
    folder.run("counted")
    found = sorted(folder.rows("days"), key=lambda row: row["day"])
    assert [(str(row["day"]), row["ids"], row["n"]) for row in found] == [
        ("2024-01-01", [1], 10),
        ("2024-01-02", [2, 3], 50),
    ]
    assert folder.rows("counted") == [{"n": 2}]


def test_joints_of_one_dialect_are_fused(made):
    folder = made({
        "big": "-- rivet:dialect: duckdb\nFROM orders WHERE n > 10",
        "ids": f"{OWN}FROM big SELECT list(id ORDER BY id) AS ids",
    })  # fmt: skip
    assert folder.assembly.group("ids").joints == ("orders", "big", "ids")
    folder.run("ids")
    assert folder.rows("ids") == [{"ids": [2, 3]}]


def test_the_engine_says_it_for_all_its_joints(made):
    joints = {
        "a": "-- rivet:catalog: lake\nFROM orders",
        "b": "-- rivet:catalog: lake\n-- rivet:dialect: spark\nSELECT 1 AS a",
    }
    plan = made(joints, {**DUCK, "dialect": "duckdb"}).assembly
    assert [plan.group(name).ctes[0].dialect for name in ("a", "b")] == ["duckdb", None]


def errors(folder) -> list[tuple]:
    return [(error.code, error.joint) for error in compile_directory(folder.root).errors]


def test_another_engine_does_not_run_it(made):
    assert errors(made({"a": f"{OWN}SELECT 1 AS a"}, SPARK)) == [("RVT-329", "a")]


def test_a_query_that_cannot_be_parsed_needs_its_upstream(made):
    unreadable = "SELECT ((FROM orders"
    assert errors(made({"a": f"{OWN}{unreadable}"})) == [("RVT-315", "a")]
    assert errors(made({"a": f"{OWN}SELECT 1 AS a; SELECT 2 AS a"})) == [("RVT-207", "a")]
    folder = made({"a": f"{OWN}-- rivet:upstream: [orders]\n{unreadable}"})
    assert folder.assembly.joint("a").upstream == ("orders",)


def test_quarantine_is_refused_on_an_engine_that_does_not_separate_errors(made):
    joints = {"a": "-- rivet:catalog: lake\n-- rivet:on_error: quarantine\nSELECT id FROM orders"}
    assert errors(made(joints)) == [("RVT-329", "a")]


def test_templates_are_of_sparks_sql(made):
    assert ("RVT-329", "a") in errors(made({"a": f"{OWN}SELECT {{{{ var('x') }}}} AS a FROM orders"}))


def test_the_code_version_depends_on_the_dialect(made):
    spark = made({"a": "-- rivet:catalog: lake\nSELECT 1 AS a"}).assembly.joint("a").code_version
    assert made({"a": f"{OWN}SELECT 1 AS a"}).assembly.joint("a").code_version != spark


def test_the_plan_says_how_and_why_rows_cross(made):
    joints = {
        "a": "-- rivet:catalog: lake\nSELECT id FROM orders",
        "b": "-- rivet:engine: duck\n-- rivet:catalog: lake\nSELECT id FROM a",
    }
    (edge,) = made(joints, SPARK, DUCK).assembly.engine_boundaries
    assert (edge.engines, edge.method) == (("spark", "duck"), "native_reference")
    assert edge.reason == "'duck' reads the tables of 'lake' in place"
