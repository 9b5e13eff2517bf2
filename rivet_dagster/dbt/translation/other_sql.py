"""Models and tests of a project whose SQL is PostgreSQL's: what Spark reads alike is taken as it is, nothing else."""

from __future__ import annotations

from collections.abc import Callable

from rivet_dagster.dbt.declared import DbtPlace
from rivet_dagster.dbt.translation.annotations import JointDraft
from rivet_dagster.dbt.translation.strategy import LeftOutError
from rivet_dagster.dbt.values import UnknownValueError
from rivet_dagster.sql.postgres.comparison import compare_with_spark

_MOST = 10
"""How many differences of a query are told."""

_REMEDY = "the SQL is PostgreSQL's: change this in the dbt project to what both know, or write the joint by hand"


def compare_draft(draft: JointDraft, render: Callable[[str, str, bool], str]) -> None:
    """Leave a joint out whose query is different in Spark, and add to its reasons what is the same but for details."""
    assert draft.body is not None
    told: dict[str, None] = {}
    notes: dict[str, None] = {}
    for incremental in (False, True):
        try:
            text = render(draft.body, "", incremental)
        except UnknownValueError as error:
            told[f"its query cannot be compared with Spark's SQL: {error}"] = None
            continue
        compared = compare_with_spark(text)
        is_same_length = text.count("\n") == draft.body.count("\n")
        for difference in compared.differences:
            place: DbtPlace = draft.place
            if is_same_length and difference.line is not None and difference.line <= len(draft.lines):
                place = DbtPlace(draft.place.file, draft.lines[difference.line - 1])
            told[f"{place}: {difference.message}"] = None
        notes |= dict.fromkeys(compared.notes)
    if told:
        draft.left_out += [*_cut(list(told)), _REMEDY]
    else:
        draft.reasons += notes


def refuse_other_sql(sql: str) -> None:
    """Raise LeftOutError for the query of a check that is different in Spark."""
    compared = compare_with_spark(sql.replace("{{ this }}", "rivet_this"))
    if compared.differences:
        told = _cut([difference.message for difference in compared.differences])
        raise LeftOutError(f"its SQL is PostgreSQL's: {'; '.join(told)}")


_TYPES = {
    "timestamp": "timestamp_ntz",
    "timestamp with time zone": "timestamp",
    "float": "double",
    "double precision": "double",
    "real": "float",
}


def spark_type(declared: str) -> str:
    """Return the type that Spark has for one of a seed's columns, as ``column_types`` gives it. Raise ValueError.

    >>> spark_type("timestamp"), spark_type("numeric(10, 2)")
    ('timestamp_ntz', 'numeric(10, 2)')
    """
    word = " ".join(declared.lower().split())
    if word in ("numeric", "decimal"):
        raise ValueError(f"the type {declared} has any number of digits in PostgreSQL: give it some, as numeric(38, 9)")
    return _TYPES.get(word, declared)


def _cut(messages: list[str]) -> list[str]:
    more = len(messages) - _MOST
    return [*messages[:_MOST], *([f"and {more} more"] if more > 0 else [])]
