"""scd2: a history of versions by key, into which a batch's rows are inserted by the time at which they take effect.

A version is valid from ``valid_from`` until before ``valid_to``; NULL is an open end, and marks the current version.
The versions of the target never move: they can only end earlier, or get new values. A batch has the same effect as its
rows one by one in order of time. ``changes`` computes this for all rows in one pass over the keys of the batch: it
orders the versions of a key and its new rows by time, and cuts wherever a version begins.

Untracked columns are overwritten only in the current version, even by a row with exactly the time at which an earlier
version begins. Otherwise writing the same batch again could undo, in an earlier version, what its own later rows had
overwritten.

Of a key whose open version begins by the time of all its new rows, no other version counts: neither can those change,
nor do they change what becomes of the rows. ``late_keys`` are the other keys of a batch. Where no key is late, but for
those without any version, and each key is that of one row, ``plain_changes`` computes the same by one join.

Spark cannot compare maps: a batch with a map column is refused when the query is analyzed.

The columns of a table with a history, by role.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from rivet_dagster.model.write_plan import History
from rivet_dagster.sql.trees import limited, named
from rivet_dagster.sql.write_strategies.merge import conflicts as ambiguous_keys
from rivet_dagster.sql.write_strategies.merge import latest, repeated
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
    without_value,
)

VERSION_COLUMNS = {"valid_from": "timestamp", "valid_to": "timestamp", "is_current": "boolean"}
"""The fields of a write plan that name the columns that a history adds to the batch's, with their types."""


@dataclass(frozen=True)
class HistoryColumns:
    """The names of the columns, in the table's spelling, and the other options of the strategy."""

    columns: tuple[str, ...]
    values: tuple[str, ...]
    """The columns of the batch."""
    keys: tuple[str, ...]
    tracked: tuple[str, ...]
    effective_at: str | None
    order_by: tuple[str, ...]
    valid_from: str
    valid_to: str
    is_current: str
    close_missing: bool

    @property
    def untracked(self) -> tuple[str, ...]:
        """The columns that a row may overwrite in the current version without adding a new version."""
        return without(self.values, (*self.keys, *self.tracked, self.effective_at))


def history_of(columns: Sequence[str], plan: History) -> HistoryColumns:
    """Return the history of a table or batch with ``columns``, as the write plan describes it.

    >>> columns = ["ID", "net", "From", "valid_to", "is_current"]
    >>> history = history_of(columns, History(keys=("id",), valid_from="from"))
    >>> history.keys, history.tracked, history.valid_from
    (('ID',), ('net',), 'From')
    """
    spelled = {name.lower(): name for name in columns}

    def given(*names: str) -> tuple[str, ...]:
        return tuple(spelled.get(name.lower(), name) for name in names)

    added = given(plan.valid_from, plan.valid_to, plan.is_current)
    values = without(columns, added)
    keys = given(*plan.keys)
    effective_at = given(plan.effective_at)[0] if plan.effective_at is not None else None
    return HistoryColumns(
        columns=tuple(columns),
        values=values,
        keys=keys,
        tracked=without(values, (*keys, effective_at)) if plan.tracked is None else given(*plan.tracked),
        effective_at=effective_at,
        order_by=given(*plan.order_by),
        valid_from=added[0],
        valid_to=added[1],
        is_current=added[2],
        close_missing=plan.close_missing,
    )


def without(names: Iterable[str], others: Iterable[str | None]) -> tuple[str, ...]:
    """Return ``names`` in their order, without ``others``."""
    left_out = set(others)
    return tuple(name for name in names if name not in left_out)


CHANGE = "rivet_change"
"""The column of ``changes`` with the kind of change of a row: INSERT or UPDATE."""

INSERT, UPDATE = "insert", "update"

_TIMESTAMP = exp.DType.TIMESTAMPTZ
"""The TIMESTAMP of Spark."""


def conflicts(columns: Sequence[str], plan: History) -> str:
    """Return the query of up to 10 ambiguous keys, with their effective time, for which the batch's rows differ."""
    names = history_of(columns, plan)
    return sql_text(ambiguous_keys(BATCH, _identity(names), names.order_by, names.values))


def repeats(columns: Sequence[str], plan: History) -> str:
    """Return the query of one row if the batch has some key, with its effective time, more than once, else of none."""
    return sql_text(repeated(BATCH, _identity(history_of(columns, plan))))


_MATCHED, _BEGIN = "matched", "rivet_begin"


def late_keys(columns: Sequence[str], plan: History, most: int) -> str:
    """Return the query of up to ``most`` keys of the batch without an open version that begins by the time of each row.

    The target is read once, for its open versions, and need have no others.

    >>> print(late_keys(["id", "at", "f", "t", "c"], History(keys=("id",), effective_at="at", valid_from="f",
    ...     valid_to="t", is_current="c"), 3))
    WITH `matched` AS (SELECT `target`.`id` AS `id`, `target`.`f` AS `rivet_begin` FROM `target`
      LEFT SEMI JOIN `batch` ON `target`.`id` IS NOT DISTINCT FROM `batch`.`id` WHERE `target`.`t` IS NULL)
    SELECT DISTINCT `batch`.`id` AS `id` FROM `batch` LEFT ANTI JOIN `matched`
      ON `batch`.`id` IS NOT DISTINCT FROM `matched`.`id`
        AND `matched`.`rivet_begin` <= CAST(`batch`.`at` AS TIMESTAMP)
      LIMIT 3
    """
    names = history_of(columns, plan)
    begins = named(plain_column(names.valid_from, TARGET), _BEGIN)
    own_keys = [named(plain_column(key, TARGET), key) for key in names.keys]
    matched = exp.select(*own_keys, begins).from_(plain_relation(TARGET))
    matched = join_relation(matched, BATCH, "SEMI", same(names.keys, [TARGET], [BATCH])).where(_is_open(names))
    at = exp.cast(plain_column(names.effective_at, BATCH), _TIMESTAMP) if names.effective_at else _run_started_at()
    covers = exp.LTE(this=plain_column(_BEGIN, _MATCHED), expression=at)
    keys = [named(plain_column(key, BATCH), key) for key in names.keys]
    query = exp.select(*keys).distinct().from_(plain_relation(BATCH))
    query = join_relation(query, _MATCHED, "ANTI", exp.and_(same(names.keys, [BATCH], [_MATCHED]), covers))
    return sql_text(limited(query, most).with_(plain_relation(_MATCHED).this, as_=matched))


LATE, SEVERAL, KNOWN = "rivet_late", "rivet_several", "rivet_known"
"""The columns of ``unusual_keys``: whether a key is late, it has several rows or open versions, it has any version."""


def unusual_keys(columns: Sequence[str], plan: History, most: int) -> str:
    """Return the query of up to ``most`` keys of the batch that are late or have several rows, the late ones first.

    The target is read once, and need not have closed versions; KNOWN is true if it has any version of the key. A key
    with several open versions counts as one with several rows. Rows without a time do not count.

    >>> print(unusual_keys(["id", "at", "f", "t", "c"], History(keys=("id",), effective_at="at", valid_from="f",
    ...     valid_to="t", is_current="c"), 3))
    SELECT `key_0` AS `id`, `rivet_late`, `rivet_several`, `rivet_known` FROM
      (SELECT `key_0`, NOT COALESCE(MIN(`begin`) <= MIN(`at`), FALSE) AS `rivet_late`,
         COUNT(`at`) > 1 OR COUNT(`begin`) > 1 AS `rivet_several`, BOOL_OR(`is_known`) AS `rivet_known` FROM
        (SELECT `id` AS `key_0`, CAST(`at` AS TIMESTAMP) AS `at`, CAST(NULL AS TIMESTAMP) AS `begin`,
           FALSE AS `is_known` FROM `batch`
         UNION ALL
         SELECT `target`.`id` AS `key_0`, CAST(NULL AS TIMESTAMP) AS `at`,
           IF(`target`.`t` IS NULL, `target`.`f`, NULL) AS `begin`, TRUE AS `is_known` FROM `target`
           LEFT SEMI JOIN `batch` ON `target`.`id` IS NOT DISTINCT FROM `batch`.`id`) AS moments
       GROUP BY `key_0`) AS judged
      WHERE `rivet_late` OR `rivet_several` ORDER BY `rivet_late` DESC LIMIT 3
    """
    names = history_of(columns, plan)
    keys, no_time = _keys(names), exp.cast(exp.Null(), _TIMESTAMP)
    incoming = exp.select(
        *_as_keys(map(plain_column, names.keys)),
        named(_effective(names), "at"),
        named(no_time, "begin"),
        named(exp.false(), "is_known"),
    ).from_(plain_relation(BATCH))
    begin = exp.If(this=_is_open(names), true=plain_column(names.valid_from, TARGET), false=exp.Null())
    known = exp.select(
        *_as_keys(plain_column(key, TARGET) for key in names.keys),
        named(no_time.copy(), "at"),
        named(begin, "begin"),
        named(exp.true(), "is_known"),
    ).from_(plain_relation(TARGET))
    known = join_relation(known, BATCH, "SEMI", same(names.keys, [TARGET], [BATCH]))
    covers = exp.LTE(this=exp.Min(this=plain_column("begin")), expression=exp.Min(this=plain_column("at")))
    several = [
        exp.GT(this=exp.Count(this=plain_column(name), big_int=True), expression=exp.Literal.number(1))
        for name in ("at", "begin")
    ]
    judged = exp.select(
        *keys,
        named(exp.Not(this=exp.Coalesce(this=covers, expressions=[exp.false()])), LATE),
        named(exp.or_(*several), SEVERAL),
        named(exp.LogicalOr(this=plain_column("is_known")), KNOWN),
    ).from_(exp.union(incoming, known, distinct=False).subquery("moments"))
    shown = [named(key, name) for key, name in zip(_keys(names), names.keys, strict=True)]
    late_first = exp.Ordered(this=plain_column(LATE), desc=True, nulls_first=False)
    query = exp.select(*shown, *map(plain_column, (LATE, SEVERAL, KNOWN)))
    query = query.from_(judged.group_by(*_keys(names)).subquery("judged"))
    query = query.where(exp.or_(plain_column(LATE), plain_column(SEVERAL))).order_by(late_first)
    return sql_text(limited(query, most))


def select_versions(columns: Sequence[str], valid_to: str, source: str, are_open: bool) -> str:
    """Return the query of the versions of the relation ``source`` that have no end, or else of those that have one.

    >>> select_versions(["id", "until"], "until", "history", are_open=True)
    'SELECT `id`, `until` FROM `history` WHERE `until` IS NULL'
    """
    condition = is_open(valid_to) if are_open else exp.not_(is_open(valid_to))
    return sql_text(exp.select(*map(plain_column, columns)).from_(plain_relation(source)).where(condition))


def is_open(valid_to: str) -> exp.Expr:
    """Return the condition that a version has no end, by the column of its end, without a table's name."""
    return exp.Is(this=plain_column(valid_to), expression=exp.Null())


def count_without_time(effective_at: str) -> str:
    """Return the query that counts, as ``rows``, the rows of the batch whose effective time is NULL.

    >>> count_without_time("at")
    'SELECT COUNT(*) AS `rows` FROM `batch` WHERE `at` IS NULL'
    """
    return without_value(effective_at)


def changes(columns: Sequence[str], plan: History, distinct: bool = False) -> str:
    """Return the query of the versions that the batch adds to the target (INSERT) or changes in it (UPDATE).

    Its rows have the target's ``columns`` and CHANGE. ``:run_started_at``, a TIMESTAMP, is the effective time of rows
    without one, and the end of keys that are closed because the batch lacks them. A version is identified by its keys
    and its ``valid_from``. The result is correct if ``conflicts`` and ``count_without_time`` find nothing; with
    ``distinct``, which means less work, if ``repeats`` does not either. The target may lack closed versions of keys
    that are not ``late_keys``.
    """
    names = history_of(columns, plan)
    moments = _moments(names, distinct)
    if names.close_missing:
        moments = _with_reopened(moments, names)
    versions = _versions(_numbered(_in_order(moments, names), names), names)
    return sql_text(_changed(_settled(_placed(versions, names), names), names))


def plain_changes(columns: Sequence[str], plan: History, has_new_keys: bool) -> str:
    """Return the query of the same rows as ``changes``, for a batch with one row of each key; no missing key is closed.

    Each key has one open version, which begins by the time of the row; with ``has_new_keys``, or no version at all. The
    target may lack closed versions. Of a key with a changed row both the version that ends and the new one are made of
    one pair.
    """
    names = history_of(columns, plan)
    found, differs, opens = plain_column("found"), plain_column("differs"), plain_column("opens")
    differing = exp.Not(this=exp.Paren(this=same(names.tracked, ["incoming"], ["known"])))
    judged = exp.select(exp.Star(), named(exp.or_(exp.Not(this=found), differing), "differs"))
    judged = judged.from_(_pairs(names, has_new_keys).subquery("pairs"))

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


def _pairs(names: HistoryColumns, has_new_keys: bool) -> exp.Select:
    """Return the rows of the batch, ``incoming`` at the time ``at``, with the ``known`` open version of their key."""
    at = exp.cast(plain_column(names.effective_at, BATCH), _TIMESTAMP) if names.effective_at else _run_started_at()
    incoming = [named(row_of(names.values, BATCH), "incoming"), named(at, "at")]
    version = [named(row_of(names.values, TARGET), "known"), named(plain_column(names.valid_from, TARGET), "begin")]
    if not has_new_keys:
        query = exp.select(*version, *incoming, named(exp.true(), "found")).from_(plain_relation(TARGET))
        query = query.join(exp.Join(this=plain_relation(BATCH), on=same(names.keys, [TARGET], [BATCH]), kind="INNER"))
        return query.where(_is_open(names))
    own_keys = _as_keys(plain_column(key, TARGET) for key in names.keys)
    matched = exp.select(*own_keys, *version, named(exp.true(), "found")).from_(plain_relation(TARGET))
    matched = join_relation(matched, BATCH, "SEMI", same(names.keys, [TARGET], [BATCH])).where(_is_open(names))
    there = exp.Not(this=exp.Is(this=plain_column("found", _MATCHED), expression=exp.Null()))
    query = exp.select(*[plain_column(name, _MATCHED) for name in ("known", "begin")], *incoming, named(there, "found"))
    pairs = zip(names.keys, _keys(names, _MATCHED), strict=True)
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
        *_as_keys(plain_column(key, TARGET) for key in names.keys),
        named(plain_column(names.valid_from, TARGET), "at"),
        named(exp.false(), "is_new"),
        named(plain_column(names.valid_to, TARGET), "until"),
        named(_bound(names), "bound"),
        named(row_of(names.values, TARGET), "row"),
    )
    marker = named(exp.true(), "found")
    present = exp.select(*_as_keys(map(plain_column, names.keys)), marker).from_(plain_relation(BATCH)).distinct()
    pairs = zip(names.keys, _keys(names, "present"), strict=True)
    same_key = exp.and_(*[exp.NullSafeEQ(this=plain_column(key, TARGET), expression=other) for key, other in pairs])
    side = {"side": "LEFT"} if names.close_missing else {"kind": "INNER"}
    known = known.from_(plain_relation(TARGET)).join(exp.Join(this=present.subquery("present"), on=same_key, **side))
    if names.close_missing:
        known = known.where(exp.or_(plain_column("found", "present"), _is_open(names)))
    batch: exp.Expr = plain_relation(BATCH)
    if not distinct:
        batch = latest(BATCH, _identity(names), names.order_by, names.values).subquery("incoming")
    incoming = exp.select(
        *_as_keys(map(plain_column, names.keys)),
        named(_effective(names), "at"),
        named(exp.true(), "is_new"),
        named(exp.cast(exp.Null(), _TIMESTAMP), "until"),
        named(exp.cast(exp.Null(), _TIMESTAMP), "bound"),
        named(row_of(names.values), "row"),
    ).from_(batch)
    return exp.union(known, incoming, distinct=False)


def _is_open(names: HistoryColumns) -> exp.Expr:
    return exp.Is(this=plain_column(names.valid_to, TARGET), expression=exp.Null())


def _bound(names: HistoryColumns) -> exp.Expr:
    end = plain_column(names.valid_to, TARGET)
    if not names.close_missing:
        return end
    lacking = exp.Is(this=plain_column("found", "present"), expression=exp.Null())
    return exp.If(this=lacking, true=_run_started_at(), false=end)


def _with_reopened(moments: exp.Query, names: HistoryColumns) -> exp.Query:
    """Reopen a closed key at the start of the run if the batch holds it, but only with rows from before its end.

    Its last row is then used twice: at its own time, and at the reopening.
    """
    keys = _keys(names)
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
    again = exp.Greatest(this=closed.copy(), expressions=[_run_started_at()])
    times = exp.If(
        this=reopens, true=exp.Array(expressions=[at.copy(), again]), false=exp.Array(expressions=[at.copy()])
    )
    others = [plain_column(name) for name in ("is_new", "until", "bound", "row")]
    return exp.select(*keys, named(exp.Explode(this=times), "at"), *others).from_(known.subquery("known"))


def _in_order(moments: exp.Query, names: HistoryColumns) -> exp.Select:
    """Return each moment with the one before it, and with ``closed``, the last end of a version that began by then."""
    return exp.select(
        exp.Star(),
        named(over(exp.Lag(this=plain_column("at")), _keys(names), *_ORDER), "previous_at"),
        named(over(exp.Lag(this=plain_column("row")), _keys(names), *_ORDER), "previous"),
        named(over(exp.Max(this=plain_column("bound")), _keys(names), *_ORDER, rows=True), "closed"),
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
    number = over(exp.CountIf(this=begins), _keys(names), *_ORDER, rows=True)
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
            *_keys(names),
            named(exp.Min(this=plain_column("at")), "begin"),
            named(exp.LogicalOr(this=exp.Not(this=plain_column("is_new"))), "is_known"),
            named(exp.Max(this=plain_column("until")), "until"),
            named(exp.Max(this=plain_column("closed")), "closed"),
            named(exp.ArgMin(this=plain_column("row"), expression=position), "first"),
            named(exp.ArgMax(this=plain_column("row"), expression=position.copy()), "last"),
            named(restated, "restated"),
        )
        .from_(moments.subquery("numbered"))
        .group_by(*_keys(names), plain_column("number"))
    )


def _placed(versions: exp.Select, names: HistoryColumns) -> exp.Select:
    """Return each version with its end, whether it is the ``newest`` and open, and the row ``base`` it begins with."""
    begin, closed, keys = plain_column("begin"), plain_column("closed"), _keys(names)
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


def _identity(names: HistoryColumns) -> list[exp.Expr]:
    """Return what identifies a row of the batch: its keys and, if it has one, its effective time."""
    keys: list[exp.Expr] = [plain_column(key) for key in names.keys]
    return keys if names.effective_at is None else [*keys, named(_effective(names), names.effective_at)]


def _effective(names: HistoryColumns) -> exp.Expr:
    return exp.cast(plain_column(names.effective_at), _TIMESTAMP) if names.effective_at else _run_started_at()


def _run_started_at() -> exp.Expr:
    return exp.Placeholder(this="run_started_at")


def _as_keys(keys: Iterable[exp.Expr]) -> list[exp.Expr]:
    return [named(key, f"key_{position}") for position, key in enumerate(keys)]


def _keys(names: HistoryColumns, *within: str) -> list[exp.Expr]:
    return [plain_column(f"key_{position}", *within) for position in range(len(names.keys))]
