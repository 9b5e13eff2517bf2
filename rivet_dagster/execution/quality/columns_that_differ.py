"""The differences between expected and actual columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def columns_that_differ(
    expected: Iterable[tuple[str, str]], found: Iterable[tuple[str, str]]
) -> tuple[Mapping[str, Any], ...]:
    """Return one row for each column that differs; letter case and order make no difference.

    >>> columns_that_differ([("id", "bigint"), ("net", "double")], [("ID", "bigint"), ("net", "string"), ("x", "int")])
    ({'column': 'net', 'expected': 'double', 'found': 'string'}, {'column': 'x', 'expected': None, 'found': 'int'})
    """
    wanted = {name.lower(): (name, type_) for name, type_ in expected}
    actual = {name.lower(): (name, type_.lower()) for name, type_ in found}
    rows = []
    for key in (*wanted, *(key for key in actual if key not in wanted)):
        name = wanted.get(key, actual.get(key, ("", "")))[0]
        types = {"expected": wanted.get(key, (name, None))[1], "found": actual.get(key, (name, None))[1]}
        if types["expected"] != types["found"]:
            rows.append({"column": name, **types})
    return tuple(rows)
