"""Running the query of a group in the SQL in which it is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rivet_dagster.compiler.group_query import FusedQuery
from rivet_dagster.engines.contract import EngineSession, Frame


def run_query(session: EngineSession, query: FusedQuery, values: Mapping[str, Any]) -> Frame:
    """Return the lazy result of a query, whose parameters have ``values``. Raises RVT-503."""
    if query.dialect is None:
        return session.query(query.sql, values)
    return session.query_in(query.dialect, query.sql, values)
