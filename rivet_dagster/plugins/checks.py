"""A kind of check of your own: the base classes, converters of options, proofs, and the parts of queries."""

from __future__ import annotations

from rivet_dagster.checks.contract import AggregateCheck, Bound, CheckKind, Problem, QueryCheck, Reading, RowCheck
from rivet_dagster.model import convert
from rivet_dagster.model.check_plan import Constraint
from rivet_dagster.model.proof import Compared, Constant, Every, NewestWithin, NoNulls, OneOf, Proof, RowsBetween
from rivet_dagster.sql.trees import (
    as_written,
    column,
    is_not_null,
    is_null,
    limited,
    named,
    number,
    number_of_rows,
    parameter,
    relation,
    select,
    text,
    where,
)

__all__ = [
    "AggregateCheck",
    "Bound",
    "CheckKind",
    "Compared",
    "Constant",
    "Constraint",
    "Every",
    "NewestWithin",
    "NoNulls",
    "OneOf",
    "Problem",
    "Proof",
    "QueryCheck",
    "Reading",
    "RowCheck",
    "RowsBetween",
    "as_written",
    "column",
    "convert",
    "is_not_null",
    "is_null",
    "limited",
    "named",
    "number",
    "number_of_rows",
    "parameter",
    "relation",
    "select",
    "text",
    "where",
]
