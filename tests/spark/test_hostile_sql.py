"""How Spark itself parses texts that try to affect the query around them."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest
from py4j.java_gateway import get_field
from pyspark.errors import ParseException
from support.folders import sink, source
from support.hostile_sql import BALANCED, PIECES, UNBALANCED

from rivet_dagster.errors import RivetError
from rivet_dagster.sql.fusion import fuse
from rivet_dagster.sql.parsing.dialect import SqlError, read_query
from rivet_dagster.sql.parsing.lexer import pieces

_KINDS = {
    **dict.fromkeys(("SIMPLE_COMMENT", "BRACKETED_COMMENT"), "comment"),
    **dict.fromkeys(("STRING_LITERAL", "DOUBLEQUOTED_STRING", "BACKQUOTED_IDENTIFIER"), "quoted"),
    **dict.fromkeys(("SEMICOLON", "LEFT_PAREN", "RIGHT_PAREN", "LEFT_BRACKET", "RIGHT_BRACKET"), "mark"),
    **dict.fromkeys(("HENT_START", "HENT_END"), "mark"),
}
Found = list[tuple[str, int]]


@pytest.mark.nightly
def test_the_lexer_agrees_with_that_of_spark(session: Any) -> None:
    chance = random.Random(4)
    texts = [*UNBALANCED, *BALANCED, "2*/* c */3", "/* a /*/ b */ c */ d", "/* a /*+ b */ c", "a1e-5r'\\' x"]
    texts += ["".join(chance.choices(PIECES, k=chance.randint(1, 10))) for _ in range(400)]
    lexer = SparkLexer(session.spark._jvm)
    for text in texts:
        spark, unread = lexer.read(text)
        try:
            ours = [(piece.kind, piece.start) for piece in pieces(text) if piece.text not in ("{", "}")]
        except SqlError:
            assert unread < len(text), text  # an open quote is no token in Spark, an open comment marks the text
            continue
        # Text after characters that Spark never accepts has no meaning.
        assert [one for one in ours if one[1] < unread] == [one for one in spark if one[1] < unread], text


class SparkLexer:
    """Spark's lexer, whose classes the JVM is asked for once."""

    def __init__(self, jvm: Any) -> None:
        parser = jvm.org.apache.spark.sql.catalyst.parser
        self._lexer, self._upper_case = parser.SqlBaseLexer, parser.UpperCaseCharStream
        self._streams = jvm.org.antlr.v4.runtime.CharStreams
        self._name = cache(parser.SqlBaseLexer.VOCABULARY.getSymbolicName)

    def read(self, text: str) -> tuple[Found, int]:
        """Return the tokens of a text, and the position of the first character that no query can contain."""
        lexer = self._lexer(self._upper_case(self._streams.fromString(text)))
        lexer.removeErrorListeners()
        tokens = [(self._name(token.getType()), token.getStartIndex()) for token in lexer.getAllTokens()]
        unread = [start for name, start in tokens if name == "UNRECOGNIZED"]
        unread += [0] if get_field(lexer, "has_unclosed_bracketed_comment") else []
        return [(_KINDS[name], start) for name, start in tokens if name in _KINDS], min(unread, default=len(text))


def test_a_joint_that_compiles_stays_within_its_parentheses(session: Any) -> None:
    parser = session.spark._jsparkSession.sessionState().sqlParser()
    chance = random.Random(5)
    wheres = [*UNBALANCED, *BALANCED]
    wheres += ["".join(chance.choices([*PIECES, *wheres], k=chance.randint(1, 4))) for _ in range(200)]
    read = 0
    for where in wheres:
        try:
            text = read_query(f"SELECT id FROM raw WHERE {where}").text
        except SqlError:
            continue
        try:
            plan = parser.parsePlan(fuse([("a", text), ("b", "SELECT (1) AS x")], "b")).toString()
        except ParseException:
            continue
        read += 1
        outer = [line for line in plan.splitlines() if line[0] not in " :"]
        assert outer == ["CTE [a, b]", "+- 'Project [*]"], where
    assert read >= len(BALANCED)


def test_a_backslash_at_the_end_of_a_comment_hides_nothing(project: Any) -> None:
    check = {"type": "expression", "sql": "id > 1 -- not the first \\", "severity": "warn"}
    custom = {"type": "custom", "sql": "SELECT * FROM {{ this }} WHERE id > 1 -- \\", "severity": "warn"}
    transforms = {"columns": {"id": "id * 1 -- as it is \\"}, "filter": "id < 3 -- \\"}
    folder = project({
        "data/rows.csv": "id\n1\n2\n3\n",
        "sources/rows.yaml": source("rows", "id INT", **transforms),
        "joints/all.sql": "SELECT id FROM rows -- all \\\n, nothing\n-- more \\",
        "sinks/out.yaml": sink("out", "all", quality={"assertions": [check, custom]}),
    })  # fmt: skip
    result = folder.run("out")
    assert [check.violations for check in result.checks] == [1, 1]
    assert sorted(row["id"] for row in folder.rows("out")) == [1, 2]


def test_a_query_is_not_changed_by_settings_or_the_environment(session: Any) -> None:
    session.spark.conf.set("spark.hostile", "1) UNION ALL (SELECT 2")
    with pytest.raises(RivetError, match="PARSE_SYNTAX_ERROR"):
        session.query("SELECT * FROM (SELECT ${spark.hostile})")
