"""The query of the rows that two versions of a table do not have in common: how many, in which columns, and samples.

It counts and samples the relation ``found``, which is made in one of two ways: by a key that is unique, rows are
matched (``matching.py``); otherwise equal rows cancel out (``cancelling.py``). NULL and NaN are equal to themselves in
all of this, as for ``<=>``.

Inside the query columns are called ``c0``, ``c1``, ..., which no name of a user can collide with.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sqlglot import exp

from rivet_dagster.sql.row_difference.cancelling import cancelled
from rivet_dagster.sql.row_difference.columns import ComparedColumn
from rivet_dagster.sql.row_difference.matching import matched, were_unique
from rivet_dagster.sql.row_difference.parts import (
    ADDED,
    CHANGED,
    COPY,
    FOUND,
    NEW,
    NEW_ROW,
    NEW_ROWS,
    OLD,
    OLD_ROW,
    OLD_ROWS,
    REMOVED,
    columns_of,
    is_kind,
    rows_where,
)
from rivet_dagster.sql.trees import limited, named
from rivet_dagster.sql.write_strategies.trees import plain_column, plain_relation, same, sql_text

COUNTS = "counts"
"""The value of the result's column ``kind`` in the row that has the counts; the others are samples, of a kind each."""


def difference_by_unique_key(columns: Sequence[ComparedColumn], key: Collection[str], samples: int) -> str:
    """Return the query of the counts of rows added, removed and changed, and of up to ``samples`` rows of each kind.

    Rows are matched by the columns ``key``, at least one, given by their names in the newer version. The result has the
    columns ``kind``, ``added``, ``removed``, ``changed``, ``unique`` (false if the other columns are wrong, since the
    key was repeated in a version or was NULL in both), ``columns`` (the changed rows of each column, in the order of
    ``columns``), ``old``, ``new`` (structs of ``c0``, ``c1``, ...) and ``copies``, the number of rows that a sample
    stands for.
    """
    names, keys = _names(columns), _keys(columns, key)
    found = _rows(columns, names) | matched(names, keys)
    return _counted(found, names, keys, were_unique(keys), samples)


def difference(columns: Sequence[ComparedColumn], key: Collection[str], samples: int) -> str:
    """Return the query of the same result for a ``key`` of any kind: repeated, NULL, or no column at all.

    Without a key no row is changed.
    """
    names, keys = _names(columns), _keys(columns, key)
    found = _rows(columns, names) | cancelled(names, keys)
    return _counted(found, names, keys, exp.true(), samples)


def some_rows(most: int) -> str:
    """Return the query of up to ``most`` rows of the newer version.

    >>> some_rows(10)
    'SELECT * FROM `rivet_new` LIMIT 10'
    """
    return sql_text(limited(exp.select(exp.Star()).from_(plain_relation(NEW)), most))


def _names(columns: Sequence[ComparedColumn]) -> list[str]:
    return [f"c{number}" for number in range(len(columns))]


def _keys(columns: Sequence[ComparedColumn], key: Collection[str]) -> list[str]:
    return [name for name, compared in zip(_names(columns), columns, strict=True) if compared.name in key]


def _rows(columns: Sequence[ComparedColumn], names: Sequence[str]) -> dict[str, exp.Query]:
    old = [named(compared.value(compared.old), name) for name, compared in zip(names, columns, strict=True)]
    new = [named(compared.value(compared.new), name) for name, compared in zip(names, columns, strict=True)]
    nothing = [named(exp.true(), "present")] if not columns else []
    return {
        OLD_ROWS: exp.select(*(old or nothing)).from_(plain_relation(OLD)),
        NEW_ROWS: exp.select(*(new or nothing)).from_(plain_relation(NEW)),
    }


def _counted(
    found: Mapping[str, exp.Query], names: Sequence[str], keys: Sequence[str], unique: exp.Expr, samples: int
) -> str:
    """Return the whole query: of counts, and of samples, of what the queries ``found`` lead to."""
    ctes = dict(found) | {COUNTS: _counts(names if keys else (), unique)}
    parts: list[exp.Select] = [exp.select(exp.Star()).from_(plain_relation(COUNTS))]
    for kind in _kinds(bool(keys)) if samples and names else ():
        ctes[kind] = _samples(kind, keys or names, samples)
        parts.append(exp.select(exp.Star()).from_(plain_relation(kind)))
    query: exp.Query = parts[0]
    for part in parts[1:]:
        query = exp.Union(this=query, expression=part, distinct=False)
    for name, cte in ctes.items():
        query = query.with_(plain_relation(name).this, as_=cte, copy=False)
    return sql_text(query)


def _kinds(has_key: bool) -> tuple[str, ...]:
    return (ADDED, REMOVED, CHANGED) if has_key else (ADDED, REMOVED)


def _counts(names: Sequence[str], unique: exp.Expr) -> exp.Select:
    changes = [
        exp.CountIf(this=exp.and_(is_kind(CHANGED), exp.not_(exp.paren(same([name], [OLD_ROW], [NEW_ROW])))))
        for name in names
    ]
    nothing = exp.Cast(this=exp.Array(), to=exp.DataType(this=exp.DType.USERDEFINED, kind="array<bigint>"))
    return exp.select(
        named(exp.Literal.string(COUNTS), "kind"),
        *[named(rows_where(is_kind(kind)), kind) for kind in (ADDED, REMOVED, CHANGED)],
        named(unique, "unique"),
        named(exp.Array(expressions=changes) if changes else nothing, "columns"),
        *[named(exp.Null(), name) for name in (OLD_ROW, NEW_ROW, "copies")],
    ).from_(plain_relation(FOUND))


def _samples(kind: str, order: Sequence[str], samples: int) -> exp.Select:
    rows = exp.select(
        named(exp.Literal.string(kind), "kind"),
        *[named(exp.Null(), name) for name in (ADDED, REMOVED, CHANGED, "unique", "columns")],
        plain_column(OLD_ROW),
        plain_column(NEW_ROW),
        named(plain_column(COPY), "copies"),
    )
    return limited(
        rows.from_(plain_relation(FOUND)).where(is_kind(kind)).order_by(*columns_of([*order, OLD_ROW, NEW_ROW])),
        samples,
    )
