"""Random projects have the same rows on DuckDB, Sail and Spark, or are refused; ``--examples`` is their number."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from support.random_projects import RandomProject, projects
from support.sail import sail_session
from support.three_engines import DuckSide, Failure, SailSide, SparkSide
from support.torture import TORTURE, examples
from support.translated_projects import on_spark, translated

SUITE = examples(12, 10_000)
ON_SPARK = 1 if TORTURE else 4
"""Every how manieth project Spark computes, too; DuckDB and Sail, which share no code, compute each."""


def test_random_projects_have_the_same_rows_or_are_refused(engine, pytestconfig: pytest.Config) -> None:
    number = pytestconfig.getoption("--examples") or SUITE
    whole: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    computed: Counter[str] = Counter()
    session = engine.session()
    spark = SparkSide(session.spark.newSession())

    with sail_session() as remote:

        @settings(
            max_examples=number,
            derandomize=True,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(projects())
        def check(project: RandomProject) -> None:
            computed["projects"] += 1
            found = {
                "duckdb": translated(project, DuckSide(), "duckdb"),
                "sail": translated(project, SailSide(remote), "sail"),
            }
            for name, outcome in found.items():
                assert outcome.failed == {}, (name, project)
                whole[name] += not outcome.refused
                computed[name] += len(outcome.rows)
                refused.update(f"{name}: {why}" for why in outcome.refused.values() if not why.startswith("reads "))
            one, other = found["duckdb"].rows, found["sail"].rows
            for joint in one.keys() & other.keys():
                assert one[joint] == other[joint], (joint, project)
            if computed["projects"] % ON_SPARK == 0:
                expected = on_spark(project, spark)
                if isinstance(expected, Failure):
                    computed["failed on Spark"] += 1
                    return
                computed["projects on Spark"] += 1
                for rows in (one, other):
                    assert {joint: expected[joint] for joint in rows} == rows, project

        try:
            check()
        finally:
            print(computed, whole, refused.most_common(20))
    session.close()
    assert computed["projects on Spark"] > 0
    known = {"duckdb: the path of a VARIANT", "sail: the path of a VARIANT", "sail: WITH RECURSIVE"}
    assert set(refused) <= known, refused
    for name in ("duckdb", "sail"):
        assert whole[name] >= 0.5 * computed["projects"], (name, whole, refused)
