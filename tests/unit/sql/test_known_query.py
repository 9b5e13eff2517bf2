"""Facts about a query that the compiler determines."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlglot import TokenType
from sqlglot.dialects.databricks import Databricks

from rivet_dagster.cache import CompileCache
from rivet_dagster.sql.fusion import fuse
from rivet_dagster.sql.parsing.dialect import SqlError, quote_name, read_query, tokenize
from rivet_dagster.sql.parsing.known_query import is_deterministic, know_query, reads


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT * FROM a", {"a": 1}),
        ("SELECT * FROM A JOIN `b` ON true", {"a": 1, "b": 1}),
        ("SELECT * FROM other.a", {}),
        ("WITH a AS (SELECT 1) SELECT * FROM a", {}),
        ("WITH a AS (SELECT * FROM a) SELECT * FROM a", {"a": 1}),
        ("WITH x AS (SELECT * FROM a), y AS (SELECT * FROM x) SELECT * FROM y, y z", {"a": 2}),
        ("SELECT * FROM (WITH a AS (SELECT 1) SELECT * FROM a) JOIN a", {"a": 1}),
        (
            "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r, a WHERE n < 3) SELECT * FROM r",
            {"a": 2},
        ),
        ("SELECT (SELECT max(x) FROM b WHERE b.id = a.id) FROM a", {"a": 1, "b": 1}),
        ("SELECT * FROM a WHERE EXISTS (SELECT 1 FROM a)", {"a": 2}),
        ("SELECT /*+ BROADCAST(b) */ * FROM a", {"a": 1}),
        ("SELECT * FROM a LATERAL VIEW explode(xs) b AS x", {"a": 1}),
        ("SELECT * FROM a, LATERAL (SELECT * FROM b WHERE b.id = a.id)", {"a": 1, "b": 1}),
        ("SELECT transform(xs, a -> a + 1) FROM b", {"b": 1}),
        ("FROM a SELECT id", {"a": 1}),
        ("FROM a |> WHERE id > 1 |> SELECT id", {"a": 1}),
        ("TABLE a", {"a": 1}),
        ("(TABLE a) UNION ALL TABLE `b` ORDER BY 1 LIMIT 2", {"a": 1, "b": 1}),
        ("SELECT * FROM (TABLE a) JOIN (TABLE date MINUS TABLE b)", {"a": 1, "b": 1, "date": 1}),
        ("SELECT max(table), count(DISTINCT table) FROM table", {"table": 1}),
        ("FROM a |> AS x |> SELECT x.id", {"a": 1}),
        ("FROM a |> AS x |> JOIN b ON x.id = b.id |> AS y |> WHERE y.id > 1", {"a": 1, "b": 1}),
        ("FROM a |> AS b |> JOIN b USING (id)", {"a": 1, "b": 1}),
        ("WITH a AS (SELECT 1 AS id) SELECT * FROM (FROM a |> AS a |> SELECT a.id |> WHERE id > 0) JOIN b", {"b": 1}),
        ("SELECT * FROM (FROM a |> AS b |> SELECT b.id |> WHERE id > 0) JOIN b", {"a": 1, "b": 1}),
        ("TABLE a |> WHERE id > 1", {"a": 1}),
        ("WITH unread AS (SELECT * FROM a), x AS (SELECT * FROM b) SELECT * FROM x", {"a": 0, "b": 1}),
        ("SELECT id FROM a GROUP -- it's one\n BY id ORDER /* too */ BY 'x -- y'", {"a": 1}),
        ("VALUES (1), (2)", {}),
        ("(SELECT * FROM a LIMIT 1) UNION ALL (SELECT * FROM b)", {"a": 1, "b": 1}),
        ("SELECT v:x.y FROM a", {"a": 1}),
        ("SELECT * FROM range(10)", {}),
        ("SELECT * FROM parquet.`/data/a`", {}),
        ("SELECT 'FROM b' FROM a -- FROM c\n;", {"a": 1}),
        ("SELECT * FROM a QUALIFY row_number() OVER (PARTITION BY id ORDER BY t) = 1", {"a": 1}),
        ("SELECT * FROM a WHERE id = :wanted", {"a": 1}),
        (
            "WITH x AS (WITH x AS (SELECT * FROM a), y AS (SELECT * FROM x, x) SELECT * FROM y) "
            "SELECT * FROM x WHERE id IN (WITH b AS (SELECT * FROM c, x) SELECT id FROM b, b)",
            {"a": 6, "c": 2},
        ),
    ],
)
def test_reads(sql, expected):
    query = read_query(sql)
    assert query.tree is not None
    assert dict(reads(query)) == expected


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("SELECT 1;", "SELECT 1"),
        ("SELECT ';' ; ; -- end ;", "SELECT ';' "),
        ("SELECT 1 -- no; end", "SELECT 1 -- no; end"),
        ("SELECT 1 /* ; /* nested ; */ */ AS x", "SELECT 1 /* ; /* nested ; */ */ AS x"),
    ],
)
def test_only_the_closing_semicolon_is_removed_from_the_text(sql, text):
    assert read_query(sql).text == text.rstrip()


@pytest.mark.parametrize("sql", ["", "  -- only a comment", ";", "SELECT 1; SELECT 2", "DROP TABLE a", "SELECT 'open"])
def test_a_text_that_is_not_one_query_is_rejected(sql):
    with pytest.raises(SqlError):
        read_query(sql)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT a + 1 FROM t", True),
        ("SELECT count(*) FROM t GROUP BY a", True),
        ("SELECT 'rand()' FROM t", True),
        ("SELECT rand FROM t", True),
        ("SELECT rank() OVER (ORDER BY a) FROM t", True),
        ("SELECT row_number() OVER (ORDER BY a) FROM t", False),
        ("SELECT * FROM (SELECT * FROM t LIMIT 3)", False),
        ("FROM t |> ORDER BY a |> LIMIT 3", True),
        ("FROM t |> LIMIT 3 |> ORDER BY a", False),
        ("FROM t |> ORDER BY a |> WHERE a > (SELECT max(b) FROM u) |> LIMIT 3", False),
        ("SELECT now() FROM t", False),
        ("SELECT any_value(a) FROM t", False),
    ],
)
def test_determinism(sql, expected):
    assert is_deterministic(read_query(sql)) is expected


def test_sql_that_only_spark_can_parse_has_no_tree():
    for sql in ("FROM a |> UNION ALL TABLE b", "FROM a |> SET x = 1", "WITH x AS (SELECT 1) TABLE x"):
        query = read_query(sql)
        assert query.tree is None
        assert query.unreadable is not None


def test_exactly_the_keywords_of_the_tokenizer_are_quoted():
    keywords = " ".join(Databricks.Tokenizer.KEYWORDS).lower()
    words = {word for word in keywords.split() if word.isidentifier()}
    for word in words | {f"{word}_1" for word in words}:
        plain = [token.token_type for token in tokenize(word)] == [TokenType.VAR]
        assert (quote_name(word) == word) is plain


def test_reserved_names_are_quoted_in_the_with():
    assert quote_name("select") == "`select`"
    assert fuse([("select", "SELECT 1")], "select").startswith("WITH `select` AS (")


def test_a_tree_that_is_forgotten_is_parsed_again_by_all_copies():
    query = know_query("SELECT a, f(b) FROM (SELECT * FROM orders) AS o", CompileCache())
    copy, before = replace(query, lines=(None,)), query.tree
    parts, text = list(before.walk()), before.sql()
    query.forget_tree()
    assert [part.parent for part in parts] == [None] * len(parts)
    assert copy.tree is query.tree is not before
    assert copy.tree.sql() == text
    assert [part.parent is None for part in copy.tree.walk()].count(True) == 1


def test_a_tree_holds_no_positions():
    cache = CompileCache()
    first = know_query("SELECT a, f(b) FROM orders AS o", cache)
    for query in (first, know_query(first.text, CompileCache(cache.used))):
        assert [part.meta for part in query.tree.walk() if part.meta] == []
