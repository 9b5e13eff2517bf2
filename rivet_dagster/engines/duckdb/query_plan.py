"""How DuckDB has computed a query, as a text made of its profile."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

_OMITTED = frozenset({"Filters", "Dynamic Filters", "Estimated Cardinality", "Filename(s)"})
"""Facts that are left out: filters of scans, to which DuckDB adds values of other tables, an estimate, and paths."""


def plan_text(profile: str) -> str:
    """Return the operators of a query's profile, given as JSON, a line each, with what they read indented below them.

    >>> read = '{"type": "TABLE_SCAN", "extra_info": {"Projections": "a"}, "intermediate_rows": 3, "timing": 0.5}'
    >>> operator = '{"type": "HASH_GROUP_BY", "extra_info": {"Groups": ["#0"]}, "timing": 0, "children": [%s]}' % read
    >>> print(plan_text('{"operator": [%s]}' % operator))
    HASH_GROUP_BY Groups: #0
      TABLE_SCAN Projections: a; rows: 3; seconds: 0.500
    """
    operators = json.loads(profile).get("operator", [])
    return "\n".join(line for operator in operators for line in _lines(operator, 0))


def _lines(operator: Mapping[str, Any], depth: int) -> Iterator[str]:
    facts = [f"{key}: {_shown(value)}" for key, value in operator["extra_info"].items() if key not in _OMITTED]
    if "intermediate_rows" in operator:
        facts.append(f"rows: {operator['intermediate_rows']:,}")
    if operator.get("timing", 0) >= 0.001:
        facts.append(f"seconds: {operator['timing']:.3f}")
    yield f"{'  ' * depth}{operator['type']} {'; '.join(facts)}".rstrip()
    for child in operator.get("children", ()):
        yield from _lines(child, depth + 1)


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
