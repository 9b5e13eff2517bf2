"""Deduplication of a batch by key, and detection of ambiguous keys, for which no order decides which row is used.

Rows that are equal in all columns are one row; of the others the row with the greatest order is used, where NULL is
the least value. Everywhere NULL equals NULL. Spark cannot compare maps, so a batch with a map column needs an order
that decides.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from rivet_dagster.sql.trees import limited, named
from rivet_dagster.sql.write_strategies.trees import over, plain_column, plain_relation, row_of

SHOWN = 10
"""The number of ambiguous keys that are shown."""


def latest(source: str, keys: Sequence[exp.Expr], order_by: Sequence[str], columns: Sequence[str]) -> exp.Select:
    """Return the query of ``columns``, one row for each value of ``keys``, which are expressions over ``source``.

    The result is deterministic if ``conflicts`` returns no rows.

    >>> from rivet_dagster.sql.write_strategies.trees import sql_text
    >>> print(sql_text(latest("batch", [plain_column("id")], ["at"], ["id", "at"])))
    SELECT `row`.`id` AS `id`, `row`.`at` AS `at` FROM
      (SELECT STRUCT(`id` AS `id`, `at` AS `at`) AS `row`,
         ROW_NUMBER() OVER (PARTITION BY `id` ORDER BY `at` DESC) AS `place` FROM `batch`) AS ranked
      WHERE `place` = 1
    """
    return _greatest(exp.RowNumber(), source, keys, order_by, columns)


def conflicts(source: str, keys: Sequence[exp.Expr], order_by: Sequence[str], columns: Sequence[str]) -> exp.Select:
    """Return the query of up to SHOWN ambiguous ``keys``, under their aliases: unequal rows have the greatest order."""
    rivals = _greatest(exp.Rank(), source, keys, order_by, columns).distinct().subquery("rivals")
    several = exp.GT(this=exp.Count(this=exp.Star(), big_int=True), expression=exp.Literal.number(1))
    shown = [key.copy() for key in keys]
    return limited(exp.select(*shown).from_(rivals).group_by(*_plain(keys)).having(several), SHOWN)


def _greatest(
    rank: exp.Expr, source: str, keys: Sequence[exp.Expr], order_by: Sequence[str], columns: Sequence[str]
) -> exp.Select:
    """Return the rows of each key whose ``rank`` is 1, by descending order; without an order all rows are equal."""
    descending = [exp.Ordered(this=plain_column(name), desc=True, nulls_first=False) for name in order_by]
    place = over(rank, _plain(keys), *(descending or _plain(keys)))
    # As a struct, so that no column of the source can be confused with `place`.
    ranked = exp.select(named(row_of(columns), "row"), named(place, "place")).from_(plain_relation(source))
    first = exp.EQ(this=plain_column("place"), expression=exp.Literal.number(1))
    values = [named(plain_column(name, "row"), name) for name in columns]
    return exp.select(*values).from_(ranked.subquery("ranked")).where(first)


def _plain(keys: Sequence[exp.Expr]) -> list[exp.Expr]:
    return [key.unalias().copy() for key in keys]
