"""Results of checks as Dagster's AssetCheckResult."""

from __future__ import annotations

from typing import Any

import dagster as dg

from rivet_dagster.definitions.metadata.error_metadata import bounded, check_metadata, samples_table
from rivet_dagster.definitions.metadata.materialization_metadata import sql_markdown
from rivet_dagster.execution.results import CheckResult
from rivet_dagster.secrets.redaction import redacted


def asset_check_result(
    result: CheckResult, key: dg.AssetCheckKey, errors_table: dg.AssetKey | None = None
) -> dg.AssetCheckResult:
    """Return the result of a check as Dagster records it; ``errors_table`` is the asset of errors that it judges."""
    metadata: dict[str, Any] = {
        "rivet/violations": result.violations if result.violations is not None else dg.MetadataValue.null(),
        "rivet/sql": sql_markdown(result.sql),
        "rivet/seconds": round(result.seconds, 3),
        "rivet/kind": result.check.kind,
        "rivet/phase": result.check.phase,
    }
    if result.samples:
        metadata["rivet/samples"] = samples_table(bounded(result.samples))
    if result.errors is not None:
        metadata |= check_metadata(result.errors, errors_table)
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
