"""Checks that the database judges by the rows as engines read them, so that these need not read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rivet_dagster.catalogs.jdbc.database import Connection
from rivet_dagster.model.check_plan import CompiledCheck
from rivet_dagster.model.relations import JdbcTable
from rivet_dagster.model.storage import StoredRows
from rivet_dagster.sql.database_checks import aggregates_of, count_duplicates, count_nulls, count_others, count_surplus

_WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})


def count_violations(
    connection: Connection, dialect: str, rows: StoredRows, checks: Sequence[CompiledCheck]
) -> dict[str, int]:
    """Return the violations of those ``checks`` that mean the same in the database, by name; one pass for most.

    They are ``not_null``, ``unique``, and ``accepted_values`` of texts, whole numbers and truth values.
    """
    assert isinstance(rows.relation, JdbcTable)
    types = {name.lower(): (name, kind) for name, kind in rows.statistics.columns}
    source, counts_by_check, aggregates = rows.relation.table, {}, {}
    for check in checks:
        if not all(name.lower() in types for name in check.columns):
            continue
        names = [types[name.lower()][0] for name in check.columns]
        if check.kind == "not_null":
            aggregates[check.name] = count_nulls(names)
        elif check.kind == "accepted_values" and _have_type(check.options, types[check.columns[0].lower()][1]):
            aggregates[check.name] = count_others(names[0], check.options["values"])
        elif check.kind == "unique" and len(names) == 1:
            aggregates[check.name] = count_surplus(names[0])
        elif check.kind == "unique":
            (surplus,) = connection.execute(count_duplicates(source, names, dialect)).fetchone() or (0,)
            counts_by_check[check.name] = int(surplus)
    if aggregates:
        counts = connection.execute(aggregates_of(source, list(aggregates.values()), dialect)).fetchone() or ()
        counts_by_check |= dict(zip(aggregates, map(int, counts), strict=True))
    return counts_by_check


def _have_type(options: Mapping[str, Any], spark_type: str) -> bool:
    """Return whether all accepted values are of the column's type, so that none is converted."""
    values = options["values"]
    if spark_type == "boolean":
        return all(isinstance(value, bool) for value in values)
    if spark_type in _WHOLE:
        return all(isinstance(value, int) and not isinstance(value, bool) for value in values)
    return spark_type == "string" and all(isinstance(value, str) for value in values)
