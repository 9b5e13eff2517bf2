"""The sites of an expression: the operators and functions in it whose evaluation can raise an error."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp

from rivet_dagster.model.plugins import SPARK
from rivet_dagster.sql.parsing.known_query import NON_DETERMINISTIC
from rivet_dagster.sql.row_errors.function_calls import call_of
from rivet_dagster.sql.row_errors.raising import RefusedError, any_of, raises, true_or_false, value_or_null
from rivet_dagster.sql.row_errors.site import Site, Unclassified, fill
from rivet_dagster.sql.row_errors.site_rules import site_of
from rivet_dagster.sql.row_errors.token_ranges import Edit, ExpressionText, apply_edits, on_one_line

_SHOWN = frozenset("/ % div pmod cast to_date to_timestamp date [] element_at".split())
"""The kinds of sites whose text shows that they can fail; others do with some types of operands only."""

_GENERATORS = frozenset(
    "explode explode_outer posexplode posexplode_outer inline inline_outer json_tuple stack".split()
)

_RIGHT_FIRST = (exp.Div, exp.IntDiv, exp.Mod)

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)

_TRANSPARENT = (
    exp.Alias, exp.Paren, exp.Cast, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, *_COMPARISONS,
)  # fmt: skip
"""Nodes that raise, or are NULL, where an operand raises or is NULL: Spark evaluates them whenever it gets there."""


@dataclass(frozen=True)
class FoundSite:
    """A site as its author wrote it, on a line of the query.

    ``failed`` is a SQL condition that is true where this site raises an error, its operands raise none, and the
    expression around it comes to evaluate it. ``condition`` and ``message`` are expressions of Spark's name of the
    error and of a sentence about it.
    """

    text: str
    line: int
    failed: str
    condition: str
    message: str


@dataclass(frozen=True)
class Fallible:
    """An expression that can raise an error.

    ``failed`` is a SQL condition that is true where it does. ``sites`` are where; ``tree`` is its tree.
    """

    text: str
    line: int
    failed: str
    sites: tuple[FoundSite, ...]
    tree: exp.Expr
    certain: bool
    """Whether it has a site that its text shows, not only those that depend on the types of operands."""
    complete: bool = False
    """Whether one of the sites has failed wherever the expression has."""
    attempt: str | None = None
    """An expression that never raises an error, of the same value, and NULL where this one raises; None without one."""

    @property
    def value(self) -> str:
        """An expression of the value, or of NULL where evaluating it raises an error."""
        return value_or_null(self.text, self.failed) if self.attempt is None else self.attempt

    @property
    def truth(self) -> str:
        """A condition for a clause that keeps rows where it is true; it is not where evaluating it raises an error."""
        return true_or_false(self.text, self.failed) if self.attempt is None else self.attempt


def fallible(expression: ExpressionText, opaque: Collection[exp.Expr] = ()) -> Fallible | None:
    """Return the expression with its sites; None if it cannot raise an error.

    Nodes of ``opaque``, aggregate or window functions, are taken for values. Raises RefusedError if its errors could
    not be told apart.
    """
    return _Walk(expression, opaque).result()


def shown_site(tree: exp.Expr) -> exp.Expr | None:
    """Return the first node, in any subquery, too, whose text shows that it can raise an error; None without one."""
    for node in tree.walk():
        site = site_of(node)
        if isinstance(site, Site) and _is_shown(site):
            return node
    return None


def generates(tree: exp.Expr) -> bool:
    """Return whether an expression gives several rows, so that it cannot be a part of a condition."""
    calls = (call_of(node) for node in tree.walk())
    return any(call is not None and call[0] in _GENERATORS for call in calls) or tree.find(exp.UDTF) is not None


def _as_written(text: str | None, construct: str) -> str:
    """Return what is refused in its author's words: the function that is called, or else the whole expression."""
    call = re.match(r"([\w.]+|`[^`]+`)\s*(\(|$)", text or construct)
    return f"the function {call[1]}" if call is not None else f"the expression {text or construct}"


def _is_shown(site: Site) -> bool:
    return site.kind in _SHOWN or not site.guard


class _Walk:
    def __init__(self, expression: ExpressionText, opaque: Collection[exp.Expr]) -> None:
        self.expression = expression
        self.opaque = frozenset(map(id, opaque))
        self.found: list[FoundSite] = []
        self.guards: list[str] = []

    def result(self) -> Fallible | None:
        expression = self.expression
        if not self._sites:
            return None
        if generates(expression.tree):
            if self._is_certain:
                self._refuse("a generator of an expression", expression.tree)
            return None
        for node in expression.tree.walk():
            if isinstance(node, exp.Query):
                self._refuse("a subquery within an expression that can fail", node)
        self._visit(expression.tree, ())
        guard = "" if "" in self.guards else any_of(self.guards)
        text = expression.of(expression.tree) or expression.text
        complete = len(self.found) == len(self._sites) and self._is_transparent
        failed = any_of([site.failed for site in self.found]) if complete else raises(text, guard)
        attempt = self._value(expression.tree) if complete else None
        return Fallible(
            text, expression.line, failed, tuple(self.found), expression.tree, self._is_certain, complete, attempt
        )

    @cached_property
    def _sites(self) -> dict[int, Site]:
        """The sites by the identity of their nodes, those of subqueries left out."""
        sites: dict[int, Site] = {}
        unknown: list[tuple[str, exp.Expr]] = []
        for node in self._own_nodes(self.expression.tree):
            site = site_of(node)
            if isinstance(site, Unclassified):
                unknown.append((site.construct, node))
            elif isinstance(site, Site):
                sites[id(node)] = site
        for construct, node in unknown:
            # What gives another value each time, but never fails, only must not be evaluated twice.
            if sites or construct.lower() not in NON_DETERMINISTIC | _GENERATORS:
                self._refuse(_as_written(self.expression.of(node), construct), node)
        return sites

    @property
    def _is_certain(self) -> bool:
        return any(map(_is_shown, self._sites.values()))

    @property
    def _is_transparent(self) -> bool:
        """Whether the sites that fail, and where they are evaluated, are told without raising an error."""
        above = [node for node in self._own_nodes(self.expression.tree) if self._has_sites(node)]
        return all(
            isinstance(node, _TRANSPARENT)
            and not isinstance(node, exp.TryCast)
            and (id(node) not in self._sites or self._failing_condition(node, self._sites[id(node)]) is not None)
            for node in above
        )

    def _has_sites(self, node: exp.Expr) -> bool:
        return any(id(inner) in self._sites for inner in self._own_nodes(node))

    def _refuse(self, construct: str, node: exp.Expr) -> None:
        raise RefusedError(construct, self.expression.line_of(node))

    def _visit(self, node: exp.Expr, reached: tuple[str, ...]) -> None:
        """Add the sites of ``node`` and below it, which are evaluated where all conditions of ``reached`` are true."""
        if not self._has_sites(node):
            return
        if isinstance(node, exp.Lambda):
            self._refuse("a lambda function whose body can fail", node)
        elif isinstance(node, exp.Case):
            self._visit_case(node, reached)
        elif isinstance(node, exp.If):
            self._visit_branches(None, [(node.this, node.args["true"])], node.args.get("false"), reached)
        elif isinstance(node, exp.Coalesce):
            self._visit_first_not_null([node.this, *node.expressions], reached)
        elif isinstance(node, exp.And | exp.Or):
            self._visit(node.left, reached)
            self._visit(node.right, (*reached, *self._not_decided(node)))
        elif isinstance(node, exp.Binary) and not isinstance(node, exp.Dot):
            first, second = (node.right, node.left) if isinstance(node, _RIGHT_FIRST) else (node.left, node.right)
            self._visit(first, reached)
            self._visit(second, (*reached, *self._not_null(first)) if self._has_sites(second) else reached)
        else:
            for child in node.iter_expressions():
                self._visit(child, reached)
        if id(node) in self._sites:
            self._add(node, self._sites[id(node)], reached)

    def _add(self, node: exp.Expr, site: Site, reached: tuple[str, ...]) -> None:
        operands = [self.expression.of(operand) for operand in site.operands]
        known = [operand for operand in operands if operand is not None]
        text = self.expression.of(node)
        if text is None or len(known) < len(operands):
            self.guards.append("")
            return
        guard = fill(site.guard, known)
        self.guards.append(guard)
        failing = [raises(operand) for tree, operand in zip(site.operands, known, strict=True) if self._has_sites(tree)]
        asked = [raises(text), *(f"NOT ({condition})" for condition in failing)]
        fails = self._failing_condition(node, site)
        if fails is not None:
            general = " AND ".join(asked)
            asked = [f"CASE WHEN {fill(site.fails_for, known)} THEN {fails} ELSE {general} END"]
        conditions = [*reached, *([guard] if guard else []), *asked]
        self.found.append(
            FoundSite(
                text,
                self.expression.line_of(node),
                " AND ".join(f"({condition})" for condition in conditions),
                fill(site.condition, known),
                fill(site.message, known),
            )
        )

    def _failing_condition(self, node: exp.Expr, site: Site) -> str | None:
        """Return the condition that a site fails, which itself raises no error; None if there is none."""
        values = [self._value(operand) for operand in site.operands]
        if not site.fails or None in values:
            return None
        return fill(site.fails, [value for value in values if value is not None])

    def _value(self, node: exp.Expr) -> str | None:
        """Return what has the value of a node, and is NULL where that raises an error; None if there is no such text.

        A cast to a type of numbers, for example, is one that is tried.
        """
        if not self._has_sites(node):
            return self.expression.of(node)
        if isinstance(node, exp.Paren):
            return self._value(node.this)
        site = self._sites.get(id(node))
        if isinstance(node, _COMPARISONS) and site is None:
            return self._with_values(node, (node.left, node.right))
        if not isinstance(node, exp.Cast) or site is None or not site.fails or self._is_to_timestamp(node):
            return None
        value = self._value(node.this)
        return None if value is None else f"try_cast({value} AS {node.to.sql(dialect=SPARK)})"

    def _is_to_timestamp(self, node: exp.Cast) -> bool:
        """Return whether a cast is written as to_timestamp, which fails for booleans, as a cast does not."""
        text = self.expression.of(node)
        return text is None or text[:12].lower() == "to_timestamp"

    def _with_values(self, node: exp.Expr, operands: Sequence[exp.Expr]) -> str | None:
        """Return the text of a node with what has the values of its operands in their place."""
        edits = []
        for operand in filter(self._has_sites, operands):
            span, value = self.expression.span_of(operand), self._value(operand)
            if span is None or value is None:
                return None
            edits.append(Edit(*span, value))
        span = self.expression.span_of(node)
        return None if span is None else on_one_line(apply_edits(self.expression.text, edits, *span))

    def _visit_case(self, node: exp.Case, reached: tuple[str, ...]) -> None:
        if node.this is not None:
            self._visit(node.this, reached)
        branches = [(branch.this, branch.args["true"]) for branch in node.args["ifs"]]
        self._visit_branches(node.this, branches, node.args.get("default"), reached)

    def _visit_branches(
        self,
        compared: exp.Expr | None,
        branches: list[tuple[exp.Expr, exp.Expr]],
        default: exp.Expr | None,
        reached: tuple[str, ...],
    ) -> None:
        for condition, value in branches:
            self._visit(condition, reached)
            truth = self._truth(compared, condition)
            self._visit(value, (*reached, truth) if truth else reached)
            if truth:
                reached = (*reached, f"NOT {truth}")
        if default is not None:
            self._visit(default, reached)

    def _truth(self, compared: exp.Expr | None, condition: exp.Expr) -> str | None:
        """Return a condition that is true where the branch is taken, and false where it raises an error."""
        text = self.expression.of(condition)
        if text is not None and compared is not None:
            other = self.expression.of(compared)
            text = None if other is None else f"({other}) = ({text})"
        if text is None:
            return None
        return self._safely(condition, f"coalesce(({text}), false)", text, "false", compared)

    def _visit_first_not_null(self, values: list[exp.Expr], reached: tuple[str, ...]) -> None:
        for value in values:
            self._visit(value, reached)
            text = self.expression.of(value)
            if text is not None:
                reached = (*reached, self._safely(value, f"({text}) IS NULL", text, "false"))

    def _not_decided(self, node: exp.And | exp.Or) -> list[str]:
        """Return where the left side alone does not decide: it is not false of an AND, not true of an OR."""
        text = self.expression.of(node.left)
        if text is None or not self._has_sites(node.right):
            return []
        if isinstance(node, exp.And):
            return [self._safely(node.left, f"coalesce(({text}), true)", text, "true")]
        return [f"NOT {self._safely(node.left, f'coalesce(({text}), false)', text, 'false')}"]

    def _not_null(self, node: exp.Expr) -> list[str]:
        """Return where the operand that is evaluated first is not NULL: else the other one is not evaluated."""
        value = self._value(node)
        if value is not None:
            return [f"({value}) IS NOT NULL"]
        text = self.expression.of(node)
        return [] if text is None else [self._safely(node, f"({text}) IS NOT NULL", text, "true")]

    def _safely(
        self, node: exp.Expr, condition: str, text: str, otherwise: str, compared: exp.Expr | None = None
    ) -> str:
        """Return ``condition`` about the value of ``text``, or ``otherwise`` where evaluating that raises an error."""
        can_fail = self._has_sites(node) or (compared is not None and self._has_sites(compared))
        return true_or_false(condition, raises(text), otherwise) if can_fail else f"({condition})"

    def _own_nodes(self, node: exp.Expr) -> Iterator[exp.Expr]:
        """Yield the nodes of an expression without those of its subqueries and of what is opaque."""
        if id(node) in self.opaque:
            return
        yield node
        for child in node.iter_expressions():
            if not isinstance(child, exp.Query | exp.DataType):
                yield from self._own_nodes(child)
