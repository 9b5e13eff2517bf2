"""The columns of a table after a write, and the casts of its rows to them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlglot import exp

from rivet_dagster.sql.trees import named
from rivet_dagster.sql.write_strategies.trees import Columns, plain_column, plain_relation, sql_text

_WHOLE = ("tinyint", "smallint", "int", "bigint")
_COLLATION = re.compile(r"\b(string|(?:var)?char\(\d+\)) collate \w+")
_DECIMAL = re.compile(r"^decimal\((\d+),(\d+)\)$")


class SchemaChange(ValueError):
    """Columns of a batch that do not fit the table, described in a sentence."""


def align_columns(target: Columns, batch: Columns, on_schema_change: str) -> Columns:
    """Return the columns of the table after ``batch`` is written to it: its own first, in their order and spelling.

    Columns are matched by name, ignoring case. The wider of two types is used; texts are without a collation, which
    tables do not store. A column that only one of them has is an error under ``fail``; under ``add`` the table has it,
    under ``ignore`` only if the table had it. Raise SchemaChange.

    >>> align_columns([("id", "int"), ("net", "float")], [("net", "double"), ("ID", "bigint"), ("vat", "float")], "add")
    (('id', 'bigint'), ('net', 'double'), ('vat', 'float'))
    """
    target, batch = plain_columns(target), plain_columns(batch)
    incoming = {name.lower(): kind for name, kind in batch}
    present = {name.lower() for name, _ in target}
    new = [(name, kind) for name, kind in batch if name.lower() not in present]
    lacking = [name for name, _ in target if name.lower() not in incoming]
    wrong = []
    if on_schema_change == "fail":
        wrong += [f"the batch lacks {', '.join(lacking)}"] if lacking else []
        wrong += [f"the table has no {', '.join(f'{name} ({kind})' for name, kind in new)}"] if new else []
    kinds = []
    for name, kind in target:
        both = wider(kind, incoming.get(name.lower(), kind))
        if both is None:
            wrong.append(f"{name} is {kind} in the table and {incoming[name.lower()]} in the batch")
        kinds.append((name, both or kind))
    if wrong:
        raise SchemaChange("; ".join(wrong))
    return (*kinds, *(new if on_schema_change == "add" else ()))


def plain(kind: str) -> str:
    """Return a type whose texts have no collation.

    >>> plain("array<string collate UTF8_LCASE>")
    'array<string>'
    """
    return _COLLATION.sub(r"\1", kind)


def plain_columns(columns: Columns) -> Columns:
    """Return columns whose texts have no collation."""
    return tuple((name, plain(kind)) for name, kind in columns)


def projection(columns: Columns, existing: Columns, name: str) -> str:
    """Return the query that casts the relation ``name``, whose columns are ``existing``, to ``columns`` by name.

    >>> projection([("id", "bigint"), ("vat", "float")], [("ID", "int")], "batch")
    'SELECT CAST(`ID` AS bigint) AS `id`, CAST(NULL AS float) AS `vat` FROM `batch`'
    """
    present = {name.lower(): (name, kind) for name, kind in existing}
    chosen = [_chosen(column_name, kind, present) for column_name, kind in columns]
    return sql_text(exp.select(*chosen).from_(plain_relation(name)))


def without_rows(columns: Columns) -> str:
    """Return the query of no rows with ``columns``.

    >>> without_rows([("id", "bigint")])
    'SELECT CAST(NULL AS bigint) AS `id` WHERE FALSE'
    """
    return sql_text(exp.select(*[_chosen(name, kind, {}) for name, kind in columns]).where(exp.false()))


def _chosen(name: str, kind: str, present: Mapping[str, tuple[str, str]]) -> exp.Expr:
    own, own_kind = present.get(name.lower(), (None, None))
    value: exp.Expr = exp.Null() if own is None else plain_column(own)
    if own_kind != kind:
        value = exp.Cast(this=value, to=exp.DataType(this=exp.DType.USERDEFINED, kind=kind))
    elif own == name:
        return value
    return named(value, name)


def wider(kind: str, other: str) -> str | None:
    """Return the type that holds every value of both unchanged; None where there is no such type.

    >>> wider("int", "bigint"), wider("decimal(9,2)", "decimal(7,2)"), wider("int", "double")
    ('bigint', 'decimal(9,2)', None)
    """
    if kind == other:
        return kind
    if kind in _WHOLE and other in _WHOLE:
        return max(kind, other, key=_WHOLE.index)
    if {kind, other} == {"float", "double"}:
        return "double"
    decimal, other_decimal = _DECIMAL.match(kind), _DECIMAL.match(other)
    if decimal and other_decimal and decimal[2] == other_decimal[2]:
        return max(kind, other, key=lambda text: int(_DECIMAL.match(text)[1]))  # type: ignore[index]
    return None
