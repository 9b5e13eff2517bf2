"""Verdicts that need no engine, and how all of them are printed."""

import json
from types import SimpleNamespace

from support.dbt import write_dbt

from rivet_dagster.cli.import_verification import Verification, show_verification, verification_json
from rivet_dagster.compiler.diff import NONE, ColumnChange
from rivet_dagster.dbt.importing import import_dbt_project
from rivet_dagster.dbt.reading.project import read_dbt_project
from rivet_dagster.dbt.relations import DbtMetastore, DbtRelation, relations_of
from rivet_dagster.dbt.verification import (
    CATALOG,
    DIFFERS,
    EQUAL,
    FAILED,
    MISSING,
    NOT_COMPARED,
    TableVerdict,
    compare_with_dbt,
    reach_metastore,
    runnable_groups,
)
from rivet_dagster.execution.difference.rows import ChangedRow, RowDifference, Samples, TableDifference
from rivet_dagster.loading import compile_directory

BATCHES = "materialized='incremental', incremental_strategy='microbatch', event_time='day', begin='2024-01-01'"
FILES = {
    "models/first.sql": "{{ config(materialized='table') }} select 1 as id",
    "models/second.sql": "{{ config(materialized='table') }} select * from {{ ref('first') }}",
    "models/batches.sql": f"{{{{ config({BATCHES}, batch_size='day') }}}} select date'2024-01-01' as day",
    "models/after.sql": "{{ config(materialized='table') }} select * from {{ ref('batches') }}",
    "models/wrong.sql": "select * from )",
}


def imported(tmp_path):
    old = write_dbt(tmp_path / "old", FILES)
    report = import_dbt_project(old, tmp_path / "new")
    relations = relations_of(read_dbt_project(old), report, old)
    return compile_directory(tmp_path / "new", "default", environ={}), relations


def test_partitions_are_not_run(tmp_path):
    """A run of all groups needs a partition for those that have some, and for what reads them."""
    plan, _ = imported(tmp_path)
    assert runnable_groups(plan) == ("first", "second")


def test_verdicts_without_rows(tmp_path):
    plan, relations = imported(tmp_path)
    runtime = SimpleNamespace(assembly=plan)  # that no engine or catalog is asked for anything
    unpublished = {"first": "division by zero (RVT-503)", "second": "it did not run"}
    verdicts = compare_with_dbt(runtime, relations, DbtMetastore({}), unpublished)
    assert {each.relation.name: (each.verdict, each.reasons) for each in verdicts} == {
        "first": (FAILED, ("division by zero (RVT-503)",)),
        "second": (FAILED, ("it did not run",)),
        "batches": (NOT_COMPARED, ("a run needs a partition of it, or of what it reads",)),
        "after": (NOT_COMPARED, ("a run needs a partition of it, or of what it reads",)),
        "wrong": (NOT_COMPARED, ("the import has left it out",)),
    }


def test_the_engine_reaches_the_metastore(tmp_path):
    plan, _ = imported(tmp_path)
    reached = reach_metastore(plan, DbtMetastore({"metastore": "thrift://meta:9083"}))
    assert reached.catalogs[-1].options == {"metastore": "thrift://meta:9083"}
    assert all(engine.catalogs[-1] == CATALOG for engine in reached.engines)
    assert reached.catalogs[:-1] == plan.catalogs


ORDERS = DbtRelation("orders", "model", ("orders",), "shop", "orders")
CHANGED = ChangedRow({"id": 1, "net": 2.5}, {"id": 1, "net": 3.5}, ("net",))
DIFFERENCE = TableDifference(
    "orders",
    NONE,
    (ColumnChange("vat", "retyped", "float", "double"),),
    RowDifference(1, 0, 1, ("id",), {"net": 1}, Samples(added=({"id": 7, "net": 1.0},), changed=(CHANGED,))),
    (),
    rows_before=1234,
    rows_after=1235,
)
VERDICTS = (
    TableVerdict(ORDERS, DIFFERS, "orders", ("what it is computed from differs, too: raw",), DIFFERENCE),
    TableVerdict(DbtRelation("gone", "model", ("gone",), "shop", "gone"), MISSING, "gone", ("there is no shop.gone",)),
)


def test_the_table_of_verdicts(tmp_path, capsys):
    show_verification(Verification("dev", VERDICTS), tmp_path)
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "",
        "verified: 0 of 2 tables equal those of dbt's target dev",
        "name    in dbt       verdict          rows",
        "orders  shop.orders  differs         1,234  what it is computed from differs, too: raw",
        "gone    shop.gone    missing in dbt         there is no shop.gone",
        "",
        "orders: differs from shop.orders",
        "  rows     +1 -0 ~1 (1,234 in dbt, 1,235 here; matched by id)",
        "  columns  net 1 (<0.1%)",
        "  schema   vat retyped from float to double",
        "  + id=7, net=1.0",
        "  ~ id=1  net: 2.5 -> 3.5",
        "",
        "the rows are in the environment dbt-verify, which no reader sees: "
        f"`rivet-dagster -p {tmp_path} environment drop dbt-verify` removes them",
    ]


def test_verdicts_as_json():
    document = json.loads(json.dumps(verification_json(Verification("dev", VERDICTS))))
    assert (document["target"], document["environment"]) == ("dev", "dbt-verify")
    orders, gone = document["tables"]
    assert gone == {
        "name": "gone",
        "kind": "model",
        "joint": "gone",
        "dbt": "shop.gone",
        "verdict": "missing",
        "reasons": ["there is no shop.gone"],
    }
    assert (orders["rows_in_dbt"], orders["rows_here"]) == (1234, 1235)
    assert orders["rows"] == {"added": 1, "removed": 0, "changed": 1}
    assert orders["columns"] == {"net": 1}
    assert [each["column"] for each in orders["schema"]] == ["vat"]
    assert orders["samples"]["changed"] == [{"old": {"id": 1, "net": 2.5}, "new": {"id": 1, "net": 3.5}}]


def test_what_makes_an_import_a_partial_one():
    def whole(*verdicts):
        return Verification("dev", tuple(TableVerdict(ORDERS, each) for each in verdicts)).is_whole

    assert whole(EQUAL, EQUAL)
    # What could not be compared has not been seen to be equal.
    assert [whole(EQUAL, each) for each in (DIFFERS, MISSING, FAILED, NOT_COMPARED)] == [False] * 4
