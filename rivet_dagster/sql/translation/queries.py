"""Queries: SELECT with its clauses, set operations, VALUES and CTEs, translated clause by clause."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count

from sqlglot import exp

from rivet_dagster.sql.translation.aggregates import RANKING
from rivet_dagster.sql.translation.expressions import Expressions
from rivet_dagster.sql.translation.from_clause import FromClause, Translated, Visible, VisibleTable, values
from rivet_dagster.sql.translation.grouping import Grouping
from rivet_dagster.sql.translation.item_names import item_name, shown
from rivet_dagster.sql.translation.model import Named, NotProven, Refusal, TypedExpression, TypeUnknown
from rivet_dagster.sql.translation.proven import AGGREGATE, WINDOW, Support
from rivet_dagster.sql.translation.recursion import LEVELS, unroll
from rivet_dagster.sql.translation.scope import SelectScope, as_subquery, column_of, quoted
from rivet_dagster.sql.translation.set_operations import SET_OPERATIONS, combine, needs_numbers
from rivet_dagster.sql.translation.spark_types import VOID
from rivet_dagster.sql.translation.subqueries import check_subqueries

_CLAUSES = frozenset(
    "with_ hint distinct expressions from_ joins laterals where group having qualify windows order limit offset".split()
)
_OF_SET_OPERATIONS = frozenset("with_ this expression distinct order limit offset".split())


class Queries:
    """Translates one text; ``refusals`` are those of all its parts."""

    def __init__(self, support: Support, parameters: Mapping[str, str | None]) -> None:
        self.support = support
        self._parameters = parameters
        self.refusals: list[Refusal] = []
        self._numbers = count(1)
        self._line = 1

    def new_name(self) -> str:
        """Return a name that the text cannot have."""
        return f"rivet {next(self._numbers)}"

    def refuse(self, refused: NotProven) -> None:
        """Record a refusal."""
        if refused.construct:
            line = _line(refused.node) or self._line
            if not any(known.line == line and known.construct == refused.construct for known in self.refusals):
                self.refusals.append(Refusal(line, refused.construct, refused.remedy, refused.certain))

    def query(self, tree: exp.Expr, visible: Visible, outer: SelectScope | None) -> Translated:
        """Return a query as the engine reads it, and its columns, None where they are not known. Raise NotProven."""
        self._line = _line(tree) or self._line
        declared: list[exp.CTE] = []
        if tree.args.get("with_") is not None:
            visible, declared, recursive = self._with_ctes(tree.args["with_"], visible, outer)
        made, columns = self._body(tree, visible, outer)
        if declared:
            if made.args.get("with_") is not None:
                made = self._nested(made)
            made.set("with_", exp.With(expressions=declared, recursive=recursive))
        return made, columns

    def _nested(self, query: exp.Expr) -> exp.Select:
        """Return all rows of a query by another one."""
        return exp.Select(expressions=[exp.Star()], from_=exp.From(this=as_subquery(query, self.new_name())))

    def _body(self, tree: exp.Expr, visible: Visible, outer: SelectScope | None) -> Translated:
        if isinstance(tree, exp.Select):
            return self._select(tree, visible, outer)
        if isinstance(tree, exp.SetOperation):
            return self._set_operation(tree, visible, outer)
        if isinstance(tree, exp.Values):
            made, columns = values(tree, self._expressions(visible))
            return made, columns
        if isinstance(tree, exp.Subquery):
            return self._parenthesized(tree, visible, outer)
        raise NotProven(shown(tree), tree)

    def _expressions(self, visible: Visible) -> Expressions:
        return Expressions(
            self.support, lambda query, scope: self.query(query, visible, scope), self.new_name, self._parameters
        )

    # CTEs

    def _with_ctes(
        self, declared: exp.With, visible: Visible, outer: SelectScope | None
    ) -> tuple[Visible, list[exp.CTE], bool]:
        known, made = dict(visible), []
        recursive = False
        for cte in declared.expressions:
            name = cte.alias.lower()
            if name.startswith("__tmp"):
                raise NotProven("|>", cte)
            names = [column.name for column in cte.args["alias"].args.get("columns") or ()]
            if declared.recursive and any(t.name.lower() == name for t in cte.this.find_all(exp.Table)):
                start, step, table = self._recursion(cte, names, known, outer)
                if "WITH RECURSIVE" in self.support.clauses:
                    recursive = True
                    body: exp.Expr = exp.Union(this=start, expression=step, distinct=False)
                else:
                    self._require(LEVELS, cte)
                    levels, body = unroll(start, step, table.name, table.columns or (), self.support.dialect)
                    made += levels
            else:
                body, table = self._cte(cte, names, known, outer)
                if declared.recursive and isinstance(body, exp.SetOperation):
                    body = self._nested(body)  # which DuckDB else takes for a recursive one
            made.append(exp.CTE(this=body, alias=exp.TableAlias(this=quoted(table.name))))
            known[name] = table
        return known, made, recursive

    def _cte(
        self, cte: exp.CTE, names: Sequence[str], known: Visible, outer: SelectScope | None
    ) -> tuple[exp.Expr, VisibleTable]:
        own = f"{cte.alias} {next(self._numbers)}"
        try:
            body, columns = self.query(cte.this, known, outer)
        except NotProven as refused:
            self.refuse(refused)
            return exp.Select(expressions=[exp.Null()]), VisibleTable(own, None)
        if names:
            body, columns = self._renamed(body, columns, names, cte)
        return body, VisibleTable(own, columns)

    def _renamed(
        self, body: exp.Expr, columns: Sequence[Named] | None, names: Sequence[str], node: exp.Expr
    ) -> Translated:
        if columns is None or len(columns) != len(names):
            raise TypeUnknown("a list of names over columns that are not known", node)
        if len({column.name.lower() for column in columns}) < len(columns):
            raise NotProven("a list of names over columns of the same name", node)
        alias = self.new_name()
        items = [
            exp.Alias(this=column_of(alias, column.name), alias=quoted(name))
            for column, name in zip(columns, names, strict=True)
        ]
        made = exp.Select(expressions=items, from_=exp.From(this=as_subquery(body, alias)))
        return made, [Named(n, c.type, c.tree, c.refused) for c, n in zip(columns, names, strict=True)]

    def _recursion(
        self, cte: exp.CTE, names: Sequence[str], known: Visible, outer: SelectScope | None
    ) -> tuple[exp.Expr, exp.Expr, VisibleTable]:
        """Return the start and the step of a recursive query, and its table, to which the step refers."""
        tree = cte.this
        plain = isinstance(tree, exp.Union) and not tree.args.get("distinct") and not tree.args.get("by_name")
        written = {key for key, value in tree.args.items() if value} - {"this", "expression"}
        if not plain or written or any(t.name.lower() == cte.alias.lower() for t in tree.this.find_all(exp.Table)):
            raise NotProven("a recursive query other than `start UNION ALL step`", cte)
        start, columns = self.query(tree.this, known, outer)
        if names:
            start, columns = self._renamed(start, columns, names, cte)
        elif not isinstance(start, exp.Select) or any(
            start.args.get(key) for key in ("order", "limit", "offset", "with_")
        ):
            start = self._nested(start)
        if columns is None or any(c.type in (None, VOID) or c.refused for c in columns):
            raise TypeUnknown("a recursive query over columns that are not known", cte)
        table = VisibleTable(f"{cte.alias} {next(self._numbers)}", columns)
        step, stepped = self.query(tree.expression, {**known, cte.alias.lower(): table}, outer)
        if stepped is None or [c.type for c in stepped] != [c.type for c in columns]:
            raise NotProven("a recursive query whose step has other types than its start", cte)
        if not isinstance(step, exp.Select) or any(step.args.get(key) for key in ("order", "limit", "offset", "with_")):
            raise NotProven("a recursive query whose step has ORDER BY, LIMIT, WITH or a set operation", cte)
        if "WITH RECURSIVE" not in self.support.clauses:
            step, _ = self._renamed(step, stepped, [column.name for column in columns], cte)
        return start, step, table

    # set operations

    def _set_operation(self, tree: exp.SetOperation, visible: Visible, outer: SelectScope | None) -> Translated:
        arms: list[tuple[exp.SetOperation, exp.Expr]] = []
        leftmost: exp.Expr = tree
        while isinstance(leftmost, exp.SetOperation) and (leftmost is tree or leftmost.args.get("with_") is None):
            written = {key for key, value in leftmost.args.items() if value}
            if written - _OF_SET_OPERATIONS or (leftmost is not tree and written & {"order", "limit", "offset"}):
                raise NotProven(f"{SET_OPERATIONS[type(leftmost)]} {sorted(written - _OF_SET_OPERATIONS)}", leftmost)
            arms.append((leftmost, leftmost.expression))
            leftmost = leftmost.this
        made, columns = self.query(leftmost, visible, outer)
        for operation, arm in reversed(arms):
            if not needs_numbers(operation, self.support):
                word = SET_OPERATIONS[type(operation)] + ("" if operation.args.get("distinct") else " ALL")
                self._require(word, operation)
            other, others = self.query(arm, visible, outer)
            made, columns = combine(self._expressions({}), operation, (made, columns), (other, others))
        scope = SelectScope()
        alias = self.new_name()
        scope.add(alias, [Named(c.name, c.type, quoted(c.name), c.refused) for c in columns or ()])
        self._finish(tree, made, columns or (), scope, self._expressions(visible), only_names=True)
        return made, columns

    def _parenthesized(self, tree: exp.Subquery, visible: Visible, outer: SelectScope | None) -> Translated:
        written = {key for key, value in tree.args.items() if value} - {"this", "with_", "order", "limit", "offset"}
        if written:
            raise NotProven(f"{sorted(written)[0].upper()} of a query", tree)
        made, columns = self.query(tree.this, visible, outer)
        if tree.args.keys() & {"order", "limit", "offset"} and any(
            tree.args.get(k) for k in ("order", "limit", "offset")
        ):
            if columns is None:
                raise TypeUnknown("ORDER BY or LIMIT over columns that are not known", tree)
            alias = self.new_name()
            made = exp.Select(expressions=[exp.Star()], from_=exp.From(this=as_subquery(made, alias)))
            scope = SelectScope()
            scope.add(alias, [Named(c.name, c.type, column_of(alias, c.name), c.refused) for c in columns])
            self._finish(tree, made, columns, scope, self._expressions(visible), only_names=True)
        return made, columns

    # SELECT

    def _select(self, select: exp.Select, visible: Visible, outer: SelectScope | None) -> Translated:
        other = {key for key, value in select.args.items() if value} - _CLAUSES
        if other:
            raise NotProven(
                _clause(sorted(other)[0]),
                select.args[sorted(other)[0]] if isinstance(select.args[sorted(other)[0]], exp.Expr) else select,
            )
        expressions = self._expressions(visible)
        scope = SelectScope(outer, windows={w.this.name.lower(): _window(w) for w in select.args.get("windows") or ()})
        made = exp.Select()
        source = FromClause(expressions, self.query, visible, scope)
        source.fill(select, made)
        items, columns = self._items(select, scope, expressions, source, made)
        where = select.args.get("where")
        if where is not None:
            self._collect(lambda: made.set("where", exp.Where(this=expressions.condition(where.this, _plain(scope)))))
        grouping = Grouping(expressions, scope, select, items, columns)
        for clause, kind in (("having", exp.Having), ("qualify", exp.Qualify)):
            node = select.args.get(clause)
            if node is not None:
                self._require(clause.upper(), node)
                self._collect(partial(_set_condition, made, kind, expressions, node.this, scope))
        self._collect(lambda: grouping.apply(made))
        if select.args.get("distinct") is not None:
            if select.args["distinct"].args.get("on"):
                raise NotProven("DISTINCT ON", select)
            self._require("DISTINCT", select)
            for column in columns or ():
                if not column.refused:
                    typed = TypedExpression(column.tree, column.type)
                    self._collect(partial(expressions.key, typed, "DISTINCT", select))
            made.set("distinct", exp.Distinct())
        self._collect(lambda: self._finish(select, made, columns, scope, expressions))
        self._collect(lambda: check_subqueries(made, select, self.support))
        return made, columns

    def _items(
        self, select: exp.Select, scope: SelectScope, expressions: Expressions, source: FromClause, made: exp.Select
    ) -> tuple[list[exp.Expr], Sequence[Named] | None]:
        """Return the select list as written, stars resolved, and the columns of the result."""
        written: list[exp.Expr] = []
        columns: list[Named] = []
        unknown = False
        for item in select.expressions:
            try:
                if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
                    if self._passes_unknown(item, scope):
                        made.append("expressions", item.copy())
                        unknown = True
                        continue
                    for column in self._star(item, scope, expressions):
                        columns.append(Named(column.name, column.type, column.tree, column.refused))
                        written.append(item)
                        made.append("expressions", exp.Alias(this=column.tree.copy(), alias=quoted(column.name)))
                    continue
                named = self._item(item, scope, expressions, source, made, select)
            except NotProven as refused:
                refused.node = refused.node or item
                self.refuse(refused)
                columns.append(Named(item.alias_or_name or self.new_name(), None, exp.Null(), refused=True))
                scope.aliases[columns[-1].name.lower()] = columns[-1]
                written.append(item)
                continue
            for column in named:
                columns.append(column)
                written.append(item)
                made.append("expressions", exp.Alias(this=column.tree.copy(), alias=quoted(column.name)))
                lower = column.name.lower()
                if lower in scope.aliases:
                    scope.aliases[lower] = Named(column.name, None, column.tree, refused=True)
                else:
                    scope.aliases[lower] = column
        return written, None if unknown else columns

    def _item(
        self,
        item: exp.Expr,
        scope: SelectScope,
        expressions: Expressions,
        source: FromClause,
        made: exp.Select,
        select: exp.Select,
    ) -> Sequence[Named]:
        inner = item.this if isinstance(item, exp.Alias | exp.Aliases) else item
        if isinstance(inner, exp.Anonymous) and "explode" in inner.name.lower():
            names = (
                [n.name for n in item.expressions]
                if isinstance(item, exp.Aliases)
                else [item.alias]
                if item.alias
                else []
            )
            if select.args.get("group") or select.args.get("windows") or self._has_aggregate(select):
                raise NotProven(f"{inner.name} beside aggregates or windows", inner)
            before = len(scope.items)
            alias = self.new_name()
            visible = list(scope.visible)
            source.add(made, source.generate(inner, alias, names, False))
            found = scope.items[before].columns or ()
            scope.visible = visible
            return list(found)
        if isinstance(item, exp.Aliases):
            raise NotProven("several names of one item", item)
        typed = expressions.translate(inner, scope)
        name = item.alias if isinstance(item, exp.Alias) else item_name(item)
        if name is None:
            raise NotProven("an expression without a name", item, "Give it a name with AS.")
        return [Named(name, typed.type, typed.tree)]

    def _has_aggregate(self, select: exp.Select) -> bool:
        return any(
            self.is_aggregate(node) or isinstance(node, exp.Window)
            for node in select.find_all(exp.Anonymous, exp.Window)
        )

    def is_aggregate(self, node: exp.Expr) -> bool:
        """Return whether a node calls an aggregate or a window function."""
        name = self.support.names.get(node.name.lower(), node.name.lower())
        return self.support.knows(AGGREGATE, name) or self.support.knows(WINDOW, name) or name in RANKING

    def _passes_unknown(self, item: exp.Expr, scope: SelectScope) -> bool:
        plain = isinstance(item, exp.Star) and not any(item.args.values())
        return plain and len(scope.items) == 1 and scope.items[0].columns is None

    def _star(self, item: exp.Expr, scope: SelectScope, expressions: Expressions) -> Sequence[Named]:
        star = item if isinstance(item, exp.Star) else item.this
        columns = scope.star(None if isinstance(item, exp.Star) else item.args["table"].name)
        if star.args.get("rename"):
            raise NotProven("* RENAME", item)
        replaced: dict[str, Named] = {}
        for new in star.args.get("replace") or ():
            typed = expressions.translate(new.this, scope)
            if new.alias.lower() in replaced or new.alias.lower() not in {c.name.lower() for c in columns}:
                raise NotProven(f"a new value of {new.alias}, which is not certain", item)
            replaced[new.alias.lower()] = Named(new.alias, typed.type, typed.tree)
        excepted = star.args.get("except_") or ()
        if any(isinstance(name, exp.Column) and len(name.parts) > 1 for name in excepted):
            raise NotProven("* EXCEPT of a qualified name", item)
        without = {name.name.lower() for name in excepted}
        return [replaced.get(c.name.lower(), c) for c in columns if c.name.lower() not in without]

    # ORDER BY, LIMIT

    def _finish(
        self,
        tree: exp.Expr,
        made: exp.Expr,
        columns: Sequence[Named] | None,
        scope: SelectScope,
        expressions: Expressions,
        only_names: bool = False,
    ) -> None:
        order = tree.args.get("order")
        if order is not None:
            self._require("ORDER BY", order)
            items = [self._ordered(o, columns, scope, expressions, only_names) for o in order.expressions]
            made.set("order", exp.Order(expressions=items))
        for clause, kind in (("limit", exp.Limit), ("offset", exp.Offset)):
            node = tree.args.get(clause)
            if node is not None:
                self._require(clause.upper(), node)
                if (
                    not isinstance(node, kind)
                    or not isinstance(node.expression, exp.Literal)
                    or node.args.get("expressions")
                ):
                    raise NotProven(f"{clause.upper()} other than a number", node)
                made.set(clause, kind(expression=node.expression.copy()))

    def _ordered(
        self,
        item: exp.Expr,
        columns: Sequence[Named] | None,
        scope: SelectScope,
        expressions: Expressions,
        only_names: bool,
    ) -> exp.Ordered:
        inner = item.this
        if isinstance(inner, exp.Literal) and not inner.is_string:
            position = int(inner.name) if inner.name.isdigit() else 0
            if columns is None or not 0 < position <= len(columns):
                raise NotProven(f"ORDER BY {inner.name}", item)
            self._sortable(columns[position - 1], item)
            return expressions.ordered(item, scope, exp.Literal.number(position))
        if isinstance(inner, exp.Column) and not inner.table:
            matches = [n for n, c in enumerate(columns or (), 1) if c.name.lower() == inner.name.lower()]
            if len(matches) == 1:
                self._sortable((columns or ())[matches[0] - 1], item)
                return expressions.ordered(item, scope, exp.Literal.number(matches[0]))
            if len(matches) > 1:
                raise NotProven(f"ORDER BY the ambiguous name {inner.name}", item)
        if only_names:
            raise NotProven("ORDER BY an expression over a set operation", item)
        names = {c.name.lower() for c in columns or ()} & {
            n.name.lower() for n in inner.find_all(exp.Column) if not n.args.get("table")
        }
        for name in names:
            known = [c for c in scope.visible if c.name.lower() == name]
            own = scope.aliases.get(name)
            if known and own is not None and own.tree != known[0].tree:
                raise NotProven(f"ORDER BY an expression of {name}, which is a column and an alias", item)
        return expressions.ordered(item, scope)

    def _sortable(self, column: Named, node: exp.Expr) -> None:
        if column.refused:
            raise NotProven()
        if column.type is None or column.type.startswith(("array<", "struct<", "map<")):
            raise NotProven(f"ORDER BY a column of the type {column.type or 'unknown'}", node)

    def _require(self, clause: str, node: exp.Expr) -> None:
        if clause not in self.support.clauses:
            raise NotProven(clause, node)

    def _collect(self, work: Callable[[], object]) -> None:
        try:
            work()
        except NotProven as refused:
            self.refuse(refused)


def _set_condition(
    made: exp.Select, kind: type[exp.Having | exp.Qualify], expressions: Expressions, node: exp.Expr, scope: SelectScope
) -> None:
    made.set(kind.key, kind(this=expressions.condition(node, scope)))


def _plain(scope: SelectScope) -> SelectScope:
    """Return the scope of a WHERE, which sees no aliases of the select list."""
    return SelectScope(scope.outer, scope.items, scope.visible, {}, scope.parameters, scope.windows)


def _window(node: exp.Window) -> exp.Window:
    return exp.Window(**{key: value for key, value in node.args.items() if key != "this"})


def _clause(key: str) -> str:
    return {"sort": "SORT BY", "distribute": "DISTRIBUTE BY", "cluster": "CLUSTER BY"}.get(
        key, key.upper().replace("_", " ")
    )


def _line(node: exp.Expr | None) -> int | None:
    if node is None:
        return None
    for below in node.walk():
        line = below.meta.get("line")
        if line is not None:
            return int(line)
    return None
