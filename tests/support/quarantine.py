"""A project that quarantines, whose run is only pretended: no engine starts and nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from rivet_dagster.compiler.joints import SinkJoint
from rivet_dagster.definitions.assets import groups
from rivet_dagster.definitions.resources import io_manager
from rivet_dagster.execution.quality.row_errors import errors_result
from rivet_dagster.execution.reading.refs import MaterializedRef
from rivet_dagster.execution.results import GroupResult, RowErrorCounts, Rows, SiteErrors
from rivet_dagster.model.plugins import CatalogTraits
from rivet_dagster.model.storage import Published, Statistics
from support.folders import Files, sink, source

SALES: Files = {
    "data/orders.csv": "id,amount\n1,10\n2,x\n",
    "sources/orders.yaml": source("orders", "id INT, amount STRING"),
    "joints/paid.sql": "SELECT id, CAST(amount AS INT) AS amount FROM orders",
    "sinks/report.yaml": sink("reports", "paid", on_error="quarantine"),
}
CAST = SiteErrors(
    condition="CAST_INVALID_INPUT",
    joint="paid",
    file="joints/paid.sql",
    line=1,
    expression="CAST(amount AS INT)",
    count=3,
    message="The value 'x' cannot be cast",
    samples=({"id": 2, "amount": "x"},),
)
ERRORS = RowErrorCounts("reports__errors", 3, 5, (CAST,))


def pretend(monkeypatch: pytest.MonkeyPatch, outcome: RowErrorCounts | Exception = ERRORS, rows: int = 100) -> None:
    """Let every catalog have error tables, and let runs of groups end with ``outcome`` and publish if they may."""
    _with_error_tables(monkeypatch)
    # The command line would start a Spark meanwhile, which the tests behind this one could not use.
    monkeypatch.setattr("rivet_dagster.cli.run.command.start_early", lambda *_: None)

    def run_group(runtime: Any, group: str, selected: Any, identity: str, *_: Any) -> GroupResult:
        if isinstance(outcome, Exception):
            raise outcome
        joint = runtime.assembly.joint(group)
        assert isinstance(joint, SinkJoint)
        (check,) = joint.checks
        result = errors_result(joint, check, outcome, rows)
        done = GroupResult(group, {"write": 1.0}, (result,), errors=outcome)
        if result.blocks:
            return done
        version = Published("lake", joint.table, "00000007", "/lake/reports", Statistics(rows, 0), 0)
        return replace(done, published=version, rows=Rows(rows, 0, 0, rows))

    def errors_reference(runtime: Any, name: str) -> MaterializedRef:
        def unavailable() -> Any:
            raise AssertionError("no engine should start")

        return MaterializedRef(f"the errors of {name}", unavailable, lambda _: None)

    monkeypatch.setattr(groups, "run_group", run_group)
    monkeypatch.setattr(groups, "errors_reference", errors_reference)
    monkeypatch.setattr(io_manager, "errors_reference", errors_reference)


def _with_error_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    from rivet_dagster import loading

    known: Callable[[], Mapping[str, CatalogTraits]] = loading.catalog_traits
    monkeypatch.setattr(
        loading, "catalog_traits", lambda: {name: replace(t, error_tables=True) for name, t in known().items()}
    )
