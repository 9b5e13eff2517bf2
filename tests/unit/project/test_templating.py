"""Templates are rendered as plain Jinja does, within limits, and lines of the text are those of the template."""

from pathlib import Path

import jinja2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.torture import examples

from rivet_dagster.model.project import MacroFile
from rivet_dagster.model.text_lines import TextLocation, in_file, locate_line
from rivet_dagster.project.templating import is_template, limits
from rivet_dagster.project.templating.templates import RenderedText, Templates
from rivet_dagster.project.templating.words import TemplateError, Word


class Meaning:
    """Conditions that all hold or all don't, and words that are written as they are asked for."""

    def __init__(self, holds: bool = False) -> None:
        self._holds = holds

    def holds(self, word: Word) -> bool:
        return self._holds

    def text(self, word: Word) -> str:
        return f"<{word}>"


def render(text, macros=(), variables=None, bound=(), holds=False) -> RenderedText:
    files = [MacroFile(f"macros/m{number}.sql", macro) for number, macro in enumerate(macros)]
    templates = Templates(files, variables or {}, bound)
    assert not templates.errors
    return templates.read(text).render(Meaning(holds))


def plain(text, variables=None, holds=False) -> str:
    """Render by Jinja alone, which writes true, false and none as SQL has them."""
    words = {None: "NULL", True: "true", False: "false"}
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        extensions=["jinja2.ext.do"],
        finalize=lambda value: words[value] if value is None or isinstance(value, bool) else value,
    )
    environment.globals |= {
        "ref": lambda name: f"<ref('{name}')>",
        "var": (variables or {}).__getitem__,
        "is_incremental": lambda: holds,
        "this": "<this>",
        "watermark_value": "<watermark_value>",
    }
    return environment.from_string(text).render()


def wrong(text, macros=(), **others) -> TemplateError:
    with pytest.raises(TemplateError) as error:
        render(text, macros, **others)
    return error.value


@pytest.mark.parametrize("sql", ["SELECT 1", "SELECT '{' || '%}' || '}}'", "SELECT struct(1) AS `{ {`", "{ { % }"])
def test_sql_without_template_marks_is_no_template(sql):
    assert not is_template(sql)


VARIABLES = {"states": ["new", "paid"], "limit": 3, "rates": {"eu": 0.5, "us": 1}, "name": "o'x", "on": True}
CONSTRUCTS = [
    "{% set a = 1 %}{{ a + 2 }}{% set b, c = 'x', 'y' %}{{ b ~ c }}",
    "{% set block %}a{{ 1 }}\n{% endset %}[{{ block }}]{{ block | length }}",
    "{% for s in var('states') %}{{ loop.index }}/{{ loop.length }} {{ s }}{{ ',' if not loop.last }}{% endfor %}",
    "{% for s in var('states') if s != 'new' %}{{ s }}{% endfor %}{% for x in [] %}{% else %}-{% endfor %}",
    "{% for k, v in var('rates').items() %}{{ k }}={{ v }};{% endfor %}{{ var('rates') }}",
    "{% for n in range(3) %}{{ loop.cycle('a', 'b') }}{{ loop.previtem if loop.index0 }}{% endfor %}",
    "{% for x in [1, [2, [3]]] recursive %}{{ loop(x) if x is iterable else x }}{% endfor %}",
    "{% if var('limit') > 2 and 'new' in var('states') %}a{% elif var('on') %}b{% else %}c{% endif %}",
    "{% if not is_incremental() %}a{% else %}b{{ this }} > {{ watermark_value }}{% endif %}",
    "a  {%- if true -%}  b  {%- endif %}  c\n{%- for x in [1] -%}\n {{- x -}} \n{% endfor -%} d",
    "{% raw %}{{ x }} {% y %}{% endraw %}{# {{ never }} #}{{ '{{' }}",
    "{{ 'aB c' | upper }}{{ 'aB' | lower }}{{ ' a ' | trim }}{{ 'a-b' | replace('-', '_') }}{{ 'abc' | title }}",
    "{{ [3, 1, 2] | sort | join(', ') }}{{ [1, 2] | sum }}{{ [1, 2] | first }}{{ 'abc' | last }}",
    "{{ var('states') | map('upper') | join('|') }}{{ [1, 2, 3] | select('odd') | list }}{{ 1.55 | round(1) }}",
    "{{ [{'a': 1}, {'a': 1}] | groupby('a') }}{{ [{'a': 1}] | map(attribute='a') | list }}",
    "{{ [{'a': 1}, {'a': 'x'}] | join(', ', attribute='a') }}{{ [[1, 2], [3, 4]] | join('-', 1) }}",
    "{{ 'abc' | join(d=1) }}{{ {'a': 1, 'b': 2} | join }}{{ ('a', 2.5, none) | join('|') }}",
    "{{ {'b': 1, 'a': 2} | dictsort }}{{ [1, 2, 3] | batch(2) | list }}{{ 'x' | default('y') }}{{ q | default('y') }}",
    "{{ 'aaa' | replace('a', 'b', count=2) }}{{ 'a\nb' | indent(width=2, first=true) }}{{ 1.25 | round(precision=1) }}"
    "{{ [1, 2, 3] | batch(linecount=2, fill_with=0) | list }}{{ 'a b' | wordwrap(width=1, wrapstring='|') }}",
    "{{ 'a\nb' | indent(2) }}{{ 'abc' | center(7) }}{{ 'a b' | wordcount }}{{ '3' | int + 1 }}{{ 'x' | int(7) }}",
    "{{ '%s-%03d' % ('a', 7) }}{{ '%s' | format('x') }}{{ '{0} {b:>4}'.format(1, b='y') }}{{ '{}'.format(2.5) }}",
    "{{ 7 // 2 }}{{ 7 % 4 }}{{ 2 ** 10 }}{{ 1 / 4 }}{{ -3 }}{{ 'ab' * 2 }}{{ [1] + [2] }}{{ 1 < 2 <= 2 }}{{ none }}",
    "{{ 'abc'[1:] }}{{ [1, 2, 3][::-1] }}{{ {'a': {'b': 1}}.a.b }}{{ (1, 'x') }}{{ var('rates')['eu'] }}",
    "{{ 'a,b'.split(',') }}{{ 'abc'.startswith('a') }}{{ ', '.join(['a', 'b']) }}{{ 'x'.zfill(3) }}",
    "{% set seen = [] %}{% for x in 'ab' %}{% do seen.append(x) %}{% endfor %}{{ seen }}",
    "{% set d = {} %}{% do d.update({'a': 1}) %}{{ d }}{{ d.get('b', 2) }}{% set ns = namespace(n=0) %}{{ ns.n }}",
    "{% set ns = namespace(n=0) %}{% for x in range(4) %}{% set ns.n = ns.n + x %}{% endfor %}{{ ns.n }}",
    "{% macro m(a, b=2) %}[{{ a }}{{ b }}{{ varargs }}]{% endmacro %}{{ m(1) }}{{ m('x', b=3) }}{{ m(1, 2, 3) }}",
    "{% macro m(x) %}{{ x }}{% if x > 0 %}{{ m(x - 1) }}{% endif %}{% endmacro %}{{ m(5) }}",
    "{% macro outer() %}<{{ caller(1) }}>{% endmacro %}{% call(x) outer() %}in {{ x }}{% endcall %}",
    "{% filter upper %}a{{ 'b' }}{% endfilter %}{% with x = 1 %}{{ x }}{% endwith %}{{ ref('a') }}",
    "{% filter upper | replace('A', 'b') %}a\n{{ 'b' }}{% endfilter %}{% filter trim %} a {% endfilter %}\n",
    "{% macro m() %}{{ caller() }}{% endmacro %}{% set x = 1 %}{% call m() %}"
    "{% call m() %}{{ x }}{% endcall %}{% endcall %}",
    "{% macro m() %}{{ caller(1, *varargs) }}{% endmacro %}{% call(a, b=2) m() %}{{ a }}{{ b }}{% endcall %}"
    "{% call(a, b=2) m(3) %}{{ a }}{{ b }}{% endcall %}",
    "{{ var('on') }}{{ not var('on') }}{{ none }}{{ 1 == 1 }}{{ [none, true] }}{{ true ~ none }}{{ true | string }}",
    "{% macro m(x=none) %}{{ x }}{% endmacro %}{{ m() }}{{ m(false) }}{% set x %}{{ none }}{% endset %}{{ x }}",
    "{{ q is defined }}{{ 1 is odd }}{{ 'a' is string }}{{ none is none }}{{ 2 is in [1, 2] }}{{ 6 is divisibleby 3 }}",
    "{{ 'yes' if var('on') else 'no' }}{{ 'x' if false }}{{ var('name') }}",
    "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.current }}",
    "line\r\n{{ 1 }}\r\nend",
]


@pytest.mark.parametrize("text", CONSTRUCTS)
@pytest.mark.parametrize("holds", [False, True])
def test_constructs_are_rendered_as_by_jinja(text, holds):
    expected = plain(text, VARIABLES, holds)
    if "\r\n" in text:
        expected = expected.replace("\n", "\r\n")
    assert render(text, variables=VARIABLES, holds=holds).text == expected


_NAMES = st.sampled_from(["a", "b", "c"])
_EXPRESSIONS = st.recursive(
    st.one_of(
        st.integers(-3, 9).map(str), st.sampled_from(["'x'", "''", "'L'", "[1, 'z']", "true", "{'k': 1}"]), _NAMES
    ),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+ - * ~ == < and or in".split()), inner).map(lambda t: f"({' '.join(t)})"),
        st.tuples(inner, st.sampled_from("upper length list string first sort join int".split())).map(
            "{0[0]}|{0[1]}".format
        ),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} if {t[1]} else {t[2]})"),
    ),
    max_leaves=5,
)
_BODIES = st.recursive(
    st.one_of(
        st.sampled_from(["text ", "\n", "  \n x\n", "{#\n#}", "{{ ref('t') }}"]),
        _EXPRESSIONS.map(lambda e: "{{ " + e + " }}"),
        st.tuples(_NAMES, _EXPRESSIONS).map(lambda t: f"{{% set {t[0]} = {t[1]} %}}"),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map("".join),
        st.tuples(_EXPRESSIONS, inner, inner).map(lambda t: f"{{% if {t[0]} -%}}{t[1]}{{% else %}}{t[2]}{{% endif %}}"),
        st.tuples(_NAMES, inner).map(lambda t: f"{{% for {t[0]} in [1, 'q', []] %}}{t[1]}{{%- endfor %}}"),
        st.tuples(_NAMES, inner).map(lambda t: f"{{% set {t[0]} %}}{t[1]}{{% endset %}}"),
        inner.map(lambda t: f"{{% macro m(a) %}}{t}{{% endmacro %}}{{{{ m(3) }}}}"),
        inner.map(lambda t: f"{{% filter upper %}}{t}{{% endfilter %}}"),
        inner.map(lambda t: f"{{% macro k() %}}[{{{{ caller() }}}}]{{% endmacro %}}{{% call k() %}}{t}{{% endcall %}}"),
    ),
    max_leaves=12,
)


@pytest.mark.slow
@given(_BODIES)
@settings(max_examples=examples(60, 300), deadline=None)
def test_random_templates_are_rendered_as_by_jinja_and_always_the_same(text):
    text = "{% set a = 1 %}{% set b = 'y' %}" + text
    try:
        expected = plain(text)
    except Exception:
        first, second = wrong(text), wrong(text)
        assert (first.message, first.location) == (second.message, second.location)
        return
    templates = Templates()
    first, second, other = (each.render(Meaning()) for each in [templates.read(text)] * 2 + [Templates().read(text)])
    assert first.text == expected
    assert first == second == other


def test_a_variable_may_be_missing_where_there_is_a_default():
    assert render("{{ var('a', 1) }}{{ var('a', default=2) }}{{ var('b', 3) }}", variables={"b": 4}).text == "124"


def test_a_template_changes_no_variable():
    templates = Templates(variables={"states": ["new"]})
    template = templates.read("{% set s = var('states') %}{% do s.append('x') %}{{ s }}{{ var('states') }}")
    assert [template.render(Meaning()).text for _ in range(2)] == ["['new', 'x']['new']"] * 2


# Lines


def lines(rendered: RenderedText) -> list[TextLocation]:
    return [locate_line(rendered.lines, number) for number, _ in enumerate(rendered.text.split("\n"), 1)]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "sql",
    [
        "L1\n{% if is_incremental() %}\nL3\n{% else %}\nL5\nL6\n{% endif %}\nL8",
        "{% if is_incremental() -%}\n\n\nL4\n{%- endif %}\n\nL7 {{ this }} L7",
        "{#\n\n#}L3\n{{\nref(\n'x') }} L5\n{% raw %}\nL8{% endraw %}",
        "{% if is_scd2() %}{% if is_incremental() %}\nL2{% endif %}\n{% endif %}L3",
        "{% if\nis_incremental()\n%}L3\n{% elif\n\nnot is_scd2() %}L6\n{% endif %}",
        "{% for x in range(3) %}\nL2 {{ x }}\n\nL4\n{% endfor %}\nL6",
        "L1\n{% set x %}\nL3\nL4{% endset %}\n\n{{ x }}\nL7",
        "{% macro m() %}\nL2\nL3\n{% endmacro %}\nL5\n{{ m() }}\nL7",
        "{%- for x in range(2) -%}\n  {%- for y in range(2) %}\n L3\n  {%- endfor -%}\n{%- endfor %}\nL6",
        "L1\n{% filter replace('a', 'b') %}\n a\nL4 a{% endfilter %}\nL5",
        "{% filter trim %}\n\nL3\nL4\n{% endfilter %}\nL6",
        "{% set x %}\n\nL3\nL4\n{% endset %}\n{{ x | trim | replace('a', 'b') ~ ' ' }}\nL7 {{ x[:0] }}",
        "{% macro m() %}\n{{ caller().strip() }}\nL3\n{% endmacro %}\n{% call m() %}\n\nL7\nL8\n{% endcall %}L9",
    ],
)
def test_lines_are_those_of_the_template(sql, newline):
    for holds in (False, True):
        rendered = render(sql.replace("\n", newline), holds=holds)
        assert newline == "\n" or rendered.text.count("\r\n") == rendered.text.count("\n")
        for line, place in zip(rendered.text.split("\n"), lines(rendered), strict=True):
            marks = [word for word in line.split() if word.startswith("L")]
            assert not marks or f"L{place.line}" == marks[0], rendered
        assert "L" in rendered.text


def test_a_text_that_grows_by_passes_of_a_loop_has_its_lines():
    grow = "{% for i in range(1000) %}{% set ns.x %}{{ ns.x }} + {{ i }}\n{% endset %}{% endfor %}"
    text = "{% set ns = namespace(x='0') %}\n" + grow + "\nL4 {{ ns.x }}"
    rendered = render(text)
    assert rendered.text == plain(text)
    assert [place.line for place in lines(rendered)[:5]] == [1, 2, 4, 2, 2]


def test_lines_of_blocks_that_are_filtered_or_passed_are_their_own():
    text = "1\n{% filter upper %}\nx\ny{% endfilter %}\n{% call m() %}\nz\n{% endcall %}\n8"
    rendered = render("{% macro m() %}{{ caller() }}{% endmacro %}" + text)
    assert rendered.text == "1\n\nX\nY\n\nz\n\n8"
    assert [place.line for place in lines(rendered)] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_blocks_write_values_as_text():
    macro = "{% macro m() %}{{ caller() }}{% do return([1, none]) %}{% endmacro %}"
    assert render("{% filter list %}ab{% endfilter %}{% filter length %}ab{% endfilter %}").text == "['a', 'b']2"
    assert render(macro + "{% call m() %}x{% endcall %}").text == "[1, None]"
    error = wrong(macro.replace("[1, none]", "range") + "\n{% call m() %}x{% endcall %}")
    assert (error.message, error.location) == ("writes the function 'range': a call has parentheses", TextLocation(2))


def test_empty_texts_that_double_are_empty():
    empty = "{% set ns.x %}{{ '' }}{{ '' }}{% endset %}"
    double = "{% for i in range(45) %}{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}{% endfor %}"
    rendered = render("{% set ns = namespace(x='') %}\n" + empty + double + "SELECT 1 AS a{{ ns.x }}")
    assert (rendered.text, lines(rendered)[1]) == ("\nSELECT 1 AS a", TextLocation(2))


@pytest.mark.parametrize("use", ["m() | trim", "m().strip()", "m() | indent", "m() ~ ''", "m() | trim | upper", "r()"])
def test_a_changed_text_of_a_macro_has_its_lines_and_calls(use):
    macros = "{% macro m() %}\n\nl3\nl4\n{% endmacro %}{% macro r() %}{% do return(m() | trim) %}{% endmacro %}"
    rendered = render("SELECT\n{{ " + use + " }},\nx", [macros])
    found = [place for line, place in zip(rendered.text.split("\n"), lines(rendered), strict=True) if "4" in line]
    assert [(place.file, place.line, place.template_line) for place in found] == [("macros/m0.sql", 4, 2)]
    assert found[0].calls[-1].macro == use[0]


@pytest.mark.parametrize("change", ["{% set ns.x = (ns.x ~ i ~ '\n') | upper %}", "{% set ns.x = ns.x | trim %}"])
def test_a_text_that_changes_in_each_pass_of_a_loop_is_rendered(change):
    text = "{% set ns = namespace(x='') %}{% set ns.x %}a\n{% endset %}"
    text += "{% for i in range(500) %}" + change + "{% endfor %}{{ ns.x }}"
    assert render(text).text == plain(text)


MACROS = (
    "-- first\n{% macro cents(column) %}\n  {{ column }} * 100\n  + {{ plus(column) }}\n{% endmacro %}\n",
    "{% macro plus(column) -%}\n{{ column }}_more\n{%- endmacro %}\n\n{% macro _private() %}p{% endmacro %}",
)


def test_a_line_of_a_macro_is_told_with_its_calls():
    rendered = render("SELECT 1,\n  {{ cents('net') }}\nFROM t", MACROS)
    assert rendered.text == "SELECT 1,\n  \n  net * 100\n  + net_more\n\nFROM t"
    places = lines(rendered)
    assert [(place.file, place.line, place.template_line) for place in places] == [
        (None, 1, 1),
        (None, 2, 2),
        ("macros/m0.sql", 3, 2),
        ("macros/m0.sql", 4, 2),
        ("macros/m0.sql", 5, 2),
        (None, 3, 3),
    ]
    found = in_file(places[2], "joints/a.sql", 11)
    assert (found.file, found.line) == ("macros/m0.sql", 3)
    assert found.note == " (in the macro 'cents', called at joints/a.sql:12)"


def test_macros_know_each_other_whatever_the_order_of_files():
    for files in (MACROS, MACROS[::-1]):
        assert render("{{ cents('a') | trim }} {{ _private() }}", files).text == "a * 100\n  + a_more p"


def test_return_gives_a_value_and_ends_the_macro():
    second = "{% if x == 2 %}{{ return([x, 'b']) }}{% endif %}"
    macro = f"{{% macro pairs(n) %}}{{% for x in range(n) %}}{second}{{% endfor %}}{{% endmacro %}}"
    done = "{% macro last(items) %}{% do return(items[-1]) %}never{% endmacro %}"
    text = "{% set found = pairs(9) %}{{ found[0] + 1 }}{{ found[1] }}{{ last(found) }}{{ pairs(1) }}"
    assert render(text, [macro, done]).text == "3bb"
    assert "returns outside of a macro" in wrong("{{ return(1) }}").message


# Values that only a run knows


def test_bound_values_can_be_written_and_not_looked_at():
    text = "{{ var('day') }} {{ 'date(' ~ var('day') ~ ')' }} {{ [this, var('day')] | join(', ') }}"
    assert render(text, bound=["day"]).text == "<var('day')> date(<var('day')>) <this>, <var('day')>"
    for text in (
        "{% if var('day') %}{% endif %}",
        "{{ var('day') == 'x' }}",
        "{{ var('day') | upper }}",
        "{{ var('day') + 1 }}",
        "{{ var('day') in ['x'] }}",
        "{{ 'x' in [var('day')] }}",
        "{{ var('day') * 2 }}",
        "{{ ['x', var('day')] | sort }}",
        "{{ var('day') is none }}",
        "{% for letter in var('day') %}{% endfor %}",
        "{{ -var('day') }}",
        "{{ range(var('day')) }}",
        "{{ dict(var('day')) }}",
        "{{ [var('day')] | sum }}",
        "{{ [var('day')] | unique | list }}",
        "{{ {var('day'): 1} }}",
    ):
        assert "only a run knows" in wrong(text, bound=["day"]).message
    assert "writes var('day') within a list" in wrong("{{ [var('day')] }}", bound=["day"]).message
    assert "asks for 'shown' of var('day'), which has none" in wrong("{{ var('day').shown }}", bound=["day"]).message


@pytest.mark.parametrize(
    "text",
    [
        "{% filter upper %}a {{ var('day') }}{% endfilter %}",
        "{% set x %}a {{ var('day') }}{% endset %}{{ x | upper }}",
        "{% set x %}a {{ var('day') }}{% endset %}{{ x.upper() }}",
        "{% set x %}{{ var('day') }}{% endset %}A {{ x[0:4] }}",
        "{% set x %}{{ var('day') }}{% endset %}A {{ x | truncate(3) | replace('day', 'month') }}",
        "{% set x = 'A ' ~ var('day') %}{{ x | title }}",
    ],
)
def test_no_filter_changes_which_value_is_written(text):
    assert render(text, bound=["day"]).text == "A <var('day')>"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{ var('day') }}s", "joins 's' to var('day')"),
        ("{{ var('day') }}_2", "joins '_' to var('day')"),
        ("{{ var('day') }}é", "joins 'é' to var('day')"),
        ("id{{ var('day') }}", "joins 'd' to var('day')"),
        ("`a b`[0]{{ var('day') }}", "joins ']' to var('day')"),
        ("f(id){{ var('day') }}", "joins ')' to var('day')"),
        ("id:{{ var('day') }}", "joins ':' to var('day')"),
        ("{{ var('day') ~ 's' }}", "joins 's' to var('day')"),
        ("{{ ['a', var('day')] | join }}", "joins 'a' to var('day')"),
        ("{{ var('day') }}{{ var('month') }}", "joins var('month') to var('day')"),
        ("{% filter upper %}{{ var('day') }}s{% endfilter %}", "joins 'S' to var('day')"),
        ("{{ watermark_value }}{{ 1 }}", "joins '1' to watermark_value"),
        ("x{{ watermark_value('a') }}", "joins 'x' to watermark_value('a')"),
        ("{{ run_started_at }}{{ '' }}{{ run_started_at }}", "joins run_started_at to run_started_at"),
        ("{{ '%c' % 55555 }}", "writes the character U+D903"),
        ("{{ ref('a' ~ var('day')) }}", "asks for the value of var('day'), which only a run knows"),
        ("{{ var('a' ~ var('day')) }}", "asks for the value of var('day'), which only a run knows"),
    ],
)
def test_a_value_that_only_a_run_knows_stands_alone(text, message):
    """Joined to a letter it would be the name of another value, or a path into the column before it."""
    error = wrong(f"SELECT\n{text}", bound=["day", "month"])
    assert message in error.message
    assert error.location == TextLocation(2)


# Limits

HOSTILE = [
    "{% for a in range(9999) %}{% for b in range(9) %}{% for c in range(9999) %}{% endfor %}{% endfor %}{% endfor %}",
    "{% for a in range(9999) %}{% set b = range(9999) %}{% endfor %}",
    "{{ 10 ** (10 ** 8) }}",
    "{{ 9 ** 9 ** 9 ** 9 ** 9 }}",
    "{{ 'x' * 10**10 }}",
    "{% for i in range(1000000000) %}{% endfor %}",
    "{% for i in range(1000) %}{% for j in range(1000) %}{% endfor %}{% endfor %}",
    "{% for i in range(10000) if i in range(10000) %}{% endfor %}",
    "{% set l = [1] %}{% for x in l %}{% do l.append(x) %}{% endfor %}",
    "{{ 'x' * 10**9 }}",
    "{{ 10**9 * 'x' }}",
    "{{ [1] * 10**9 }}",
    "{{ 10 ** (10 ** 10) }}",
    "{% set ns = namespace(x=2) %}{% for i in range(99) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
    "{% set ns = namespace(x='x') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
    "{% set ns = namespace(x='x') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "{% set ns = namespace(x='x') %}{% for i in range(99) %}{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}{% endfor %}",
    "{% set ns = namespace(x=['x']) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "{% set ns = namespace(x=['x']) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
    "{% set ns = namespace(x=['x']) %}{% for i in range(40) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
    "{% set l = [] %}{% do l.append(l) %}{{ l }}",
    "{% set d = {} %}{% do d.update(d=d) %}{{ d | string }}",
    "{% set ns = namespace(x=(1, 1)) %}{% for i in range(45) %}{% set ns.x = (ns.x, ns.x) %}{% endfor %}{{ ns.x }}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(40) }}",
    "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "{{ 'x' | center(10**9) }}",
    "{{ 'x'.center(10**9) }}",
    "{{ 'x'.ljust(10**9) }}",
    "{{ 'x'.zfill(10**9) }}",
    "{{ 'x' | indent(10**9) }}",
    "{{ 'x' | indent(width=10**9) }}",
    "{{ [1] | batch(10**9, 0) | list }}",
    "{{ [1] | slice(10**9) | list }}",
    "{{ 5 | round(-10**9) }}",
    "{{ ['x'] | map('center', 10**9) | list }}",
    "{{ ('x' * 9999) | replace('x', 'y' * 9999) }}",
    "{{ ('x' * 9999).replace('x', 'y' * 9999) }}",
    "{{ ('x' * 9999).join(range(9999)) }}",
    "{{ range(9999) | join('x' * 9999) }}",
    "{{ [[1], [2]] | sum(start=[]) }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '%*d' % (1000000000, 1) }}",
    "{{ '%.1000000000f' | format(1.5) }}",
    "{{ '{:1000000000d}'.format(1) }}",
    "{{ '{:{}}'.format(1, 1000000000) }}",
    *(
        "{% set a = 'a b\n' * 400000 %}{{ a | " + use + " | length }}"
        for use in [
            "list",
            "sort",
            "unique | list",
            "map('upper') | list",
            "select('string') | list",
            "batch(9) | list",
            "slice(9) | list",
            "groupby(0)",
            "wordwrap",
            "wordwrap(1, wrapstring='x' * 1000)",
        ]
    ),
    "{{ ('x' * 20000) | wordwrap(1, wrapstring='x' * 1000) }}",
    "{% set a = 'x' * 900000 %}{% set l = [] %}{% for i in range(99) %}{% do l.extend(a) %}{% endfor %}",
    "{% set a = '0.' * 4000 ~ '0' %}{{ (['x'] * 999) | map(attribute=a) | list }}",
    "{% set a = '0,' * 4000 ~ '0' %}{{ (['x'] * 999) | sort(attribute=a) }}",
    "{% set ns = namespace(x=['x']) %}{% for i in range(40) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}"
    "{% macro m() %}{{ caller() }}{{ return(ns.x) }}{% endmacro %}{% call m() %}{% endcall %}",
    "{% for i in range(9000) %}{% set x = var('long') %}{% endfor %}",
    "{% set a = 'x' * 1000000 %}{% for i in range(99999) %}{% set b = a | upper %}{% endfor %}",
    "{% set a = 'x' * 1000000 %}{% for i in range(99999) %}{% set b = a ~ i %}{% endfor %}",
    "{% set a = range(99999) %}{% for i in range(99999) %}{% set b = a | reverse | list %}{% endfor %}",
    "{{ " + "(" * 100_000,
    "{{ 1" + " + 1" * 5000 + " }}",
    "{% if " + "not " * 5000 + "is_scd2() %}{% endif %}",
    "{% for i in [1] %}" * 30 + "{% endfor %}" * 30,
    "{{ " + "9" * 5000 + " }}",
    "{{ 0x" + "f" * 5000 + " }}",
    "{{ 1e999 }}",
    "{{ 1 }}" + "x" * 2_000_000,
    "{# #}" * 100_000,
    "{{ x }}" * 100_000,
    "{{ '1' * 4000000 }}",
]


@pytest.mark.nightly(but=3)
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_what_would_take_too_long_or_too_much_is_an_error(text):
    message = wrong(text, variables={"long": [[]] * 1000}).message
    expected = (
        "more than",
        "fills up to",
        "too wide",
        "nested too deeply",
        "sums up",
        "not supported",
    )
    assert any(limit in message for limit in expected), message


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "{% set a = range(99999) %}{% for i in range(99999) %}{% if i in a %}{% endif %}{% endfor %}",
        "{% macro f(x) %}{{ x }}{% endmacro %}{% set ns = namespace(x='x') %}"
        "{% for i in range(1000) %}{% set ns.x = f(ns.x) %}{% endfor %}"
        "{% for i in range(12) %}{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}{% endfor %}{{ ns.x }}",
    ],
    ids=["operations that take long each", "lines that are within many calls"],
)
def test_what_takes_few_operations_but_long_is_an_error_after_some_seconds(text, monkeypatch):
    monkeypatch.setattr(limits, "SECONDS", 0.3)
    assert wrong(text).message == "takes longer than 0.3 seconds"


def test_the_page_of_templates_names_the_limits():
    page = (Path(__file__).parents[3] / "docs/templates.md").read_text()
    numbers = (limits.MOST_OPERATIONS, limits.LONGEST, limits.LARGEST, limits.DEEPEST, limits.WIDEST, limits.MOST_TAGS)
    assert all(f" | {number:,}" in page for number in (*numbers, limits.SECONDS))


IMPURE = [
    "{{ [1, 2] | random }}",
    "{{ lipsum() }}",
    "{{ ''.__class__.__mro__ }}",
    "{{ ''['__class__'] }}",
    "{{ '' | attr('__class__') }}",
    "{{ [''] | map(attribute='__class__') | list }}",
    "{{ '{0.__class__}'.format(1) }}",
    "{{ '{0[a]}'.format({'a': 1}) }}",
    "{{ '%r' % (range,) }}",
    "{{ cycler.__init__.__globals__ }}",
    "{{ namespace.__init__ }}",
    "{{ self._TemplateReference__context }}",
    "{{ self }}",
    "{{ range }}",
    "{{ cycler }}",
    "{{ 'a'.upper }}",
    "{{ ['a'.upper] }}",
    "{{ 'a'.upper ~ '' }}",
    "{{ 'a'.upper | string }}",
    "{{ [{'a': range}] | join(',', attribute='a') }}",
    "{{ [{'a': range}] | join(',', 'a') }}",
    "{{ [{'a': [range]}] | join(attribute='a') }}",
    "{{ ['a'] | join(',', attribute='upper') }}",
    "{{ 'a'.encode() }}",
    "{{ 'a'.format_map({}) }}",
    "{{ [2, 1].sort(key=range) }}",
    "{% macro m() %}{% endmacro %}{{ m }}{{ m.__init__ }}",
    "{{ var.run }}",
    "{{ is_incremental }}",
    "{% if is_incremental %}{% endif %}",
    "{{ loop }}",
    "{{ caller() }}",
    "{{ 1() }}",
    "{{ env_var('HOME') }}",
    "{{ modules.datetime }}",
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}",
    "{% extends 'a' %}",
    "{% block a %}{% endblock %}",
    "{% autoescape true %}{{ '<' }}{% endautoescape %}",
]


@pytest.mark.parametrize("text", IMPURE)
def test_nothing_outside_of_the_template_can_be_reached(text):
    assert wrong(text).message


# Errors and their places


@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        ("a\n{{ watermark_valeu }}", "does not know 'watermark_valeu'; did you mean 'watermark_value'?", 2),
        ("{% if true %}\n\n{{ q.x }}{% endif %}", "does not know 'q'", 3),
        ("{% for x in [1] %}\n{{ x.y }}{% endfor %}", "has no attribute 'y'", 2),
        ("{{ 1 }}\n{{ 1 / 0 }}", "division by zero", 2),
        ("{{\n'a' + 1 }}", "", 2),
        ("{{ ref() }}", "gives ref something else than one name in quotes", 1),
        ("{{ ref(orders) }}", "does not know 'orders'", 1),
        ("\n{{ ref('a' * 129) }}", "gives ref a name of more than 128 characters", 2),
        ("\n{{ " + "a" * 99999 + " }}", "does not know '" + "a" * 985 + "...", 2),
        ("{{ ref('a', 'b') }}", "gives ref something else than one name in quotes", 1),
        ("{{ ref(*'ab') }}", "gives ref something else than one name in quotes", 1),
        ("{{ this(sink='a') }}", "gives this something else than one name in quotes", 1),
        ("{{ run_started_at('a') }}", "gives run_started_at something else than nothing in parentheses", 1),
        ("\n{{ var('dya') }}", "does not know the variable 'dya'; did you mean 'day'?", 2),
        ("a\n{% if is_scd2() %}", "cannot be read: Unexpected end of template", 2),
        ("a\n\n{{ this", "cannot be read: unexpected end of template", 3),
        ("{# never", "cannot be read: Missing end of comment tag", 1),
        ("a\n{{ 'x' | uper }}", "No filter named 'uper'; did you mean 'upper'?", 2),
        ("a\n{{ ['x'] | map('uper') | list }}", "No filter named 'uper'; did you mean 'upper'?", 2),
        ("a\n{{ 'x' is nunber }}", "No test named 'nunber'; did you mean 'number'", 2),
        ("\n{{ '%(a)s' % {'b': 1} }}", "fails: there is no key 'a'", 2),
        ("\n{{ 'a' | replace('b') }}", "fails: replace() missing 1 required positional argument", 2),
        ("{{ 1 }}\n{{ " + "9" * 5000 + " }}", "holds a number of more than 4,096 bits", 2),
        ("\n{{ x }}" * 10_001, "has more than 10,000 blocks, expressions and comments of Jinja", 10_002),
        (
            "{% macro m() %}{% endmacro %}\n{% call m() %}{% endcall %}",
            "gives a block to the macro 'm', which has no",
            2,
        ),
        ("{{ var('day', 1, 2) }}", "gives var something else than one name in quotes", 1),
        ("\n\n{% include 'x' %}", "holds an include", 3),
        ("{% macro a() %}{% endmacro %}\n{% macro a() %}{% endmacro %}", "defines the macro 'a' twice", 2),
        ("\n{% macro ref() %}{% endmacro %}", "a word of all templates", 2),
    ],
)
def test_errors_have_their_lines(text, words, line):
    error = wrong(text, variables={"day": 1})
    assert words in error.message
    assert error.location == TextLocation(line)


def test_an_error_in_a_macro_has_the_places_of_macro_and_calls():
    error = wrong("SELECT\n\n{{ cents(none) }}", [MACROS[0], MACROS[1].replace("column }}", "column + 1 }}")])
    assert (error.location.file, error.location.line) == ("macros/m1.sql", 2)
    assert [(call.macro, call.file, call.line) for call in error.location.calls] == [
        ("plus", "macros/m0.sql", 4),
        ("cents", None, 3),
    ]
    assert in_file(error.location, "joints/a.sql", 2).note == (
        " (in the macro 'plus', called at macros/m0.sql:4 by 'cents', called at joints/a.sql:4)"
    )


def test_a_word_in_a_macro_has_its_place():
    asked = []

    class Asking(Meaning):
        def text(self, word):
            asked.append(word)
            return "x"

    macro = MacroFile("macros/m.sql", "{% macro m(x) %}\n\n{{ ref(x) }}{% endmacro %}")
    Templates([macro]).read("{{ ref('a') }}\n{{ m('b') }}\n{{ ref('c') }}{{ this }}").render(Asking())
    assert [(str(word), word.location.file, word.location.line, word.location.template_line) for word in asked] == [
        ("ref('a')", None, 1, 1),
        ("ref('b')", "macros/m.sql", 3, 2),
        ("ref('c')", None, 3, 3),
        ("this", None, 3, 3),
    ]


@pytest.mark.parametrize(
    ("macro", "expected"),
    [
        (
            "\n{% macro plus() %}{% endmacro %}",
            [(2, "defines the macro 'plus', which is defined already in macros/a.sql:1")],
        ),
        ("{% macro a() %}{% endmacro %}\nSELECT 1", [(1, "holds something besides {% macro %} blocks and comments")]),
        ("{# a #}\n\n{% set x = 1 %}", [(3, "holds something besides")]),
        ("\n{% macro var() %}{% endmacro %}", [(2, "defines a macro 'var', which is a word of all templates")]),
        ("\n{% macro range() %}{% endmacro %}", [(2, "defines a macro 'range', which is a word of all templates")]),
        ("{% macro a() %}\n{{ x", [(2, "cannot be read: unexpected end of template")]),
        ("{% macro a() %}{% endmacro %}\n{% macro a() %}{% endmacro %}", [(2, "defined already in macros/b.sql:1")]),
    ],
)
def test_errors_in_files_of_macros(macro, expected):
    first = MacroFile("macros/a.sql", "{% macro plus(x) %}{{ x }}{% endmacro %}")
    templates = Templates([first, MacroFile("macros/b.sql", macro)])
    found = [(error.code, error.file, error.line) for error in templates.errors]
    assert found == [("RVT-212", "macros/b.sql", line) for line, _ in expected]
    assert all(words in error.message for error, (_, words) in zip(templates.errors, expected, strict=True))
    assert templates.read("{{ plus(1) }}").render(Meaning()).text == "1"


def test_a_macro_of_the_query_cannot_hide_one_of_a_file():
    error = wrong("{% macro cents() %}{% endmacro %}", MACROS)
    assert error.message == "defines the macro 'cents', which is defined already in macros/m0.sql:2"
