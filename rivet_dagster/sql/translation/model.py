"""What a translation says: a typed expression, a refusal, and the result."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp


@dataclass(frozen=True)
class Refusal:
    """A construct that is not proven on an engine, its ``line`` in the query, counted from 1, and what to do.

    It is not ``certain`` where only the types of columns are missing, with which it may be proven.
    """

    line: int
    construct: str
    remedy: str
    certain: bool = True


@dataclass(frozen=True)
class Translation:
    """A query as another engine runs it: its SQL there, and what is refused, in which case the SQL is empty.

    ``columns`` are the names and types of its columns, None where they are not known.
    """

    sql: str
    refusals: tuple[Refusal, ...] = ()
    columns: tuple[tuple[str, str | None], ...] | None = None


class NotProven(Exception):
    """Raised for a construct that is not on the list; without one where it follows from a refusal that is recorded."""

    def __init__(
        self, construct: str = "", node: exp.Expr | None = None, remedy: str = "", certain: bool = True
    ) -> None:
        super().__init__(construct)
        self.construct, self.node, self.remedy, self.certain = construct, node, remedy, certain


class TypeUnknown(NotProven):
    """Raised where a construct depends on the types of columns, or of a parameter, that are not known."""

    def __init__(self, construct: str, node: exp.Expr | None = None) -> None:
        super().__init__(construct, node, "Declare the columns of its sources.", certain=False)


@dataclass(frozen=True)
class TypedExpression:
    """An expression in the other engine's dialect, its type in Spark, and its value if it is a literal.

    ``type`` is None where it is not known.
    """

    tree: exp.Expr
    type: str | None
    value: str | int | None = None


@dataclass(frozen=True)
class Named:
    """A column of a relation: its name, its type, and the expression by which the query refers to it."""

    name: str
    type: str | None
    tree: exp.Expr
    refused: bool = False
