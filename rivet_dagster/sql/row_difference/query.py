"""The query of the rows that two versions of a table do not have in common: how many, in which columns, and samples.

It counts and samples the relation ``found``. NULL and NaN are equal to themselves in all of this, as for ``<=>``.
Inside the query columns are called ``c0``, ``c1``, ..., which no name of a user can collide with.

By a key that is unique in each version, rows are matched by a full outer join. A key that is repeated would multiply
rows, and the join takes no NULL for equal to another. Whether there was such a key is seen by what is found: each row
of a version stands in exactly one row of the join if no key that both versions have is repeated in one of them. For
that the equal rows are counted, too; they are one group of the rows that differ.

By any other key, or none, equal rows of the two versions cancel out, as often as both versions have them: rows of the
newer version are counted up, those of the older one down. With a key, the rows left are numbered within each key, on
either side, and those with the same number are one changed row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from sqlglot import exp

from rivet_dagster.sql.row_difference.columns import (
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
    ComparedColumn,
    columns_of,
    is_kind,
    once,
    one,
    rows_where,
)
from rivet_dagster.sql.trees import limited, named
from rivet_dagster.sql.write_strategies.trees import over, plain_column, plain_relation, row_of, same, sql_text

COUNTS = "counts"
"""The value of the result's column ``kind`` in the row that has the counts; the others are samples, of a kind each."""


def difference_by_unique_key(
    columns: Sequence[ComparedColumn], key: Collection[str], samples: int, rows: tuple[int, int] | None = None
) -> str:
    """Return the query of the counts of rows added, removed and changed, and of up to ``samples`` rows of each kind.

    Rows are matched by the columns ``key``, at least one, given by their names in the newer version. The result has the
    columns ``kind``, ``added``, ``removed``, ``changed``, ``unique`` (false if the other columns are wrong, since the
    key was repeated in a version or was NULL in both), ``columns`` (the changed rows of each column, in the order of
    ``columns``), ``old``, ``new`` (structs of ``c0``, ``c1``, ...) and ``copies``, the number of rows that a sample
    stands for. ``rows`` are the numbers of rows of the older and of the newer version; else the query counts them.
    """
    names, keys = _names(columns), _keys(columns, key)
    relations = _rows(columns, names) | match_by_key(names, keys)
    return _counted(relations, names, keys, were_unique(keys, rows), samples)


def difference(columns: Sequence[ComparedColumn], key: Collection[str], samples: int) -> str:
    """Return the query of the same result for a ``key`` of any kind: repeated, NULL, or no column at all.

    Without a key no row is changed.
    """
    names, keys = _names(columns), _keys(columns, key)
    relations = _rows(columns, names) | cancel_equal_rows(names, keys)
    return _counted(relations, names, keys, exp.true(), samples)


def some_rows(most: int) -> str:
    """Return the query of up to ``most`` rows of the newer version.

    >>> some_rows(10)
    'SELECT * FROM `rivet_new` LIMIT 10'
    """
    return sql_text(limited(exp.select(exp.Star()).from_(plain_relation(NEW)), most))


def number_of_rows() -> str:
    """Return the query of the number of rows of the newer version, as the column ``total``.

    >>> number_of_rows()
    'SELECT COUNT(*) AS `total` FROM `rivet_new`'
    """
    count = exp.Count(this=exp.Star(), big_int=True)
    return sql_text(exp.select(named(count, "total")).from_(plain_relation(NEW)))


def current_rows(relation: str, columns: Iterable[str], valid_to: str) -> str:
    """Return the query of some columns of the rows of a history that have not ended.

    >>> current_rows("people", ["id", "city"], "dbt_valid_to")
    'SELECT `id`, `city` FROM `people` WHERE `dbt_valid_to` IS NULL'
    """
    current = exp.Is(this=plain_column(valid_to), expression=exp.Null())
    return sql_text(exp.select(*columns_of(list(columns))).from_(plain_relation(relation)).where(current))


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
    relations: Mapping[str, exp.Query], names: Sequence[str], keys: Sequence[str], unique: exp.Expr, samples: int
) -> str:
    """Return the whole query: of counts, and of samples, of what the queries ``relations`` lead to."""
    ctes = dict(relations) | {COUNTS: _counts(names if keys else (), unique)}
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


_BOTH, _DIFFERING, _COPIES, _NUMBERED, _PAIRS = "both_versions", "differing", "copies", "numbered", "pairs"
_SIDE, _NET, _IS_NEW, _NUMBER, _TIME = "side", "net", "is_new", "number", "time"


def cancel_equal_rows(names: Sequence[str], keys: Sequence[str]) -> dict[str, exp.Query]:
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
    paired = exp.select(*columns_of([*keys, OLD_ROW, NEW_ROW]), named(one(), COPY), once())
    return {
        _COPIES: copies.from_(plain_relation(_DIFFERING)),
        _NUMBERED: numbered.from_(plain_relation(_COPIES)),
        _PAIRS: pairs.from_(plain_relation(_NUMBERED)).group_by(*columns_of(keys), plain_column(_NUMBER)),
        FOUND: paired.from_(plain_relation(_PAIRS)),
    }


def _of_side(names: Sequence[str], is_new: bool, name: str) -> exp.Expr:
    """Return the aggregate of the one row of a pair that belongs to one version, NULL where it has none."""
    belongs = plain_column(_IS_NEW) if is_new else exp.not_(plain_column(_IS_NEW))
    first = exp.Filter(this=exp.First(this=row_of(names)), expression=exp.Where(this=belongs))
    return named(first, name)


_MATCHED, _GROUPED = "matched", "grouped"


def match_by_key(names: Sequence[str], keys: Sequence[str]) -> dict[str, exp.Query]:
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


def were_unique(keys: Sequence[str], rows: tuple[int, int] | None) -> exp.Expr:
    """Return the condition, over all of ``found``, that rows were matched as keys without repeats and NULL are.

    ``rows`` are the numbers of rows of the older and of the newer version, if they are known.
    """
    old_rows, new_rows = map(exp.Literal.number, rows) if rows is not None else map(_number_of, (OLD_ROWS, NEW_ROWS))
    added, removed = is_kind(ADDED), is_kind(REMOVED)
    has_null = exp.or_(*[exp.Is(this=plain_column(key), expression=exp.Null()) for key in keys])
    of_new = exp.EQ(this=rows_where(exp.not_(exp.paren(removed))), expression=new_rows)
    of_old = exp.EQ(this=rows_where(exp.not_(exp.paren(added))), expression=old_rows)
    null_in_both = exp.and_(
        *[
            exp.GT(this=exp.CountIf(this=exp.and_(kind.copy(), has_null.copy())), expression=exp.Literal.number(0))
            for kind in (added, removed)
        ]
    )
    return exp.and_(of_new, of_old, exp.not_(exp.paren(null_in_both)))


def _joined(names: Sequence[str], keys: Sequence[str]) -> exp.Select:
    """Return the query of all pairs; of equal rows both are NULL, as are both of a row whose first key is NULL.

    Where the first key of a version is NULL, it has no such row. A column that marks the rows of a version would tell
    its rows with a NULL key, too, but each row would be longer, and ``were_unique`` refuses such keys anyway.
    """
    others = [name for name in names if name not in keys]
    old_lacks, new_lacks = (exp.Is(this=plain_column(keys[0], side), expression=exp.Null()) for side in ("o", "n"))
    both = [exp.not_(exp.paren(lacks.copy())) for lacks in (old_lacks, new_lacks)]
    equal = exp.and_(*both, same(others, ["o"], ["n"]))
    values = []
    for side, lacks, name in (("o", old_lacks, OLD_ROW), ("n", new_lacks, NEW_ROW)):
        none = exp.or_(exp.paren(equal.copy()), lacks)
        values.append(named(exp.If(this=none, true=exp.Null(), false=row_of(names, side)), name))
    old_rows, new_rows = (
        exp.alias_(plain_relation(rows), side, table=True, quoted=True)
        for rows, side in ((OLD_ROWS, "o"), (NEW_ROWS, "n"))
    )
    on = same(keys, ["n"], ["o"], never_null=keys)
    return exp.select(*values).from_(new_rows).join(exp.Join(this=old_rows, side="FULL", kind="OUTER", on=on))


def _number_of(rows: str) -> exp.Subquery:
    return exp.Subquery(this=exp.select(exp.Count(this=exp.Star(), big_int=True)).from_(plain_relation(rows)))
