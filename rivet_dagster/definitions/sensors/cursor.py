"""Cursors of sensors, and the run keys of their requests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import dagster as dg


def read_cursor(context: dg.SensorEvaluationContext, kind: str) -> Mapping[str, Any] | None:
    """Return the content of the cursor; None at the first tick, or if a sensor of another kind had the name before."""
    try:
        parts = json.loads(context.cursor or "null")
    except ValueError:
        return None
    return parts if isinstance(parts, dict) and parts.get("kind") == kind else None


def cursor(kind: str, **parts: Any) -> str:
    """Return the cursor that holds ``parts``.

    >>> cursor("files", last="", version="5e88")
    '{"kind":"files","last":"","version":"5e88"}'
    """
    return json.dumps({"kind": kind, **parts}, separators=(",", ":"))


def run_key(context: dg.SensorEvaluationContext, cause: Any) -> str:
    """Return the run key of the request that ``cause`` leads to.

    Until the cursor has been saved, the same cause gives the same key, so that Dagster starts one run for two such
    requests. Afterwards it gives another key, even if the same cause occurs again, since the key also depends on the
    cursor, which contains the last key or never repeats. If a person resets the cursor, the last run key stands in.
    """
    before = context.cursor or context.last_run_key or ""
    return hashlib.sha256(json.dumps([before, cause], sort_keys=True).encode()).hexdigest()[:32]
