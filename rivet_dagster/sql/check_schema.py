"""What a schema check finds: columns that are not as they were said to be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rivet_dagster.sql.type_names import parse_ddl


def spark_type(text: str) -> str | None:
    """The name under which Spark knows the type that a user wrote; None where it is none.

    >>> spark_type("ARRAY<LONG>"), spark_type("strin")
    ('array<bigint>', None)
    """
    columns = parse_ddl(f"c {text}")
    return columns[0].type if columns is not None and len(columns) == 1 else None


def differences(expected: Iterable[tuple[str, str]], found: Iterable[tuple[str, str]]) -> tuple[Mapping[str, Any], ...]:
    """One row for each column that differs; letter case and order are no difference.

    >>> differences([("id", "LONG"), ("net", "DOUBLE")], [("ID", "bigint"), ("net", "string"), ("x", "int")])
    ({'column': 'net', 'expected': 'double', 'found': 'string'}, {'column': 'x', 'expected': None, 'found': 'int'})
    """
    wanted = {name.lower(): (name, spark_type(type_) or type_.lower()) for name, type_ in expected}
    there = {name.lower(): (name, type_.lower()) for name, type_ in found}
    rows = []
    for key in (*wanted, *(key for key in there if key not in wanted)):
        name = wanted.get(key, there.get(key, ("", "")))[0]
        types = {"expected": wanted.get(key, (name, None))[1], "found": there.get(key, (name, None))[1]}
        if types["expected"] != types["found"]:
            rows.append({"column": name, **types})
    return tuple(rows)
