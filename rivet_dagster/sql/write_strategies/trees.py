"""Building blocks of the queries of write strategies: the relations that they read, and expressions they share.

Columns are named as tables name them, dots and all.

``target`` holds the rows on which the write builds, ``batch`` the incoming rows, both with the columns that the table
will have. ``incoming`` is the batch as the strategy has transformed it, ``rest`` the target's rows that may have to be
deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlglot import exp

from rivet_dagster.model.plugins import SPARK
from rivet_dagster.sql.generated_statements import GeneratedStatement
from rivet_dagster.sql.trees import limited, named, number_of_rows


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


def sql_text(tree: exp.Expr) -> GeneratedStatement:
    """Return the SQL of a tree, for Spark; the tree stays as it is.

    >>> sql_text(plain_column("net"))
    '`net`'
    """
    return GeneratedStatement(tree.sql(dialect=SPARK))


TARGET, BATCH, INCOMING, REST = "target", "batch", "incoming", "rest"

Columns = Sequence[tuple[str, str]]
"""Pairs of name and engine type, in order."""


def select_columns(columns: Columns, name: str) -> exp.Select:
    """Return the query of all ``columns`` of a relation."""
    return exp.select(*[plain_column(c, name) for c, _ in columns]).from_(plain_relation(name))


def join_relation(query: exp.Select, other: str, how: str, on: exp.Expr) -> exp.Select:
    """Return ``query`` with a LEFT join of the kind SEMI, ANTI or OUTER."""
    return query.join(exp.Join(this=plain_relation(other), side="LEFT", kind=how, on=on))


def condition_of(name: str, condition: exp.Expr) -> exp.Expr:
    """Return a condition, whose columns have no relation's name, as one on the rows of the relation ``name``.

    >>> sql_text(condition_of("target", exp.Is(this=plain_column("day"), expression=exp.Null())))
    '`target`.`day` IS NULL'
    """
    qualified = condition.copy()
    for column in list(qualified.find_all(exp.Column)):
        column.set("table", exp.to_identifier(name, quoted=True))
    return qualified


def same_values(columns: Columns, left: str, right: str) -> exp.Expr:
    """Return the condition that two rows are equal in all ``columns``, where NULL equals NULL.

    Spark cannot compare maps and variants, so they are compared as JSON, which may differ where only their order does.

    >>> print(sql_text(same_values([("a", "int"), ("m", "map<string,int>")], "l", "r")))
    `l`.`a` IS NOT DISTINCT FROM `r`.`a`
      AND TO_JSON(STRUCT(`l`.`m`)) IS NOT DISTINCT FROM TO_JSON(STRUCT(`r`.`m`))
    """
    pairs = [(_comparable(name, kind, left), _comparable(name, kind, right)) for name, kind in columns]
    return exp.and_(*[exp.NullSafeEQ(this=ours, expression=theirs) for ours, theirs in pairs])


def distinct_values(columns: Sequence[str], name: str, most: int) -> str:
    """Return the query of up to ``most`` distinct combinations of values of ``columns``.

    >>> distinct_values(["day"], "incoming", 3)
    'SELECT DISTINCT `day` AS `day` FROM `incoming` LIMIT 3'
    """
    values = [named(plain_column(c), c) for c in columns]
    return sql_text(limited(exp.select(*values).distinct().from_(plain_relation(name)), most))


def without_value(column_name: str) -> str:
    """Return the query that counts, as ``rows``, the rows of ``batch`` with NULL in a column.

    >>> without_value("at")
    'SELECT COUNT(*) AS `rows` FROM `batch` WHERE `at` IS NULL'
    """
    missing = exp.Is(this=plain_column(column_name), expression=exp.Null())
    return sql_text(exp.select(named(number_of_rows(), "rows")).from_(plain_relation(BATCH)).where(missing))


def _comparable(name: str, kind: str, table: str) -> exp.Expr:
    plain = plain_column(name, table)
    if "map<" not in kind and "variant" not in kind:
        return plain
    return exp.Anonymous(this="TO_JSON", expressions=[exp.Anonymous(this="STRUCT", expressions=[plain])])
