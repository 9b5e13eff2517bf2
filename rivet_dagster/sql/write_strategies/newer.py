"""The incoming rows that are newer than all rows of the target."""

from __future__ import annotations

from sqlglot import exp

from rivet_dagster.sql.trees import named
from rivet_dagster.sql.write_strategies.relations import BATCH, TARGET, Columns, selected
from rivet_dagster.sql.write_strategies.trees import plain_column, plain_relation, sql_text

_NEWEST = "newest"


def newer(columns: Columns, watermark: str) -> str:
    """Return the rows of ``batch`` whose ``watermark`` is greater than its max in the target; all if there is none.

    >>> print(newer([("at", "date")], "at"))
    SELECT `batch`.`at` FROM `batch` CROSS JOIN (SELECT MAX(`at`) AS `newest` FROM `target`) AS `target`
      WHERE `target`.`newest` IS NULL OR `batch`.`at` > `target`.`newest`
    """
    greatest = exp.select(named(exp.Max(this=plain_column(watermark)), _NEWEST)).from_(plain_relation(TARGET))
    target = exp.Subquery(this=greatest, alias=exp.TableAlias(this=exp.to_identifier(TARGET, quoted=True)))
    newest = plain_column(_NEWEST, TARGET)
    first = exp.Is(this=newest, expression=exp.Null())
    later = exp.GT(this=plain_column(watermark, BATCH), expression=newest.copy())
    return sql_text(selected(columns, BATCH).join(exp.Join(this=target, kind="CROSS")).where(exp.or_(first, later)))
