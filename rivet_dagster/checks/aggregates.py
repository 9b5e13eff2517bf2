"""Kinds whose violations are counted by an aggregate over the rows, so that several checks share one query."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from rivet_dagster.checks.contract import CheckKind
from rivet_dagster.model.check_plan import BoundQuery, InOnePass
from rivet_dagster.sql import trees

Bound = tuple[exp.Expr, Mapping[str, Any]]
"""An expression and the values of its named parameters."""

PREFIX = "check_"
"""The prefix of the names of aggregates in a query of several checks."""


class AggregateCheck(CheckKind):
    """A kind whose violations are counted by one aggregate."""

    @abstractmethod
    def aggregate(self, prefix: str) -> Bound:
        """Return the aggregate of the number of violations; the names of its parameters begin with ``prefix``."""

    def counting(self, joint: str, number: int) -> InOnePass:
        name = f"{PREFIX}{number}"
        counted, values = self.aggregate(f"{name}_")
        return InOnePass(item=trees.text(trees.named(counted, name)), name=name, parameters=values)

    def shown(self, joint: str) -> str:
        counted, _ = self.aggregate("")
        return trees.text(trees.select(trees.named(counted, trees.VIOLATIONS), of=trees.relation(joint)))


class RowCheck(AggregateCheck):
    """A kind whose violations are rows that satisfy a condition on their own columns."""

    @abstractmethod
    def broken(self, prefix: str) -> Bound:
        """Return the condition under which a row is a violation; it counts if true, not if NULL."""

    def aggregate(self, prefix: str) -> Bound:
        condition, values = self.broken(prefix)
        return exp.CountIf(this=condition), values

    def samples(self, joint: str, limit: int) -> BoundQuery:
        condition, values = self.broken("")
        rows = trees.where(trees.select(of=trees.relation(joint)), condition)
        return BoundQuery(trees.text(trees.limited(rows, limit)), values)


def names_an_aggregate(column: str) -> bool:
    """Return whether a column may be confused with an aggregate, to which an expression in the query could refer."""
    return column.lower().startswith(PREFIX)
