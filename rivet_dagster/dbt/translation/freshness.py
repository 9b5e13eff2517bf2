"""The freshness of a source as a check of its newest row."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rivet_dagster.dbt.declared import SourceTable
from rivet_dagster.dbt.report import CHANGED, LEFT_OUT, Entry
from rivet_dagster.dbt.translation.draft import Draft
from rivet_dagster.dbt.translation.strategy import LeftOutError


def with_freshness(draft: Draft, table: SourceTable) -> Entry:
    """Give a source the check that its freshness becomes, and return what is told of it."""
    name = f"{table.source}.{table.name}"
    try:
        draft.freshness = _check(table)
    except LeftOutError as error:
        return Entry(name, table.place, LEFT_OUT, reasons=(str(error),), kind="freshness")
    reasons = [f"it is a check that warns when the newest row is older than {draft.freshness['max_age']}"]
    if table.freshness.get("warn_after") and table.freshness.get("error_after"):
        reasons.append("error_after is not used: a check has one age")
    return Entry(name, table.place, CHANGED, draft.joint, tuple(reasons), kind="freshness")


def _check(table: SourceTable) -> dict[str, Any]:
    """Return the check that a source's freshness becomes. Raise LeftOutError."""
    rule = table.freshness if isinstance(table.freshness, Mapping) else {}
    period = rule.get("warn_after") or rule.get("error_after")
    count, unit = (period.get("count"), period.get("period")) if isinstance(period, Mapping) else (None, None)
    if table.loaded_at_field is None or not re.fullmatch(r"[A-Za-z_]\w*", table.loaded_at_field):
        raise LeftOutError("freshness is left out: it needs a column as loaded_at_field")
    if not isinstance(count, int) or unit not in ("minute", "hour", "day"):
        raise LeftOutError("freshness is left out: it needs a count of minutes, hours or days")
    if rule.get("filter"):
        raise LeftOutError("freshness is left out: a check of the newest row has no filter")
    age = f"{count}{unit[0]}"
    return {"type": "freshness", "column": table.loaded_at_field, "max_age": age, "severity": "warn"}
