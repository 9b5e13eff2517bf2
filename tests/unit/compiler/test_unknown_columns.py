"""Unknown columns: which are reported, where, and that nothing else is rejected. The comparison with Spark on the same
texts is in tests/spark/test_unknown_columns.py."""

from __future__ import annotations

import pytest
from support.projects import compile_joints, python, sink, source, sql

from rivet_dagster.model.joint import Joint
from rivet_dagster.model.text_lines import Origin

RAW = source("raw", options={"schema": "id BIGINT, name STRING, net DOUBLE, at STRUCT<day: DATE>"})
FAR = source("far")
DATES = source("days", options={"schema": "day DATE, week INT"})


def errors_of(*joints, functions=None):
    """Return the errors as (joint, line, message)."""
    plan = compile_joints(*joints, functions=functions)
    assert {error.code for error in plan.errors} <= {"RVT-327"}
    return [(error.joint, error.line, error.message) for error in plan.errors]


def test_all_unknown_columns_are_reported_at_their_lines():
    place = Origin("joints/a.sql", 1, {"sql": 4})
    text = "SELECT idd,\n  r.nett * 2 AS twice\nFROM raw r\nJOIN days ON r.id = days.weak\nWHERE q.x > 1 ORDER BY twise"
    found = errors_of(RAW, DATES, Joint(name="a", type="sql", sql=text, origin=place), sql("b", "SELECT nam FROM raw"))
    assert found == [
        ("b", None, "there is no column 'nam'; did you mean 'name'?"),
        ("a", 4, "there is no column 'idd'; did you mean 'id'?"),
        ("a", 5, "there is no column 'r.nett'; did you mean 'net'?"),
        ("a", 7, "there is no column 'days.weak'; did you mean 'week'?"),
        ("a", 8, "there is no column 'q.x'; known: days.day, days.week, r.at, r.id, r.name, r.net"),
        ("a", 8, "there is no column 'twise'; known: at, day, id, name, net, week"),
    ]


def test_consequences_of_an_unknown_column_are_no_errors():
    found = errors_of(RAW, sql("a", "SELECT idd AS x, id FROM raw"), sql("b", "SELECT y FROM a"), sink("out", "b"))
    assert [(joint, message) for joint, _, message in found] == [("a", "there is no column 'idd'; did you mean 'id'?")]


@pytest.mark.parametrize(
    ("items", "unknown"),
    [
        ("stack(1, nett, nam) AS (x, y)", ["nett", "nam"]),
        ("id AS a, a + idd AS b, upper(b) AS c", ["idd"]),
        ("(SELECT max(nett) FROM raw) AS top, EXISTS (SELECT 1 FROM raw r WHERE r.idd = 1) AS e", ["nett", "r.idd"]),
        ("tabel.id AS x, name.first AS y, raw.idd", ["tabel.id", "raw.idd"]),
        ("raw.*, upper(nam) AS up", ["nam"]),
    ],
)
def test_each_item_in_doubt_is_judged(items, unknown):
    found = errors_of(RAW, sql("a", f"SELECT {items} FROM raw"))
    assert sorted(message.split("'")[1] for _, _, message in found) == sorted(unknown)


def test_both_texts_of_a_template_are_checked():
    text = "SELECT id{% if is_incremental() %}, nett{% else %}, nam{% endif %} FROM raw"
    found = errors_of(RAW, sql("a", text), sink("out", "a", write_strategy={"mode": "append"}))
    assert [message.split("'")[1] for _, _, message in found] == ["nam", "nett"]


def test_if_not_all_columns_are_known_spark_decides():
    model, functions = python("model", "raw")
    assert not errors_of(
        RAW, FAR, model,
        sql("a", "SELECT idd FROM far"),
        sql("b", "SELECT idd FROM raw JOIN far ON raw.id = far.id"),
        sql("c", "SELECT score FROM model"),
        sql("d", "SELECT x FROM other.raw"),
        sql("e", "SELECT x FROM raw JOIN spark_table USING (id)"),
        functions=functions,
    )  # fmt: skip


def test_sources():
    broken = source(
        "raw", columns=["id", "nam", {"gross": "nett * 2"}], filter="dat > 1 AND _metadata.file_name = 'x'",
        options={"schema": "id INT, name STRING, net DOUBLE"},
    )  # fmt: skip
    plain = source("far", columns=["anything"], filter="everything > 1")
    assert [message for _, _, message in errors_of(broken, plain)] == [
        "there is no column 'dat'; known: id, name, net",
        "there is no column 'nam'; did you mean 'name'?",
        "there is no column 'nett'; did you mean 'net'?",
    ]
    assert [message for _, _, message in errors_of(source("raw", columns=["id"], options={"schema": "id INT, net INT"}),
        sql("a", "SELECT net FROM raw"))] == ["there is no column 'net'; known: id"]  # fmt: skip


def assertions(*checks):
    return {"quality": {"assertions": list(checks)}}


def test_checks():
    checks = assertions(
        {"type": "not_null", "columns": ["idd", "at.day", "raw.id"]},
        {"type": "unique", "columns": ["ID", "nam"]},
        {"type": "accepted_values", "column": "nett", "values": [1]},
        {"type": "freshness", "column": "dat", "max_age": "1d"},
        {"type": "relationship", "column": "idd", "to": "days.weak", "name": "rel"},
        {"type": "expression", "sql": "nett > 0 AND check_1 > 1", "name": "expr"},
        {"type": "custom", "sql": "SELECT * FROM {{ this }} r\nJOIN days ON r.idd = days.week", "name": "own"},
        {"type": "schema", "columns": {"gone": "INT"}},
    )
    raw = source("raw", options=RAW.options, **checks)
    assert [message for _, _, message in errors_of(raw, DATES)] == [
        "check accepted_values_nett: there is no column 'nett'; did you mean 'net'?",
        "check expr: there is no column 'nett'; did you mean 'net'?",
        "check freshness_dat: there is no column 'dat'; did you mean 'at'?",
        "check not_null_idd_at_day_raw_id: there is no column 'idd'; did you mean 'id'?",
        "check own: there is no column 'r.idd'; did you mean 'id'?",
        "check rel: there is no column 'idd'; did you mean 'id'?",
        "check rel: there is no column 'weak'; did you mean 'week'?",
        "check unique_ID_nam: there is no column 'nam'; did you mean 'name'?",
    ]
    assert not errors_of(source("far", **checks), DATES, sql("a", "SELECT id FROM raw"))[1:]


@pytest.mark.parametrize(
    ("strategy", "audited"),
    [
        ({"mode": "replace"}, 1),
        ({"mode": "append"}, 1),
        ({"mode": "append", "on_schema_change": "add"}, 0),
        ({"mode": "append", "on_schema_change": "ignore"}, 0),
    ],
)
def test_an_audit_reads_the_table_which_may_have_more_columns(strategy, audited):
    check = {"type": "not_null", "columns": ["gone"]}
    out = sink("out", "a", write_strategy=strategy, quality={"assertions": [check], "audits": [check]})
    assert len(errors_of(RAW, sql("a", "SELECT id FROM raw"), out)) == 1 + audited


def test_the_history_has_the_columns_of_scd2():
    audits = [{"type": "not_null", "columns": ["valid_from"]}, {"type": "expression", "sql": "is_current OR id > 1"}]
    strategy = {"mode": "scd2", "key_columns": ["id"], "valid_to": "until"}
    for checks, errors in (({"audits": audits}, 0), ({"assertions": audits}, 2)):
        out = sink("out", "a", write_strategy=strategy, quality=checks)
        assert len(errors_of(RAW, sql("a", "SELECT id, name FROM raw"), out)) == errors
