"""Unique keys that hold by the query itself: Spark has no row twice, and the gate asks nothing."""

from __future__ import annotations

from support.folders import sink, source
from support.grouped_queries import TABLES, UNIQUE_BY


def test_spark_returns_no_key_twice(quick_session):
    for name, sql in TABLES.items():
        quick_session.register(name, quick_session.query(sql))
    for sql, key in UNIQUE_BY.items():
        if key is not None:
            rows = [tuple(row[name] for name in sorted(key)) for row in quick_session.rows(sql)]
            assert rows
            assert len(set(rows)) == len(rows), sql


def test_a_key_that_the_query_groups_by_is_not_computed(project, sql_executions):
    grouped = "SELECT code, count(*) AS n FROM rows GROUP BY code"
    files = {
        "data/rows.csv": "id,code\n1,a\n2,b\n3,a\n",
        "sources/rows.yaml": source("rows", "id INT, code STRING"),
        "joints/grouped.sql": grouped,
        "joints/kept.sql": "SELECT code, n * 2 AS n FROM grouped WHERE n > 0",
    }
    for columns, queries, violations in ((["code"], 0, 0), (["n", "code"], 0, 0), (["n"], 1, 0)):
        check = {"type": "unique", "columns": columns}
        folder = project({**files, "sinks/out.yaml": sink("out", "kept", assertions=[check])})
        (compiled,) = folder.assembly.joint("out").checks
        assert compiled.holds_by_query == (queries == 0)
        sql_executions.since()
        (result,) = folder.run("out").checks
        assert (result.passed, result.violations) == (True, violations)
        assert sql_executions.since() == 1 + queries


def test_rows_of_several_queries_or_of_quarantine_are_counted(project):
    files = {
        "data/rows.csv": "id,code\n1,a\n2,b\n3,a\n",
        "sources/rows.yaml": source("rows", "id INT, code STRING"),
        "joints/grouped.sql": "SELECT code, count(*) AS n FROM rows GROUP BY code",
        "joints/again.sql": "SELECT code, count(*) AS n FROM rows GROUP BY code",
    }
    check = {"type": "unique", "columns": ["code"]}
    both = project({**files, "sinks/out.yaml": sink("out", "grouped", "again", assertions=[check])})
    (result,) = both.run("out").checks
    assert (result.passed, result.violations) == (False, 2)
    quarantined = sink("out", "grouped", assertions=[check], on_error="quarantine")
    folder = project({**files, "sinks/out.yaml": quarantined})
    assert not folder.assembly.joint("out").checks[0].holds_by_query


def test_a_key_of_moments_that_are_stored_in_milliseconds_is_counted(project):
    files = {
        "data/rows.csv": "id,code\n1,a\n2,b\n3,a\n",
        "sources/rows.yaml": source("rows", "id INT, code STRING"),
        "joints/out.yaml": {
            "type": "sql",
            "sql": "SELECT DISTINCT at FROM (SELECT timestamp_micros(id) AS at FROM rows)",
            "catalog": "lake",
            "table": "out",
            "options": {"config": {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS"}},
            "quality": {"assertions": [{"type": "unique", "columns": ["at"]}]},
        },
    }
    folder = project(files)
    assert folder.assembly.joint("out").checks[0].holds_by_query
    (result,) = folder.run("out").checks
    assert (result.passed, result.violations) == (False, 2)
