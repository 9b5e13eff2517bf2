"""Errors of write strategies found when compiling."""

from dataclasses import replace

import pytest
from support.projects import PLUGINS, compile_joints, profile, sink, source, sql

from rivet_dagster.compiler.compilation import compile_project
from rivet_dagster.model.project import Project
from rivet_dagster.model.write_plan import Upsert
from rivet_dagster.model.write_strategy import WriteStrategy

DDL = {"options": {"schema": "id INT, name STRING, at DATE"}}


def errors(strategy, query: str = "SELECT * FROM raw", **fields) -> list[tuple[str, str]]:
    plan = compile_joints(
        source("raw", **{**DDL, **fields}), sql("orders", query), sink("out", "orders", write_strategy=strategy)
    )
    return [(error.code, error.message) for error in plan.errors]


def test_a_strategy_that_the_catalog_does_not_support():
    catalogs = {"filesystem": replace(PLUGINS.catalogs["filesystem"], strategies=frozenset({"replace"}))}
    joints = (sql("orders", "SELECT 1 AS id"), sink("out", "orders", write_strategy="append"))
    plan = compile_project(Project(profile(), joints, {}), replace(PLUGINS, catalogs=catalogs))
    (error,) = plan.errors
    assert (error.code, error.joint) == ("RVT-312", "out")
    assert error.message == "the catalog 'lake' (filesystem) cannot do append; it can: replace"


@pytest.mark.parametrize(
    "strategy",
    [
        {"mode": "merge", "key_columns": ["ID"], "order_by": ["at"]},
        {"mode": "snapshot", "partition_column": "At"},
        {"mode": "scd2", "key_columns": ["id"], "effective_at": "at", "track_columns": ["name"]},
    ],
)
def test_columns_match_in_any_letter_case(strategy):
    assert errors(strategy) == []


@pytest.mark.parametrize(
    ("strategy", "option"),
    [
        ({"mode": "merge", "key_columns": ["nam"]}, "key_columns"),
        ({"mode": "merge", "key_columns": ["id"], "order_by": ["nam"]}, "order_by"),
        ({"mode": "delete_insert", "partition_by": ["nam"]}, "partition_by"),
        ({"mode": "snapshot", "partition_column": "nam"}, "partition_column"),
        ({"mode": "incremental_append", "watermark_column": "nam"}, "watermark_column"),
        ({"mode": "scd2", "key_columns": ["id"], "effective_at": "nam"}, "effective_at"),
        ({"mode": "scd2", "key_columns": ["id"], "track_columns": ["nam"]}, "track_columns"),
    ],
)
def test_a_column_that_does_not_exist(strategy, option):
    message = f"`{option}` names nam, which its upstream does not have; did you mean 'name'?"
    assert errors(strategy) == [("RVT-324", message)]


def test_unknown_columns_are_left_to_the_run():
    assert errors({"mode": "merge", "key_columns": ["nam"]}, options={}) == []


def test_a_column_that_scd2_adds_itself():
    strategy = {"mode": "scd2", "key_columns": ["id"], "valid_to": "at"}
    message = "scd2 adds the column at (`valid_to`), and its upstream has one of that name"
    assert errors(strategy) == [("RVT-324", message)]


@pytest.mark.parametrize(
    ("options", "order"),
    [
        ({}, ()),
        ({"watermark_column": "at"}, ("at",)),
        ({"watermark_column": "at", "order_by": ("seq", "at")}, ("seq", "at")),
    ],
)
def test_the_watermark_is_the_order_where_none_is_given(options, order):
    plan = WriteStrategy("merge", options={"key_columns": ("id",), **options}).plan
    assert plan == Upsert(keys=("id",), order_by=order)
