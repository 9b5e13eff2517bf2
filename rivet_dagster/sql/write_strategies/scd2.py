"""scd2: a history of versions by key, into which a batch's rows are inserted by the time at which they take effect.

A version is valid from ``valid_from`` until before ``valid_to``; NULL is an open end, and marks the current version.
The versions of the target never move: they can only end earlier, or get new values. A batch has the same effect as its
rows one by one in order of time. ``changes`` computes this for all rows in one pass over the keys of the batch: it
orders the versions of a key and its new rows by time, and cuts wherever a version begins.

Untracked columns are overwritten only in the current version, even by a row with exactly the time at which an earlier
version begins. Otherwise writing the same batch again could undo, in an earlier version, what its own later rows had
overwritten.

Where no key of the batch is late (``history_keys``), but for those without any version, and each key is that of one
row, ``plain_changes`` computes the same by one join.

Spark cannot compare maps: a batch with a map column is refused when the query is analyzed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlglot import exp

from rivet_dagster.model.write_plan import History
from rivet_dagster.sql.trees import named
from rivet_dagster.sql.write_strategies.history_columns import (
    TIMESTAMP,
    HistoryColumns,
    as_keys,
    effective_time,
    has_open_end,
    history_of,
    identity_of,
    keys_of,
    run_started_at,
)
from rivet_dagster.sql.write_strategies.merge import latest
from rivet_dagster.sql.write_strategies.trees import (
    BATCH,
    TARGET,
    join_relation,
    over,
    plain_column,
    plain_relation,
    row_of,
    same,
    sql_text,
)

CHANGE = "rivet_change"
"""The column of ``changes`` with the kind of change of a row: INSERT or UPDATE."""

INSERT, UPDATE = "insert", "update"

_MATCHED = "matched"


def select_versions(columns: Sequence[str], valid_to: str, source: str, are_open: bool) -> str:
    """Return the query of the versions of the relation ``source`` that have no end, or else of those that have one.

    >>> select_versions(["id", "until"], "until", "history", are_open=True)
    'SELECT `id`, `until` FROM `history` WHERE `until` IS NULL'
    """
    condition = is_open(valid_to) if are_open else exp.not_(is_open(valid_to))
    return sql_text(exp.select(*map(plain_column, columns)).from_(plain_relation(source)).where(condition))


def select_changes(columns: Sequence[str], kind: str, source: str) -> str:
    """Return the query of the versions of the relation ``source``, rows of ``changes``, of one kind of change.

    >>> select_changes(["id", "until"], INSERT, "history")
    "SELECT `id`, `until` FROM `history` WHERE `rivet_change` = 'insert'"
    """
    condition = exp.EQ(this=plain_column(CHANGE), expression=exp.Literal.string(kind))
    return sql_text(exp.select(*map(plain_column, columns)).from_(plain_relation(source)).where(condition))


def is_open(valid_to: str) -> exp.Expr:
    """Return the condition that a version has no end, by the column of its end, without a table's name."""
    return exp.Is(this=plain_column(valid_to), expression=exp.Null())


def changes(columns: Sequence[str], plan: History, distinct: bool = False) -> str:
    """Return the query of the versions that the batch adds to the target (INSERT) or changes in it (UPDATE).

    Its rows have the target's ``columns`` and CHANGE. ``:run_started_at``, a TIMESTAMP, is the effective time of rows
    without one, and the end of keys that are closed because the batch lacks them. A version is identified by its keys
    and its ``valid_from``. The result is correct if ``conflicts`` and ``count_without_time`` of ``history_keys`` find
    nothing; with ``distinct``, which means less work, if ``repeats`` there does not either. The target may lack closed
    versions of keys that are not ``late_keys``.
    """
    names = history_of(columns, plan)
    moments = _moments(names, distinct)
    if names.close_missing:
        moments = _with_reopened(moments, names)
    versions = _versions(_numbered(_in_order(moments, names), names), names)
    return sql_text(_changed(_settled(_placed(versions, names), names), names))


def plain_changes(columns: Sequence[str], plan: History, has_new_keys: bool, never_null: Collection[str] = ()) -> str:
    """Return the query of the same rows as ``changes``, for a batch with one row of each key; no missing key is closed.

    Each key has one open version, which begins by the time of the row; with ``has_new_keys``, or no version at all. The
    target may lack closed versions. Of a key with a changed row both the version that ends and the new one are made of
    one pair. Of the keys ``never_null`` the batch has no NULL.
    """
    names = history_of(columns, plan)
    found, differs, opens = plain_column("found"), plain_column("differs"), plain_column("opens")
    differing = exp.Not(this=exp.Paren(this=same(names.tracked, ["incoming"], ["known"])))
    judged = exp.select(exp.Star(), named(exp.or_(exp.Not(this=found), differing), "differs"))
    judged = judged.from_(_pairs(names, has_new_keys, never_null).subquery("pairs"))

    overwrites = exp.Not(this=exp.Paren(this=same(names.untracked, ["incoming"], ["known"])))
    is_later = exp.LT(this=plain_column("begin"), expression=plain_column("at"))
    closes = exp.and_(found.copy(), differs, is_later)
    both, one = exp.Array(expressions=[exp.false(), exp.true()]), exp.Array(expressions=[exp.true()])
    kinds = exp.If(this=closes, true=both, false=one)
    others = [plain_column(name) for name in ("known", "incoming", "begin", "at", "found", "differs")]
    split = exp.select(named(exp.Explode(this=kinds), "opens"), *others).from_(judged.subquery("judged"))
    split = split.where(exp.or_(differs.copy(), overwrites))

    begins = exp.and_(opens, differs.copy())
    overwritten = set(names.untracked)

    def value(name: str) -> exp.Expr:
        is_new = opens.copy() if name in overwritten else begins.copy()
        return exp.If(this=is_new, true=plain_column(name, "incoming"), false=plain_column(name, "known"))

    own = {
        names.valid_from: exp.If(this=begins.copy(), true=plain_column("at"), false=plain_column("begin")),
        names.valid_to: exp.If(this=opens.copy(), true=exp.Null(), false=plain_column("at")),
        names.is_current: opens.copy(),
    }
    values = [named(own[name] if name in own else value(name), name) for name in names.columns]
    inserts = exp.and_(begins.copy(), exp.or_(exp.Not(this=found.copy()), is_later.copy()))
    kind = exp.If(this=inserts, true=exp.Literal.string(INSERT), false=exp.Literal.string(UPDATE))
    return sql_text(exp.select(*values, named(kind, CHANGE)).from_(split.subquery("split")))


def _pairs(names: HistoryColumns, has_new_keys: bool, never_null: Collection[str]) -> exp.Select:
    """Return the rows of the batch, ``incoming`` at the time ``at``, with the ``known`` open version of their key."""
    at = effective_time(names, BATCH)
    incoming = [named(row_of(names.values, BATCH), "incoming"), named(at, "at")]
    version = [named(row_of(names.values, TARGET), "known"), named(plain_column(names.valid_from, TARGET), "begin")]
    if not has_new_keys:
        query = exp.select(*version, *incoming, named(exp.true(), "found")).from_(plain_relation(TARGET))
        on = same(names.keys, [TARGET], [BATCH], never_null)
        query = query.join(exp.Join(this=plain_relation(BATCH), on=on, kind="INNER"))
        return query.where(has_open_end(names))
    own_keys = as_keys(plain_column(key, TARGET) for key in names.keys)
    matched = exp.select(*own_keys, *version, named(exp.true(), "found")).from_(plain_relation(TARGET))
    on = same(names.keys, [TARGET], [BATCH], never_null)
    matched = join_relation(matched, BATCH, "SEMI", on).where(has_open_end(names))
    there = exp.Not(this=exp.Is(this=plain_column("found", _MATCHED), expression=exp.Null()))
    query = exp.select(*[plain_column(name, _MATCHED) for name in ("known", "begin")], *incoming, named(there, "found"))
    pairs = zip(names.keys, keys_of(names, _MATCHED), strict=True)
    same_key = exp.and_(*[exp.NullSafeEQ(this=plain_column(key, BATCH), expression=other) for key, other in pairs])
    query = query.from_(plain_relation(BATCH))
    return query.join(exp.Join(this=matched.subquery(_MATCHED), on=same_key, side="LEFT"))


def _moments(names: HistoryColumns, distinct: bool) -> exp.Query:
    """Return the versions and new rows of the affected keys: ``key_<n>``, the time ``at``, ``is_new``, and the ``row``.

    A version also has its end, ``until``, and ``bound``, its end unless a new row cuts it earlier; a bound before its
    beginning is ignored.
    """
    # As a struct, so that no column of a row can be confused with the other names.
    known = exp.select(
        *as_keys(plain_column(key, TARGET) for key in names.keys),
        named(plain_column(names.valid_from, TARGET), "at"),
        named(exp.false(), "is_new"),
        named(plain_column(names.valid_to, TARGET), "until"),
        named(_bound(names), "bound"),
        named(row_of(names.values, TARGET), "row"),
    )
    marker = named(exp.true(), "found")
    present = exp.select(*as_keys(map(plain_column, names.keys)), marker).from_(plain_relation(BATCH)).distinct()
    pairs = zip(names.keys, keys_of(names, "present"), strict=True)
    same_key = exp.and_(*[exp.NullSafeEQ(this=plain_column(key, TARGET), expression=other) for key, other in pairs])
    side = {"side": "LEFT"} if names.close_missing else {"kind": "INNER"}
    known = known.from_(plain_relation(TARGET)).join(exp.Join(this=present.subquery("present"), on=same_key, **side))
    if names.close_missing:
        known = known.where(exp.or_(plain_column("found", "present"), has_open_end(names)))
    batch: exp.Expr = plain_relation(BATCH)
    if not distinct:
        batch = latest(BATCH, identity_of(names), names.order_by, names.values).subquery("incoming")
    incoming = exp.select(
        *as_keys(map(plain_column, names.keys)),
        named(effective_time(names), "at"),
        named(exp.true(), "is_new"),
        named(exp.cast(exp.Null(), TIMESTAMP), "until"),
        named(exp.cast(exp.Null(), TIMESTAMP), "bound"),
        named(row_of(names.values), "row"),
    ).from_(batch)
    return exp.union(known, incoming, distinct=False)


def _bound(names: HistoryColumns) -> exp.Expr:
    end = plain_column(names.valid_to, TARGET)
    if not names.close_missing:
        return end
    lacking = exp.Is(this=plain_column("found", "present"), expression=exp.Null())
    return exp.If(this=lacking, true=run_started_at(), false=end)


def _with_reopened(moments: exp.Query, names: HistoryColumns) -> exp.Query:
    """Reopen a closed key at the start of the run if the batch holds it, but only with rows from before its end.

    Its last row is then used twice: at its own time, and at the reopening.
    """
    keys = keys_of(names)
    new_at = exp.If(this=plain_column("is_new"), true=plain_column("at"), false=exp.Null())
    ongoing = exp.and_(exp.Not(this=plain_column("is_new")), exp.Is(this=plain_column("until"), expression=exp.Null()))
    known = exp.select(
        exp.Star(),
        named(over(exp.Max(this=new_at), keys), "last_at"),
        named(over(exp.Max(this=plain_column("until")), keys), "closed"),
        named(over(exp.LogicalOr(this=ongoing), keys), "is_open"),
    ).from_(moments.subquery("moments"))
    at, closed = plain_column("at"), plain_column("closed")
    is_last = exp.and_(plain_column("is_new"), exp.EQ(this=at, expression=plain_column("last_at")))
    reopens = exp.and_(is_last, exp.Not(this=plain_column("is_open")), exp.LT(this=at.copy(), expression=closed))
    again = exp.Greatest(this=closed.copy(), expressions=[run_started_at()])
    times = exp.If(
        this=reopens, true=exp.Array(expressions=[at.copy(), again]), false=exp.Array(expressions=[at.copy()])
    )
    others = [plain_column(name) for name in ("is_new", "until", "bound", "row")]
    return exp.select(*keys, named(exp.Explode(this=times), "at"), *others).from_(known.subquery("known"))


def _in_order(moments: exp.Query, names: HistoryColumns) -> exp.Select:
    """Return each moment with the one before it, and with ``closed``, the last end of a version that began by then."""
    return exp.select(
        exp.Star(),
        named(over(exp.Lag(this=plain_column("at")), keys_of(names), *_ORDER), "previous_at"),
        named(over(exp.Lag(this=plain_column("row")), keys_of(names), *_ORDER), "previous"),
        named(over(exp.Max(this=plain_column("bound")), keys_of(names), *_ORDER, rows=True), "closed"),
    ).from_(moments.subquery("moments"))


_ORDER = (plain_column("at"), plain_column("is_new"))


def _numbered(moments: exp.Select, names: HistoryColumns) -> exp.Select:
    """Return each moment with the ``number`` of its version in the history of the key.

    A version begins with each version of the target, and with a new row that is the first one, that differs in a
    tracked column from the moment before it, or that is the first after a version's end. A row with exactly the time at
    which a version of the target begins belongs to that version, whatever its values.
    """
    at, before, closed = plain_column("at"), plain_column("previous_at"), plain_column("closed")
    differs = exp.Not(this=exp.Paren(this=same(names.tracked, ["row"], ["previous"])))
    after_end = exp.and_(exp.LT(this=before, expression=closed), exp.LTE(this=closed.copy(), expression=at))
    later = exp.and_(exp.LT(this=before.copy(), expression=at.copy()), exp.or_(differs, after_end))
    begins = exp.or_(exp.Not(this=plain_column("is_new")), exp.Is(this=before.copy(), expression=exp.Null()), later)
    number = over(exp.CountIf(this=begins), keys_of(names), *_ORDER, rows=True)
    return exp.select(exp.Star(), named(number, "number")).from_(moments.subquery("ordered"))


def _versions(moments: exp.Select, names: HistoryColumns) -> exp.Select:
    """Return one row for each version: its beginning, its ``first`` and ``last`` row, and its state in the target.

    ``restated`` is a new row with exactly the time at which a version of the target begins.
    """
    position = exp.Struct(expressions=[expression.copy() for expression in _ORDER])
    at_its_beginning = exp.and_(
        plain_column("is_new"), exp.EQ(this=plain_column("previous_at"), expression=plain_column("at"))
    )
    restated = exp.Filter(this=exp.AnyValue(this=plain_column("row")), expression=exp.Where(this=at_its_beginning))
    return (
        exp.select(
            *keys_of(names),
            named(exp.Min(this=plain_column("at")), "begin"),
            named(exp.LogicalOr(this=exp.Not(this=plain_column("is_new"))), "is_known"),
            named(exp.Max(this=plain_column("until")), "until"),
            named(exp.Max(this=plain_column("closed")), "closed"),
            named(exp.ArgMin(this=plain_column("row"), expression=position), "first"),
            named(exp.ArgMax(this=plain_column("row"), expression=position.copy()), "last"),
            named(restated, "restated"),
        )
        .from_(moments.subquery("numbered"))
        .group_by(*keys_of(names), plain_column("number"))
    )


def _placed(versions: exp.Select, names: HistoryColumns) -> exp.Select:
    """Return each version with its end, whether it is the ``newest`` and open, and the row ``base`` it begins with."""
    begin, closed, keys = plain_column("begin"), plain_column("closed"), keys_of(names)
    is_bounded = exp.GT(this=closed, expression=begin)
    bound = exp.If(this=is_bounded, true=closed.copy(), false=exp.Null())
    following = over(exp.Lead(this=begin.copy()), keys, begin)
    end = exp.Least(this=following, expressions=[bound], ignore_nulls=True)

    known = exp.If(this=plain_column("is_known"), true=begin.copy(), false=exp.Null())
    last_known = exp.Coalesce(this=over(exp.Max(this=known), keys), expressions=[begin.copy()])
    unbounded = exp.Not(this=exp.Coalesce(this=is_bounded.copy(), expressions=[exp.false()]))
    newest = exp.and_(unbounded, exp.GTE(this=begin.copy(), expression=last_known))

    is_restated = exp.Not(this=exp.Is(this=plain_column("restated"), expression=exp.Null()))
    differs = exp.Not(this=exp.Paren(this=same(names.tracked, ["restated"], ["first"])))
    base = exp.If(this=exp.and_(is_restated, differs), true=plain_column("restated"), false=plain_column("first"))
    carried_over = [plain_column(name) for name in ("begin", "is_known", "until", "first", "last")]
    computed = [named(end, "end"), named(newest, "newest"), named(base, "base")]
    return exp.select(*carried_over, *computed).from_(versions.subquery("versions"))


def _settled(versions: exp.Select, names: HistoryColumns) -> exp.Select:
    """Return each version with its final ``row``: the newest takes its untracked columns from the last row."""
    overwritten = set(names.untracked)
    current = exp.If(this=plain_column("newest"), true=plain_column("last"), false=plain_column("base"))
    chosen = exp.select(exp.Star(), named(current, "current")).from_(versions.subquery("placed"))
    values = [named(plain_column(name, "current" if name in overwritten else "base"), name) for name in names.values]
    carried_over = [plain_column(name) for name in ("begin", "end", "is_known", "until", "first")]
    return exp.select(*carried_over, named(exp.Struct(expressions=values), "row")).from_(chosen.subquery("chosen"))


def _changed(versions: exp.Select, names: HistoryColumns) -> exp.Select:
    """Return the versions that are new or differ from the target's, with the target's columns."""
    begin, end = plain_column("begin"), plain_column("end")
    conditions = {
        names.valid_from: begin,
        names.valid_to: end,
        names.is_current: exp.Is(this=end.copy(), expression=exp.Null()),
    }
    values = [named(conditions.get(name, plain_column(name, "row")), name) for name in names.columns]
    kind = exp.If(this=plain_column("is_known"), true=exp.Literal.string(UPDATE), false=exp.Literal.string(INSERT))
    as_before = exp.and_(
        plain_column("is_known"),
        exp.NullSafeEQ(this=end.copy(), expression=plain_column("until")),
        exp.NullSafeEQ(this=plain_column("row"), expression=plain_column("first")),
    )
    different = exp.Not(this=exp.Paren(this=as_before))
    return exp.select(*values, named(kind, CHANGE)).from_(versions.subquery("settled")).where(different)
