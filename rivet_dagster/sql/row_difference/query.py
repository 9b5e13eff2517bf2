"""The one query of the rows that two versions of a table do not have in common.

With a key, rows are matched by a full outer join, which leaves out those that are equal. Only keys that are repeated in
one of the versions are treated otherwise, since they would multiply rows: there equal rows cancel out first, as often
as both versions have them, rows of the newer version being counted up and those of the older one down; then the rows
left are numbered within each key, on either side, and those with the same number are one changed row. Where no key is
repeated, Spark finds out before it joins, and skips that part. Without a key, equal rows cancel out, and nothing else.
NULL and NaN are equal to themselves in all of this, as for ``<=>``.

Inside the query columns are called ``c0``, ``c1``, ..., which no name of a user can collide with.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlglot import exp

from rivet_dagster.sql.row_difference.columns import ComparedColumn
from rivet_dagster.sql.write_strategies.trees import column, limited, named, over, relation, row_of, same, text

OLD, NEW = "rivet_old", "rivet_new"
"""The relations that the query reads."""

COUNTS, ADDED, REMOVED, CHANGED = "counts", "added", "removed", "changed"
"""The values of the result's column ``kind``: one row has the counts, the others are samples."""

_OLD_ROWS, _NEW_ROWS, _REPEATED = "old_rows", "new_rows", "repeated"
_BOTH, _DIFFERING, _COPIES, _NUMBERED, _PAIRS = "both_versions", "differing", "copies", "numbered", "pairs"
_SINGLE, _FOUND = "single", "found"
_SIDE, _NET, _IS_NEW, _NUMBER, _COPY, _ONCE, _PRESENT = "side", "net", "is_new", "number", "copy", "once", "present"


def row_difference(columns: Sequence[ComparedColumn], key: Collection[str], samples: int) -> str:
    """Return the query of the counts of rows added, removed and changed, and of up to ``samples`` rows of each kind.

    Rows are matched by the columns ``key``, given by their names in the newer version; without any, no row is changed.
    The result has the columns ``kind``, ``added``, ``removed``, ``changed``, ``columns`` (the changed rows of each
    column, in the order of ``columns``), ``old``, ``new`` (structs of ``c0``, ``c1``, ...) and ``copies``, the number
    of rows that a sample stands for.
    """
    names = [f"c{number}" for number in range(len(columns))]
    keys = [name for name, compared in zip(names, columns, strict=True) if compared.name in key]
    ctes: dict[str, exp.Query] = _rows(columns, names)
    if keys:
        ctes |= {_REPEATED: _repeated(keys), **_of_repeated_keys(names, keys), _SINGLE: _of_single_keys(names, keys)}
        ctes[_FOUND] = _of_all_keys(keys)
    else:
        ctes |= {_BOTH: _both(names, ()), _DIFFERING: _differing(names), _FOUND: _as_multiset(names)}
    ctes[COUNTS] = _counts(names, bool(keys))
    parts: list[exp.Select] = [exp.select(exp.Star()).from_(relation(COUNTS))]
    for kind in _kinds(bool(keys)) if samples and names else ():
        ctes[kind] = _samples(kind, keys or names, samples)
        parts.append(exp.select(exp.Star()).from_(relation(kind)))
    query: exp.Query = parts[0]
    for part in parts[1:]:
        query = exp.Union(this=query, expression=part, distinct=False)
    for name, cte in ctes.items():
        query = query.with_(relation(name).this, as_=cte, copy=False)
    return text(query)


def _kinds(has_key: bool) -> tuple[str, ...]:
    return (ADDED, REMOVED, CHANGED) if has_key else (ADDED, REMOVED)


def some_rows(most: int) -> str:
    """Return the query of up to ``most`` rows of the newer version.

    >>> some_rows(10)
    'SELECT * FROM `rivet_new` LIMIT 10'
    """
    return text(limited(exp.select(exp.Star()).from_(relation(NEW)), most))


def _rows(columns: Sequence[ComparedColumn], names: Sequence[str]) -> dict[str, exp.Query]:
    old = [named(compared.value(compared.old), name) for name, compared in zip(names, columns, strict=True)]
    new = [named(compared.value(compared.new), name) for name, compared in zip(names, columns, strict=True)]
    nothing = [named(exp.true(), _PRESENT)] if not columns else []
    return {
        _OLD_ROWS: exp.select(*(old or nothing)).from_(relation(OLD)),
        _NEW_ROWS: exp.select(*(new or nothing)).from_(relation(NEW)),
    }


def _repeated(keys: Sequence[str]) -> exp.Select:
    """Return the query of keys that are repeated in one of the versions; no other column is read for it."""
    one, zero = exp.Literal.number(1), exp.Literal.number(0)
    new = exp.select(*_columns(keys), named(one, _IS_NEW)).from_(relation(_NEW_ROWS))
    old = exp.select(*_columns(keys), named(zero, _IS_NEW)).from_(relation(_OLD_ROWS))
    of_new = exp.Sum(this=column(_IS_NEW))
    of_old = exp.Sub(this=exp.Count(this=exp.Star(), big_int=True), expression=of_new.copy())
    several = exp.or_(*[exp.GT(this=number, expression=one.copy()) for number in (of_new, of_old)])
    both = exp.Subquery(this=exp.Union(this=new, expression=old, distinct=False), alias=_alias("keys"))
    return exp.select(*_columns(keys)).from_(both).group_by(*_columns(keys)).having(several)


def _both(names: Sequence[str], keys: Sequence[str]) -> exp.Query:
    """Return the query of the rows of both versions; with ``keys`` only of those whose key is repeated."""
    one = exp.Literal.number(1)
    up = _selected(names, _NEW_ROWS).select(named(one, _SIDE))
    down = _selected(names, _OLD_ROWS).select(named(exp.Neg(this=one.copy()), _SIDE))
    if keys:
        up, down = _joined(up, "SEMI", _NEW_ROWS, keys), _joined(down, "SEMI", _OLD_ROWS, keys)
    return exp.Union(this=up, expression=down, distinct=False)


def _of_single_keys(names: Sequence[str], keys: Sequence[str]) -> exp.Select:
    """Return the query of the rows that differ among those whose key is not repeated."""
    sides = {}
    for side, rows in (("n", _NEW_ROWS), ("o", _OLD_ROWS)):
        # Marked after this join, so that what is shuffled for it serves the rows of repeated keys, too.
        single = _joined(_selected(names, rows), "ANTI", rows, keys)
        marked = exp.select(exp.Star(), named(exp.true(), _PRESENT)).from_(exp.Subquery(this=single, alias=_alias("s")))
        sides[side] = exp.Subquery(this=marked, alias=_alias(side))
    lacks = {side: exp.Is(this=column(_PRESENT, side), expression=exp.Null()) for side in sides}
    others = [name for name in names if name not in keys]
    differs = exp.not_(exp.paren(same(others, ["o"], ["n"])))
    both_keys = [exp.Coalesce(this=column(key, "n"), expressions=[column(key, "o")]) for key in keys]
    return (
        exp.select(
            *[named(value, key) for value, key in zip(both_keys, keys, strict=True)],
            named(exp.If(this=lacks["o"], true=exp.Null(), false=row_of(names, "o")), "old"),
            named(exp.If(this=lacks["n"], true=exp.Null(), false=row_of(names, "n")), "new"),
        )
        .from_(sides["n"])
        .join(exp.Join(this=sides["o"], side="FULL", kind="OUTER", on=same(keys, ["n"], ["o"])))
        .where(exp.or_(lacks["o"].copy(), lacks["n"].copy(), differs))
    )


def _of_all_keys(keys: Sequence[str]) -> exp.Select:
    parts = [exp.select(*_columns([*keys, "old", "new"])).from_(relation(name)) for name in (_SINGLE, _PAIRS)]
    union = exp.Subquery(this=exp.Union(this=parts[0], expression=parts[1], distinct=False), alias=_alias("parts"))
    return exp.select(*_columns([*keys, "old", "new"]), named(_one(), _COPY), _evaluated_once()).from_(union)


def _joined(query: exp.Select, kind: str, rows: str, keys: Sequence[str]) -> exp.Select:
    """Return ``query`` of the relation ``rows`` for those whose key is repeated (SEMI), or is not (ANTI)."""
    on = same(keys, [rows], [_REPEATED])
    return query.join(exp.Join(this=relation(_REPEATED), side="LEFT", kind=kind, on=on))


def _selected(names: Sequence[str], rows: str) -> exp.Select:
    return exp.select(*[named(column(name, rows), name) for name in names]).from_(relation(rows))


def _differing(names: Sequence[str]) -> exp.Select:
    """Return the query of each row that one version has more often, and of how much more often the newer one has it."""
    net = exp.Sum(this=column(_SIDE))
    rows = exp.select(*_columns(names), named(net, _NET)).from_(relation(_BOTH))
    return rows.group_by(*_columns(names)).having(exp.NEQ(this=net.copy(), expression=exp.Literal.number(0)))


def _as_multiset(names: Sequence[str]) -> exp.Select:
    is_new = exp.GT(this=column(_NET), expression=exp.Literal.number(0))
    row = row_of(names) if names else exp.true()
    return exp.select(
        *_columns(names),
        named(exp.If(this=is_new, true=exp.Null(), false=row), "old"),
        named(exp.If(this=is_new.copy(), true=row.copy(), false=exp.Null()), "new"),
        named(exp.Abs(this=column(_NET)), _COPY),
        _evaluated_once(),
    ).from_(relation(_DIFFERING))


def _of_repeated_keys(names: Sequence[str], keys: Sequence[str]) -> dict[str, exp.Query]:
    """Return the queries that lead to the pairs of rows that differ among those whose key is repeated."""
    times = exp.Anonymous(this="SEQUENCE", expressions=[_one(), exp.Abs(this=column(_NET))])
    is_new = exp.GT(this=column(_NET), expression=exp.Literal.number(0))
    copies = exp.select(*_columns(names), named(is_new, _IS_NEW), named(exp.Explode(this=times), _COPY))
    others = [name for name in names if name not in keys]
    number = over(exp.RowNumber(), [*_columns(keys), column(_IS_NEW)], *_columns(others or keys))
    numbered = exp.select(*_columns(names), column(_IS_NEW), named(number, _NUMBER))
    pairs = exp.select(*_columns(keys), _of_side(names, False, "old"), _of_side(names, True, "new"))
    return {
        _BOTH: _both(names, keys),
        _DIFFERING: _differing(names),
        _COPIES: copies.from_(relation(_DIFFERING)),
        _NUMBERED: numbered.from_(relation(_COPIES)),
        _PAIRS: pairs.from_(relation(_NUMBERED)).group_by(*_columns(keys), column(_NUMBER)),
    }


def _of_side(names: Sequence[str], is_new: bool, name: str) -> exp.Expr:
    """Return the aggregate of the one row of a pair that belongs to one version, NULL where it has none."""
    belongs = column(_IS_NEW) if is_new else exp.not_(column(_IS_NEW))
    first = exp.Filter(this=exp.First(this=row_of(names)), expression=exp.Where(this=belongs))
    return named(first, name)


def _evaluated_once() -> exp.Expr:
    """Return a column for which Spark computes a CTE once, however often it is read: no deterministic one has it."""
    return named(exp.Anonymous(this="MONOTONICALLY_INCREASING_ID"), _ONCE)


def _counts(names: Sequence[str], has_key: bool) -> exp.Select:
    changes = [
        exp.CountIf(this=exp.and_(_is(CHANGED), exp.not_(exp.paren(same([name], ["old"], ["new"])))))
        for name in (names if has_key else [])
    ]
    nothing = exp.Cast(this=exp.Array(), to=exp.DataType(this=exp.DType.USERDEFINED, kind="array<bigint>"))
    return exp.select(
        named(exp.Literal.string(COUNTS), "kind"),
        *[named(_copies_of(kind), kind) for kind in (ADDED, REMOVED, CHANGED)],
        named(exp.Array(expressions=changes) if changes else nothing, "columns"),
        *[named(exp.Null(), name) for name in ("old", "new", "copies")],
    ).from_(relation(_FOUND))


def _copies_of(kind: str) -> exp.Expr:
    total = exp.Filter(this=exp.Sum(this=column(_COPY)), expression=exp.Where(this=_is(kind)))
    return exp.Coalesce(this=total, expressions=[exp.Literal.number(0)])


def _samples(kind: str, order: Sequence[str], samples: int) -> exp.Select:
    rows = exp.select(
        named(exp.Literal.string(kind), "kind"),
        *[named(exp.Null(), name) for name in (ADDED, REMOVED, CHANGED, "columns")],
        column("old"),
        column("new"),
        named(column(_COPY), "copies"),
    )
    return limited(rows.from_(relation(_FOUND)).where(_is(kind)).order_by(*_columns(order)), samples)


def _is(kind: str) -> exp.Expr:
    """Return the condition that a row found is of a kind."""
    null = {name: exp.Is(this=column(name), expression=exp.Null()) for name in ("old", "new")}
    if kind == ADDED:
        return null["old"]
    if kind == REMOVED:
        return null["new"]
    return exp.and_(exp.not_(null["old"]), exp.not_(null["new"]))


def _alias(name: str) -> exp.TableAlias:
    return exp.TableAlias(this=exp.to_identifier(name, quoted=True))


def _one() -> exp.Expr:
    """Return 1 in the type of a sum."""
    return exp.Cast(this=exp.Literal.number(1), to=exp.DataType(this=exp.DType.BIGINT))


def _columns(names: Sequence[str]) -> list[exp.Expr]:
    return [column(name) for name in names]
