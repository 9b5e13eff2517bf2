"""relationship: each value of a column occurs in a column of another joint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from sqlglot import exp

from rivet_dagster.checks.contract import QueryCheck, Reading, columns_that_lack
from rivet_dagster.model import convert
from rivet_dagster.model.check_plan import BoundQuery
from rivet_dagster.model.schema import Schema
from rivet_dagster.sql import trees
from rivet_dagster.sql.columns.unknown_columns import UnknownColumn


def _target(value: Any) -> tuple[str, str]:
    joint, _, column = convert.text(value).partition(".")
    if not joint or not column:
        raise ValueError(f"must be `joint.column`, not {convert.show(value)}")
    return joint.lower(), column


@dataclass(frozen=True)
class Relationship(QueryCheck):
    """A violation is a row whose value is not NULL and does not occur in the column that ``to`` names."""

    column: str
    to: tuple[str, str]

    options: ClassVar = {"column": convert.text, "to": _target}
    positional: ClassVar = "column"

    @property
    def columns_named(self) -> tuple[str, ...]:
        return (self.column,)

    def reading(self, joint: str) -> Reading:
        return Reading(joints={"to": self.to[0]})

    def unknown_columns(self, joint: str, tables: Mapping[str, Schema | None]) -> Iterable[UnknownColumn]:
        return columns_that_lack(tables, [(joint, self.column), self.to])

    def violations(self, joint: str) -> str:
        return trees.text(self._missing(joint, trees.named(trees.number_of_rows(), trees.VIOLATIONS)))

    def samples(self, joint: str, limit: int) -> BoundQuery:
        return BoundQuery(trees.text(trees.limited(self._missing(joint, exp.Star()), limit)))

    def _missing(self, joint: str, selected: exp.Expr) -> exp.Select:
        """Return the query of ``selected`` from the rows without a counterpart."""
        other, target = self.to
        value, key = trees.column(self.column, "judged"), trees.column(target, "referenced")
        counterpart = trees.select(trees.number(1), of=trees.relation(other, "referenced"))
        trees.where(counterpart, exp.EQ(this=key, expression=value.copy()))
        missing = exp.And(this=trees.is_not_null(value), expression=exp.Not(this=exp.Exists(this=counterpart)))
        return trees.where(trees.select(selected, of=trees.relation(joint, "judged")), missing)
