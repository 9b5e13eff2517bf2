"""The difference of an environment from its base, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rivet_dagster.compiler.diff import ColumnChange

Value = str | int | float | bool | None
"""A value of a sample: numbers and booleans as they are, all other values as texts."""

Row = Mapping[str, Value]


@dataclass(frozen=True)
class ChangedRow:
    """A row that both versions have by its key; ``columns`` are those whose values differ."""

    old: Row
    new: Row
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Samples:
    """Some of the rows that differ, the same each time: those with the least keys."""

    added: tuple[Row, ...] = ()
    removed: tuple[Row, ...] = ()
    changed: tuple[ChangedRow, ...] = ()


@dataclass(frozen=True)
class RowDifference:
    """The rows that two versions do not have in common.

    ``key`` are the columns by which rows were matched; without any no row counts as changed. ``columns`` are the
    numbers of changed rows in which the column differs, without those that differ in none, and None for a column whose
    values cannot be compared.
    """

    added: int = 0
    removed: int = 0
    changed: int = 0
    key: tuple[str, ...] = ()
    columns: Mapping[str, int | None] = field(default_factory=dict)
    samples: Samples = Samples()

    @property
    def empty(self) -> bool:
        """Whether both versions have the same rows, as far as they can be compared."""
        return not (self.added or self.removed or self.changed)


@dataclass(frozen=True)
class VerdictChange:
    """A check whose verdict differs: ``passed``, ``warned`` or ``failed``, None where there was no table to judge.

    The violations are None for a check that could not run.
    """

    check: str
    kind: str
    phase: str
    severity: str
    before: str | None
    after: str | None
    violations_before: int | None = None
    violations_after: int | None = None


@dataclass(frozen=True)
class TableDifference:
    """The difference of one table; ``changed`` is why, as ``changed_logic`` returns it.

    ``rows_before`` and ``rows_after`` are all rows of the two versions; ``rows_before`` is None for a new table.
    """

    joint: str
    changed: str
    schema: tuple[ColumnChange, ...]
    rows: RowDifference
    checks: tuple[VerdictChange, ...]
    rows_before: int | None = None
    rows_after: int = 0

    @property
    def empty(self) -> bool:
        """Whether nothing but, maybe, the logic of joints differs."""
        return self.rows.empty and not self.schema and not self.checks and self.rows_before is not None


@dataclass(frozen=True)
class EnvironmentDifference:
    """The differences of all tables that were built in an environment."""

    environment: str
    tables: tuple[TableDifference, ...]
