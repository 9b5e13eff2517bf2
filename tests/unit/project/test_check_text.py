import pytest

from rivet_dagster.project.quality import check_text


@pytest.mark.parametrize(
    ("text", "check"),
    [
        ("not_null(a, b)", {"type": "not_null", "columns": ["a", "b"]}),
        ("not_null( a )  # why", {"type": "not_null", "columns": ["a"]}),
        ("unique(columns=[a, b], name=key)", {"type": "unique", "columns": ["a", "b"], "name": "key"}),
        ("not_null(on, 'my, column', \"it's\")", {"type": "not_null", "columns": ["on", "my, column", "it's"]}),
        ("row_count(min=1, severity=warn)", {"type": "row_count", "min": 1, "severity": "warn"}),
        ("row_count ( min = 1 )", {"type": "row_count", "min": 1}),
        ("row_count", {"type": "row_count"}),
        ("row_count  # later", {"type": "row_count"}),
        ("row_count()", {"type": "row_count"}),
        ("accepted_values(x, values=[A, 'a,b'])", {"type": "accepted_values", "column": "x", "values": ["A", "a,b"]}),
        ("accepted_values(column=x, values=[1, 2])", {"type": "accepted_values", "column": "x", "values": [1, 2]}),
        ("expression(sql='distance > 0', name=far)", {"type": "expression", "sql": "distance > 0", "name": "far"}),
        ("expression(f(a, b) > 1)", {"type": "expression", "sql": "f(a, b) > 1"}),
        ("expression(a <= b)", {"type": "expression", "sql": "a <= b"}),
        ("expression(`a,b` > 'x)')", {"type": "expression", "sql": "`a,b` > 'x)'"}),
        ("expression(sql=a # b)", {"type": "expression", "sql": "a # b"}),
        ("expression('it''s, so')", {"type": "expression", "sql": "it's, so"}),
        ('expression("a \\"b, c")', {"type": "expression", "sql": 'a "b, c'}),
        ("not_null(a, tags={x: y, z: w})", {"type": "not_null", "columns": ["a"], "tags": {"x": "y", "z": "w"}}),
        ("freshness(at, max_age=24h)", {"type": "freshness", "column": "at", "max_age": "24h"}),
        ("relationship(a, to=b.c)", {"type": "relationship", "column": "a", "to": "b.c"}),
        ("{type: not_null, columns: [a]}", {"type": "not_null", "columns": ["a"]}),
    ],
)
def test_the_short_form(text: str, check: dict[str, object]) -> None:
    assert check_text(text, 3) == check


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "written `kind`"),
        ("not null(a)", "written `kind`"),
        ("1(a)", "written `kind`"),
        ("not_null: a", "written `kind`"),
        ("not_null(a", "a bracket is not closed"),
        ("not_null('a)", "a quote is not closed"),
        ("not_null(a])", "']' closes no bracket"),
        ("not_null(a) b", "after the closing parenthesis"),
        ("not_null(a))", "after the closing parenthesis"),
        ("not_null(a,)", "an argument is empty"),
        ("not_null(,a)", "an argument is empty"),
        ("not_null(a, , b)", "an argument is empty"),
        ("row_count(1)", "the arguments of row_count have names, like `row_count(min=1)`"),
        ("row_count(min=1, min=2)", "`min` is given twice"),
        ("row_count(min=)", "no value"),
        ("not_null(a, columns=[b])", "`columns` is given twice"),
        ("not_null(type=unique)", "`type` is given twice"),
        ("accepted_values(a, b)", "one argument without a name, its `column`"),
        ("expression(f > 1, g)", "one argument without a name, its `sql`"),
        ("accepted_values(a, values=[1)", "')' closes no bracket"),
        ("not_null('a' 'b')", "cannot be read"),
        ("{type: x", "cannot be read"),
    ],
)
def test_wrong_texts_are_rejected(text: str, words: str) -> None:
    with pytest.raises(ValueError) as caught:
        check_text(text, 1)
    assert words in str(caught.value)
