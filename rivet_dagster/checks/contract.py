"""The interface of kinds of checks: options, tables read, counting and showing of violations, and proofs.

Kinds whose violations are counted by an aggregate over the rows share one query of several checks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

from sqlglot import exp

from rivet_dagster.entry_points import CHECKS, check_kind, plugins
from rivet_dagster.errors import RivetError
from rivet_dagster.model.check import Check
from rivet_dagster.model.check_plan import BoundQuery, ByQuery, Constraint, Counting, InOnePass, Observable
from rivet_dagster.model.proof import Proof
from rivet_dagster.model.schema import Schema
from rivet_dagster.sql import trees
from rivet_dagster.sql.columns.unknown_columns import UnknownColumn, unknown_column

CORRECT_SQL = "Correct the check's SQL."


@dataclass(frozen=True, slots=True)
class Problem:
    """An error in a check, or only a warning if it is not ``certain``, as only the engine can decide.

    ``line`` is the line in the check's SQL, counted from 1.
    """

    message: str
    line: int | None = None
    remediation: str | None = CORRECT_SQL
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Reading:
    """The facts about a check that are known before it is compiled.

    ``tables`` are the relations that it reads, joints or not; ``joints`` are the names, by option, that must be joints.
    """

    tables: tuple[str, ...] = ()
    joints: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


class CheckKind(ABC):
    """A kind of check; an instance holds the options of one check as its fields.

    Subclasses are frozen dataclasses, registered as entry points in the group ``rivet_dagster.checks`` under the
    ``type`` of their checks. The results of their methods are plain data and depend only on the options. ``joint`` is
    the name of the joint whose rows are checked, and of the relation that holds these rows.
    """

    options: ClassVar[Mapping[str, Callable[[Any], Any]]]
    """The converter of each option's value, which raises ValueError with the end of a sentence about the option.

    Converters return plain data: texts, numbers, booleans and tuples of these.
    """

    optional: ClassVar[frozenset[str]] = frozenset()
    """The options that may be omitted; their fields have defaults."""

    positional: ClassVar[str | None] = None
    """The option of an argument without a name in the short form, ``kind(value)``."""

    samples_are_rows: ClassVar[bool] = True
    """Whether samples may contain values of rows, which a project can exclude from results."""

    @classmethod
    def missing(cls, given: Collection[str]) -> Iterable[str]:
        """Return what a check with these options lacks, each as the end of ``it needs ...``."""
        return [f"`{key}`" for key in cls.options if key not in cls.optional and key not in given]

    @property
    def columns_named(self) -> tuple[str, ...]:
        """The columns of the checked rows that the options name."""
        return ()

    def reading(self, joint: str) -> Reading:
        """Return what the check reads besides the checked rows, and the errors in it."""
        return Reading()

    def unknown_columns(self, joint: str, tables: Mapping[str, Schema | None]) -> Iterable[UnknownColumn]:
        """Return the columns that the check names and that certainly do not exist; ``line`` is the line in its SQL."""
        return columns_that_lack(tables, [(joint, name) for name in self.columns_named])

    @abstractmethod
    def counting(self, joint: str, number: int) -> Counting:
        """Return how violations are counted; ``number`` is the check's number among those of the joint."""

    @abstractmethod
    def shown(self, joint: str) -> str:
        """Return the query for display, which a user could run."""

    def samples(self, joint: str, limit: int) -> BoundQuery | None:
        """Return the query of up to ``limit`` violating rows; None where violations are no single rows."""
        return None

    def proof(self) -> Proof | None:
        """Return the condition that statistics may prove, None without one."""
        return None

    def constraint(self) -> Constraint | None:
        """Return what holds for the columns of rows that pass; Dagster's column schema shows it."""
        return None


class QueryCheck(CheckKind):
    """A kind whose violations are counted by a query of its own, which is also the one for display."""

    @abstractmethod
    def violations(self, joint: str) -> str:
        """Return the query whose one row has the number of violations in the column ``violations``."""

    def counting(self, joint: str, number: int) -> ByQuery:
        return ByQuery(query=BoundQuery(self.violations(joint)))

    def shown(self, joint: str) -> str:
        return self.violations(joint)


def columns_that_lack(tables: Mapping[str, Schema | None], named: Iterable[tuple[str, str]]) -> Iterable[UnknownColumn]:
    """Yield those of ``named``, pairs of relation and column, that certainly do not exist."""
    for relation, column in named:
        schema = tables.get(relation)
        lacking = unknown_column(column, relation, schema) if schema is not None else None
        if lacking is not None:
            yield lacking


def check_kinds() -> dict[str, type[CheckKind]]:
    """Return the installed kinds by name. Raises RVT-109.

    >>> "not_null" in check_kinds()
    True
    """
    return {name: cast("type[CheckKind]", check_kind(name)) for name in sorted(plugins(CHECKS))}


def kind_of(check: Check) -> CheckKind:
    """Return the kind of a check, with the check's options. Raise RVT-109.

    >>> kind_of(Check(kind="not_null", name="n", phase="audit", options={"columns": ("id",)}))
    NotNull(columns=('id',))
    """
    kind_class = check_kind(check.kind)
    if kind_class is None:
        raise RivetError("RVT-109", f"no check is of kind '{check.kind}'")
    return cast("CheckKind", kind_class(**check.options))


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

    def observable(self) -> Observable | None:
        """Return the condition by which an engine may judge rows while it writes them; see ``observable_condition``."""
        from rivet_dagster.sql.row_errors.observable import observable_condition

        return observable_condition(*self.broken(""))

    def counting(self, joint: str, number: int) -> InOnePass:
        return replace(super().counting(joint, number), observable=self.observable())

    def samples(self, joint: str, limit: int) -> BoundQuery:
        condition, values = self.broken("")
        rows = trees.where(trees.select(of=trees.relation(joint)), condition)
        return BoundQuery(trees.text(trees.limited(rows, limit)), values)


def names_an_aggregate(column: str) -> bool:
    """Return whether a column may be confused with an aggregate, to which an expression in the query could refer."""
    return column.lower().startswith(PREFIX)
