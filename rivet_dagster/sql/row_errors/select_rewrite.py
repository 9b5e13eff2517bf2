"""The rewrite of one SELECT: its text with edits, and what the errors of its operators are made of."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from rivet_dagster.model.row_errors import Proof
from rivet_dagster.sql.parsing.dialect import quote_name
from rivet_dagster.sql.row_errors.aggregates import aggregates, windows
from rivet_dagster.sql.row_errors.error_query import QueryLocation, error_query, json_of
from rivet_dagster.sql.row_errors.fallible import Fallible, FoundSite, fallible, shown_site
from rivet_dagster.sql.row_errors.raising import RefusedError, any_of, literal, value_or_null
from rivet_dagster.sql.row_errors.select_clauses import ReadRelation, Select, SelectItem
from rivet_dagster.sql.row_errors.token_ranges import Code, Edit, ExpressionText, Range, apply_edits, on_one_line
from rivet_dagster.sql.write_strategies.error_keys import key_json


@dataclass(frozen=True)
class Operator:
    """An operator with errors: the query of its errors without the WITH before it, and the line where it begins.

    ``proof`` says when a success of the operator, all of whose rows are read, proves that it has no errors.
    """

    errors: str
    line: int
    proof: Proof = "always"


@dataclass(frozen=True)
class Given:
    """An item of the SELECT list that is one expression."""

    item: SelectItem
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
        location: QueryLocation,
        select: Select,
        edits: list[Edit],
        keys: Sequence[str] | None,
        only_certain: bool = False,
    ) -> None:
        self.code = code
        self.location = location
        self.select = select
        self.edits = edits
        self.keys = keys
        self.only_certain = only_certain
        self.known: dict[Range, ExpressionText] = {}
        self.line = code.line(select.part)

    def of_certain_errors(self) -> SelectRewrite:
        """Return a rewrite of the same SELECT that leaves what can fail only with some types as it is."""
        return SelectRewrite(self.code, self.location, self.select, self.edits, self.keys, only_certain=True)

    def leave_out(self, clause: str, condition: str, position: int) -> None:
        """Add a condition to a clause, or the clause at a position of the text where there is none."""
        part = self.select.clause(clause)
        if part is None:
            self.edits.append(Edit(position, position, f" {clause.upper()} {condition}"))
            return
        start, end = self.code.span(part)
        self.edits += [Edit(start, start, "("), Edit(end, end, f") AND {condition}")]

    def operator(
        self,
        expressions: Sequence[Fallible],
        relations: Sequence[ReadRelation],
        rows: str,
        among_others: bool = False,
        added: str = "",
    ) -> Operator:
        """Return the operator of expressions over the ``relations``, which are ``among_others`` in ``rows``.

        ``added`` is a column of ``rows`` that none of the relations has.
        """
        row, key = self.row(relations, among_others, added), self.key(relations)
        return Operator(error_query(self.location, expressions, row, key, rows), self.line)

    def row(self, relations: Sequence[ReadRelation], among_others: bool = False, added: str = "") -> str:
        """Return the JSON of the row of these relations: of several by the name of each."""
        if not relations:
            return literal("{}")
        names = [relation.name for relation in relations]
        if among_others and len(names) == 1 and names[0] is not None:
            return json_of(f"struct({quote_name(names[0])}.*)")
        if len(relations) == 1 or None in names or any(relation.lateral for relation in relations):
            return json_of(f"struct(* EXCEPT ({added}))" if added else "struct(*)")
        fields = ", ".join(f"{literal(name)}, struct({quote_name(name)}.*)" for name in names if name is not None)
        return json_of(f"named_struct({fields})")

    def key(self, relations: Sequence[ReadRelation] | None = None) -> str:
        """Return the JSON of the target's key of a row, of these relations only, or NULL where it is not certain."""
        columns = [self.column_of(name) for name in self.keys or ()]
        if relations is not None and len(relations) < len(self.select.relations):
            names = {(relation.name or "").lower() for relation in relations} - {""}
            columns = [column if column is not None and _reads_only(column[0], names) else None for column in columns]
        known = [column for column in columns if column is not None]
        if not known or len(known) < len(columns):
            return "CAST(NULL AS STRING)"
        key = key_json({name: text for name, (text, _) in zip(self.keys or (), known, strict=True)})
        failed = [wrong.failed for _, wrong in known if wrong is not None]
        return value_or_null(key, any_of(failed)) if failed else key

    def column_of(self, name: str) -> tuple[str, Fallible | None] | None:
        """Return the expression of a column of the result, and how it can fail; None if it is not known."""
        passes_all = False
        for item in self.select.items:
            expression = self.expression(item.part)
            passes_all |= expression.tree.is_star
            called = item.alias or (expression.tree.name if isinstance(expression.tree, exp.Column) else None)
            if called is not None and called.lower() == name.lower():
                values = [*aggregates(expression.tree), *windows(expression.tree)]
                return None if values else (on_one_line(expression.text), fallible(expression))
        return (quote_name(name), None) if passes_all and len(self.select.relations) == 1 else None

    def given(self, item: SelectItem) -> Given | None:
        expression = self.expression(item.part)
        if isinstance(expression.tree, exp.Star) or expression.tree.is_star:
            return None
        return Given(item, expression, tuple(aggregates(expression.tree)), tuple(windows(expression.tree)))

    def expression(self, part: Range) -> ExpressionText:
        if part not in self.known:
            self.known[part] = ExpressionText(self.code.of_range(part), self.code.line(part))
        return self.known[part]

    def failing(self, expression: ExpressionText, opaque: Collection[exp.Expr] = ()) -> Fallible | None:
        sites = fallible_with_constants(expression, opaque)
        return None if sites is not None and not sites.certain and self.only_certain else sites

    def is_certain(self, expression: ExpressionText, opaque: Collection[exp.Expr] = ()) -> bool:
        """Return whether the text of the expression shows that it can fail."""
        sites = fallible(expression, opaque)
        return sites is not None and sites.certain

    def rendered(self, start: int, end: int) -> str:
        return on_one_line(apply_edits(self.code.text, self.edits, start, end))

    def refuse_aliases(self, one: Given) -> None:
        """Refuse an expression with a name that may be an alias of the same SELECT list, or a column of its input."""
        columns = [column for column in one.expression.tree.find_all(exp.Column) if not column.table]
        names = {column.name.lower() for column in columns if not _is_parameter(column)}
        for item in self.select.items:
            if item is one.item:
                return
            if item.alias is None or item.alias.lower() not in names:
                continue
            columns_of_item = self.expression(item.part).tree.find_all(exp.Column)
            if all(column.table or column.name.lower() != item.alias.lower() for column in columns_of_item):
                raise RefusedError(f"the alias {item.alias} of the same SELECT list", one.expression.line)

    def edit_constants(self, given: Sequence[Given], failing: Sequence[Fallible]) -> None:
        """Edit items with constants that can fail: Spark would compute them before it leaves out any row."""
        texts = {id(one.tree): one.text for one in failing}
        changed = []
        for one in given:
            text = texts.get(id(one.expression.tree))
            if text is not None and text != one.expression.of(one.expression.tree):
                self.edits.append(Edit(*self.code.span(one.item.part), text))
                changed.append(one)
        if any(one.item.alias is None for one in changed):
            self.keep_names()

    def keep_names(self) -> None:
        """Let Spark name the columns as it names the author's items, by a union with no row of the author's SELECT.

        To be called after all other edits. Items that have no name of their own are named by their text, which the
        edits change.
        """
        for clause in ("order", "limit"):
            if self.select.clause(clause) is not None:
                raise RefusedError("an expression without a name of its own (AS) beside ORDER BY or LIMIT", self.line)
        start, end = self.code.span(self.select.part)
        original = on_one_line(self.code.of_range(self.select.part))
        self.edits.insert(0, Edit(start, start, f"SELECT * FROM (({original} LIMIT 0) UNION ALL "))
        self.edits.append(Edit(end, end, ")"))

    def without_direction(self, key: Range) -> Range:
        """Return a key of ORDER BY without the words that say how it is sorted."""
        end = key.end
        while self.code.word(end - 1) in ("ASC", "DESC", "NULLS", "FIRST", "LAST"):
            end -= 1
        return Range(key.start, end)

    def end_of(self, part: Range | None) -> int:
        assert part is not None
        return self.code.span(part)[1]

    @property
    def from_start(self) -> int:
        return self.code.tokens[self.select.relations[0].part.start].start

    @property
    def from_end(self) -> int:
        return self.code.tokens[self.select.end_of_rows - 1].end + 1

    @property
    def items_end(self) -> int:
        clauses = [part.start - 1 for part in self.select.clauses.values()]
        return min([*clauses, self.select.part.end])

    @property
    def end_of_groups(self) -> int:
        for name in ("group", "where"):
            part = self.select.clause(name)
            if part is not None:
                return self.end_of(part)
        return self.from_end


@dataclass(frozen=True)
class WhereConditions:
    """The conditions of a WHERE: the texts of those that cannot fail, and the others."""

    clean: tuple[str, ...]
    failing: tuple[Fallible, ...]


def _reads_only(text: str, relations: Collection[str]) -> bool:
    """Return whether all columns of an expression are certainly of these relations."""
    columns = ExpressionText(text, 1).tree.find_all(exp.Column)
    return all(column.table.lower() in relations for column in columns)


def _is_parameter(column: exp.Column) -> bool:
    """Return whether a name is one of a parameter of a lambda around it; sqlglot tells so only in the same case."""
    node = column.find_ancestor(exp.Lambda)
    while node is not None:
        if any(parameter.name.lower() == column.name.lower() for parameter in node.expressions):
            return True
        node = node.find_ancestor(exp.Lambda)
    return False


def refuse_inside(expression: ExpressionText, node: exp.Expr, construct: str) -> None:
    """Refuse a construct whose expressions are shown by their text to be able to fail."""
    site = shown_site(node)
    if site is not None:
        raise RefusedError(construct, expression.line_of(site))


_LAZY = (exp.Case, exp.If, exp.Coalesce)
_VARIABLE = (exp.Identifier, exp.Placeholder, exp.Parameter, exp.AggFunc, exp.Window, exp.Query, exp.Star)
_PLAIN = (exp.Boolean, exp.DataType, exp.HexString, exp.Literal, exp.Null, exp.RawString, exp.Var)


def fallible_with_constants(expression: ExpressionText, opaque: Collection[exp.Expr] = ()) -> Fallible | None:
    """Return what ``fallible`` does; the text is one in which constants that fail are NULL, which Spark can plan."""
    walked = fallible(expression, opaque)
    if walked is None:
        return None
    failing: dict[tuple[int, int], Fallible] = {}
    for node in _constants(expression.tree, frozenset(map(id, opaque))):
        span, text = expression.span_of(node), expression.of(node)
        wrong = fallible(ExpressionText(text, expression.line_of(node))) if text is not None else None
        if span is not None and wrong is not None:
            failing[span] = wrong
    if not failing:
        return walked
    guarded = {span: f"({value_or_null(wrong.text, wrong.failed)})" for span, wrong in failing.items()}
    text = on_one_line(apply_edits(expression.text, [Edit(*span, value) for span, value in guarded.items()]))
    masked = ExpressionText(text, expression.line)
    others = fallible(masked, [node for node in masked.tree.walk() if node in opaque])
    failed = [wrong.failed for wrong in failing.values()]
    sites = [site for wrong in failing.values() for site in wrong.sites]
    if others is not None and next(iter(failing)) != expression.span_of(expression.tree):
        written = {value: failing[span].text for span, value in guarded.items()}
        constant = {site.text for site in sites}
        failed.append(others.failed)
        sites += [site for site in _as_written(others.sites, written) if site.text not in constant]
    return replace(walked, text=text, failed=any_of(failed), sites=tuple(sites), complete=False, attempt=None)


def _constants(node: exp.Expr, opaque: Collection[int]) -> Iterator[exp.Expr]:
    """Yield the largest expressions of constants outside of branches."""
    if id(node) in opaque or isinstance(node, _PLAIN):
        return
    if node.find(*_VARIABLE) is None:
        yield node
        return
    for child in node.iter_expressions():
        yield from _constants(child, opaque)
        if isinstance(node, _LAZY):
            return


def _as_written(sites: Collection[FoundSite], written: dict[str, str]) -> Iterator[FoundSite]:
    for site in sites:
        text = site.text
        for value, original in written.items():
            text = text.replace(value, original)
        yield replace(site, text=text)
