"""The rows that are left when equal rows of two versions have cancelled out, as often as both versions have them.

Rows of the newer version are counted up, and those of the older one down. With a key, the rows left are numbered within
each key, on either side, and those with the same number are one changed row.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from rivet_dagster.sql.row_difference.parts import (
    COPY,
    FOUND,
    NEW_ROW,
    NEW_ROWS,
    OLD_ROW,
    OLD_ROWS,
    columns_of,
    once,
    one,
)
from rivet_dagster.sql.trees import named
from rivet_dagster.sql.write_strategies.trees import over, plain_column, plain_relation, row_of

_BOTH, _DIFFERING, _COPIES, _NUMBERED, _PAIRS = "both_versions", "differing", "copies", "numbered", "pairs"
_SIDE, _NET, _IS_NEW, _NUMBER, _TIME = "side", "net", "is_new", "number", "time"


def cancelled(names: Sequence[str], keys: Sequence[str]) -> dict[str, exp.Query]:
    """Return the queries that lead to ``found``, by name; without ``keys`` no row is changed."""
    queries: dict[str, exp.Query] = {_BOTH: _both(names), _DIFFERING: _differing(names)}
    return queries | (_paired(names, keys) if keys else {FOUND: _as_multiset(names)})


def _both(names: Sequence[str]) -> exp.Query:
    up = exp.select(*columns_of(names), named(exp.Literal.number(1), _SIDE)).from_(plain_relation(NEW_ROWS))
    down = exp.select(*columns_of(names), named(exp.Neg(this=exp.Literal.number(1)), _SIDE)).from_(
        plain_relation(OLD_ROWS)
    )
    return exp.Union(this=up, expression=down, distinct=False)


def _differing(names: Sequence[str]) -> exp.Select:
    """Return the query of each row that one version has more often, and of how much more often the newer one has it."""
    net = exp.Sum(this=plain_column(_SIDE))
    rows = exp.select(*columns_of(names), named(net, _NET)).from_(plain_relation(_BOTH))
    return rows.group_by(*columns_of(names)).having(exp.NEQ(this=net.copy(), expression=exp.Literal.number(0)))


def _as_multiset(names: Sequence[str]) -> exp.Select:
    is_new = exp.GT(this=plain_column(_NET), expression=exp.Literal.number(0))
    row = row_of(names) if names else exp.true()
    return exp.select(
        *columns_of(names),
        named(exp.If(this=is_new, true=exp.Null(), false=row), OLD_ROW),
        named(exp.If(this=is_new.copy(), true=row.copy(), false=exp.Null()), NEW_ROW),
        named(exp.Abs(this=plain_column(_NET)), COPY),
        once(),
    ).from_(plain_relation(_DIFFERING))


def _paired(names: Sequence[str], keys: Sequence[str]) -> dict[str, exp.Query]:
    times = exp.Anonymous(this="SEQUENCE", expressions=[one(), exp.Abs(this=plain_column(_NET))])
    is_new = exp.GT(this=plain_column(_NET), expression=exp.Literal.number(0))
    copies = exp.select(*columns_of(names), named(is_new, _IS_NEW), named(exp.Explode(this=times), _TIME))
    others = [name for name in names if name not in keys]
    number = over(exp.RowNumber(), [*columns_of(keys), plain_column(_IS_NEW)], *columns_of(others or keys))
    numbered = exp.select(*columns_of(names), plain_column(_IS_NEW), named(number, _NUMBER))
    pairs = exp.select(*columns_of(keys), _of_side(names, False, OLD_ROW), _of_side(names, True, NEW_ROW))
    found = exp.select(*columns_of([*keys, OLD_ROW, NEW_ROW]), named(one(), COPY), once())
    return {
        _COPIES: copies.from_(plain_relation(_DIFFERING)),
        _NUMBERED: numbered.from_(plain_relation(_COPIES)),
        _PAIRS: pairs.from_(plain_relation(_NUMBERED)).group_by(*columns_of(keys), plain_column(_NUMBER)),
        FOUND: found.from_(plain_relation(_PAIRS)),
    }


def _of_side(names: Sequence[str], is_new: bool, name: str) -> exp.Expr:
    """Return the aggregate of the one row of a pair that belongs to one version, NULL where it has none."""
    belongs = plain_column(_IS_NEW) if is_new else exp.not_(plain_column(_IS_NEW))
    first = exp.Filter(this=exp.First(this=row_of(names)), expression=exp.Where(this=belongs))
    return named(first, name)
