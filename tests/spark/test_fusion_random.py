"""Random projects give the same rows fused and joint by joint; ``--examples`` is the number of projects."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, Phase, given, reject, settings
from py4j.protocol import Py4JJavaError
from support.joint_by_joint import Both, Table, compiled
from support.random_projects import RandomProject, literal, projects, quote
from support.torture import examples

SUITE = examples(8, 40)


@pytest.fixture(scope="module")
def both(engine) -> Both:
    session = engine.session()
    spark = session.spark
    spark.sql("CREATE OR REPLACE VIEW own_view AS SELECT * FROM VALUES (1, 1, 'a'), (7, NULL, 'own') AS t (k, v, s)")
    spark.sql("DROP TABLE IF EXISTS own_table")
    spark.sql("CREATE TABLE own_table USING parquet AS SELECT 1 AS K, 8 AS Order, 'own; --' AS `a b`")
    yield Both(spark)
    spark.sql("DROP VIEW own_view")
    spark.sql("DROP TABLE own_table")
    session.close()


def test_a_fused_group_gives_the_rows_of_its_joints_one_by_one(both: Both, pytestconfig: pytest.Config) -> None:
    examples = pytestconfig.getoption("--examples")
    kinds: set[str] = set()
    alike = refused = 0

    @settings(
        max_examples=examples or SUITE,
        derandomize=examples is None,
        deadline=None,
        database=None,
        print_blob=True,
        phases=[Phase.generate] if examples else [Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(projects())
    def check(project: RandomProject) -> None:
        nonlocal alike, refused
        plan = compiled(project.joints)
        assert {j.name: frozenset(j.upstream) for j in plan.joints} == project.upstream
        given = {name: table_of(both, project, name) for name in project.sources}
        alone = beside.submit(both.one_by_one, project.joints, given)
        try:
            fused = both.fused(plan, given)
        except Exception:
            if not is_a_defect_of_spark(alone.exception()):
                raise
        if is_a_defect_of_spark(alone.exception()):
            refused += 1
            reject()
        expected = alone.result()
        for name, table in fused.items():
            assert table.columns() == expected[name].columns(), name
            assert table.same_as(expected[name]), (name, table.shown(), expected[name].shown())
        kinds.update(m.reason for m in plan.materializations)
        kinds.update("fused" for group in plan.fused_groups if len(group.joints) > 2)
        alike += 1
        if alike % 1000 == 0:
            print(alike, flush=True)

    try:
        with ThreadPoolExecutor(1) as beside:
            check()
    finally:
        # Shown with -s, and if a project fails.
        print(f"{alike} random projects mean the same fused as joint by joint; on {refused} Spark itself fails")
    assert refused <= alike / 100
    if (examples or SUITE) >= SUITE:
        assert kinds >= {"eager", "assertion_boundary", "multi_consumer", "engine_change", "fused"}


def is_a_defect_of_spark(error: BaseException | None) -> bool:
    """Return whether Spark has failed on a joint's own query with an internal error of its optimizer."""
    return isinstance(error, Py4JJavaError) and "java.util.NoSuchElementException: key not found" in str(error)


def table_of(both: Both, project: RandomProject, name: str) -> Table:
    """Return the rows of a source as a table."""
    k, v, s = map(quote, project.columns[name])
    rows = ", ".join(f"({', '.join(map(literal, row))})" for row in project.sources[name])
    typed = f"CAST(a AS INT) AS {k}, CAST(b AS INT) AS {v}, CAST(c AS STRING) AS {s}"
    if not rows:
        return both.table(f"SELECT {typed} FROM VALUES (1, 1, '') AS t (a, b, c) WHERE false")
    return both.table(f"SELECT {typed} FROM VALUES {rows} AS t (a, b, c)")
