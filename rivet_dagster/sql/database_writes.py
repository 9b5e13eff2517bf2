"""The statements by which a database carries out write plans, in its own SQL."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from rivet_dagster.sql.database_queries import source_rows
from rivet_dagster.sql.database_trees import (
    SOURCE,
    TARGET,
    Matching,
    Name,
    WrittenColumn,
    column_of,
    count_where,
    match_rows,
    null_keys,
    of_target,
    rows_of_part,
    table,
    values_differ,
)
from rivet_dagster.sql.mariadb import to_sql

_IS_NEW = "rivet_is_new"
_WRITTEN = "rivet_written"


def delete_rows(target: Name, inside: exp.Expr | None, dialect: str) -> str:
    """Return the DELETE of all rows, or of those ``inside`` of a condition.

    >>> delete_rows(("shop", "orders"), None, "postgres")
    'DELETE FROM "shop"."orders" AS "rivet_target"'
    """
    where = exp.Where(this=of_target(inside)) if inside is not None else None
    return to_sql(exp.Delete(this=table(target, TARGET), where=where), dialect)


def delete_matching(target: Name, source: Name, on: Matching, dialect: str) -> list[str]:
    """Return the statements that delete the rows of the target whose keys occur in the source.

    >>> print(*delete_matching(("s", "t"), ("s", "b"), Matching(("day",)), "postgres"))
    DELETE FROM "s"."t" AS "rivet_target" USING (SELECT DISTINCT "rivet_source"."day" FROM "s"."b" AS "rivet_source")
    AS "rivet_source" WHERE "rivet_target"."day" = "rivet_source"."day"
    """
    statements = []
    for with_null in on.parts():
        distinct = exp.select(*[column_of(key, SOURCE) for key in on.keys]).from_(table(source, SOURCE))
        distinct = distinct if on.loose else distinct.distinct()
        using = rows_of_part(distinct, on, with_null).subquery(exp.to_identifier(SOURCE, quoted=True))
        where = exp.Where(this=match_rows(on, with_null))
        statements.append(to_sql(exp.Delete(this=table(target, TARGET), using=[using], where=where), dialect))
    return statements


def delete_others(source: Name, column: str, values: Sequence[int], dialect: str) -> str:
    """Return the DELETE of the rows that have none of the ``values`` in a column.

    >>> delete_others(("s", "b"), "attempt", [1, 2], "postgres")
    'DELETE FROM "s"."b" WHERE NOT "attempt" IN (1, 2)'
    """
    known = exp.In(this=column_of(column), expressions=[exp.Literal.number(value) for value in values])
    return to_sql(
        exp.Delete(this=table(source), where=exp.Where(this=exp.not_(known) if values else exp.true())), dialect
    )


def insert_rows(target: Name, columns: Sequence[WrittenColumn], rows: exp.Query, dialect: str) -> str:
    """Return the INSERT of ``rows``, which have the ``columns`` in this order.

    >>> print(insert_rows(("s", "t"), [WrittenColumn("id", "int", None)], source_rows(("s", "b"), ["id"]), "postgres"))
    INSERT INTO "s"."t" ("id") SELECT "rivet_source"."id" FROM "s"."b" AS "rivet_source"
    """
    return to_sql(_insert(table(target), columns, rows), dialect)


def insert_or_update(
    target: Name, columns: Sequence[WrittenColumn], source: Name, keys: Sequence[str], dialect: str
) -> str:
    """Return the query that upserts by a unique index of ``keys``, and counts: new rows, then updated ones.

    A row that is there already as it is, is left alone.

    >>> columns = [WrittenColumn("id", "int", "int"), WrittenColumn("n", "int", "int")]
    >>> print(insert_or_update(("s", "t"), columns, ("s", "b"), ["id"], "postgres"))
    WITH "rivet_written" AS (INSERT INTO "s"."t" AS "rivet_target" ("id", "n")
      SELECT "rivet_source"."id", "rivet_source"."n" FROM "s"."b" AS "rivet_source"
      ON CONFLICT("id") DO UPDATE SET "id" = "excluded"."id", "n" = "excluded"."n"
      WHERE NOT ("rivet_target"."id" IS NOT DISTINCT FROM "excluded"."id"
        AND "rivet_target"."n" IS NOT DISTINCT FROM "excluded"."n")
      RETURNING xmax = 0 AS "rivet_is_new")
    SELECT COUNT(CASE WHEN "rivet_is_new" THEN 1 END), COUNT(CASE WHEN NOT "rivet_is_new" THEN 1 END)
    FROM "rivet_written"
    """
    names = [column.name for column in columns]
    write = _insert(table(target, TARGET), columns, source_rows(source, names))
    assigned = [exp.EQ(this=column_of(name), expression=column_of(name, "excluded")) for name in names]
    conflict = exp.OnConflict(
        conflict_keys=[column_of(key) for key in keys],
        action=exp.Var(this="DO UPDATE"),
        expressions=assigned,
        where=exp.Where(this=values_differ(columns, TARGET, "excluded")),
    )
    # A row that an INSERT has made has no transaction that has locked or replaced it.
    is_new = exp.EQ(this=exp.column("xmax"), expression=exp.Literal.number(0))
    write.set("conflict", conflict)
    write.set("returning", exp.Returning(expressions=[exp.alias_(is_new, _IS_NEW, quoted=True)]))
    counts = [count_where(column_of(_IS_NEW)), count_where(exp.not_(column_of(_IS_NEW)))]
    written = exp.to_identifier(_WRITTEN, quoted=True)
    return to_sql(exp.select(*counts).from_(exp.Table(this=written)).with_(written, as_=write), dialect)


def update_differing(
    target: Name, columns: Sequence[WrittenColumn], source: Name, on: Matching, dialect: str
) -> list[str]:
    """Return the statements that give the rows of the target which match the values of the source, if these differ.

    >>> columns = [WrittenColumn("id", "int", "int")]
    >>> print(*update_differing(("s", "t"), columns, ("s", "b"), Matching(("id",)), "postgres"))
    UPDATE "s"."t" AS "rivet_target" SET "id" = "rivet_source"."id" FROM "s"."b" AS "rivet_source"
    WHERE "rivet_target"."id" = "rivet_source"."id"
    AND NOT ("rivet_target"."id" IS NOT DISTINCT FROM "rivet_source"."id")
    """
    statements = []
    for with_null in on.parts():
        assigned = [
            exp.EQ(this=column_of(column.name), expression=column_of(column.name, SOURCE)) for column in columns
        ]
        where = exp.and_(match_rows(on, with_null), *null_keys(on, with_null), values_differ(columns, TARGET, SOURCE))
        update = exp.Update(
            this=table(target, TARGET),
            expressions=assigned,
            from_=exp.From(this=table(source, SOURCE)),
            where=exp.Where(this=where),
        )
        statements.append(to_sql(update, dialect))
    return statements


def _insert(target: exp.Table, columns: Sequence[WrittenColumn], rows: exp.Query) -> exp.Insert:
    names = [exp.to_identifier(column.name, quoted=True) for column in columns]
    return exp.Insert(this=exp.Schema(this=target, expressions=names), expression=rows)
