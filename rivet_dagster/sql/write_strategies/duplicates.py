"""Rows of a batch that share a key: the one that counts, and the keys for which no order decides which one that is.

Rows that are equal in every column count once; of others the one with the greatest order, NULL being the least.
Everywhere NULL equals NULL. Spark compares no maps, so an order that decides is what a batch with such a column needs.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from rivet_dagster.sql.write_strategies.trees import column, limited, named, over, relation, row_of

SHOWN = 10
"""How many of the keys without a decision are shown."""


def latest(source: str, keys: Sequence[exp.Expr], order_by: Sequence[str], columns: Sequence[str]) -> exp.Select:
    """The ``columns`` of the row that counts for each value of ``keys``, expressions over the relation ``source``.

    It holds where ``conflicts`` finds nothing.

    >>> from rivet_dagster.sql.write_strategies.trees import text
    >>> print(text(latest("batch", [column("id")], ["at"], ["id", "at"])))
    SELECT `row`.`id` AS `id`, `row`.`at` AS `at` FROM
      (SELECT STRUCT(`id` AS `id`, `at` AS `at`) AS `row`,
         ROW_NUMBER() OVER (PARTITION BY `id` ORDER BY `at` DESC) AS `place` FROM `batch`) AS ranked
      WHERE `place` = 1
    """
    return _greatest(exp.RowNumber(), source, keys, order_by, columns)


def conflicts(source: str, keys: Sequence[exp.Expr], order_by: Sequence[str], columns: Sequence[str]) -> exp.Select:
    """Up to SHOWN values of ``keys``, under their aliases, that have unequal rows with the greatest order."""
    rivals = _greatest(exp.Rank(), source, keys, order_by, columns).distinct().subquery("rivals")
    several = exp.GT(this=exp.Count(this=exp.Star(), big_int=True), expression=exp.Literal.number(1))
    shown = [key.copy() for key in keys]
    return limited(exp.select(*shown).from_(rivals).group_by(*_plain(keys)).having(several), SHOWN)


def _greatest(
    rank: exp.Expr, source: str, keys: Sequence[exp.Expr], order_by: Sequence[str], columns: Sequence[str]
) -> exp.Select:
    """The rows of each key whose ``rank`` is 1, the greatest order first; without an order all rows are alike."""
    descending = [exp.Ordered(this=column(name), desc=True, nulls_first=False) for name in order_by]
    place = over(rank, _plain(keys), *(descending or _plain(keys)))
    # As a struct, so that whatever a column is called, `place` is ours.
    ranked = exp.select(named(row_of(columns), "row"), named(place, "place")).from_(relation(source))
    first = exp.EQ(this=column("place"), expression=exp.Literal.number(1))
    values = [named(column(name, "row"), name) for name in columns]
    return exp.select(*values).from_(ranked.subquery("ranked")).where(first)


def _plain(keys: Sequence[exp.Expr]) -> list[exp.Expr]:
    return [key.unalias().copy() for key in keys]
