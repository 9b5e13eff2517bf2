"""Facts about a query that the compiler needs, computed once for each text and cached."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from sqlglot import TokenType, exp

from rivet_dagster.cache import CompileCache
from rivet_dagster.model.text_lines import Stretch
from rivet_dagster.sql.determinism import is_deterministic
from rivet_dagster.sql.dialect import Query, guarded, read_query
from rivet_dagster.sql.error import Unreadable
from rivet_dagster.sql.reads import cte_count, reads


@dataclass(frozen=True)
class KnownQuery:
    """A query: its ``text`` without a closing ``;``, and the facts that follow from it.

    ``reads`` is how often it evaluates each table that is not one of its CTEs, ``ctes`` is the number of its CTEs. If
    sqlglot cannot read it, it is ``unreadable``: it has no known reads, counts as one CTE and as not deterministic.
    ``lines`` say where the text came from, if it was rendered from a template.
    """

    text: str
    fingerprint: str
    reads: Mapping[str, int]
    ctes: int
    deterministic: bool
    unreadable: Unreadable | None = None
    lines: tuple[Stretch, ...] = ()
    _parsed: exp.Expr | None = field(default=None, repr=False, compare=False)

    @cached_property
    def tree(self) -> exp.Expr | None:
        """The query's tree, None where it is unreadable; parsed on first access."""
        return self._parsed or read_query(self.text).tree


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
        with guarded():
            facts = fingerprint(query), dict(reads(query)), cte_count(query), is_deterministic(query)
    except Unreadable as error:
        return _unreadable(query, error)
    cache.put("query", sql, (len(query.text), *facts))
    return _known(sql, len(query.text), *facts, query.tree)


def _unreadable(query: Query, why: Unreadable | None) -> KnownQuery:
    return KnownQuery(query.text, fingerprint(query), {}, 1, False, why, _parsed=query.tree)


def _known(
    sql: str, length: int, digest: str, read: Mapping[str, int], ctes: int, repeats: bool, tree: exp.Expr | None = None
) -> KnownQuery:
    return KnownQuery(sql[:length], digest, read, ctes, repeats, _parsed=tree)


def fingerprint(query: Query) -> str:
    """Return a hash of the tokens without comments and white space, in lower case except literals and quoted names.

    >>> from rivet_dagster.sql.dialect import read_query
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
