"""What a kind of check is: its options, what it reads, how its violations are counted and shown, and what proves it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from rivet_dagster.model.check_plan import BoundQuery, ByQuery, Constraint, Counting
from rivet_dagster.model.proof import Proof
from rivet_dagster.model.schema import Schema
from rivet_dagster.sql.unknown_columns import UnknownColumn, unknown_column

CORRECT_SQL = "Correct the check's SQL."


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a check; a warning where it is not ``certain``: only the engine can tell.

    ``line`` is that of the check's SQL, counted from 1.
    """

    message: str
    line: int | None = None
    remediation: str | None = CORRECT_SQL
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Reading:
    """What can be said of a check before it is compiled.

    ``tables`` are the relations that it reads, joints or not, ``joints`` by option those that must be joints.
    """

    tables: tuple[str, ...] = ()
    joints: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


class CheckKind(ABC):
    """One kind of check; an instance holds what one check was given, each option a field.

    Subclasses are frozen dataclasses, found by entry point in the group ``rivet_dagster.checks`` under the ``type`` of
    their checks. What they give is plain data and follows from the options alone. ``joint`` is the name of the joint
    whose rows are judged, and of the relation that holds them.
    """

    options: ClassVar[Mapping[str, Callable[[Any], Any]]]
    """What converts the value of each option, and raises ValueError with the end of a sentence that begins with it.

    It gives plain data: texts, numbers, booleans and tuples of these.
    """

    optional: ClassVar[frozenset[str]] = frozenset()
    """The options that may be left out; their fields have defaults."""

    positional: ClassVar[str | None] = None
    """The option that a value without a name is in the short form, ``kind(value)``."""

    samples_are_rows: ClassVar[bool] = True
    """Whether samples may hold values of rows, which a project can keep to itself."""

    @classmethod
    def missing(cls, given: Collection[str]) -> Iterable[str]:
        """Return what a check lacks that was given these options, each the end of ``it needs ...``."""
        return [f"`{key}`" for key in cls.options if key not in cls.optional and key not in given]

    @property
    def columns_named(self) -> tuple[str, ...]:
        """The columns of the judged rows that its options name."""
        return ()

    def reading(self, joint: str) -> Reading:
        """Return what it reads besides the judged rows, and what is wrong with it."""
        return Reading()

    def unknown_columns(self, joint: str, tables: Mapping[str, Schema | None]) -> Iterable[UnknownColumn]:
        """Return the columns that it names and that are surely not there; ``line`` is that of its SQL."""
        return columns_that_lack(tables, [(joint, name) for name in self.columns_named])

    @abstractmethod
    def counting(self, joint: str, number: int) -> Counting:
        """Return how its violations are counted; ``number`` is its own among the checks of the joint."""

    @abstractmethod
    def shown(self, joint: str) -> str:
        """Return its query as a person would run it."""

    def samples(self, joint: str, limit: int) -> BoundQuery | None:
        """Return the query of up to ``limit`` violating rows; None where no single row is a violation."""
        return None

    def proof(self) -> Proof | None:
        """Return what storage's statistics may prove of it."""
        return None

    def constraint(self) -> Constraint | None:
        """Return what holds of rows that pass, as Dagster shows it with a table's columns."""
        return None


class QueryCheck(CheckKind):
    """A kind whose violations are counted by a query of its own, which is also the one that a person would run."""

    @abstractmethod
    def violations(self, joint: str) -> str:
        """Return the query whose one row says in the column ``violations`` how many there are."""

    def counting(self, joint: str, number: int) -> ByQuery:
        return ByQuery(query=BoundQuery(self.violations(joint)))

    def shown(self, joint: str) -> str:
        return self.violations(joint)


def columns_that_lack(tables: Mapping[str, Schema | None], named: Iterable[tuple[str, str]]) -> Iterable[UnknownColumn]:
    """Yield those of ``named``, relations with columns, that are surely not there."""
    for relation, column in named:
        schema = tables.get(relation)
        lacking = unknown_column(column, relation, schema) if schema is not None else None
        if lacking is not None:
            yield lacking
