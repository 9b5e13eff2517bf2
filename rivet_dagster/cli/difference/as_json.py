"""The difference of an environment as plain data for JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rivet_dagster.execution.difference.results import EnvironmentDifference, Samples, TableDifference


def difference_json(difference: EnvironmentDifference) -> dict[str, Any]:
    """Return the difference as ``diff --format json`` prints it.

    >>> from rivet_dagster.execution.difference.results import RowDifference
    >>> rows = RowDifference(added=2, changed=1, key=("id",), columns={"net": 1})
    >>> table = TableDifference("orders", "own", (), rows, (), rows_before=5, rows_after=7)
    >>> difference_json(EnvironmentDifference("try", (table,)))["tables"][0]["rows"]
    {'added': 2, 'removed': 0, 'changed': 1}
    """
    return {"environment": difference.environment, "tables": [_table(table) for table in difference.tables]}


def _table(table: TableDifference) -> dict[str, Any]:
    rows = table.rows
    return {
        "joint": table.joint,
        "changed": table.changed,
        "schema": [asdict(change) for change in table.schema],
        "rows": {"added": rows.added, "removed": rows.removed, "changed": rows.changed},
        "columns": dict(rows.columns),
        "samples": _samples(rows.samples),
        "checks": [asdict(change) for change in table.checks],
    }


def _samples(samples: Samples) -> dict[str, Any]:
    return {
        "added": [dict(row) for row in samples.added],
        "removed": [dict(row) for row in samples.removed],
        "changed": [{"old": dict(row.old), "new": dict(row.new)} for row in samples.changed],
    }
