"""Column lineage: to the upstream joints, and to the sources."""

from __future__ import annotations

import pytest
from support.projects import codes, compile_joints, python, sink, source, sql

RAW = source("raw", options={"schema": "id BIGINT, name STRING, net DOUBLE, xs ARRAY<INT>"})
FAR = source("far")


def lineage(plan, name):
    """Return for each column the upstream columns and the source columns, as text."""
    assert plan.success, plan.errors

    def texts(references):
        return None if references is None else [f"{one.joint}.{one.column}" for one in references]

    return {entry.column: (texts(entry.upstream), texts(entry.sources)) for entry in plan.joint(name).lineage}


def direct(text, *others):
    """Return the upstream columns of one query on raw and far."""
    found = lineage(compile_joints(RAW, FAR, *others, sql("q", text)), "q")
    return {column: upstream for column, (upstream, _) in found.items()}


def test_lineage_leads_through_all_queries_to_the_sources():
    plan = compile_joints(
        RAW,
        sql("a", "SELECT id, upper(name) AS loud, net * 1.2 AS gross FROM raw WHERE net > 0"),
        sql("b", "SELECT loud, sum(gross) AS total, count(*) AS n FROM a GROUP BY loud", eager=True),
        sink("out", "b"),
    )
    assert lineage(plan, "raw") == {}
    assert lineage(plan, "b") == {
        "loud": (["a.loud"], ["raw.name"]),
        "total": (["a.gross"], ["raw.net"]),
        "n": ([], []),
    }
    assert lineage(plan, "out")["total"] == (["b.total"], ["raw.net"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM raw", {"id": ["raw.id"], "name": ["raw.name"], "net": ["raw.net"], "xs": ["raw.xs"]}),
        ("SELECT r.name || far.city AS x FROM raw r JOIN far ON r.id = far.id", {"x": ["far.city", "raw.name"]}),
        ("SELECT Name AS x, 1 AS one FROM raw", {"x": ["raw.name"], "one": []}),
        ("SELECT sum(net) OVER (PARTITION BY name) AS x FROM raw", {"x": ["raw.name", "raw.net"]}),
        ("WITH c AS (SELECT id AS k FROM raw) SELECT k FROM c", {"k": ["raw.id"]}),
        ("SELECT k FROM (SELECT id AS k FROM raw)", {"k": ["raw.id"]}),
        ("SELECT e FROM raw LATERAL VIEW explode(xs) v AS e", {"e": ["raw.xs"]}),
        ("SELECT net + 1 AS a, a * 2 AS b FROM raw", {"a": ["raw.net"], "b": ["raw.net"]}),
        ("SELECT (SELECT max(city) FROM far) AS top FROM raw", {"top": ["far.city"]}),
        ("SELECT id FROM raw UNION ALL SELECT code FROM far", {"id": ["far.code", "raw.id"]}),
        ("SELECT id FROM raw EXCEPT SELECT code FROM far", {"id": ["raw.id"]}),
        ("SELECT transform(xs, e -> e + id) AS x FROM raw", {"x": ["raw.id", "raw.xs"]}),
        ("SELECT address.city FROM far", {"city": ["far.address"]}),
        ("SELECT far.address.city AS c FROM far", {"c": ["far.address"]}),
        ("SELECT my_function(id) AS x FROM raw", {"x": ["raw.id"]}),
        ("SELECT city, id FROM raw JOIN far", {"city": ["far.city"], "id": ["raw.id"]}),
        # Only the engine knows these.
        ("SELECT (SELECT max(id) FROM far) AS top FROM raw", {}),
        ("SELECT city FROM far JOIN other.places", {}),
        ("SELECT x FROM elsewhere", {}),
        ("SELECT * FROM far", {}),
        ("SELECT id, EXISTS (SELECT 1 FROM far WHERE far.id = raw.id) AS known FROM raw", {"id": ["raw.id"]}),
        ("SELECT struct(*) AS all FROM raw", {}),
        ("SELECT id FROM raw JOIN far USING (id)", {}),
        ("SELECT user AS who FROM far", {}),
    ],
)
def test_lineage_of_expressions(text, expected):
    assert direct(text) == expected


def test_lineage_leads_through_a_filter_of_an_unknown_source():
    plan = compile_joints(FAR, sql("a", "SELECT * FROM far WHERE ok"), sql("b", "SELECT x FROM a"))
    assert lineage(plan, "b") == {"x": (["a.x"], ["far.x"])}


def test_lineage_ends_at_a_python_joint():
    joint, functions = python("model", "raw")
    plan = compile_joints(RAW, joint, sql("b", "SELECT score FROM model"), functions=functions)
    assert lineage(plan, "b") == {"score": (["model.score"], None)}


def test_a_sink_of_two_has_the_columns_of_both():
    plan = compile_joints(RAW, sql("a", "SELECT id FROM raw"), sql("b", "SELECT 1L AS ID"), sink("out", "a", "b"))
    assert lineage(plan, "out") == {"id": (["a.id", "b.ID"], ["raw.id"])}
    assert [(f.name, f.type) for f in plan.joint("out").schema] == [("id", "bigint")]


def test_a_sink_uses_the_best_known_schema_of_its_upstreams():
    unknown, named = sql("x", "SELECT * FROM far"), sql("y", "SELECT my_function(1) AS ID")
    plan = compile_joints(RAW, FAR, unknown, named, sql("z", "SELECT id FROM raw"),
        sink("one", "x", "z"), sink("two", "y", "z"), sink("three", "x", "y"), sink("four", "x"),
    )  # fmt: skip
    known = {j.name: (j.schema_confidence, j.schema and [(f.name, f.type) for f in j.schema]) for j in plan.joints}
    assert known["one"] == ("inferred", [("id", "bigint")])
    assert known["two"] == ("inferred", [("ID", "bigint")])
    assert known["three"] == ("partial", [("ID", None)])
    assert known["four"] == ("none", None)
    assert lineage(plan, "one") == {"id": (["x.id", "z.id"], ["far.id", "raw.id"])}
    assert not plan.warnings


def test_unknown_types_hide_no_conflict():
    plan = compile_joints(FAR, sql("a", "SELECT 1 AS id"), sql("b", "SELECT 2 AS k"), sink("out", "far", "a", "b"))
    assert (plan.joint("out").schema, plan.joint("out").schema_confidence) == (None, "partial")
    assert [w.code for w in plan.warnings] == ["RVT-317"]


def test_a_type_known_from_one_upstream_alone_rejects_no_partitions():
    """Spark may widen it to the type of the other upstream."""
    daily = {"type": "daily", "column": "day", "start": "2024-01-01"}
    far = sql("far_rows", "SELECT day FROM far")
    plan = compile_joints(FAR, far, sql("a", "SELECT 1.5D AS day"), sink("out", "far_rows", "a", partitions=daily))
    assert (plan.errors, plan.joint("out").schema_confidence) == ((), "inferred")


@pytest.mark.parametrize(("other", "words"), [("SELECT 1 AS k", "only one of them has"), ("SELECT 'a' AS id", "types")])
def test_a_sink_of_conflicting_upstreams_has_no_schema_and_a_warning(other, words):
    plan = compile_joints(sql("a", "SELECT 1 AS id"), sql("b", other), sink("out", "a", "b"))
    assert (plan.joint("out").schema, plan.joint("out").schema_confidence) == (None, "partial")
    assert [w.code for w in plan.warnings] == ["RVT-317"]
    assert words in plan.warnings[0].message


def test_a_stored_or_written_result_with_a_repeated_column_is_an_error():
    twice = "SELECT a.id, b.*, b.ID FROM raw a JOIN raw b ON a.id = b.id"
    assert codes(compile_joints(RAW, sql("q", twice))) == ["RVT-316"]
    plan = compile_joints(RAW, sql("q", twice), sink("out", "q"))
    assert [(e.code, e.joint) for e in plan.errors] == [("RVT-316", "q")]
    assert "named id" in plan.errors[0].message
    assert compile_joints(RAW, sql("q", twice), sql("r", "SELECT net FROM q")).success


def test_lineage_works_at_any_depth():
    plus = "SELECT " + " + ".join(["id"] * 5000) + " AS x FROM raw"
    union = " UNION ALL ".join(["SELECT id FROM raw"] * 1000)
    nested = "SELECT * FROM (" * 400 + "SELECT id FROM raw" + ")" * 400
    assert direct(plus) == {"x": ["raw.id"]}
    assert direct(union) == {"id": ["raw.id"]}
    assert compile_joints(RAW, sql("q", nested, upstream="raw")).success


def test_lineage_of_a_source_with_columns_is_its_own():
    plan = compile_joints(
        source("raw", columns=["id", {"net": "CAST(gross AS DOUBLE)"}], options={"schema": "id BIGINT, gross STRING"}),
        sql("a", "SELECT id, net FROM raw"),
    )
    assert [(f.name, f.type) for f in plan.joint("a").schema] == [("id", "bigint"), ("net", "double")]
    assert lineage(plan, "a")["net"] == (["raw.net"], ["raw.net"])
