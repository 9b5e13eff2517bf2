"""Templates are parsed and rendered, and nothing in them is executed."""

import pytest

from rivet_dagster.project.templating import is_template, read_template


def both(sql: str) -> tuple[str, str]:
    """Return the text in which no condition holds, and the one in which each does."""
    template = read_template(sql)
    assert not template.wrong
    return tuple(template.render(lambda _, holds=holds: holds, lambda word: f"<{word}>") for holds in (False, True))


def wrong(sql: str) -> list[tuple[str, int | None]]:
    return [(str(error), error.line) for error in read_template(sql).wrong]


@pytest.mark.parametrize("sql", ["SELECT 1", "SELECT '{' || '%}' || '}}'", "SELECT struct(1) AS `{ {`", "{ { % }"])
def test_sql_without_template_marks_is_no_template(sql):
    assert not is_template(sql)


@pytest.mark.parametrize(
    ("sql", "first", "later"),
    [
        ("a {% if is_incremental() %}b{% endif %} c", "a  c", "a b c"),
        ("{% if not is_incremental() %}a{% else %}b{% endif %}", "a", "b"),
        ("{% if is_scd2('x') and is_incremental('x') %}a{% elif not is_scd2() %}b{% else %}c{% endif %}", "b", "a"),
        ("{% if is_scd2() or not is_incremental() %}a{% endif %}", "a", "a"),
        ("{% if false %}a{% elif true %}b{% else %}c{% endif %}", "b", "b"),
        ("{{ 'a' if is_scd2() else 'b' }}{{ 'c' if is_scd2() }}", "b", "ac"),
        (
            "{{ ref('a') }} {{ this }} {{ this('b') }} {{ watermark_value() }}",
            *["<ref('a')> <this> <this('b')> <watermark_value>"] * 2,
        ),
        ("{# {{ nothing }} #}{% raw %}{{ x }} {% y %}{% endraw %}{{ '{{' }}", *["{{ x }} {% y %}{{"] * 2),
    ],
)
def test_conditions_and_values(sql, first, later):
    assert both(sql) == (first, later)


def test_two_conditions():
    choice = "{{% if is_scd2() {} is_incremental() %}}yes{{% endif %}}"
    for word, expected in (("and", ["", "", "", "yes"]), ("or", ["", "yes", "yes", "yes"])):
        template = read_template(choice.format(word))
        cases = [{"is_scd2": scd2, "is_incremental": later} for scd2 in (False, True) for later in (False, True)]
        assert [template.render(lambda word, case=case: case[word.name], str) for case in cases] == expected


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "sql",
    [
        "L1\n{% if is_incremental() %}\nL3\n{% else %}\nL5\nL6\n{% endif %}\nL8",
        "{% if is_incremental() -%}\n\n\nL4\n{%- endif %}\n\nL7 {{ this }} L7",
        "{#\n\n#}L3\n{{\nref(\n'x') }} L6\n{% raw %}\nL8{% endraw %}",
        "{% if is_scd2() %}{% if is_incremental() %}\nL2{% endif %}\n{% endif %}L3",
        "L1{% if\nis_incremental()\n%}L3\n{% elif\n\nis_scd2() %}L6\n{% endif %}L7",
    ],
)
def test_rendered_text_stays_on_its_lines(sql, newline):
    for text in both(sql.replace("\n", newline)):
        for number, line in enumerate(text.split("\n"), 1):
            assert {word for word in line.split() if word.startswith("L")} <= {f"L{number}"}
        assert "L" in text
        assert newline == "\n" or text.count("\r\n") <= text.count("\n")


@pytest.mark.parametrize(
    ("sql", "words", "line"),
    [
        ("a\n{% for x in range(10 ** 10) %}{% for y in x %}{% endfor %}{% endfor %}", "holds a loop", 2),
        ("{{ ''.__class__.__mro__ }}", "holds an attribute", 1),
        ("{{ this['x'] }}", "holds an attribute", 1),
        ("{{ ref('x').y() }}", "holds a call of something else", 1),
        ("{{ 9 ** 9 ** 9 }}", "holds something else", 1),
        ("{{ 'x' * 10 ** 10 }}", "holds something else", 1),
        ("{{ run_started_at | upper }}", "holds a filter", 1),
        ("{% set x = 1 %}", "holds an assignment", 1),
        ("\n\n{% include '/etc/passwd' %}", "holds something else", 3),
        ("{% import 'os' as os %}", "holds something else", 1),
        ("{% macro f() %}{{ f() }}{% endmacro %}", "holds a macro", 1),
        ("{{ range(3) }}", "does not know 'range'", 1),
        ("{{ watermark_valeu }}", "does not know 'watermark_valeu'; did you mean 'watermark_value'?", 1),
        ("{{ ref() }}", "gives ref something else than one name in quotes", 1),
        ("{{ ref(orders) }}", "gives ref something else than one name in quotes", 1),
        ("{{ ref('a', 'b') }}", "gives ref something else than one name in quotes", 1),
        ("{{ ref(*'a') }}", "gives ref something else than one name in quotes", 1),
        ("{{ this(sink='a') }}", "gives this something else than one name in quotes", 1),
        ("{{ run_started_at('a') }}", "gives run_started_at something else than nothing in parentheses", 1),
        ("{{ is_incremental() }}", "writes is_incremental(), which is a condition: {% if is_incremental() %}", 1),
        ("{% if is_incremental %}{% endif %}", "asks for is_incremental without its parentheses", 1),
        ("{% if watermark_value %}{% endif %}", "asks for watermark_value in a condition", 1),
        ("{% if is_scd2() == true %}{% endif %}", "holds a comparison", 1),
        ("a\n{% if is_scd2() %}", "cannot be read: Unexpected end of template", 2),
        ("a\n\n{{ this", "cannot be read: unexpected end of template", 3),
        ("{# never", "cannot be read: Missing end of comment tag", 1),
        ("{{ " + "9" * 5000 + " }}", "cannot be read: Exceeds the limit", None),
        ("{{ " + "(" * 100_000, "cannot be read: it is nested too deeply", None),
        ("{% if " + "not " * 5000 + "is_scd2() %}{% endif %}", "cannot be read: it is nested too deeply", None),
        (
            "{% if is_scd2()" + " or is_scd2()" * 5000 + " %}{% endif %}",
            "cannot be read: it is nested too deeply",
            None,
        ),
    ],
)
def test_everything_else_of_jinja_is_rejected(sql, words, line):
    expected, where = wrong(sql)[0]
    assert words in expected
    assert where == line


def test_all_errors_at_once():
    assert [line for _, line in wrong("{{ a }}\n{{ ref() }}{% if true %}{{ b }}{% else %}\n{{ c }}{% endif %}")] == [
        1,
        2,
        2,
        3,
    ]


def test_thousands_of_cases():
    cases = "".join(f"{{% elif is_scd2('s{n}') %}}{n}" for n in range(3000))
    template = read_template("{% if false %}" + cases + "{% endif %}")
    assert template.render(lambda word: word.argument == "s2999", str) == "2999"
