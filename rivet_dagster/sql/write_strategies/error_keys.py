"""The key of a row error: the values by which later writes of the table find that the error is outdated.

It is JSON text. The same expression makes it for the row that could not be evaluated and for the rows of a batch, so
that equal values give equal text, whatever the time zone of the session is.

The errors of earlier versions that still hold, since the write does not replace the rows that they stand for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from rivet_dagster.model.partitions import Partitions
from rivet_dagster.model.row_errors import ERROR_COLUMNS
from rivet_dagster.model.write_plan import ReplaceAll, WritePlan
from rivet_dagster.sql.trees import as_written, named, text
from rivet_dagster.sql.write_strategies.trees import (
    BATCH,
    join_relation,
    plain_column,
    plain_relation,
    row_of,
    same,
    sql_text,
)

_OPTIONS = {
    "ignoreNullFields": "false",
    "timeZone": "UTC",
    # Spark's own formats end with milliseconds, and two keys may differ in less.
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def key_columns(plan: WritePlan, partitions: Partitions | None = None) -> tuple[str, ...]:
    """Return the columns whose values make the key of an error; none where no later write depends on them.

    ``partitions`` are those of the table.

    >>> from rivet_dagster.model.write_plan import Upsert
    >>> key_columns(Upsert(keys=("id", "day"))), key_columns(ReplaceAll())
    (('id', 'day'), ())
    >>> key_columns(ReplaceAll(), Partitions("daily", "day", "2024-01-01"))
    ('day',)
    """
    if isinstance(plan, ReplaceAll):
        return (partitions.column,) if partitions is not None else ()
    return plan.matched_by


def key_of(columns: Sequence[str], *within: str) -> exp.Expr:
    """Return the key of a row of the relation ``within``; the fields are spelled like ``columns``.

    >>> key_of(["id"], "batch").sql("databricks")
    "TO_JSON(STRUCT(`batch`.`id` AS `id`), MAP('ignoreNullFields', 'false', 'timeZone', 'UTC', ...))"
    """
    return _json(row_of(columns, *within))


def key_json(values: Mapping[str, str]) -> str:
    """Return the SQL of a key whose columns have these ``values``, SQL texts of an author.

    >>> key_json({"id": "CAST(a AS INT)"})
    "TO_JSON(NAMED_STRUCT('id', CAST(a AS INT)), MAP('ignoreNullFields', 'false', 'timeZone', 'UTC', ...))"
    """
    fields = [tree for name, value in values.items() for tree in (exp.Literal.string(name), as_written(value))]
    return text(_json(exp.Anonymous(this="NAMED_STRUCT", expressions=fields)))


def _json(struct: exp.Expr) -> exp.Expr:
    options = [exp.Literal.string(part) for option in _OPTIONS.items() for part in option]
    to_map = exp.Anonymous(this="MAP", expressions=options)
    return exp.Anonymous(this="TO_JSON", expressions=[struct, to_map])


ERRORS, NEW_ERRORS = "errors", "new_errors"
"""The relations of the errors of earlier versions and of those of this run, with ERROR_COLUMNS."""

PLACED = "placed_errors"
"""The relation of errors with the value of the partition column."""

_SAME_ERROR = ("joint", "code", "expression", "file", "row")
_REPLACED, _ERROR = "replaced", "rivet_error"


def by_key(columns: Sequence[str]) -> str:
    """Return the ``errors`` whose key neither a row of ``batch`` nor one of ``new_errors`` has.

    ``columns`` are those of the key. An error without a key is outdated by the same error of the same row.

    >>> print(by_key(["id"]))
    WITH `replaced` AS (SELECT TO_JSON(...) AS `key` FROM `batch` UNION ALL SELECT `key` FROM `new_errors`)
    SELECT `errors`.`joint` AS `joint`, ..., `errors`.`found_at` AS `found_at` FROM `errors`
      LEFT ANTI JOIN `replaced` ON `errors`.`key` = `replaced`.`key`
      LEFT ANTI JOIN `new_errors` ON `errors`.`key` IS NULL AND (`errors`.`joint` IS NOT DISTINCT FROM ...
    """
    has_key = exp.EQ(this=plain_column("key", ERRORS), expression=plain_column("key", _REPLACED))
    query = exp.select(*_error_columns(ERRORS)).from_(plain_relation(ERRORS))
    query = join_relation(query, _REPLACED, "ANTI", has_key)
    query = join_relation(query, NEW_ERRORS, "ANTI", _repeated(plain_column("key", ERRORS), ERRORS))
    of_batch = exp.select(named(key_of(columns, BATCH), "key")).from_(plain_relation(BATCH))
    of_errors = exp.select(plain_column("key")).from_(plain_relation(NEW_ERRORS))
    replaced = exp.Union(this=of_batch, expression=of_errors, distinct=False)
    return sql_text(query.with_(plain_relation(_REPLACED).this, as_=replaced))


def place_errors(partition_column: str, kind: str) -> str:
    """Return the ``errors``, each as a struct, with the value of the partition column by its key, of type ``kind``.

    >>> place_errors("day", "date")
    "SELECT STRUCT(...) AS `rivet_error`, FROM_JSON(`key`, '`day` date').`day` AS `day` FROM `errors`"
    """
    name = exp.to_identifier(partition_column, quoted=True)
    schema = exp.Literal.string(f"{sql_text(name)} {kind}")
    fields = exp.Anonymous(this="FROM_JSON", expressions=[plain_column("key"), schema])
    value = exp.Dot(this=fields, expression=name.copy())
    error = named(row_of(ERROR_COLUMNS), _ERROR)
    return sql_text(exp.select(error, named(value, partition_column)).from_(plain_relation(ERRORS)))


def unplaced_once(partition_column: str) -> str:
    """Return the errors of ``placed_errors``, but those without a value that are among ``new_errors``, too.

    >>> print(unplaced_once("day"))
    SELECT `placed_errors`.`rivet_error`.`joint` AS `joint`, ... FROM `placed_errors`
      LEFT ANTI JOIN `new_errors` ON `placed_errors`.`day` IS NULL AND (`placed_errors`.`rivet_error`.`joint` IS NOT ...
    """
    query = exp.select(*_error_columns(PLACED, _ERROR)).from_(plain_relation(PLACED))
    return sql_text(
        join_relation(query, NEW_ERRORS, "ANTI", _repeated(plain_column(partition_column, PLACED), PLACED, _ERROR))
    )


def _repeated(key: exp.Expr, *within: str) -> exp.Expr:
    """Return the condition that an error has no ``key``, and is one of this run, too."""
    missing = exp.Is(this=key, expression=exp.Null())
    return exp.and_(missing, same(_SAME_ERROR, within, [NEW_ERRORS]))


def _error_columns(*within: str) -> list[exp.Expr]:
    return [named(plain_column(name, *within), name) for name in ERROR_COLUMNS]
