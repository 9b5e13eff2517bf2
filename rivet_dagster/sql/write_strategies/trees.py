"""Building blocks of the queries of write strategies, whose columns are named as tables name them, dots and all."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlglot import exp

from rivet_dagster.model.plugins import SPARK
from rivet_dagster.sql.trees import named


def plain_column(name: str, *within: str) -> exp.Expr:
    """Return the column ``name``, unparsed, of the relation, or of the struct of a relation, given by ``within``.

    >>> sql_text(plain_column("a.b", "batch")), sql_text(plain_column("net", "version", "row"))
    ('`batch`.`a.b`', '`version`.`row`.`net`')
    """
    first, *rest = [exp.to_identifier(part, quoted=True) for part in (*within, name)]
    return exp.Dot.build([exp.Column(this=first), *rest]) if rest else exp.Column(this=first)


def plain_relation(name: str, alias: str | None = None) -> exp.Table:
    """Return the relation ``name``."""
    named = exp.TableAlias(this=exp.to_identifier(alias, quoted=True)) if alias is not None else None
    return exp.Table(this=exp.to_identifier(name, quoted=True), alias=named)


def row_of(columns: Sequence[str], *within: str) -> exp.Struct:
    """Return the values of ``columns`` as one struct.

    >>> sql_text(row_of(["id", "net"], "batch"))
    'STRUCT(`batch`.`id` AS `id`, `batch`.`net` AS `net`)'
    """
    return exp.Struct(expressions=[named(plain_column(name, *within), name) for name in columns])


def same(
    columns: Sequence[str], left: Sequence[str], right: Sequence[str], never_null: Collection[str] = ()
) -> exp.Expr:
    """Return the condition that ``columns`` are equal on both sides; NULL equals NULL, and without columns it is true.

    One of the sides has no NULL in the columns ``never_null``, for which ``=`` means the same.

    >>> sql_text(same(["id", "net"], ["batch"], ["target"], never_null=["id"]))
    '`batch`.`id` = `target`.`id` AND `batch`.`net` IS NOT DISTINCT FROM `target`.`net`'
    """
    pairs = [
        (exp.EQ if c in never_null else exp.NullSafeEQ)(this=plain_column(c, *left), expression=plain_column(c, *right))
        for c in columns
    ]
    return exp.and_(*pairs) if pairs else exp.true()


def over(function: exp.Expr, partition_by: Sequence[exp.Expr], *order: exp.Expr, rows: bool = False) -> exp.Window:
    """Return ``function`` over the rows of a partition; with ``rows``, over those up to the current one."""
    first_to_this = {"kind": "ROWS", "start": "UNBOUNDED", "start_side": "PRECEDING", "end": "CURRENT ROW"}
    return exp.Window(
        this=function,
        partition_by=[key.copy() for key in partition_by],
        order=exp.Order(expressions=[expression.copy() for expression in order]) if order else None,
        spec=exp.WindowSpec(**first_to_this) if rows else None,
    )


def sql_text(tree: exp.Expr) -> str:
    """Return the SQL of a tree, for Spark; the tree stays as it is."""
    return tree.sql(dialect=SPARK)
