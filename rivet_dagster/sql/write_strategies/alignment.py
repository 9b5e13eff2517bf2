"""The columns of a table after a write, and how rows get them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlglot import exp

from rivet_dagster.sql.write_strategies.relations import Columns
from rivet_dagster.sql.write_strategies.trees import column, named, relation, text

_WHOLE = ("tinyint", "smallint", "int", "bigint")
_DECIMAL = re.compile(r"^decimal\((\d+),(\d+)\)$")


class SchemaChange(ValueError):
    """Columns of a batch that do not fit the table, as a sentence."""


def aligned(target: Columns, batch: Columns, on_schema_change: str) -> Columns:
    """The columns of the table when ``batch`` has been written to it: its own first, in their order and spelling.

    Columns are matched by name without regard to letter case. The wider of two types is taken. A column that only one
    of them has is an error under ``fail``; under ``add`` the table gets it, under ``ignore`` it does not. Raises
    SchemaChange.

    >>> aligned([("id", "int"), ("net", "float")], [("net", "double"), ("ID", "bigint"), ("vat", "float")], "add")
    (('id', 'bigint'), ('net', 'double'), ('vat', 'float'))
    """
    came = {name.lower(): kind for name, kind in batch}
    there = {name.lower() for name, _ in target}
    new = [(name, kind) for name, kind in batch if name.lower() not in there]
    lacking = [name for name, _ in target if name.lower() not in came]
    wrong = []
    if on_schema_change == "fail":
        wrong += [f"the batch lacks {', '.join(lacking)}"] if lacking else []
        wrong += [f"the table has no {', '.join(f'{name} ({kind})' for name, kind in new)}"] if new else []
    kinds = []
    for name, kind in target:
        wider = _wider(kind, came.get(name.lower(), kind))
        if wider is None:
            wrong.append(f"{name} is {kind} in the table and {came[name.lower()]} in the batch")
        kinds.append((name, wider or kind))
    if wrong:
        raise SchemaChange("; ".join(wrong))
    return (*kinds, *(new if on_schema_change == "add" else ()))


def projection(columns: Columns, found: Columns, name: str) -> str:
    """The query that gives the rows of the relation ``name``, which has the columns ``found``, ``columns`` by name.

    >>> projection([("id", "bigint"), ("vat", "float")], [("ID", "int")], "batch")
    'SELECT CAST(`ID` AS bigint) AS `id`, CAST(NULL AS float) AS `vat` FROM `batch`'
    """
    there = {name.lower(): (name, kind) for name, kind in found}
    chosen = [_chosen(column_name, kind, there) for column_name, kind in columns]
    return text(exp.select(*chosen).from_(relation(name)))


def without_rows(columns: Columns) -> str:
    """The query that gives ``columns`` and no row.

    >>> without_rows([("id", "bigint")])
    'SELECT CAST(NULL AS bigint) AS `id` WHERE FALSE'
    """
    return text(exp.select(*[_chosen(name, kind, {}) for name, kind in columns]).where(exp.false()))


def _chosen(name: str, kind: str, there: Mapping[str, tuple[str, str]]) -> exp.Expr:
    own, found = there.get(name.lower(), (None, None))
    value: exp.Expr = exp.Null() if own is None else column(own)
    if found != kind:
        value = exp.Cast(this=value, to=exp.DataType(this=exp.DType.USERDEFINED, kind=kind))
    elif own == name:
        return value
    return named(value, name)


def _wider(one: str, other: str) -> str | None:
    """The type that holds every value of both unchanged; None where there is no such type.

    >>> _wider("int", "bigint"), _wider("decimal(9,2)", "decimal(7,2)"), _wider("int", "double")
    ('bigint', 'decimal(9,2)', None)
    """
    if one == other:
        return one
    if one in _WHOLE and other in _WHOLE:
        return max(one, other, key=_WHOLE.index)
    if {one, other} == {"float", "double"}:
        return "double"
    digits, more = _DECIMAL.match(one), _DECIMAL.match(other)
    if digits and more and digits[2] == more[2]:
        return max(one, other, key=lambda kind: int(_DECIMAL.match(kind)[1]))  # type: ignore[index]
    return None
