"""A check as a run needs it: its queries as texts, and what proves it, so that nothing is parsed while rows are judged.

The queries name the joint's rows by its name, as a relation of the engine's session.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rivet_dagster.model.check import ERROR
from rivet_dagster.model.proof import Proof


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """A query and the values of its named parameters."""

    sql: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class InOnePass:
    """Violations that an aggregate over the rows counts: those of several checks fit in one query.

    ``item`` stands in a SELECT and is called ``name``, by which no other check of the joint is called.
    """

    by: Literal["aggregate"] = "aggregate"
    item: str
    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class ByQuery:
    """Violations that a query of its own counts, in one row of the one column ``violations``."""

    by: Literal["query"] = "query"
    query: BoundQuery


@dataclass(frozen=True, kw_only=True, slots=True)
class ByColumns:
    """Violations are columns that differ from ``expected``, names with the engine's types; no row is read."""

    by: Literal["columns"] = "columns"
    expected: tuple[tuple[str, str], ...]


Counting = InOnePass | ByQuery | ByColumns
"""How the violations of a check are counted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckQueries:
    """What a kind of check gives a run.

    ``samples`` is the query of some violating rows, None where no row is one or none is wanted; ``shown`` is the query
    as a person would run it; ``proof`` is what storage's statistics may prove, so that nothing is counted.
    """

    counting: Counting
    shown: str
    samples: BoundQuery | None = None
    proof: Proof | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledCheck:
    """One check of a joint, resolved.

    ``columns`` are those that it names, ``options`` what its kind was given, ``reads`` the joints besides its own that
    its queries read; ``timeout`` is in seconds, ``samples`` how many violating rows are shown. ``sql`` of the options
    begins on ``sql_line`` of the file.
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

    @property
    def blocking(self) -> bool:
        """Return whether its failure keeps the data from being published."""
        return self.severity == ERROR


def one_pass(relation: str, aggregates: Iterable[InOnePass]) -> BoundQuery:
    """Return the one query of several aggregates over ``relation``, a name in quotes: texts joined, nothing parsed.

    >>> one_pass("`orders`", [InOnePass(item="COUNT_IF(`id` IS NULL) AS `check_0`", name="check_0")]).sql
    'SELECT COUNT_IF(`id` IS NULL) AS `check_0` FROM `orders`'
    """
    chosen = list(aggregates)
    items = ", ".join(aggregate.item for aggregate in chosen)
    parameters = {name: value for aggregate in chosen for name, value in aggregate.parameters.items()}
    return BoundQuery(f"SELECT {items} FROM {relation}", parameters)
