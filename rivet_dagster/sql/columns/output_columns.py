"""The output columns of a query: names, types and origins, as far as they are certain without asking the engine.

The names that Spark gives to select items without an alias, as far as they are certain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from rivet_dagster.model.schema import Schema
from rivet_dagster.sql.columns.expression_types import expression
from rivet_dagster.sql.columns.from_clause import Columns, Visible, scope_of, values
from rivet_dagster.sql.columns.scope import ABSENT, NAMELESS, Column, Relation, Scope, relations_of
from rivet_dagster.sql.parsing.dialect import translate_parser_errors
from rivet_dagster.sql.parsing.nodes import names_of

Visit = Callable[[exp.Select, Scope, Sequence[exp.Expr], Callable[[exp.Query], Columns]], None]
"""Called with a SELECT, the scope of its names, and a function that analyzes a query within its expressions.

The third argument are those of its items that may name columns which do not exist: of the others, each name is known.
"""


def output_columns(tree: exp.Expr, tables: Mapping[str, Schema | None], visit: Visit | None = None) -> Columns:
    """Return the columns in order, given those of the joints that are read; None where a name is not certain.

    The tree is walked once; ``visit`` is called for each SELECT that is understood, first for those in its FROM. A type
    or the origins of a column are None where they are not certain. Raises UnreadableSql for a tree that is too deep.

    >>> from rivet_dagster.model.schema import Field
    >>> from rivet_dagster.sql.parsing.dialect import read_query
    >>> tree = read_query("SELECT *, a || '!' AS b, my_function(a) AS c FROM t").tree
    >>> [(c.name, c.type, sorted(c.origins)) for c in output_columns(tree, {"t": (Field("a", "string"),)})]
    [('a', 'string', [('t', 'a')]), ('b', 'string', [('t', 'a')]), ('c', None, [('t', 'a')])]
    """
    with translate_parser_errors():
        columns = _Reader(visit).query(tree, relations_of(tables), None)
    return columns if columns is not None and NAMELESS not in [column.name for column in columns] else None


def passes_on(tree: exp.Expr, tables: Mapping[str, Schema | None]) -> str | None:
    """Return the one joint whose columns the query returns unchanged, known or not; None for any other query.

    >>> from rivet_dagster.sql.parsing.dialect import read_query
    >>> passes_on(read_query("SELECT * FROM T WHERE a > 1").tree, {"t": None})
    't'
    """
    if not isinstance(tree, exp.Select) or any(tree.args.get(key) for key in ("joins", "laterals", "with_")):
        return None
    start, items = tree.args.get("from_"), tree.expressions
    table = start.this if start is not None else None
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier) or len(items) != 1:
        return None
    changed = table.args.get("db") or table.args.get("pivots") or table.args.get("joins")
    alias = table.args.get("alias")
    if changed or (alias is not None and alias.args.get("columns")):
        return None
    star = isinstance(items[0], exp.Star) and not any(items[0].args.values())
    return table.name.lower() if star and table.name.lower() in tables else None


class _Reader:
    """Reads the columns of queries."""

    def __init__(self, visit: Visit | None) -> None:
        self._visit = visit

    def query(self, tree: exp.Expr, visible: Visible, outer: Scope | None) -> Columns:
        visible = self._with_ctes(tree, visible, outer)
        if isinstance(tree, exp.Subquery):
            plain = not tree.args.get("pivots") and not tree.args.get("joins") and not isinstance(tree.this, exp.Table)
            return self.query(tree.this, visible, outer) if plain else None
        if isinstance(tree, exp.SetOperation):
            return self._set_operation(tree, visible, outer)
        if isinstance(tree, exp.Values):
            return values(tree, self._expression)
        return self._select(tree, visible, outer) if isinstance(tree, exp.Select) else None

    def _with_ctes(self, tree: exp.Expr, visible: Visible, outer: Scope | None) -> Visible:
        declared = tree.args.get("with_")
        if declared is None:
            return visible
        relations = dict(visible)
        for cte in declared.expressions:
            name = cte.alias.lower()
            recursive = declared.recursive and any(t.name.lower() == name for t in cte.this.find_all(exp.Table))
            made_by_parser = name.startswith("__tmp")  # of a pipe, whose steps sqlglot represents unlike Spark
            relation = Relation(None if recursive or made_by_parser else self.query(cte.this, relations, outer))
            names = [column.name for column in cte.args["alias"].args.get("columns") or ()]
            relations[name] = relation.renamed(names) if names else relation
        return relations

    def _set_operation(self, tree: exp.SetOperation, visible: Visible, outer: Scope | None) -> Columns:
        """Return the names of the first arm, and each type where all arms agree on it.

        Arms whose rows are only subtracted or compared contribute no origins.
        """
        arms: list[tuple[bool, exp.Expr]] = []
        leftmost: exp.Expr = tree
        while isinstance(leftmost, exp.SetOperation) and (leftmost is tree or leftmost.args.get("with_") is None):
            if leftmost.args.get("by_name"):
                return None
            arms.append((isinstance(leftmost, exp.Union), leftmost.expression))
            leftmost = leftmost.this
        result = self.query(leftmost, visible, outer)
        for adds_rows, arm in reversed(arms):
            columns = self.query(arm, visible, outer)
            if result is None or columns is None or len(columns) != len(result):
                columns = None if result is None else tuple(Column(NAMELESS) for _ in result)
            result = columns and tuple(_either(a, b, adds_rows) for a, b in zip(result or (), columns, strict=True))
        return result

    def _select(self, select: exp.Select, visible: Visible, outer: Scope | None) -> Columns:
        if select.args.get("operation_modifiers") or select.args.get("kind"):
            return None
        scope = scope_of(select, visible, outer, self.query, self._expression)
        columns, in_doubt = self._items(select, visible, scope)
        if self._visit is not None:
            self._visit(select, scope, in_doubt, lambda query: self.query(query, visible, scope))
        return columns

    def _items(self, select: exp.Select, visible: Visible, scope: Scope) -> tuple[Columns, Sequence[exp.Expr]]:
        """Return the columns of the items, and the items with a name that is not known."""
        columns: list[Column] = []
        in_doubt: list[exp.Expr] = []
        items = select.expressions
        for position, item in enumerate(items):
            item_columns = self._item(item, visible, scope)
            if item_columns is None:
                return None, [*in_doubt, *items[position:]]
            columns += item_columns
            if None in [column.origins for column in item_columns]:
                in_doubt.append(item)
        return tuple(columns), in_doubt

    def _item(self, item: exp.Expr, visible: Visible, scope: Scope) -> list[Column] | None:
        if isinstance(item, exp.Alias):
            _, kind, origins = self._expression(item.this, visible, scope)
            named = Column(item.alias, kind, origins)
            scope.name_alias(named)
            return [named]
        if isinstance(item, exp.Column):
            if isinstance(item.this, exp.Star):
                return _star(item.this, item.table, scope) if len(item.parts) == 2 else None
            column = scope.resolve(names_of(item))
            if column is ABSENT:
                return None
            return [Column(item.name) if column is None else Column(item.name, column.type, column.origins)]
        if isinstance(item, exp.Star):
            return _star(item, None, scope)
        if isinstance(item, exp.Aliases):
            origins = self._expression(item.this, visible, scope).origins
            return [Column(name, None, origins) for name in (n.name for n in item.expressions)]
        name = spark_name(item)
        if name is None and (may_be_several(item) or not isinstance(item, _ONE_VALUE)):
            return None
        return [self._expression(item, visible, scope)._replace(name=name or NAMELESS)]

    def _expression(self, item: exp.Expr, visible: Visible, scope: Scope) -> Column:
        return expression(item, scope, lambda query: self.query(query, visible, scope))


def _either(column: Column, other: Column, adds_rows: bool) -> Column:
    origins = column.origins
    if adds_rows:
        origins = None if column.origins is None or other.origins is None else column.origins | other.origins
    return Column(column.name, column.type if column.type == other.type else None, origins)


def may_be_several(item: exp.Expr) -> bool:
    """Return whether an item without an alias may be a generator with several columns, or end in a star."""
    return isinstance(item, _SEVERAL)


_SEVERAL = (exp.Anonymous, exp.UDTF, exp.Dot)
_ONE_VALUE = (exp.Condition, exp.Subquery)


def _star(star: exp.Star, alias: str | None, scope: Scope) -> list[Column] | None:
    columns = scope.star(alias)
    excepted = star.args.get("except_") or ()
    if columns is None or star.args.get("replace") or star.args.get("rename"):
        return None
    if any(isinstance(item, exp.Column) and len(item.parts) > 1 for item in excepted):
        return None  # a field of a struct, or a column of one table of several
    without = {item.name.lower() for item in excepted}
    return [column for column in columns if column.name.lower() not in without]


_AGGREGATES: dict[type[exp.Expr], str] = {exp.Sum: "sum", exp.Min: "min", exp.Max: "max", exp.Count: "count"}


def spark_name(item: exp.Expr) -> str | None:
    """Return the name of the column of ``item``; None where only Spark knows it.

    >>> from rivet_dagster.sql.parsing.dialect import parse_expression
    >>> [spark_name(parse_expression(text)) for text in ("t.s.a", "SUM(t.x)", "count(*)", "1", "x + 1")]
    ['a', 'sum(x)', 'count(1)', '1', None]
    """
    if isinstance(item, exp.Column):
        return item.name
    if isinstance(item, exp.Literal) and not item.is_string:
        return item.name if item.name.isdigit() else None
    word = _AGGREGATES.get(type(item))
    if word is None or item.expressions:
        return None
    argument = item.this
    if isinstance(argument, exp.Star) and isinstance(item, exp.Count) and not argument.args.get("except_"):
        return "count(1)"
    plain = isinstance(argument, exp.Column) and not isinstance(argument.this, exp.Star)
    # A qualifier may be a table or a struct, and Spark omits only one of the two from the name.
    return f"{word}({argument.name})" if plain and len(argument.parts) <= 2 else None
