"""Facts about a query that the compiler needs, computed once for each text and cached.

The tables that a query reads, and how often.

Determinism: whether a query returns the same rows each time it is evaluated over the same tables.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import pairwise

from sqlglot import TokenType, exp

from rivet_dagster.cache import CompileCache
from rivet_dagster.model.text_lines import Stretch
from rivet_dagster.sql.error import UnreadableSql
from rivet_dagster.sql.parsing.dialect import Query, read_query, translate_parser_errors
from rivet_dagster.sql.parsing.nodes import drop_positions, take_apart

NON_DETERMINISTIC = frozenset(
    """
    rand random randn randstr uniform uuid shuffle monotonically_increasing_id spark_partition_id
    input_file_name input_file_block_start input_file_block_length
    now current_timestamp current_date curdate current_time localtimestamp unix_timestamp
    first first_value last last_value any_value max_by min_by mode
    collect_list collect_set array_agg listagg string_agg
    row_number ntile lag lead nth_value sample
    percentile_approx approx_percentile reflect try_reflect java_method
    """.split()
)
"""Spark's functions whose result depends on time, on chance, or on the order in which rows are processed."""

_IN_DOUBT = frozenset({exp.TableSample, exp.Limit, exp.Offset, exp.Fetch, exp.Anonymous})

_WITHOUT_PARENTHESES = frozenset({"current_timestamp", "current_date", "current_time", "localtimestamp"})


def is_deterministic(query: Query) -> bool:
    """Return False if the query uses such a function, an unknown one, LIMIT without ORDER BY, or TABLESAMPLE.

    A query in doubt counts as non-deterministic: this costs a stored table, but never returns a wrong row.
    """
    if query.tree is None or _calls_non_deterministic(query) or _limits_unordered_pipe(query):
        return False
    if _IN_DOUBT.isdisjoint(query.kinds):
        return True
    for node in [node for node in query.nodes if type(node) in _IN_DOUBT]:
        if isinstance(node, exp.TableSample):
            return False
        if isinstance(node, exp.Anonymous):
            if node.name.lower() not in spark_functions():
                return False
        elif not _is_ordered(node):
            return False
    return True


@cache
def spark_functions() -> frozenset[str]:
    """Return the names of Spark 4.1's built-in functions, as listed by SHOW FUNCTIONS."""
    return frozenset((files("rivet_dagster.sql") / "spark_functions.txt").read_text("utf-8").split())


def _calls_non_deterministic(query: Query) -> bool:
    if NON_DETERMINISTIC.isdisjoint(query.words):
        return False
    for following, word in enumerate(query.words, 1):
        if word in NON_DETERMINISTIC:
            after = query.tokens[following].token_type if following < len(query.tokens) else None
            if word in _WITHOUT_PARENTHESES or after == TokenType.L_PAREN:
                return True
    return False


def _limits_unordered_pipe(query: Query) -> bool:
    """Return whether a ``|> LIMIT`` does not directly follow a ``|> ORDER BY``; the tree does not show their order."""
    if "|>" not in query.text:
        return False
    operators: list[TokenType | None] = [None]  # the last operator at each level of parentheses
    for token, after in pairwise(query.tokens):
        if token.token_type == TokenType.L_PAREN:
            operators.append(None)
        elif token.token_type == TokenType.R_PAREN and len(operators) > 1:
            operators.pop()
        elif token.token_type == TokenType.PIPE_GT:
            if after.token_type in (TokenType.LIMIT, TokenType.OFFSET) and operators[-1] != TokenType.ORDER_BY:
                return True
            operators[-1] = after.token_type
    return False


def _is_ordered(limit: exp.Expr) -> bool:
    return limit.parent is not None and limit.parent.args.get("order") is not None


def reads(query: Query) -> Counter[str]:
    """Return the unqualified tables that are not CTEs of the query, in lower case, with how often each is evaluated.

    A table inside a CTE counts once for each time that the CTE is read, and at least twice if the CTE is recursive. In
    a CTE that is never read it counts zero times, as the engine still requires it to exist.

    >>> from rivet_dagster.sql.parsing.dialect import read_query
    >>> sorted(reads(read_query("WITH a AS (SELECT * FROM A, other.b) SELECT * FROM a JOIN c JOIN a x")).items())
    [('a', 2), ('c', 1)]
    """
    if query.tree is None:
        return Counter()
    reading = [node for node in query.nodes if type(node) in _READING]
    parts: _Parts = defaultdict(list)
    if _APART.isdisjoint(query.kinds):
        parts[id(query.tree)] = reading
        return _reads(query.tree, parts, {})
    for node in reading:
        within = node.parent if type(node) is exp.With else node
        if within is not None and within is not query.tree:
            parts[id(_part(within))].append(within)
    return _reads(query.tree, parts, {})


def cte_count(query: Query) -> int:
    """Return the number of CTEs that the query declares, at any depth."""
    return sum([type(node) is exp.CTE for node in query.nodes]) if exp.CTE in query.kinds else 0


_PIPE = "|> "
"""The prefix of the names of CTEs that sqlglot generates for ``|>``: no FROM of a user can refer to them."""

_READING = frozenset({exp.From, exp.Table, exp.With})

_Parts = defaultdict[int, list[exp.Expr]]
"""By id of a part of a query, the nodes in it that read something, in order.

A part is the whole query, the body of a CTE, or a query with a WITH of its own; what is within a smaller one is not in
it, except for such a query as a whole.
"""


_APART = frozenset({exp.Hint, exp.With})


def _part(node: exp.Expr) -> exp.Expr | None:
    """Return the part that a node is in, None for what a hint names."""
    above = node.parent
    while above is not None:
        node = above
        if isinstance(node, exp.CTE):
            body: exp.Expr = node.this
            return body
        if type(node) in _APART:
            return None
        if node.args.get("with_") is not None:
            return node
        above = node.parent
    return node


def _reads(part: exp.Expr, parts: _Parts, visible: dict[str, Counter[str]]) -> Counter[str]:
    total: Counter[str] = Counter()
    declared = part.args.get("with_")
    if declared is not None:
        visible = dict(visible)
        for cte in declared.expressions:
            name = cte.alias.lower() if _is_authored(cte) else _PIPE + cte.alias.lower()
            recursive = declared.recursive and _is_authored(cte)
            body = _reads(cte.this, parts, {**visible, name: Counter[str]()} if recursive else visible)
            visible[name] = Counter({k: max(2, n) for k, n in body.items()}) if recursive else body
            total.update(dict.fromkeys(body, 0))
    for node in parts[id(part)]:
        if node is not part and node.args.get("with_") is not None:
            total.update(_reads(node, parts, visible))
        else:
            _add(total, node, visible)
    return total


def _add(total: Counter[str], node: exp.Expr, visible: Mapping[str, Counter[str]]) -> None:
    """Add what the node itself reads: a table, or a CTE."""
    read: Counter[str] | None
    if type(node) is exp.Table and isinstance(node.this, exp.Identifier) and not node.args.get("db"):
        name = node.name.lower()
        read = visible.get(_PIPE + name) if name.startswith("__tmp") else None
        read = visible.get(name) if read is None else read
        if read is None:
            total[name] += 1
        else:
            total.update(read)
    elif type(node) is exp.From and isinstance(node.this, exp.TableAlias):  # after `|> AS name`
        total.update(visible.get(_PIPE + node.this.name.lower(), Counter()))


def _is_authored(cte: exp.CTE) -> bool:
    """Return whether the CTE is in the user's text: sqlglot does not set this argument on those that it generates."""
    return "key_expressions" in cte.args


@dataclass(frozen=True)
class KnownQuery:
    """A query: its ``text`` without a closing ``;``, and the facts that follow from it.

    ``reads`` is how often it evaluates each table that is not one of its CTEs, ``ctes`` is the number of its CTEs. If
    sqlglot cannot read it, it is ``unreadable``: it has no known reads, counts as one CTE and as not deterministic.
    ``lines`` say where the text came from, if it was rendered from a template. ``dialect`` is None for Spark's SQL; a
    query in another one has no tree, since all that is concluded from trees is about Spark.
    """

    text: str
    fingerprint: str
    reads: Mapping[str, int]
    ctes: int
    deterministic: bool
    unreadable: UnreadableSql | None = None
    lines: tuple[Stretch, ...] = ()
    dialect: str | None = None
    _parsed: _Parsed = field(default_factory=lambda: _Parsed(), repr=False, compare=False)

    @property
    def tree(self) -> exp.Expr | None:
        """The query's tree without positions, None where it is unreadable; parsed on first access."""
        if self._parsed.tree is None and self.dialect is None and self.unreadable is None:
            self._parsed.keep(read_query(self.text).tree)
        return self._parsed.tree

    def forget_tree(self) -> None:
        """Free the memory of the tree, which nobody may use any more; ``tree`` parses the text again.

        A node and its children refer to each other, so that they would stay while no garbage is collected.
        """
        tree, self._parsed.tree = self._parsed.tree, None
        if tree is not None:
            take_apart(tree)


@dataclass
class _Parsed:
    """The tree of a query and of all its copies, if it has been parsed and is not forgotten."""

    tree: exp.Expr | None = None

    def keep(self, tree: exp.Expr | None) -> None:
        if tree is not None:
            drop_positions(tree)
        self.tree = tree


def know_query(sql: str, cache: CompileCache) -> KnownQuery:
    """Return the facts of ``sql``. Raise SqlError as ``read_query`` does. Wrong or unreadable SQL is not cached.

    >>> query = know_query("SELECT * FROM orders JOIN items USING (id);", CompileCache())
    >>> query.text, dict(query.reads), query.deterministic
    ('SELECT * FROM orders JOIN items USING (id)', {'orders': 1, 'items': 1}, True)
    """
    facts_in_cache = cache.get("query", sql)
    if facts_in_cache is not None:
        return _known(sql, *facts_in_cache)
    query = read_query(sql)
    if query.tree is None:
        return _unreadable(query, query.unreadable)
    try:
        with translate_parser_errors():
            facts = fingerprint(query), dict(reads(query)), cte_count(query), is_deterministic(query)
    except UnreadableSql as error:
        return _unreadable(query, error)
    cache.put("query", sql, (len(query.text), *facts))
    return _known(sql, len(query.text), *facts, query.tree)


def _unreadable(query: Query, why: UnreadableSql | None) -> KnownQuery:
    known = KnownQuery(query.text, fingerprint(query), {}, 1, False, why)
    known._parsed.keep(query.tree)
    return known


def _known(
    sql: str, length: int, digest: str, read: Mapping[str, int], ctes: int, repeats: bool, tree: exp.Expr | None = None
) -> KnownQuery:
    known = KnownQuery(sql[:length], digest, read, ctes, repeats)
    known._parsed.keep(tree)
    return known


def fingerprint(query: Query) -> str:
    """Return a hash of the tokens without comments and white space, in lower case except literals and quoted names.

    >>> from rivet_dagster.sql.parsing.dialect import read_query
    >>> fingerprint(read_query("select A  from t -- note")) == fingerprint(read_query("SELECT a FROM T"))
    True
    """
    words, hints = query.words, []
    if "`" in query.text:
        words = [
            f"IDENTIFIER:{token.text}" if token.token_type == TokenType.IDENTIFIER else word
            for word, token in zip(words, query.tokens, strict=True)
        ]
    if "/*+" in query.text:
        hints = [token.text.lower() for token in query.tokens if token.token_type == TokenType.HINT]
    return hashlib.sha256("\x00".join([*words, *hints]).encode("utf-8", "surrogatepass")).hexdigest()
