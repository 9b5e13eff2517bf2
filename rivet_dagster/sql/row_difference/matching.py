"""Matching the rows of two versions by a key that is unique in each: a full outer join, as one would type it.

A key that is repeated would multiply rows, and the join takes no NULL for equal to another. Whether there was such a
key is seen by what is found: each row of a version stands in exactly one row of the join if no key that both versions
have is repeated in one of them. For that the equal rows are counted, too; they are one group of the rows that differ.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from rivet_dagster.sql.row_difference.parts import (
    ADDED,
    COPY,
    FOUND,
    NEW_ROW,
    NEW_ROWS,
    OLD_ROW,
    OLD_ROWS,
    REMOVED,
    alias,
    columns_of,
    is_kind,
    once,
    rows_where,
)
from rivet_dagster.sql.trees import named
from rivet_dagster.sql.write_strategies.trees import plain_column, plain_relation, row_of, same

_MATCHED, _GROUPED, _PRESENT = "matched", "grouped", "present"


def matched(names: Sequence[str], keys: Sequence[str]) -> dict[str, exp.Query]:
    """Return the queries that lead to ``found``, by name."""
    key_values = [
        named(exp.Coalesce(this=plain_column(key, NEW_ROW), expressions=[plain_column(key, OLD_ROW)]), key)
        for key in keys
    ]
    rows = exp.select(*columns_of([OLD_ROW, NEW_ROW]), named(exp.Count(this=exp.Star(), big_int=True), COPY))
    return {
        _MATCHED: _joined(names, keys),
        _GROUPED: rows.from_(plain_relation(_MATCHED)).group_by(*columns_of([OLD_ROW, NEW_ROW])),
        FOUND: exp.select(*key_values, *columns_of([OLD_ROW, NEW_ROW, COPY]), once()).from_(plain_relation(_GROUPED)),
    }


def were_unique(keys: Sequence[str]) -> exp.Expr:
    """Return the condition, over all of ``found``, that rows were matched as keys without repeats and NULL are."""
    added, removed = is_kind(ADDED), is_kind(REMOVED)
    has_null = exp.or_(*[exp.Is(this=plain_column(key), expression=exp.Null()) for key in keys])
    of_new = exp.EQ(this=rows_where(exp.not_(exp.paren(removed))), expression=_number_of(NEW_ROWS))
    of_old = exp.EQ(this=rows_where(exp.not_(exp.paren(added))), expression=_number_of(OLD_ROWS))
    null_in_both = exp.and_(
        *[
            exp.GT(this=exp.CountIf(this=exp.and_(kind.copy(), has_null.copy())), expression=exp.Literal.number(0))
            for kind in (added, removed)
        ]
    )
    return exp.and_(of_new, of_old, exp.not_(exp.paren(null_in_both)))


def _joined(names: Sequence[str], keys: Sequence[str]) -> exp.Select:
    """Return the query of all pairs; of equal rows both are NULL."""
    sides = {side: _side(names, rows, side) for side, rows in (("n", NEW_ROWS), ("o", OLD_ROWS))}
    others = [name for name in names if name not in keys]
    equal = exp.and_(plain_column(_PRESENT, "n"), plain_column(_PRESENT, "o"), same(others, ["o"], ["n"]))
    values = []
    for side, name in (("o", OLD_ROW), ("n", NEW_ROW)):
        lacks = exp.Is(this=plain_column(_PRESENT, side), expression=exp.Null())
        none = exp.or_(exp.paren(equal.copy()), lacks)
        values.append(named(exp.If(this=none, true=exp.Null(), false=row_of(names, side)), name))
    on = same(keys, ["n"], ["o"], never_null=keys)
    return exp.select(*values).from_(sides["n"]).join(exp.Join(this=sides["o"], side="FULL", kind="OUTER", on=on))


def _side(names: Sequence[str], rows: str, side: str) -> exp.Subquery:
    marked = exp.select(*columns_of(names), named(exp.true(), _PRESENT)).from_(plain_relation(rows))
    return exp.Subquery(this=marked, alias=alias(side))


def _number_of(rows: str) -> exp.Subquery:
    return exp.Subquery(this=exp.select(exp.Count(this=exp.Star(), big_int=True)).from_(plain_relation(rows)))
