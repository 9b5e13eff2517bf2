"""The statements by which storage with a MERGE of its own carries out write plans: MERGE INTO and DELETE FROM."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlglot import exp

from rivet_dagster.sql.trees import named
from rivet_dagster.sql.write_strategies.trees import (
    Columns,
    condition_of,
    plain_column,
    plain_relation,
    same,
    same_values,
    sql_text,
)

_TARGET, _SOURCE = "rivet_target", "rivet_source"
_KEYS = "rivet_keys"
_DELETES = "rivet_deletes"
"""The column of a source whose rows name what is to be deleted, beside those that are to be inserted."""


def update_or_insert(
    table: Sequence[str],
    columns: Columns,
    keys: Sequence[str],
    source: str,
    inside: exp.Expr | None = None,
    equal_stay: bool = False,
    never_null: Collection[str] = (),
) -> str:
    """Return the MERGE of the rows of ``source``, whose ``keys`` are distinct, into ``table``, the parts of its name.

    ``inside`` is a condition on the table's rows that may be updated. With ``equal_stay`` a row is left alone if the
    source has it already as it is. Of the keys ``never_null`` the source has no NULL: they are compared by ``=``, which
    Spark executes faster.

    >>> print(update_or_insert(["lake", "orders"], [("id", "int"), ("net", "int")], ["id"], "batch", equal_stay=True))
    MERGE INTO `lake`.`orders` AS `rivet_target` USING `batch` AS `rivet_source`
      ON `rivet_target`.`id` IS NOT DISTINCT FROM `rivet_source`.`id`
      WHEN MATCHED AND NOT (`rivet_target`.`id` IS NOT DISTINCT FROM `rivet_source`.`id`
        AND `rivet_target`.`net` IS NOT DISTINCT FROM `rivet_source`.`net`)
        THEN UPDATE SET `rivet_target`.`id` = `rivet_source`.`id`, `rivet_target`.`net` = `rivet_source`.`net`
      WHEN NOT MATCHED THEN INSERT (`id`, `net`) VALUES (`rivet_source`.`id`, `rivet_source`.`net`)
    """
    on = _within(same(keys, [_TARGET], [_SOURCE], never_null), inside)
    whens = [_update(columns, equal_stay), _insert(columns)]
    return sql_text(_merge(table, plain_relation(source, _SOURCE), on, whens))


def update(
    table: Sequence[str],
    columns: Columns,
    keys: Sequence[str],
    source: str,
    inside: exp.Expr | None = None,
    equal_stay: bool = False,
    never_null: Collection[str] = (),
) -> str:
    """Return the MERGE that gives rows of ``table`` the values of the rows of ``source`` with the same ``keys``.

    It is that of ``update_or_insert`` without new rows, for which Spark need not bring the rows of the table into the
    order of their keys if the source is small.

    >>> print(update(["lake", "orders"], [("id", "int"), ("net", "int")], ["id"], "batch", never_null=["id"]))
    MERGE INTO `lake`.`orders` AS `rivet_target` USING `batch` AS `rivet_source`
      ON `rivet_target`.`id` = `rivet_source`.`id`
      WHEN MATCHED
        THEN UPDATE SET `rivet_target`.`id` = `rivet_source`.`id`, `rivet_target`.`net` = `rivet_source`.`net`
    """
    on = _within(same(keys, [_TARGET], [_SOURCE], never_null), inside)
    return sql_text(_merge(table, plain_relation(source, _SOURCE), on, [_update(columns, equal_stay)]))


def delete_and_insert(
    table: Sequence[str], columns: Columns, keys: Sequence[str], source: str, inside: exp.Expr | None = None
) -> str:
    """Return the MERGE that deletes the rows of ``table`` whose ``keys`` occur in ``source``, and inserts its rows.

    ``inside`` is a condition on the table's rows that may be deleted. Both happen in one step; the source's rows are
    inserted as often as it has them.

    >>> print(delete_and_insert(["orders"], [("day", "date"), ("n", "int")], ["day"], "batch"))
    MERGE INTO `orders` AS `rivet_target` USING
      (SELECT TRUE AS `rivet_deletes`, `day` AS `day`, CAST(NULL AS int) AS `n` FROM
        (SELECT DISTINCT `day` AS `day` FROM `batch`) AS `rivet_keys`
      UNION ALL SELECT FALSE AS `rivet_deletes`, `day` AS `day`, `n` AS `n` FROM `batch`) AS `rivet_source`
      ON `rivet_source`.`rivet_deletes` AND `rivet_target`.`day` IS NOT DISTINCT FROM `rivet_source`.`day`
      WHEN MATCHED THEN DELETE
      WHEN NOT MATCHED AND NOT `rivet_source`.`rivet_deletes` THEN INSERT (`day`, `n`) VALUES (...)
    """
    by_key = {key.lower() for key in keys}
    deleted = [named(plain_column(name) if name.lower() in by_key else _nothing(kind), name) for name, kind in columns]
    inserted = [named(plain_column(name), name) for name, _ in columns]
    named_keys = [named(plain_column(name), name) for name, _ in columns if name.lower() in by_key]
    distinct = (
        exp.select(*named_keys).distinct().from_(plain_relation(source))
    )  # of keys alone: maps cannot be compared
    keys_alias = exp.TableAlias(this=exp.to_identifier(_KEYS, quoted=True))
    keys_of_batch = exp.select(named(exp.true(), _DELETES), *deleted).from_(
        exp.Subquery(this=distinct, alias=keys_alias)
    )
    rows = exp.select(named(exp.false(), _DELETES), *inserted).from_(plain_relation(source))
    both = exp.Union(this=keys_of_batch, expression=rows, distinct=False)
    alias = exp.TableAlias(this=exp.to_identifier(_SOURCE, quoted=True))
    deletes = plain_column(_DELETES, _SOURCE)
    on = _within(exp.and_(deletes, same(keys, [_TARGET], [_SOURCE])), inside)
    delete = exp.When(matched=True, then=exp.Var(this="DELETE"))
    insert = _insert(columns)
    insert.set("condition", exp.not_(deletes.copy()))
    return sql_text(_merge(table, exp.Subquery(this=both, alias=alias), on, [delete, insert]))


def delete(table: Sequence[str], condition: exp.Expr) -> str:
    """Return the DELETE of the rows of ``table``, the parts of its name, that fulfil ``condition``.

    >>> delete(["lake", "orders"], exp.EQ(this=plain_column("day"), expression=exp.Placeholder(this="day")))
    'DELETE FROM `lake`.`orders` WHERE `day` = :day'
    """
    return sql_text(exp.Delete(this=_table(table), where=exp.Where(this=condition)))


def between(column: str, least: str, most: str) -> exp.Expr:
    """Return the condition that a column of the table is from one parameter to another, both included.

    >>> sql_text(between("id", "first", "last"))
    '`id` >= :first AND `id` <= :last'
    """
    above = exp.GTE(this=plain_column(column), expression=exp.Placeholder(this=least))
    return exp.and_(above, exp.LTE(this=plain_column(column), expression=exp.Placeholder(this=most)))


def is_null(column: str) -> exp.Expr:
    """Return the condition that a column of the table is NULL."""
    return exp.Is(this=plain_column(column), expression=exp.Null())


def all_of(*conditions: exp.Expr | None) -> exp.Expr | None:
    """Return the condition that all conditions hold, those that are not None; None if there are none."""
    given = [condition for condition in conditions if condition is not None]
    return exp.and_(*given) if given else None


def any_of(*conditions: exp.Expr) -> exp.Expr:
    """Return the condition that any of the conditions holds."""
    return exp.or_(*conditions)


def count_query(name: str) -> str:
    """Return the query that counts, as ``rows``, the rows of a relation.

    >>> count_query("whole")
    'SELECT COUNT(*) AS `rows` FROM `whole`'
    """
    return sql_text(exp.select(named(exp.Count(this=exp.Star(), big_int=True), "rows")).from_(plain_relation(name)))


def _merge(table: Sequence[str], source: exp.Expr, on: exp.Expr, whens: list[exp.When]) -> exp.Merge:
    target = exp.alias_(_table(table), _TARGET, table=True, quoted=True)
    return exp.Merge(this=target, using=source, on=on, whens=exp.Whens(expressions=whens))


def _update(columns: Columns, equal_stay: bool) -> exp.When:
    assigned = [exp.EQ(this=plain_column(name, _TARGET), expression=plain_column(name, _SOURCE)) for name, _ in columns]
    when = exp.When(matched=True, then=exp.Update(expressions=assigned))
    if equal_stay:
        when.set("condition", exp.not_(exp.paren(same_values(columns, _TARGET, _SOURCE), copy=False)))
    return when


def _insert(columns: Columns) -> exp.When:
    names = exp.Tuple(expressions=[plain_column(name) for name, _ in columns])
    values = exp.Tuple(expressions=[plain_column(name, _SOURCE) for name, _ in columns])
    return exp.When(matched=False, then=exp.Insert(this=names, expression=values))


def _within(on: exp.Expr, inside: exp.Expr | None) -> exp.Expr:
    """Return ``on`` with a condition on the target's rows."""
    return on if inside is None else exp.and_(on, condition_of(_TARGET, inside))


def _table(parts: Sequence[str]) -> exp.Table:
    first, *rest = [exp.to_identifier(part, quoted=True) for part in parts]
    return exp.Table(this=exp.Dot.build([first, *rest]) if rest else first)


def _nothing(kind: str) -> exp.Expr:
    return exp.Cast(this=exp.Null(), to=exp.DataType(this=exp.DType.USERDEFINED, kind=kind))
