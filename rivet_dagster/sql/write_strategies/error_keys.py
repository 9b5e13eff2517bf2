"""The key of a row error: the values by which later writes of the table find that the error is outdated.

It is JSON text. The same expression makes it for the row that could not be evaluated and for the rows of a batch, so
that equal values give equal text, whatever the time zone of the session is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from rivet_dagster.model.partitions import Partitions
from rivet_dagster.model.write_plan import ReplaceAll, WritePlan
from rivet_dagster.sql.trees import as_written, text
from rivet_dagster.sql.write_strategies.trees import row_of

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
