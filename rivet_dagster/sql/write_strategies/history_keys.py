"""Queries of the keys of a batch for a history: which are ambiguous, repeated, late, or have rows without a time.

Of a key whose open version begins by the time of all its new rows, no other version counts: neither can those change,
nor do they change what becomes of the rows. Late keys are the other keys of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from rivet_dagster.model.write_plan import History
from rivet_dagster.sql.trees import limited, named
from rivet_dagster.sql.write_strategies.history_columns import (
    TIMESTAMP,
    as_keys,
    effective_time,
    has_open_end,
    history_of,
    identity_of,
    keys_of,
)
from rivet_dagster.sql.write_strategies.merge import conflicts as ambiguous_keys
from rivet_dagster.sql.write_strategies.merge import repeated
from rivet_dagster.sql.write_strategies.trees import (
    BATCH,
    TARGET,
    join_relation,
    plain_column,
    plain_relation,
    same,
    sql_text,
)


def conflicts(columns: Sequence[str], plan: History) -> str:
    """Return the query of up to 10 ambiguous keys, with their effective time, for which the batch's rows differ."""
    names = history_of(columns, plan)
    return sql_text(ambiguous_keys(BATCH, identity_of(names), names.order_by, names.values))


def repeats(columns: Sequence[str], plan: History) -> str:
    """Return the query of one row if the batch has some key, with its effective time, more than once, else of none."""
    return sql_text(repeated(BATCH, identity_of(history_of(columns, plan))))


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
    matched = join_relation(matched, BATCH, "SEMI", same(names.keys, [TARGET], [BATCH])).where(has_open_end(names))
    at = effective_time(names, BATCH)
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
    keys, no_time = keys_of(names), exp.cast(exp.Null(), TIMESTAMP)
    incoming = exp.select(
        *as_keys(map(plain_column, names.keys)),
        named(effective_time(names), "at"),
        named(no_time, "begin"),
        named(exp.false(), "is_known"),
    ).from_(plain_relation(BATCH))
    begin = exp.If(this=has_open_end(names), true=plain_column(names.valid_from, TARGET), false=exp.Null())
    known = exp.select(
        *as_keys(plain_column(key, TARGET) for key in names.keys),
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
    shown = [named(key, name) for key, name in zip(keys_of(names), names.keys, strict=True)]
    late_first = exp.Ordered(this=plain_column(LATE), desc=True, nulls_first=False)
    query = exp.select(*shown, *map(plain_column, (LATE, SEVERAL, KNOWN)))
    query = query.from_(judged.group_by(*keys_of(names)).subquery("judged"))
    query = query.where(exp.or_(plain_column(LATE), plain_column(SEVERAL))).order_by(late_first)
    return sql_text(limited(query, most))
