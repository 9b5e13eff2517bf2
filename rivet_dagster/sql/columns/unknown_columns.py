"""Columns that a query names and that certainly do not exist: those that Spark rejects as UNRESOLVED_COLUMN.

In doubt nothing is reported, so that no query is rejected that Spark would run: not for a SELECT with a clause that is
not listed here, nor for one that reads a table with unknown columns, nor for a name that could be something else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from sqlglot import exp

from rivet_dagster.errors import nearest
from rivet_dagster.model.schema import Schema
from rivet_dagster.sql.columns.from_clause import Columns
from rivet_dagster.sql.columns.output_columns import may_be_several, output_columns, spark_name
from rivet_dagster.sql.columns.scope import Column, Scope
from rivet_dagster.sql.parsing.nodes import children, names_of


@dataclass(frozen=True)
class UnknownColumn:
    """A column name as written, its ``line`` in the query, counted from 1, and a hint to end the message with."""

    name: str
    line: int | None
    hint: str = ""


def unknown_columns(sql: str, tree: exp.Expr, tables: Mapping[str, Schema | None]) -> tuple[UnknownColumn, ...]:
    """Return the columns of the query ``sql`` that do not exist, in text order, given those of the joints it reads.

    >>> from rivet_dagster.model.schema import Field
    >>> from rivet_dagster.sql.parsing.dialect import read_query
    >>> sql = "SELECT o.id, nett * 2 AS twice FROM orders o WHERE twice > 1"
    >>> unknown = unknown_columns(sql, read_query(sql).tree, {"orders": (Field("id"), Field("net"))})
    >>> [column.name + column.hint for column in unknown]
    ["nett; did you mean 'net'?", 'twice; known: id, net']
    """
    return judged_columns(sql, tree, tables)[1]


def judged_columns(
    sql: str, tree: exp.Expr, tables: Mapping[str, Schema | None]
) -> tuple[Columns, tuple[UnknownColumn, ...]]:
    """Return the ``output_columns`` and the ``unknown_columns`` of a query, in one walk of its tree."""
    if "|>" in sql:  # a pipe, whose steps sqlglot represents unlike Spark
        return output_columns(tree, tables), ()
    search = _Search("->" in sql)
    columns = output_columns(tree, tables, search)
    return columns, tuple(unknown for _, unknown in sorted(search.unknown.items()))


def unknown_column(name: str, relation: str, schema: Schema) -> UnknownColumn | None:
    """Return the column ``name`` of a relation if it certainly does not exist; dots access struct fields.

    >>> from rivet_dagster.model.schema import Field
    >>> unknown_column("idd", "orders", (Field("id"),))
    UnknownColumn(name='idd', line=None, hint="; did you mean 'id'?")
    """
    first, *fields = name.split(".")
    names = {field.name.lower(): field.name for field in schema}
    if first.lower() in names or (fields and first.lower() == relation.lower()) or not _WORD.match(first):
        return None
    return UnknownColumn(name, None, nearest(first, names.values()))


class _Search:
    """Visits each SELECT of a query, first those in its FROM."""

    def __init__(self, has_lambdas: bool) -> None:
        self._has_lambdas = has_lambdas
        self.unknown: dict[tuple[int, str], UnknownColumn] = {}
        """Unknown columns by their position in the text and their name."""
        self._seen: set[int] = set()

    def __call__(
        self,
        select: exp.Select,
        scope: Scope,
        in_doubt: Sequence[exp.Expr],
        look_into: Callable[[exp.Query], Columns],
    ) -> None:
        if id(select) in self._seen:
            return
        self._seen.add(id(select))
        if not _is_plain(select):
            return
        behind = [select.args[key] for key in _BEHIND if select.args.get(key) is not None]
        items, visible = select.expressions, (scope.aliases, scope.all_uncertain)
        try:
            scope.aliases = {}
            self._clauses(_conditions(select), scope, look_into)
            if in_doubt or behind:
                scope.aliases = _aliases(items)
                # A generator names its own columns, to which the other items may refer, too.
                scope.all_uncertain |= any(map(may_be_several, items))
            self._clauses(in_doubt, scope, look_into)  # not WINDOW: Spark ignores one that is not used
            if behind:
                outputs = _outputs(items, scope)
                scope.all_uncertain |= outputs is None
                scope.aliases |= outputs or {}
            self._clauses(behind, scope, look_into)
        finally:
            scope.aliases, scope.all_uncertain = visible

    def _clauses(self, clauses: Sequence[exp.Expr], scope: Scope, look_into: Callable[[exp.Query], Columns]) -> None:
        for clause in clauses:
            for node in _leaves(clause):
                if isinstance(node, exp.Column):
                    names = names_of(node)
                    if scope.lacks(names) and _is_judged(node) and not (self._has_lambdas and _is_parameter(node)):
                        self._add(node, names, scope)
                else:
                    first = node.find(exp.Select)
                    if first is not None and id(first) not in self._seen:
                        look_into(node)

    def _add(self, column: exp.Column, parts: Sequence[str], scope: Scope) -> None:
        position, name = column.parts[0].meta, ".".join(parts)
        self.unknown[position.get("start", 0), name] = UnknownColumn(name, position.get("line"), _hint(parts, scope))


def _hint(parts: Sequence[str], scope: Scope) -> str:
    if len(parts) == 1:
        return nearest(parts[0], {column.name for _, column in scope.columns})
    relation = scope.relations.get(parts[0].lower())
    if relation is not None:
        return nearest(parts[1], {column.name for column in relation.columns or ()})
    return nearest(".".join(parts), {f"{alias}.{column.name}" for alias, column in scope.columns if alias[:1] != "\0"})


_BEHIND = ("group", "having", "order", "sort", "cluster", "distribute")
"""The clauses that can also refer to columns of the result."""

_UNDERSTOOD = frozenset((
    "with_", "expressions", "distinct", "hint", "from_", "joins", "laterals", "where", "windows", "limit", "offset",
    *_BEHIND,
))  # fmt: skip
_OF_A_TABLE = frozenset(("this", "alias", "sample", "db", "catalog"))


def _is_plain(select: exp.Select) -> bool:
    """Return whether the SELECT has no clause that may define names in a way that is not analyzed here."""
    if not _UNDERSTOOD.issuperset([key for key, value in select.args.items() if value]):
        return False
    if [item for item in select.expressions if isinstance(item, exp.QueryTransform)]:
        return False
    start = select.args.get("from_")
    read = [start.this] if start is not None else []
    read += [join.this for join in select.args.get("joins") or ()]
    tables = [table.args.items() for table in read if isinstance(table, exp.Table)]
    return _OF_A_TABLE.issuperset([key for args in tables for key, value in args if value])


def _conditions(select: exp.Select) -> list[exp.Expr]:
    """Return WHERE and the ON conditions, except those of a semi join: they see columns that other clauses don't."""
    joins, where = select.args.get("joins") or (), select.args.get("where")
    conditions = [] if where is None else [where]
    if not {"SEMI", "ANTI"}.isdisjoint([(join.args.get("kind") or "").upper() for join in joins]):
        return conditions
    return [*[join.args["on"] for join in joins if join.args.get("on") is not None], *conditions]


def _aliases(items: Sequence[exp.Expr]) -> dict[str, Column | None]:
    names = [item.alias for item in items if isinstance(item, exp.Alias)]
    names += [name.name for item in items if isinstance(item, exp.Aliases) for name in item.expressions]
    return {name.lower(): None for name in names}


def _outputs(items: Sequence[exp.Expr], scope: Scope) -> dict[str, Column | None] | None:
    """Return the names of the result's columns except aliases and those of ``*``; None if one is not certain."""
    names: dict[str, Column | None] = {}
    for item in items:
        if isinstance(item, _NAMED):
            continue
        if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
            if isinstance(item, exp.Column) and item.table.lower() not in scope.relations:
                return None  # the fields of a struct
            continue
        name = spark_name(item)
        if name is None:
            return None
        names[name.lower()] = None
    return names


_NAMED = (exp.Alias, exp.Aliases)
_NO_COLUMNS = (
    exp.DataType, exp.Hint, exp.Interval, exp.Parameter, exp.Placeholder, exp.SessionParameter, exp.Star, exp.Table,
)  # fmt: skip


def _leaves(clause: exp.Expr) -> Iterator[exp.Query | exp.Column]:
    """Yield the columns and the queries in a clause, except nodes that only look like columns."""
    stack = [clause]
    while stack:
        node = stack.pop()
        kind = _KINDS[type(node)]
        if kind is None:
            stack += children(node)
        elif kind is exp.Column:
            yield cast("exp.Query | exp.Column", node)
        elif kind is exp.Kwarg:
            stack.append(node.expression)
        elif kind is exp.Collate:
            stack.append(node.this)


class _Kinds(dict[type[exp.Expr], type[exp.Expr] | None]):
    """By class of a node what ``_leaves`` does: one class for all treated alike, None where it looks inside."""

    def __missing__(self, node: type[exp.Expr]) -> type[exp.Expr] | None:
        alike: tuple[tuple[type[exp.Expr], ...], ...]
        alike = (exp.Column, exp.Query), (exp.Kwarg, exp.PropertyEQ), (exp.Collate,), _NO_COLUMNS
        self[node] = next((kinds[0] for kinds in alike if issubclass(node, kinds)), None)
        return self[node]


_KINDS = _Kinds()


_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
"""Other names may be generated, like ``count(1)``, or hidden columns of files and tables, like ``_metadata``."""

_WORDS_OF_SPARK = frozenset(
    "all default localtime localtimestamp session_user user grouping__id spark_grouping_id window session_window "
    "session system year quarter month week day dayofyear hour minute second millisecond microsecond".split()
)
"""Names with another meaning where no column has the name: functions, generated columns, units, variables."""


def _is_judged(column: exp.Column) -> bool:
    parts = column.parts
    if len(parts) > 2 or isinstance(column.this, exp.Star) or not all(_WORD.match(part.name) for part in parts):
        return False
    first = parts[0].name.lower()
    return first not in _WORDS_OF_SPARK and not first.startswith("current_")


def _is_parameter(column: exp.Column) -> bool:
    first = column.parts[0].name.lower()
    return any(first in {p.name.lower() for p in each.expressions} for each in _lambdas(column))


def _lambdas(node: exp.Expr) -> Iterator[exp.Lambda]:
    while node.parent is not None and not isinstance(node.parent, exp.Query):
        node = node.parent
        if isinstance(node, exp.Lambda):
            yield node
