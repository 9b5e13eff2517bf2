"""Upsert: the incoming rows that the target lacks, and those that differ from the target's row with the same key."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from rivet_dagster.sql.trees import limited, named
from rivet_dagster.sql.write_strategies.duplicates import conflicts, latest
from rivet_dagster.sql.write_strategies.relations import (
    BATCH,
    TARGET,
    Columns,
    count,
    joined,
    same_values,
    selected,
)
from rivet_dagster.sql.write_strategies.trees import plain_column, plain_relation, same, sql_text

_MATCHED, _PRESENT = "matched", "rivet_there"


def merged(columns: Columns, keys: Sequence[str], batch: str = BATCH) -> str:
    """Return the rows of ``batch``, whose keys are distinct, that are to be inserted or to replace others.

    The target is read once, and only its rows with a key of the batch are processed further.

    >>> print(merged([("id", "int"), ("net", "int")], ["id"]))
    WITH `matched` AS (SELECT `target`.`id`, `target`.`net`, TRUE AS `rivet_there` FROM `target`
      LEFT SEMI JOIN `batch` ON `target`.`id` IS NOT DISTINCT FROM `batch`.`id`)
    SELECT `batch`.`id`, `batch`.`net` FROM `batch`
      LEFT OUTER JOIN `matched` ON `batch`.`id` IS NOT DISTINCT FROM `matched`.`id`
      WHERE `matched`.`rivet_there` IS NULL
        OR NOT (`batch`.`id` IS NOT DISTINCT FROM `matched`.`id` AND `batch`.`net` IS NOT DISTINCT FROM `matched`.`net`)
    """
    present = named(exp.true(), _PRESENT)
    matched = joined(selected(columns, TARGET).select(present), batch, "SEMI", same(keys, [TARGET], [batch]))
    query = joined(selected(columns, batch), _MATCHED, "OUTER", same(keys, [batch], [_MATCHED]))
    new = exp.Is(this=plain_column(_PRESENT, _MATCHED), expression=exp.Null())
    differs = exp.not_(same_values(columns, batch, _MATCHED))
    return sql_text(query.where(exp.or_(new, differs)).with_(plain_relation(_MATCHED).this, as_=matched))


def repeats(name: str, keys: Sequence[str]) -> str:
    """Return the query of one row if some key occurs more than once in the relation ``name``, else of none.

    >>> repeats("batch", ["id"])
    'SELECT COUNT(*) AS `rows` FROM `batch` GROUP BY `id` HAVING COUNT(*) > 1 LIMIT 1'
    """
    several = exp.GT(this=count(), expression=exp.Literal.number(1))
    grouped = (
        exp.select(named(count(), "rows")).from_(plain_relation(name)).group_by(*[plain_column(key) for key in keys])
    )
    return sql_text(limited(grouped.having(several), 1))


def undecided(name: str, columns: Columns, keys: Sequence[str], order_by: Sequence[str]) -> str:
    """Return the query of ambiguous keys of the relation ``name``: unequal rows, with the same ``order_by``."""
    return sql_text(conflicts(name, [plain_column(key) for key in keys], order_by, [c for c, _ in columns]))


def decided(name: str, columns: Columns, keys: Sequence[str], order_by: Sequence[str]) -> str:
    """Return the query of one row of the relation ``name`` for each key, the greatest by ``order_by``."""
    return sql_text(latest(name, [plain_column(key) for key in keys], order_by, [c for c, _ in columns]))
