"""Verdicts of checks as Dagster's asset check results."""

from __future__ import annotations

from typing import Any

import dagster as dg

from rivet_dagster.definitions.translator import sql_markdown
from rivet_dagster.execution.results import CheckResult
from rivet_dagster.redaction import redacted


def asset_check_result(result: CheckResult, key: dg.AssetCheckKey) -> dg.AssetCheckResult:
    """What the UI shows of one verdict."""
    metadata: dict[str, Any] = {
        "rivet/violations": result.violations if result.violations is not None else dg.MetadataValue.null(),
        "rivet/sql": sql_markdown(result.sql),
        "rivet/seconds": round(result.seconds, 3),
        "rivet/kind": result.check.kind,
        "rivet/phase": result.check.phase,
    }
    if result.samples:
        metadata["rivet/samples"] = _table(result.samples)
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
    """A verdict in a few words."""
    if result.violations is None:
        return f"could not run: {redacted(str(result.error))}"
    if result.passed:
        return "passed"
    return f"{result.violations} violation{'' if result.violations == 1 else 's'}"


def _table(samples: Any) -> dg.MetadataValue:
    """Sample rows as a table of texts."""
    names = list(samples[0])
    schema = dg.TableSchema([dg.TableColumn(name, "string") for name in names])
    records = [dg.TableRecord({name: _text(row[name]) for name in names}) for row in samples]
    return dg.MetadataValue.table(records=records, schema=schema)


def _text(value: Any) -> str:
    return "NULL" if value is None else redacted(str(value))
