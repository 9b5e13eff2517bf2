"""unique: no combination of the columns' values occurs more than once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sqlglot import exp

from rivet_dagster.checks.contract import QueryCheck
from rivet_dagster.model import convert
from rivet_dagster.model.check_plan import BoundQuery, Constraint
from rivet_dagster.sql import trees

COPIES = "rows_of_this_key"
"""The column of the samples with the number of rows of a duplicate key."""


@dataclass(frozen=True)
class Unique(QueryCheck):
    """Violations are surplus rows: of three rows with the same key, two. A key that contains a NULL is no duplicate."""

    columns: tuple[str, ...]

    options: ClassVar = {"columns": convert.column_names}
    positional: ClassVar = "columns"

    @property
    def columns_named(self) -> tuple[str, ...]:
        return self.columns

    def violations(self, joint: str) -> str:
        surplus = exp.Sub(this=trees.column(COPIES), expression=trees.number(1))
        total = exp.Coalesce(this=exp.Sum(this=surplus), expressions=[trees.number(0)])
        groups = self._duplicates(joint).subquery("duplicate", copy=False)
        return trees.text(trees.select(trees.named(total, trees.VIOLATIONS), of=groups))

    def samples(self, joint: str, limit: int) -> BoundQuery:
        keys = map(trees.column, self.columns)
        most_first = exp.Ordered(this=trees.column(COPIES), desc=True)
        rows = self._duplicates(joint).select(*keys, copy=False).order_by(most_first, copy=False)
        return BoundQuery(trees.text(trees.limited(rows, limit)))

    def constraint(self) -> Constraint:
        return Constraint("unique", self.columns)

    def _duplicates(self, joint: str) -> exp.Select:
        """Return the query of the keys that occur more than once, with the number of their rows."""
        keys = [trees.column(name) for name in self.columns]
        rows = trees.select(trees.named(trees.number_of_rows(), COPIES), of=trees.relation(joint))
        present = exp.and_(*[trees.is_not_null(key.copy()) for key in keys], copy=False)
        repeated = exp.GT(this=trees.number_of_rows(), expression=trees.number(1))
        return trees.where(rows, present).group_by(*keys, copy=False).having(repeated, copy=False)
