"""GROUP BY: keys by name, position or alias, ALL, ROLLUP, CUBE and GROUPING SETS."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from rivet_dagster.sql.translation.expressions import Expressions
from rivet_dagster.sql.translation.model import Named, NotProven, TypedExpression, TypeUnknown
from rivet_dagster.sql.translation.proven import AGGREGATE
from rivet_dagster.sql.translation.scope import SelectScope
from rivet_dagster.sql.translation.templates import atom, call


def _call(node: exp.Expr) -> exp.Expr:
    """Return the call of an aggregate with FILTER, or the node itself."""
    inner = node.this if isinstance(node, exp.Filter) else node
    return inner if isinstance(inner, exp.Expr) else node


class Grouping:
    """The GROUP BY of one SELECT with its items and their columns."""

    def __init__(
        self,
        expressions: Expressions,
        scope: SelectScope,
        select: exp.Select,
        items: Sequence[exp.Expr],
        columns: Sequence[Named] | None,
    ) -> None:
        self._expressions = expressions
        self._support = expressions.support
        self._scope = scope
        self._group: exp.Expr | None = select.args.get("group")
        self._items = items
        self._columns = columns

    def apply(self, made: exp.Select) -> None:
        """Add the GROUP BY to ``made``. Raise NotProven."""
        group = self._group
        if group is None:
            return
        if self._columns is None:
            raise TypeUnknown("GROUP BY beside columns that are not known", group)
        written = {key for key, value in group.args.items() if value}
        if written - {"all", "expressions"}:
            raise NotProven(f"GROUP BY {sorted(written - {'all', 'expressions'})[0].upper()}", group)
        if group.args.get("all"):
            self._require("GROUP BY ALL", group)
            keys = self._all_keys(group)
        else:
            self._require("GROUP BY", group)
            keys = [self._element(element) for element in group.expressions]
        if keys:
            made.set("group", exp.Group(expressions=keys))
        if any(isinstance(key, exp.Rollup | exp.Cube | exp.GroupingSets) for key in keys):
            # Of no rows Spark makes no group, and other engines that of the grand total.
            rows = exp.GT(this=call("count", exp.Star()), expression=exp.Literal.number(0))
            having = made.args.get("having")
            whole: exp.Expr = rows if having is None else exp.And(this=atom(having.this), expression=rows)
            made.set("having", exp.Having(this=whole))

    def _all_keys(self, group: exp.Expr) -> list[exp.Expr]:
        keys = []
        for item, column in zip(self._items, self._columns or (), strict=True):
            if column.refused:
                raise NotProven()
            if not self._aggregates(item):
                self._expressions.key(TypedExpression(column.tree, column.type), "GROUP BY", item)
                keys.append(column.tree.copy())
            elif self._beside(item):
                raise NotProven("GROUP BY ALL with an item of aggregates and columns", item)
        return keys

    def _aggregates(self, item: exp.Expr) -> bool:
        return any(self._is_aggregate(node) for node in item.find_all(exp.Anonymous))

    def _is_aggregate(self, node: exp.Expr) -> bool:
        name = self._support.names.get(node.name.lower(), node.name.lower())
        return self._support.knows(AGGREGATE, name)

    def _beside(self, item: exp.Expr) -> bool:
        """Return whether an item of aggregates has columns outside of these."""
        for column in item.find_all(exp.Column):
            above = column.parent
            while above is not None and above is not item.parent and not self._is_aggregate(_call(above)):
                above = above.parent
            if above is None or above is item.parent:
                return True
        return False

    def _element(self, element: exp.Expr) -> exp.Expr:
        if isinstance(element, exp.Rollup | exp.Cube | exp.GroupingSets):
            word = {exp.Rollup: "ROLLUP", exp.Cube: "CUBE"}.get(type(element), "GROUPING SETS")
            self._require(word, element)
            return type(element)(expressions=[self._set(part) for part in element.expressions])
        return self._key(element)

    def _set(self, part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Tuple):
            return exp.Tuple(expressions=[self._key(key) for key in part.expressions])
        if isinstance(part, exp.Paren):
            return exp.Paren(this=self._key(part.this))
        return self._key(part)

    def _key(self, node: exp.Expr) -> exp.Expr:
        columns = self._columns or ()
        if isinstance(node, exp.Literal) and node.name.isdigit() and not node.is_string:
            position = int(node.name)
            if not 0 < position <= len(columns):
                raise NotProven(f"GROUP BY {position}", node)
            column = columns[position - 1]
            if column.refused:
                raise NotProven()
            if self._aggregates(self._items[position - 1]):
                raise NotProven("GROUP BY an aggregate", node)
            typed = TypedExpression(column.tree, column.type)
        else:
            typed = self._expressions.translate(node, self._scope)
        self._expressions.key(typed, "GROUP BY", node)
        return typed.tree.copy()

    def _require(self, clause: str, node: exp.Expr) -> None:
        if clause not in self._support.clauses:
            raise NotProven(clause, node)
