"""The queries of merges: which of a batch's rows with one key is used, and which rows change the target.

Rows that are equal in all columns are one row; of the others the row with the greatest order is used, where NULL is
the least value. Keys for which no order decides are ambiguous. Everywhere NULL equals NULL. Spark cannot compare maps,
so a batch with a map column needs an order that decides.

An upsert takes the rows that the target lacks, and those that differ from the target's row with the same key. Other
strategies take those that are newer than all rows of the target. The target's rows stay that no incoming row replaces.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlglot import exp

from rivet_dagster.sql.trees import limited, named, number_of_rows
from rivet_dagster.sql.write_strategies.trees import (
    BATCH,
    INCOMING,
    REST,
    TARGET,
    Columns,
    condition_of,
    join_relation,
    over,
    plain_column,
    plain_relation,
    row_of,
    same,
    same_values,
    select_columns,
    sql_text,
)

SHOWN = 10
"""The number of ambiguous keys that are shown."""


def latest(source: str, keys: Sequence[exp.Expr], order_by: Sequence[str], columns: Sequence[str]) -> exp.Select:
    """Return the query of ``columns``, one row for each value of ``keys``, which are expressions over ``source``.

    The result is deterministic if ``conflicts`` returns no rows.

    >>> from rivet_dagster.sql.write_strategies.trees import sql_text
    >>> print(sql_text(latest("batch", [plain_column("id")], ["at"], ["id", "at"])))
    SELECT `row`.`id` AS `id`, `row`.`at` AS `at` FROM
      (SELECT STRUCT(`id` AS `id`, `at` AS `at`) AS `row`,
         ROW_NUMBER() OVER (PARTITION BY `id` ORDER BY `at` DESC) AS `place` FROM `batch`) AS ranked
      WHERE `place` = 1
    """
    return _greatest(exp.RowNumber(), source, keys, order_by, columns)


def conflicts(source: str, keys: Sequence[exp.Expr], order_by: Sequence[str], columns: Sequence[str]) -> exp.Select:
    """Return the query of up to SHOWN ambiguous ``keys``, under their aliases: unequal rows have the greatest order."""
    rivals = _greatest(exp.Rank(), source, keys, order_by, columns).distinct().subquery("rivals")
    several = exp.GT(this=exp.Count(this=exp.Star(), big_int=True), expression=exp.Literal.number(1))
    shown = [key.copy() for key in keys]
    return limited(exp.select(*shown).from_(rivals).group_by(*_plain(keys)).having(several), SHOWN)


def _greatest(
    rank: exp.Expr, source: str, keys: Sequence[exp.Expr], order_by: Sequence[str], columns: Sequence[str]
) -> exp.Select:
    """Return the rows of each key whose ``rank`` is 1, by descending order; without an order all rows are equal."""
    descending = [exp.Ordered(this=plain_column(name), desc=True, nulls_first=False) for name in order_by]
    number = over(rank, _plain(keys), *(descending or _plain(keys)))
    # As a struct, so that no column of the source can be confused with `place`.
    ranked = exp.select(named(row_of(columns), "row"), named(number, "place")).from_(plain_relation(source))
    first = exp.EQ(this=plain_column("place"), expression=exp.Literal.number(1))
    values = [named(plain_column(name, "row"), name) for name in columns]
    return exp.select(*values).from_(ranked.subquery("ranked")).where(first)


def _plain(keys: Sequence[exp.Expr]) -> list[exp.Expr]:
    return [key.unalias().copy() for key in keys]


_MATCHED, _PRESENT = "matched", "rivet_there"


def changed_rows(columns: Columns, keys: Sequence[str], batch: str = BATCH, never_null: Collection[str] = ()) -> str:
    """Return the rows of ``batch``, whose keys are distinct, that are to be inserted or to replace others.

    The target is read once, and only its rows with a key of the batch are processed further. Of the keys ``never_null``
    the batch has no NULL: they are compared by ``=``, which Spark executes faster.

    >>> print(changed_rows([("id", "int"), ("net", "int")], ["id"]))
    WITH `matched` AS (SELECT `target`.`id`, `target`.`net`, TRUE AS `rivet_there` FROM `target`
      LEFT SEMI JOIN `batch` ON `target`.`id` IS NOT DISTINCT FROM `batch`.`id`)
    SELECT `batch`.`id`, `batch`.`net` FROM `batch`
      LEFT OUTER JOIN `matched` ON `batch`.`id` IS NOT DISTINCT FROM `matched`.`id`
      WHERE `matched`.`rivet_there` IS NULL
        OR NOT (`batch`.`id` IS NOT DISTINCT FROM `matched`.`id` AND `batch`.`net` IS NOT DISTINCT FROM `matched`.`net`)
    """
    present = named(exp.true(), _PRESENT)
    matched = join_relation(
        select_columns(columns, TARGET).select(present), batch, "SEMI", same(keys, [TARGET], [batch], never_null)
    )
    on = same(keys, [batch], [_MATCHED], never_null)
    query = join_relation(select_columns(columns, batch), _MATCHED, "OUTER", on)
    new = exp.Is(this=plain_column(_PRESENT, _MATCHED), expression=exp.Null())
    differs = exp.not_(same_values(columns, batch, _MATCHED))
    return sql_text(query.where(exp.or_(new, differs)).with_(plain_relation(_MATCHED).this, as_=matched))


def new_rows(
    columns: Columns,
    keys: Sequence[str],
    batch: str = BATCH,
    inside: exp.Expr | None = None,
    never_null: Collection[str] = (),
) -> str:
    """Return the rows of ``batch`` whose ``keys`` no row of the target has.

    ``inside`` is a condition on the rows of the target that count; of the keys ``never_null`` the batch has no NULL. Of
    the target, which is read once, only rows with a key of the batch are processed further.

    >>> print(new_rows([("id", "int"), ("net", "int")], ["id"], never_null=["id"]))
    WITH `matched` AS (SELECT `target`.`id` FROM `target` LEFT SEMI JOIN `batch` ON `target`.`id` = `batch`.`id`)
    SELECT `batch`.`id`, `batch`.`net` FROM `batch` LEFT ANTI JOIN `matched` ON `batch`.`id` = `matched`.`id`
    """
    own_keys = {key.lower() for key in keys}
    known = select_columns([column for column in columns if column[0].lower() in own_keys], TARGET)
    matched = join_relation(known, batch, "SEMI", same(keys, [TARGET], [batch], never_null))
    if inside is not None:
        matched = matched.where(condition_of(TARGET, inside))
    query = join_relation(select_columns(columns, batch), _MATCHED, "ANTI", same(keys, [batch], [_MATCHED], never_null))
    return sql_text(query.with_(plain_relation(_MATCHED).this, as_=matched))


def repeats(name: str, keys: Sequence[str]) -> str:
    """Return the query of one row if some key occurs more than once in the relation ``name``, else of none.

    >>> repeats("batch", ["id"])
    'SELECT COUNT(*) AS `rows` FROM `batch` GROUP BY `id` HAVING COUNT(*) > 1 LIMIT 1'
    """
    return sql_text(repeated(name, [plain_column(key) for key in keys]))


def repeated(source: str, keys: Sequence[exp.Expr]) -> exp.Select:
    """Return the query of one row if some value of ``keys``, expressions over ``source``, occurs more than once."""
    several = exp.GT(this=number_of_rows(), expression=exp.Literal.number(1))
    grouped = exp.select(named(number_of_rows(), "rows")).from_(plain_relation(source)).group_by(*_plain(keys))
    return limited(grouped.having(several), 1)


def ambiguous_rows(name: str, columns: Columns, keys: Sequence[str], order_by: Sequence[str]) -> str:
    """Return the query of ambiguous keys of the relation ``name``: unequal rows, with the same ``order_by``."""
    return sql_text(conflicts(name, [plain_column(key) for key in keys], order_by, [c for c, _ in columns]))


def decided_rows(name: str, columns: Columns, keys: Sequence[str], order_by: Sequence[str]) -> str:
    """Return the query of one row of the relation ``name`` for each key, the greatest by ``order_by``."""
    return sql_text(latest(name, [plain_column(key) for key in keys], order_by, [c for c, _ in columns]))


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
    return sql_text(
        select_columns(columns, BATCH).join(exp.Join(this=target, kind="CROSS")).where(exp.or_(first, later))
    )


def survivors(
    columns: Columns, identity: Sequence[str], equal_stay: bool = False, never_null: Collection[str] = ()
) -> str:
    """Return the rows of ``rest`` whose ``identity`` no row of ``incoming`` has; without an identity all of them.

    With ``equal_stay`` a row is removed only if an incoming row of the same identity differs from it. Of the columns
    ``never_null`` the incoming rows have no NULL.

    >>> print(survivors([("id", "int"), ("day", "date")], ["day"]))
    SELECT `rest`.`id`, `rest`.`day` FROM `rest`
      LEFT ANTI JOIN `incoming` ON `rest`.`day` IS NOT DISTINCT FROM `incoming`.`day`
    """
    query = select_columns(columns, REST)
    if not identity:
        return sql_text(query)
    replaced = same(identity, [REST], [INCOMING], never_null)
    if equal_stay:
        replaced = exp.and_(replaced, exp.not_(same_values(columns, REST, INCOMING)))
    return sql_text(join_relation(query, INCOMING, "ANTI", replaced))
