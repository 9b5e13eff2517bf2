"""A compiled check: its queries as text and its proof, so that nothing is parsed while a run executes checks.

The queries refer to the joint's rows by the joint's name, as a relation of the engine's session.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rivet_dagster.model.check import ERROR
from rivet_dagster.model.proof import Proof
from rivet_dagster.model.row_errors import MaxErrors


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """A query and the values of its named parameters."""

    sql: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Observable:
    """A condition without parameters, in Spark's SQL, that an engine may evaluate for rows while it writes them.

    It is true for each row that is a violation, and raises an error for none: where the types of columns are such that
    it could, it is true for all rows. ``only_compares`` says that this takes a text that is compared with a number,
    which is rare.
    """

    sql: str
    only_compares: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class InOnePass:
    """Violations counted by an aggregate over the rows, so that one query counts those of several checks.

    ``item`` is an item of the SELECT list, with the alias ``name``, which is unique among the checks of the joint.
    ``observable`` is the condition by which rows are judged while they are written, None where there is none.
    """

    by: Literal["aggregate"] = "aggregate"
    item: str
    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    observable: Observable | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ByQuery:
    """Violations counted by a separate query, which returns one row with the one column ``violations``."""

    by: Literal["query"] = "query"
    query: BoundQuery


@dataclass(frozen=True, kw_only=True, slots=True)
class ByColumns:
    """Violations are columns that differ from ``expected``, pairs of name and engine type; no row is read."""

    by: Literal["columns"] = "columns"
    expected: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ByErrors:
    """Violations are the row errors of a quarantining run, which counts them itself.

    The check passes with at most ``max_errors``; None: only without any.
    """

    by: Literal["errors"] = "errors"
    max_errors: MaxErrors | None = None


Counting = InOnePass | ByQuery | ByColumns | ByErrors
"""How the violations of a check are counted."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """A rule that rows which pass a check obey: no column of ``columns`` has a NULL, or together they are a key."""

    kind: Literal["not_null", "unique"]
    columns: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckQueries:
    """The queries of a check in a run.

    ``samples`` is the query of some violating rows, None where violations are no single rows or samples are not wanted;
    ``shown`` is the query for display; ``proof`` is a condition that statistics may prove, so that nothing is counted;
    ``constraint`` holds of rows that pass.
    """

    counting: Counting
    shown: str
    samples: BoundQuery | None = None
    proof: Proof | None = None
    constraint: Constraint | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledCheck:
    """A compiled check of a joint.

    ``columns`` are the columns that it names, ``options`` the options of its kind, ``reads`` the other joints that its
    queries read; ``timeout`` is in seconds, ``samples`` the number of violating rows shown. The option ``sql`` begins
    on ``sql_line`` of the file. ``holds_by_query`` says that the query of the joint, as it groups, returns no rows that
    violate the check.
    """

    kind: str
    name: str
    phase: str
    severity: str = ERROR
    columns: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    reads: tuple[str, ...] = ()
    timeout: float | None = None
    samples: int = 10
    queries: CheckQueries
    description: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    remediation: str | None = None
    file: str | None = None
    line: int | None = None
    sql_line: int | None = None
    holds_by_query: bool = False

    @property
    def blocking(self) -> bool:
        """Whether a failure of the check prevents the rows from being published."""
        return self.severity == ERROR


def one_pass(relation: str, aggregates: Iterable[InOnePass]) -> BoundQuery:
    """Return a single query of several aggregates over ``relation``, a quoted name, without parsing SQL.

    >>> one_pass("`orders`", [InOnePass(item="COUNT_IF(`id` IS NULL) AS `check_0`", name="check_0")]).sql
    'SELECT COUNT_IF(`id` IS NULL) AS `check_0` FROM `orders`'
    """
    chosen = list(aggregates)
    items = ", ".join(aggregate.item for aggregate in chosen)
    parameters = {name: value for aggregate in chosen for name, value in aggregate.parameters.items()}
    return BoundQuery(f"SELECT {items} FROM {relation}", parameters)
