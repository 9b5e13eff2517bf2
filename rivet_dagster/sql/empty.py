"""Empty relations."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from rivet_dagster.model.plugins import SPARK


def empty_relation(columns: Iterable[tuple[str, str]]) -> str:
    """Return the query of no rows with columns of these names and types.

    >>> empty_relation([("id", "bigint"), ("net total", "decimal(10,2)")])
    'SELECT CAST(NULL AS bigint) AS `id`, CAST(NULL AS decimal(10,2)) AS `net total` WHERE FALSE'
    """
    items = [
        exp.Alias(
            this=exp.Cast(this=exp.Null(), to=exp.DataType(this=exp.DType.USERDEFINED, kind=type_)),
            alias=exp.to_identifier(name, quoted=True),
        )
        for name, type_ in columns
    ]
    return exp.select(*items).where(exp.false()).sql(dialect=SPARK)
