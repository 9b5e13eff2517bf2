"""not_null: no row has a NULL in any of the columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sqlglot import exp

from rivet_dagster.checks.contract import Bound, RowCheck
from rivet_dagster.model import convert
from rivet_dagster.model.check_plan import Constraint, Observable
from rivet_dagster.model.proof import NoNulls
from rivet_dagster.sql.trees import column, is_null, text


@dataclass(frozen=True)
class NotNull(RowCheck):
    """A violation is a row with a NULL.

    >>> NotNull(columns=("id",)).shown("orders")
    'SELECT COUNT_IF(`id` IS NULL) AS `violations` FROM `orders`'
    """

    columns: tuple[str, ...]

    options: ClassVar = {"columns": convert.column_names}
    positional: ClassVar = "columns"

    @property
    def columns_named(self) -> tuple[str, ...]:
        return self.columns

    def broken(self, prefix: str) -> Bound:
        return exp.or_(*[is_null(column(name)) for name in self.columns], copy=False), {}

    def observable(self) -> Observable:
        condition, _ = self.broken("")
        return Observable(text(condition))

    def proof(self) -> NoNulls:
        return NoNulls(columns=self.columns)

    def constraint(self) -> Constraint:
        return Constraint("not_null", self.columns)
