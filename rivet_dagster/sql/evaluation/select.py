"""The rewrite of one SELECT: its good rows, by edits of its text, and the queries of its errors."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import TokenType, exp

from rivet_dagster.model.row_errors import Proof
from rivet_dagster.sql.dialect import quoted
from rivet_dagster.sql.evaluation.aggregate_calls import aggregates, windows
from rivet_dagster.sql.evaluation.aggregates import Aggregate
from rivet_dagster.sql.evaluation.clauses import Item, Relation, Select, conjuncts
from rivet_dagster.sql.evaluation.code import Code, Edit, Range, edited, on_one_line
from rivet_dagster.sql.evaluation.conditions import site_of
from rivet_dagster.sql.evaluation.error_query import Place, error_query, json_of
from rivet_dagster.sql.evaluation.expression_text import ExpressionText
from rivet_dagster.sql.evaluation.raising import any_of, literal, raises, true_or_false, value_or_null
from rivet_dagster.sql.evaluation.refusal import RefusedError
from rivet_dagster.sql.evaluation.site import fill
from rivet_dagster.sql.evaluation.sites import Fallible, FoundSite, fallible, shown_site
from rivet_dagster.sql.write_strategies.error_keys import key_json

_FLAG = "rivet_failed"
_INNER = frozenset({"", "INNER", "CROSS"})


@dataclass(frozen=True)
class Operator:
    """An operator with errors: the query of its errors without the WITH before it, and the line where it begins.

    ``proof`` says when a success of the operator, all of whose rows are read, proves that it has no errors.
    """

    errors: str
    line: int
    proof: Proof = "always"


@dataclass(frozen=True)
class _Given:
    """An item of the SELECT list that is one expression."""

    item: Item
    expression: ExpressionText
    aggregates: tuple[exp.Expr, ...]
    windows: tuple[exp.Expr, ...]


class SelectRewrite:
    """The rewrite of ``select``, a part of ``code``.

    ``keys`` are None unless its rows are those of the result. If ``only_certain``, an expression that can fail only
    with some types of its operands is left as it is, so that its error fails the run.
    """

    def __init__(
        self,
        code: Code,
        place: Place,
        select: Select,
        edits: list[Edit],
        keys: Sequence[str] | None,
        only_certain: bool = False,
    ) -> None:
        self.code = code
        self.place = place
        self.select = select
        self.edits = edits
        self.keys = keys
        self.only_certain = only_certain
        self.known: dict[Range, ExpressionText] = {}
        self.line = code.line(select.part)

    def relations(self) -> Iterator[tuple[Relation, str | None]]:
        """Yield the relations of FROM, each with the reason why its rows must not have errors, None where they may."""
        relations = self.select.relations
        for index, relation in enumerate(relations):
            after = [other.joined for other in relations[index + 1 :]]
            optional = any(word in relation.joined for word in ("LEFT", "FULL")) and "SEMI" not in relation.joined
            optional |= any("RIGHT" in joined or "FULL" in joined for joined in after)
            anti = "ANTI" in relation.joined
            yield relation, "an anti join" if anti else "the optional side of an outer join" if optional else None

    def operators(self) -> Iterator[Operator]:
        """Yield the operators of the SELECT that have errors, those of its joins first, and edit its text."""
        for operator in self._joins():
            # Spark evaluates the keys of a join only if neither side is empty, and of rows that WHERE keeps.
            yield replace(operator, proof="never" if self.select.clause("where") else "with rows")
        if self.select.clause("pipe") is not None:
            self._refuse_any("pipe syntax")
        given = [self._given(item) for item in self.select.items]
        kept = self._conditions()
        known = [one for one in given if one is not None]
        grouped = self.select.clause("group") is not None or any(one.aggregates for one in known)
        windowed = any(one.windows for one in known)
        self._refuse_order()
        if grouped:
            yield from self._aggregation(known, kept, windowed)
        elif windowed:
            yield from self._windows(known, kept)
        else:
            yield from self._projection(known, kept)

    # -- joins

    def _joins(self) -> Iterator[Operator]:
        relations = self.select.relations
        for index, relation in enumerate(relations):
            if relation.joined == "LATERAL VIEW":
                self._refuse_generator(relation)
            if relation.condition is None:
                continue
            for part in conjuncts(self.code, relation.condition):
                expression = self._expression(part)
                if _is_comparison_of_columns(expression.tree):
                    continue
                failing = self._fallible(expression)
                if failing is None or (not failing.certain and relation.joined not in _INNER):
                    continue
                if relation.joined not in _INNER:
                    raise RefusedError("the condition of an outer, semi or anti join", expression.line)
                yield from self._join_condition(relations[: index + 1], part, expression, failing)

    def _join_condition(
        self, relations: Sequence[Relation], part: Range, expression: ExpressionText, failing: Fallible
    ) -> Iterator[Operator]:
        sides = self._sides(relations, expression)
        start, end = self.code.place(part)
        before = self.code.tokens[relations[-1].join].start
        prefix = self._rendered(self._from_start, before)
        if sides is None:
            on_start = self.code.tokens[relations[-1].condition.start].start if relations[-1].condition else start
            others = self._rendered(on_start, start), self._rendered(end, self._end_of(relations[-1].condition))
            joined = self._rendered(before, on_start)
            rows = f"FROM {prefix} {joined} {others[0]} ({failing.failed}) {others[1]}"
            self.edits.append(Edit(start, end, true_or_false(failing.text, failing.failed)))
            yield self._operator([failing], relations, rows)
            return
        new = []
        for text, inside, side in sides:
            wrong = fallible(text)
            new.append(text.text if wrong is None else f"({value_or_null(wrong.text, wrong.failed)})")
            if wrong is not None:
                rows = prefix if side else self._rendered(*self.code.place(relations[-1].part))
                yield self._operator([wrong], inside, f"FROM {rows} WHERE {wrong.failed}")
        self.edits.append(Edit(start, end, " = ".join(new)))

    def _sides(
        self, relations: Sequence[Relation], expression: ExpressionText
    ) -> list[tuple[ExpressionText, Sequence[Relation], bool]] | None:
        """Return the sides of an equality of a join, each with its relations; None if it is no such equality."""
        tree = expression.tree
        if not isinstance(tree, exp.EQ):
            return None
        right = (relations[-1].name or "").lower()
        left = {(relation.name or "").lower() for relation in relations[:-1]}
        sides: list[tuple[ExpressionText, Sequence[Relation], bool]] = []
        for node in (tree.left, tree.right):
            tables = {column.table.lower() for column in node.find_all(exp.Column)}
            text = expression.of(node)
            if text is None or not tables or "" in tables:
                return None
            if tables == {right}:
                sides.append((ExpressionText(text, expression.line_of(node)), relations[-1:], False))
            elif tables <= left:
                sides.append((ExpressionText(text, expression.line_of(node)), relations[:-1], True))
            else:
                return None
        return sides if sides[0][2] != sides[1][2] else None

    def _refuse_generator(self, relation: Relation) -> None:
        code = self.code
        first = relation.part.start + 2
        first += code.word(first) == "OUTER"
        opening = code.find(Range(first, relation.part.end), (TokenType.L_PAREN,))
        if opening is not None:
            call = self._expression(Range(first, code.partner[opening] + 1))
            self._refuse_inside(call, call.tree, "a LATERAL VIEW of an expression")

    # -- conditions on rows

    def _conditions(self) -> _Kept:
        """Guard the conditions of WHERE, and return them."""
        part = self.select.clause("where")
        clean: list[str] = []
        failing: list[Fallible] = []
        for condition in conjuncts(self.code, part) if part is not None else ():
            expression = self._expression(condition)
            text = on_one_line(self.code.of_range(condition))
            wrong = self._fallible(expression)
            start, end = self.code.place(condition)
            if wrong is None:
                clean.append(text)
                continue
            failing.append(wrong)
            self.edits.append(Edit(start, end, true_or_false(wrong.text, wrong.failed)))
        return _Kept(tuple(clean), tuple(failing))

    def _leave_out(self, clause: str, condition: str, position: int) -> None:
        """Add a condition to a clause, or the clause at a position of the text where there is none."""
        part = self.select.clause(clause)
        if part is None:
            self.edits.append(Edit(position, position, f" {clause.upper()} {condition}"))
            return
        start, end = self.code.place(part)
        self.edits += [Edit(start, start, "("), Edit(end, end, f") AND {condition}")]

    # -- projection

    def _projection(self, given: Sequence[_Given], kept: _Kept) -> Iterator[Operator]:
        failing = self._failing_items(given)
        if not failing and not kept.failing:
            return
        yield self._operator_of_rows(kept, failing)
        if failing:
            condition = f"NOT ({any_of([one.failed for one in failing])})"
            self._leave_out("where", condition, self._end_of_rows)

    def _failing_items(self, given: Sequence[_Given]) -> list[Fallible]:
        failing = []
        for one in given:
            wrong = self._fallible(one.expression)
            if wrong is not None:
                self._refuse_aliases(one)
                failing.append(wrong)
        return failing

    def _operator_of_rows(self, kept: _Kept, failing: Sequence[Fallible], after: str = "") -> Operator:
        """Return the operator of the conditions of WHERE, and of expressions of the rows that they keep."""
        wrong_conditions = [one.failed for one in kept.failing]
        later = (
            [_only_where(one, f"NOT ({any_of(wrong_conditions)})") for one in failing] if wrong_conditions else failing
        )
        expressions = [*kept.failing, *later]
        conditions = [*kept.clean, *(true_or_false(one.text, one.failed, "true") for one in kept.failing)]
        if not after:
            conditions.append(any_of([one.failed for one in expressions]))
        rows = [f"FROM {self._rendered(self._from_start, self._from_end)}"] if self.select.relations else []
        if conditions:
            rows.append(f"WHERE {' AND '.join(f'({condition})' for condition in conditions)}")
        return self._operator(expressions, self.select.relations, " ".join(rows), after)

    # -- windows

    def _windows(self, given: Sequence[_Given], kept: _Kept) -> Iterator[Operator]:
        """Keep bad rows for the windows of others, and leave them out behind the windows."""
        failing, places = [], []
        for one in given:
            for window in one.windows:
                self._refuse_inside(one.expression, window, "a window over an expression")
            wrong = self._fallible(one.expression, one.windows)
            if wrong is None:
                continue
            self._refuse_aliases(one)
            if one.item.alias is None:
                raise RefusedError("an expression beside a window without a name of its own (AS)", one.expression.line)
            failing.append(wrong)
            places.append((self.code.place(one.item.part), value_or_null(wrong.text, wrong.failed)))
        if not failing and not kept.failing:
            return
        operator = self._operator_of_rows(kept, failing, " WHERE errors IS NOT NULL" if failing else "")
        if failing:
            for clause in ("order", "limit", "qualify"):
                if self.select.clause(clause) is not None:
                    raise RefusedError("a window beside ORDER BY or LIMIT", self.line)
            if self.select.distinct:
                raise RefusedError("a window beside DISTINCT", self.line)
            self.edits += [Edit(start, end, text) for (start, end), text in places]
            start, end = self.code.place(self.select.part)
            behind = self.code.tokens[self._items_end - 1].end + 1
            flag = any_of([one.failed for one in failing])
            self.edits += [
                Edit(start, start, f"SELECT * EXCEPT ({_FLAG}) FROM ("),
                Edit(behind, behind, f", {flag} AS {_FLAG}"),
                Edit(end, end, f") WHERE NOT {_FLAG}"),
            ]
        yield operator

    # -- aggregation

    def _aggregation(self, given: Sequence[_Given], kept: _Kept, windowed: bool) -> Iterator[Operator]:
        rows: list[Fallible] = []
        groups: list[Fallible] = []
        arguments: list[Fallible] = []
        items: list[Edit] = []
        for one in given:
            if not one.aggregates:
                wrong = self._fallible(one.expression, one.windows)
                rows += [wrong] if wrong is not None else []
                continue
            place = self.code.place(one.item.part)
            expression, text, wrong_arguments = self._guarded(one.expression, one.item.part, one.aggregates)
            arguments += wrong_arguments
            wrong = self._fallible(expression, aggregates(expression.tree))
            if wrong is None and not wrong_arguments:
                continue
            if one.item.alias is None:
                raise RefusedError("an aggregate without a name of its own (AS)", one.expression.line)
            if wrong is not None:
                groups.append(replace(wrong, text=_without_guards(wrong.text, wrong_arguments)))
                text = value_or_null(wrong.text, wrong.failed)
            items.append(Edit(*place, text))
        rows += self._failing_keys(given)
        having = self._having()
        arguments += having.arguments
        failing = [*rows, *arguments]
        if not (failing or groups or kept.failing or having.failing):
            return
        if windowed:
            raise RefusedError("a window beside an aggregate", self.line)
        if failing or kept.failing:
            yield self._operator_of_rows(kept, failing)
        if rows:
            self._leave_out("where", f"NOT ({any_of([one.failed for one in rows])})", self._end_of_rows)
        self.edits += items
        without = [f"NOT coalesce(bool_or({any_of([one.failed for one in arguments])}), false)"] if arguments else []
        if groups or having.failing:
            yield self._operator_of_groups(given, [*having.failing, *groups], without, having)
        without += [f"NOT ({any_of([one.failed for one in groups])})"] if groups else []
        if without:
            self._leave_out("having", " AND ".join(without), self._end_of_groups)

    def _operator_of_groups(
        self, given: Sequence[_Given], expressions: Sequence[Fallible], without: Sequence[str], having: _Having
    ) -> Operator:
        """Return the operator of what is computed from the aggregates of each group."""
        conditions = [*without, *having.clean, any_of([one.failed for one in expressions])]
        conditions += [true_or_false(one.text, one.failed, "true") for one in having.failing]
        start = self._from_start if self.select.relations else self._end_of_rows
        clauses = self._rendered(start, self._end_of_groups)
        keys = [one for one in given if not one.aggregates]
        fields = ", ".join(f"{literal(one.item.alias or one.expression.text)}, {one.expression.text}" for one in keys)
        row = json_of(f"named_struct({fields})") if fields else literal("{}")
        begin = "FROM " if self.select.relations else ""
        rows = f"{begin}{clauses} HAVING {' AND '.join(f'({condition})' for condition in conditions)}"
        return Operator(error_query(self.place, expressions, row, self._key(), rows), self.line)

    def _having(self) -> _Having:
        part = self.select.clause("having")
        clean: list[str] = []
        failing: list[Fallible] = []
        arguments: list[Fallible] = []
        for condition in conjuncts(self.code, part) if part is not None else ():
            whole = self._expression(condition)
            expression, text, wrong_arguments = self._guarded(whole, condition, aggregates(whole.tree))
            arguments += wrong_arguments
            wrong = self._fallible(expression, aggregates(expression.tree))
            if wrong is not None:
                failing.append(wrong)
                text = true_or_false(wrong.text, wrong.failed)
            else:
                clean.append(text)
            if wrong is not None or wrong_arguments:
                self.edits.append(Edit(*self.code.place(condition), text))
        return _Having(tuple(clean), tuple(failing), tuple(arguments))

    def _guarded(
        self, expression: ExpressionText, part: Range, values: Iterable[exp.Expr]
    ) -> tuple[ExpressionText, str, list[Fallible]]:
        """Return an expression whose aggregates leave out values that cannot be evaluated, its text, and those."""
        edits: list[Edit] = []
        failing: list[Fallible] = []
        for value in values:
            for argument, condition in _arguments(value):
                place = expression.place_of(argument)
                text = expression.of(argument)
                if place is None or text is None:
                    self._refuse_inside(expression, argument, "an aggregate")
                    continue
                wrong = self._fallible(ExpressionText(text, expression.line_of(argument)))
                if wrong is None:
                    continue
                if condition is not None:
                    only = expression.of(condition)
                    if only is None or self._certain(ExpressionText(only, expression.line)):
                        raise RefusedError("the FILTER of an aggregate", expression.line)
                    wrong = _only_where(wrong, f"coalesce(({only}), false)")
                failing.append(wrong)
                edits.append(Edit(*place, value_or_null(text, wrong.failed)))
            if not failing and not self.only_certain:
                for place, text, wrong in _cast_arguments(expression, value):
                    failing.append(wrong)
                    edits.append(Edit(*place, value_or_null(text, wrong.failed)))
            self._refuse_orders(expression, value)
        if not edits:
            return expression, on_one_line(self.code.of_range(part)), failing
        text = on_one_line(edited(self.code.of_range(part), edits))
        return ExpressionText(text, expression.line), text, failing

    def _refuse_orders(self, expression: ExpressionText, value: exp.Expr) -> None:
        for order in value.find_all(exp.Order):
            self._refuse_inside(expression, order, "the ORDER BY of an aggregate")

    def _failing_keys(self, given: Sequence[_Given]) -> list[Fallible]:
        """Return the keys of GROUP BY that can fail and are no item of the SELECT list."""
        part = self.select.clause("group")
        if part is None or self.code.word(part.start) == "ALL":
            return []
        failing = []
        for key in self.code.by_commas(part):
            if self.code.word(key.start) in ("ROLLUP", "CUBE", "GROUPING") or self.code.type(key.start) is None:
                continue
            expression = self._expression(key)
            wrong = self._fallible(expression)
            if wrong is not None and all(one.expression.tree != expression.tree for one in given):
                failing.append(wrong)
        return failing

    # -- what the rewrites share

    def _operator(
        self, expressions: Sequence[Fallible], relations: Sequence[Relation], rows: str, after: str = ""
    ) -> Operator:
        return Operator(error_query(self.place, expressions, self._row(relations), self._key(), rows, after), self.line)

    def _row(self, relations: Sequence[Relation]) -> str:
        """Return the JSON of the row of these relations: of several by the name of each."""
        if not relations:
            return literal("{}")
        names = [relation.name for relation in relations]
        if len(relations) == 1 or None in names or any(relation.lateral for relation in relations):
            return json_of("struct(*)")
        fields = ", ".join(f"{literal(name)}, struct({quoted(name)}.*)" for name in names if name is not None)
        return json_of(f"named_struct({fields})")

    def _key(self) -> str:
        """Return the JSON of the target's key of a row, or NULL where it is not certain."""
        columns = [self._column(name) for name in self.keys or ()]
        known = [column for column in columns if column is not None]
        if not known or len(known) < len(columns):
            return "CAST(NULL AS STRING)"
        key = key_json({name: text for name, (text, _) in zip(self.keys or (), known, strict=True)})
        failed = [wrong.failed for _, wrong in known if wrong is not None]
        return value_or_null(key, any_of(failed)) if failed else key

    def _column(self, name: str) -> tuple[str, Fallible | None] | None:
        """Return the expression of a column of the result, and how it can fail; None if it is not known."""
        stars = 0
        for item in self.select.items:
            expression = self._expression(item.part)
            stars += isinstance(expression.tree, exp.Star)
            called = item.alias or (expression.tree.name if isinstance(expression.tree, exp.Column) else None)
            if called is not None and called.lower() == name.lower():
                values = [*aggregates(expression.tree), *windows(expression.tree)]
                return None if values else (on_one_line(expression.text), fallible(expression))
        only_stars = stars == len(self.select.items) and len(self.select.relations) == 1
        return (quoted(name), None) if only_stars else None

    def _given(self, item: Item) -> _Given | None:
        expression = self._expression(item.part)
        if isinstance(expression.tree, exp.Star) or expression.tree.is_star:
            return None
        return _Given(item, expression, tuple(aggregates(expression.tree)), tuple(windows(expression.tree)))

    def _expression(self, part: Range) -> ExpressionText:
        if part not in self.known:
            self.known[part] = ExpressionText(self.code.of_range(part), self.code.line(part))
        return self.known[part]

    def _fallible(self, expression: ExpressionText, opaque: Collection[exp.Expr] = ()) -> Fallible | None:
        found = fallible(expression, opaque)
        return None if found is not None and not found.certain and self.only_certain else found

    def _certain(self, expression: ExpressionText, opaque: Collection[exp.Expr] = ()) -> bool:
        """Return whether the text of the expression shows that it can fail."""
        found = fallible(expression, opaque)
        return found is not None and found.certain

    def _rendered(self, start: int, end: int) -> str:
        return on_one_line(edited(self.code.text, self.edits, start, end))

    def _refuse_any(self, construct: str) -> None:
        """Refuse the SELECT if any of its expressions can fail."""
        for item in self.select.items:
            if self._certain(self._expression(item.part)):
                raise RefusedError(construct, self.line)

    def _refuse_inside(self, expression: ExpressionText, node: exp.Expr, construct: str) -> None:
        site = shown_site(node)
        if site is not None:
            raise RefusedError(construct, expression.line_of(site))

    def _refuse_order(self) -> None:
        part = self.select.clause("order")
        for key in self.code.by_commas(part) if part is not None else ():
            end = key.end
            while self.code.word(end - 1) in ("ASC", "DESC", "NULLS", "FIRST", "LAST"):
                end -= 1
            expression = self._expression(Range(key.start, end))
            if self._certain(expression, [*aggregates(expression.tree), *windows(expression.tree)]):
                raise RefusedError("an ORDER BY of an expression", expression.line)

    def _refuse_aliases(self, one: _Given) -> None:
        """Refuse an expression with a name that may be an alias of the same SELECT list, or a column of its input."""
        names = {column.name.lower() for column in one.expression.tree.find_all(exp.Column) if not column.table}
        for item in self.select.items:
            if item is one.item:
                return
            if item.alias is None or item.alias.lower() not in names:
                continue
            own = self._expression(item.part).tree.find_all(exp.Column)
            if all(column.table or column.name.lower() != item.alias.lower() for column in own):
                raise RefusedError(f"the alias {item.alias} of the same SELECT list", one.expression.line)

    def _end_of(self, part: Range | None) -> int:
        assert part is not None
        return self.code.place(part)[1]

    @property
    def _from_start(self) -> int:
        return self.code.tokens[self.select.relations[0].part.start].start

    @property
    def _from_end(self) -> int:
        return self.code.tokens[self.select.end_of_rows - 1].end + 1

    @property
    def _end_of_rows(self) -> int:
        return self._from_end

    @property
    def _items_end(self) -> int:
        clauses = [part.start - 1 for part in self.select.clauses.values()]
        return min([*clauses, self.select.part.end])

    @property
    def _end_of_groups(self) -> int:
        for name in ("group", "where"):
            part = self.select.clause(name)
            if part is not None:
                return self._end_of(part)
        return self._from_end


@dataclass(frozen=True)
class _Kept:
    """The conditions of a WHERE: the texts of those that cannot fail, and the others."""

    clean: tuple[str, ...]
    failing: tuple[Fallible, ...]


@dataclass(frozen=True)
class _Having:
    """The conditions of a HAVING: those that cannot fail, the others, and arguments of their aggregates that can."""

    clean: tuple[str, ...]
    failing: tuple[Fallible, ...]
    arguments: tuple[Fallible, ...]


def _cast_arguments(expression: ExpressionText, value: exp.Expr) -> Iterator[tuple[tuple[int, int], str, Fallible]]:
    """Yield the argument of an aggregate that Spark casts to the type that the function takes, and how that fails."""
    call = site_of(value)
    if not isinstance(call, Aggregate) or call.rows is None or len(call.operands) != 1:
        return
    operand = call.operands[0]
    text, place, whole = expression.of(operand), expression.place_of(operand), expression.of(value)
    if text is None or place is None or whole is None:
        return
    failed = raises(fill(call.casts, [text]), fill(call.rows.guard, [text]))
    line = expression.line_of(value)
    condition, message = fill(call.rows.condition, [text]), fill(call.rows.message, [text])
    site = FoundSite(whole, line, failed, condition, message)
    yield place, text, Fallible(text, line, failed, (site,), operand, certain=False)


def _only_where(expression: Fallible, condition: str) -> Fallible:
    """Return the expression as one that is evaluated only where ``condition`` is true."""
    sites = tuple(replace(site, failed=f"({condition}) AND {site.failed}") for site in expression.sites)
    return replace(expression, failed=f"({condition}) AND ({expression.failed})", sites=sites)


def _without_guards(text: str, arguments: Iterable[Fallible]) -> str:
    for argument in arguments:
        text = text.replace(value_or_null(argument.text, argument.failed), argument.text)
    return text


def _arguments(value: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr | None]]:
    """Yield the arguments of an aggregate function, each with the condition of its FILTER."""
    condition = None
    if isinstance(value, exp.Filter):
        condition = value.expression.this
        value = value.this
    for child in value.iter_expressions():
        if isinstance(child, exp.Distinct):
            for argument in child.expressions:
                yield argument, condition
        elif not isinstance(child, exp.Order | exp.Star):
            yield child, condition


def _is_comparison_of_columns(tree: exp.Expr) -> bool:
    """Return whether a join compares two columns: whether their types differ is for Spark to say, when it runs."""
    return isinstance(tree, exp.EQ) and all(isinstance(side, exp.Column) for side in (tree.left, tree.right))
