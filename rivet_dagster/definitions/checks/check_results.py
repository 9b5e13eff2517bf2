"""Results of checks as Dagster's AssetCheckResult."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from rivet_dagster.definitions.metadata.code_block import sql_markdown
from rivet_dagster.execution.results import CheckResult
from rivet_dagster.model.convert import shortened
from rivet_dagster.redaction import redacted

CHARACTERS, BYTES = 200, 10_000
"""The maximum length of a value in a sample, and of all samples of a check together."""


def asset_check_result(result: CheckResult, key: dg.AssetCheckKey) -> dg.AssetCheckResult:
    """Return the result of a check as Dagster records it."""
    metadata: dict[str, Any] = {
        "rivet/violations": result.violations if result.violations is not None else dg.MetadataValue.null(),
        "rivet/sql": sql_markdown(result.sql),
        "rivet/seconds": round(result.seconds, 3),
        "rivet/kind": result.check.kind,
        "rivet/phase": result.check.phase,
    }
    if result.samples:
        metadata["rivet/samples"] = _table(bounded(result.samples))
    if result.error is not None:
        metadata["rivet/error"] = redacted(result.error)
    return dg.AssetCheckResult(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=result.passed,
        severity=dg.AssetCheckSeverity.ERROR if result.check.blocking else dg.AssetCheckSeverity.WARN,
        description=summary(result),
        metadata=metadata,
    )


def summary(result: CheckResult) -> str:
    """Return a short text of the result of a check."""
    if result.violations is None:
        return f"could not run: {redacted(str(result.error))}"
    violations = f"{result.violations} violation{'' if result.violations == 1 else 's'}"
    if result.passed:
        return f"passed, with {violations} within the limit" if result.violations else "passed"
    return violations


def bounded(samples: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return sample rows as texts, each value cut to 200 characters, and as many rows as fit into 10,000 bytes.

    If the first row alone is longer, only its first columns are returned.

    >>> bounded([{"id": 1, "note": "x" * 300}])[0]["note"][-5:]
    'xx...'
    >>> [len(row) for row in bounded([{f"c{n}": "x" * 200 for n in range(100)}] * 2)]
    [49]
    """
    rows: list[dict[str, str]] = []
    remaining = BYTES
    for sample in samples:
        row: dict[str, str] = {}
        for name, value in sample.items():
            text = _text(value)
            remaining -= len(name.encode()) + len(text.encode())
            if remaining >= 0:
                row[name] = text
        if remaining < 0 and rows:
            break
        rows.append(row)
    return rows


def _table(rows: Sequence[Mapping[str, str]]) -> dg.MetadataValue:
    schema = dg.TableSchema([dg.TableColumn(name, "string") for name in rows[0]])
    return dg.MetadataValue.table(records=[dg.TableRecord(dict(row)) for row in rows], schema=schema)


def _text(value: Any) -> str:
    return "NULL" if value is None else shortened(redacted(str(value)), CHARACTERS)
