"""Texts on which sqlglot fails unexpectedly: each is an error of its joint, and hides no other error."""

from __future__ import annotations

import pytest
from support.mutated_sql import EXPRESSIONS, TYPES, corpus, mutated
from support.projects import compile_joints, sink, source, sql

from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.model.check import Check
from rivet_dagster.model.joint import Joint
from rivet_dagster.model.text_lines import Origin

ROWS = source("raw", options={"schema": "id BIGINT, net DOUBLE"})
RAISED = (
    "SELECT map('a', 1, 'b') FROM raw",
    "SELECT date_trunc() FROM raw",
    "ELSE SELECT 1",
    "FROM raw |> LIMIT id",
    f"SELECT {'NOT ' * 900}true FROM raw",
)
"""Texts for which sqlglot raises IndexError, ValueError, RecursionError, ..."""


def at(file: str, **lines: int) -> Origin:
    return Origin(file, 1, lines)


def checked(name: str, *checks: Check) -> Joint:
    return sql(name, "SELECT * FROM raw", quality=checks, origin=at(f"{name}.sql"))


def check(kind: str, **options: object) -> Check:
    return Check(kind=kind, name=kind, phase="assertion", options=options, file="q.yaml", line=7)


def error_locations(plan: CompiledAssembly) -> list[tuple[str, str | None, str | None, int | None]]:
    return [(d.code, d.joint, d.file, d.line) for d in (*plan.errors, *plan.warnings)]


@pytest.mark.parametrize("text", RAISED)
def test_exceptions_of_the_parser_are_errors_of_the_joint_reported_with_all_others(text: str) -> None:
    wrong = sql("wrong", text, origin=at("joints/wrong.sql", sql=3))
    other = sql("other", "SELECT 1; SELECT 2", origin=at("joints/other.sql", sql=1))
    plan = compile_joints(ROWS, wrong, other)
    assert ("RVT-207", "other", "joints/other.sql", 1) in error_locations(plan)
    assert ("RVT-315", "wrong", "joints/wrong.sql", 3) in error_locations(plan)
    assert len(plan.errors) == 2


@pytest.mark.parametrize("text", RAISED)
def test_sql_that_spark_may_parse_is_no_error(text: str) -> None:
    plan = compile_joints(ROWS, sql("wrong", text, upstream=("raw",)), sql("reader", "SELECT * FROM wrong"))
    assert plan.success
    assert [(d.code, d.joint) for d in plan.warnings] == [("RVT-315", "wrong")]
    assert plan.joint("wrong").schema is None
    assert plan.joint("wrong").sql == text


def test_sources_and_checks() -> None:
    plan = compile_joints(
        ROWS,
        source("filtered", filter="MAP(", origin=at("filtered.yaml", filter=4)),
        source("mapped", columns=(("x", "map('a', 1, 'b')"),), origin=at("mapped.yaml", columns=5)),
        source("typed", options={"schema": "x OUT bigint"}),
        checked("a", check("schema", columns=(("id", "OUT bigint"), ("net", "bigint) USING csv --")))),
        checked("b", check("expression", sql="date_trunc() > 1")),
        checked("c", check("custom", sql="SELECT map('a', 1, 'b') FROM c")),
    )
    assert set(error_locations(plan)) == {
        ("RVT-207", "filtered", "filtered.yaml", 4),
        ("RVT-207", "mapped", "mapped.yaml", 5),
        ("RVT-209", "a", "q.yaml", 7),
        ("RVT-209", "b", "q.yaml", 7),
        ("RVT-209", "c", "q.yaml", 7),
    }
    assert {d.joint for d in plan.warnings} == {"b", "c"}


def test_a_failed_column_analysis_is_a_warning_and_a_failed_query_analysis_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lost(*_: object) -> None:
        raise AttributeError("no such slot")

    text = "SELECT * FROM raw"
    monkeypatch.setattr("rivet_dagster.sql.columns.output_columns._Reader.query", lost)
    plan = compile_joints(ROWS, sql("a", text))
    assert plan.success
    assert [(d.code, d.joint) for d in plan.warnings] == [("RVT-315", "a")]
    monkeypatch.setattr("rivet_dagster.sql.parsing.known_query.is_deterministic", lost)
    plan = compile_joints(ROWS, sql("a", text), sql("b", "SELECT FROM"))
    assert [(d.code, d.joint) for d in plan.errors] == [("RVT-315", "a"), ("RVT-315", "b")]
    assert "no such slot" in plan.errors[0].message


@pytest.mark.slow
def test_texts_with_tokens_removed_doubled_or_swapped() -> None:
    for text in (*mutated(1, 40, corpus()), *mutated(2, 80, [*EXPRESSIONS, *TYPES])):
        everywhere(text)


def everywhere(text: str) -> None:
    """Compile ``text`` in every key that accepts SQL."""
    text = text if text.strip() else "-- nothing"
    checks = (check("expression", sql=text), check("custom", sql=text), check("schema", columns=(("id", text),)))
    plan = compile_joints(
        ROWS,
        source("filtered", filter=text),
        source("mapped", columns=(("x", text),)),
        source("typed", options={"schema": text}),
        checked("judged", *checks),
        sql("declared", text, upstream=("raw",)),
        sql("read", text),
        sql("reader", "SELECT * FROM declared JOIN read"),
        sql("template", f"{text}{{% if is_incremental() %}} WHERE id > 1{{% endif %}}"),
        sink("out", "template", write_strategy={"mode": "append"}),
    )
    assert all(d.code != "RVT-599" and d.joint for d in (*plan.errors, *plan.warnings))
