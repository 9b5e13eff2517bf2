"""Cursors of sensors, from one tick to the next, and the keys of their requests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import dagster as dg


def read_cursor(context: dg.SensorEvaluationContext, kind: str) -> Mapping[str, Any] | None:
    """Return what the cursor holds; None at the first tick, and where another kind of sensor had the name before."""
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

    It is the same again while the cursor has not been saved, so that Dagster makes one run of the two, and another
    one ever after, even where the same comes to pass once more: it goes on from the cursor, which holds the last key
    or never repeats. A cursor that a person resets starts anew from the last key.
    """
    before = context.cursor or context.last_run_key or ""
    return hashlib.sha256(json.dumps([before, cause], sort_keys=True).encode()).hexdigest()[:32]
