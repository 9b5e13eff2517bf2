"""Errors for batches that do not determine what is to be written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.errors import RivetError
from rivet_dagster.model.convert import show


def refuse_ambiguous(keys: Sequence[Mapping[str, Any]], order_by: Sequence[str], shows_values: bool) -> None:
    """Raise RVT-515 for ambiguous ``keys``: those with several unequal rows of which none is last by ``order_by``."""
    if not keys:
        return
    shown = "; ".join(", ".join(f"{name}={show(value)}" for name, value in key.items()) for key in keys)
    why = f"the greatest {', '.join(order_by)} is that of several" if order_by else "nothing says which of them counts"
    message = f"the batch has unequal rows of one key, and {why}"
    raise RivetError("RVT-515", f"{message}: {shown}" if shows_values else message)


def refuse_unplaced(session: EngineSession, count: str, column: str) -> None:
    """Raise RVT-516 if the query ``count`` finds rows that have no value in ``column``."""
    rows = session.rows(count)[0]["rows"]
    if rows:
        raise RivetError("RVT-516", f"{rows} rows of the batch have no {column}, which says where they belong")
