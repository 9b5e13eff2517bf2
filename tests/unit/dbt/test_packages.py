"""What the macros of packages do that dbt allows and plain templates do not."""

import duckdb
import pytest
from support.dbt import model, translated

from rivet_dagster.dbt.translation.macros import CheckRenderer, builtin_macros

PACKAGE = {
    "dbt_packages/tools/dbt_project.yml": "name: tools",
    "dbt_packages/tools/macros/tests.sql": """
{% test same_size(model, other, by=[]) %}
  {{ return(adapter.dispatch('test_same_size', 'tools')(model, other, by)) }}
{% endtest %}
{%- macro default__test_same_size(model, other, by) -%}
{{ config(fail_calc='sum(difference)') }}
{%- if not execute -%}{{ return('') }}{%- endif -%}
{% if by | length > 0 %}
  {% set columns = by | join(', ') ~ ', ' %}{% set grouped %}group by {{ by | join(', ') }}{% endset %}
{% endif %}
select {{ columns }} abs(count(*) - (select count(*) from {{ other }})) as difference from {{ model }} {{ grouped }}
{% endmacro %}

{% macro test_at_most(model) %}
{{ return(adapter.dispatch('test_at_most', 'tools')(model, **kwargs)) }}
{% endmacro %}
{% macro default__test_at_most(model) %}
{% set column = kwargs.get('column_name', kwargs.get('arg')) %}
select {{ '*' if should_store_failures() else '1 as one' }} from {{ model }}
where {{ adapter.quote(column) }} > {{ kwargs['most'] }}
{% endmacro %}

{% test warns(model, column_name) %}{{ config(severity='warn') }}select * from {{ model }}{% endtest %}
""",
    "models/m.sql": "select * from (values (1, 'a'), (2, 'a'), (3, 'b')) t(id, kind)",
    "models/other.sql": "select 1 as key",
}


@pytest.mark.parametrize(
    ("test", "found"),
    [
        ("tools.same_size: {other: ref('m')}", []),
        ("tools.same_size: {other: ref('other')}", [2]),
        ("tools.same_size: {other: ref('other'), by: [kind]}", [1]),
        ("tools.same_size: {other: ref('other'), fail_calc: count(*)}", [2]),
        ("tools.at_most: {column_name: id, most: 2}", [1]),
    ],
)
def test_generic_tests_of_packages(tmp_path, test, found):
    result = translated(tmp_path, {**PACKAGE, "models/m.yml": f"models: [{{name: m, data_tests: [{{{test}}}]}}]"})
    (entry,) = result.report.tests
    assert entry.status == "changed"
    (path,) = [path for path in result.files if path.startswith("quality/")]
    database = duckdb.connect()
    for name in ("m", "other"):
        database.execute(f"create view {name} as {PACKAGE[f'models/{name}.sql']}")
    query = result.files[path].replace("{{ this }}", "m").replace("`", '"')
    assert [row[0] for row in database.execute(query).fetchall()] == found


def test_the_configuration_within_a_test_is_below_its_own(tmp_path):
    warns = (
        "models: [{name: m, columns: [{name: id, data_tests: [tools.warns, tools.warns: {name: e, severity: error}]}]}]"
    )
    files = translated(tmp_path, {**PACKAGE, "models/m.yml": warns}).files
    assert files["quality/m/tools_warns_id.sql"].startswith("-- @severity: warn\n")
    assert "severity" not in files["quality/m/e.sql"]


@pytest.mark.parametrize(
    ("written", "notes", "rendered"),
    [
        ("{% if 1 > 2 %}{% set x = 'a' %}{% endif %}select 1{{ x }}", "x is empty where nothing sets it", "select 1"),
        ("{% for i in [1, 2] %}{% if i == 2 %}{% set x = i %}{% endif %}{{ x }}{% endfor %}", "x is empty", "2"),
        ("{%- if true %}{% set x = 'a' %}{% else %}{% set x = 'b' %}{% endif -%} select {{ x }}", "", "select a"),
        ("{% set x = 'b' %}{% if false %}{% set x = 'a' %}{% endif -%} {{ x }}", "", "b"),
        ("{% if false %}{% set x = 1 %}{% endif %}{{ 'no' if x is not defined else x }}", "", "no"),
    ],
)
def test_names_that_nothing_sets_are_empty(tmp_path, written, notes, rendered):
    result = translated(tmp_path, {"models/sub/m.sql": "select {{ word() }} as one", "macros/w.sql": macro(written)})
    assert model(result, "m").status == "unchanged"
    reasons = " ".join(reason for entry in result.report.others if entry.name == "word" for reason in entry.reasons)
    assert notes in reasons
    assert bool(notes) == bool(reasons)
    assert CheckRenderer([("word", result.files["macros/w.sql"])], {}).render("{{ word() }}").strip() == rendered


def macro(body):
    return f"{{% macro word() -%}}{body}{{%- endmacro %}}"


@pytest.mark.parametrize(
    ("name", "slug"),
    [("Is it - so?", "is_it_so"), ("a--b  c", "a_b_c"), ("9 lives", "_9_lives"), ("", ""), ("-x-", "_x_")],
)
def test_slugs(name, slug):
    texts = [(m.name, m.template.text[m.block.start : m.block.end]) for m in builtin_macros() if m.name == "slugify"]
    assert CheckRenderer(texts, {}).render(f"{{{{ slugify('{name}') }}}}") == slug


def test_macros_that_ask_the_warehouse_or_python_have_others_in_their_place(tmp_path):
    files = {
        "dbt_packages/dbt_utils/dbt_project.yml": "name: dbt_utils",
        "dbt_packages/dbt_utils/macros/m.sql": "{% macro slugify(x) %}{{ modules.re.sub(' ', '', x) }}{% endmacro %}"
        "{% macro date_spine(datepart, start_date, end_date) %}{{ run_query('select 1') }}{% endmacro %}",
        "models/days.sql": "{{ dbt_utils.date_spine('day', \"date'2024-01-01'\", \"date'2024-02-01'\") }}",
        "models/named.sql": "select 1 as {{ dbt_utils.slugify('a b') }}",
    }
    result = translated(tmp_path, files)
    assert {entry.name: entry.reasons for entry in result.report.models} == {
        "days": ("line 1: dbt_utils.date_spine is the macro dbt__date_spine",),
        "named": ("line 1: dbt_utils.slugify is the macro dbt__slugify",),
    }
