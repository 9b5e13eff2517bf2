"""Branches that ask for a name: those of a name that is not there are never rendered, whatever they name."""

import pytest
from support.dbt import model, translated

from rivet_dagster.dbt.report import Refused

GONE = "{{ run_query('select 1') }}{{ ref('nowhere') }}{{ no_macro(target.x, env_var('NO')) }}"
UNCHANGED = {
    "if": "{% if other is defined %}" + GONE + "{% endif %}select 1 as a",
    "else": "{% if other is not defined %}select 1 as a{% else %}" + GONE + "{% endif %}",
    "undefined": "{% if other is undefined %}select 1 as a{% else %}" + GONE + "{% endif %}",
    "not": "{% if not other is defined %}select 1 as a{% else %}" + GONE + "{% endif %}",
    "elif": "{% if 1 > 2 %}select 2 as a{% elif other is defined %}" + GONE + "{% else %}select 1 as a{% endif %}",
    "elif behind": "{% if other is not defined %}select 1 as a{% elif no_macro() %}" + GONE + "{% endif %}",
    "and": "{% if other is defined and other.rows(run_query('select 1')) %}" + GONE + "{% endif %}select 1 as a",
    "and behind": "{% if var('n') > 1 and other is defined %}" + GONE + "{% endif %}select 1 as a",
    "or": "{% if other is not defined or other.rows() %}select 1 as a{% else %}" + GONE + "{% endif %}",
    "value": "select {{ run_query('select 1') if other is defined else 1 }} as a",
    "default": "select {{ other | d(1) }} as a",
    "package": "{% if no_package is defined %}{{ no_package.star(ref('nowhere')) }}{% endif %}select 1 as a",
    "in a macro": "select {{ asks() }} as a",
}
MACROS = "{% macro asks() %}{% if other is defined %}" + GONE + "{% else %}1{% endif %}{% endmacro %}"


@pytest.mark.parametrize("text", UNCHANGED.values(), ids=UNCHANGED)
def test_what_is_never_rendered_does_not_matter(tmp_path, text):
    files = {"models/m.sql": text, "macros/m.sql": MACROS}
    result = translated(tmp_path, files, "name: shop\nvars: {n: 1}\n")
    assert (model(result, "m").status, model(result, "m").reasons) == ("unchanged", ())
    assert text in result.files["joints/m.sql"]
    assert result.unsaid() == Refused()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{% set other = 1 %}{% if other is defined %}{{ run_query('x') }}{% endif %}select 1", "run_query"),
        ("{% if asks is defined %}{{ run_query('x') }}{% endif %}select 1", "run_query"),
        ("{% if model is defined %}{{ model.name }}{% endif %}select 1", "uses model.name"),
        ("{% if other is not defined %}{{ run_query('x') }}{% endif %}select 1", "run_query"),
        ("{% if other is defined or no_macro() %}select 2{% endif %}select 1", "calls 'no_macro'"),
        ("{% if get_relation_last_modified is defined %}{{ run_query('x') }}{% endif %}select 1", "run_query"),
    ],
)
def test_what_can_be_rendered_matters(tmp_path, text, reason):
    result = translated(tmp_path, {"models/m.sql": text, "macros/m.sql": MACROS})
    assert model(result, "m").status == "left_out"
    assert reason in " ".join(model(result, "m").reasons)


@pytest.mark.parametrize(
    ("written", "moved"),
    [
        ("{{ 1 if target is defined else 2 }}", "{{ 1 if true is defined else 2 }}"),
        ("{{ 1 if tools is defined else 2 }}", "{{ 1 if true is defined else 2 }}"),
        ("{{ 1 if tools.star is defined else 2 }}", "{{ 1 if star is defined else 2 }}"),
        ("{{ 1 if tools.no is defined else 2 }}", "{{ 1 if tools is defined else 2 }}"),
        ("{{ 1 if other.part is defined else 2 }}", "{{ 1 if other is defined else 2 }}"),
    ],
)
def test_the_answer_is_dbts(tmp_path, written, moved):
    """Our templates know no packages, and ask nothing of a name that is not there."""
    files = {
        "models/m.sql": f"select {written} as a",
        "dbt_packages/tools/dbt_project.yml": "name: tools",
        "dbt_packages/tools/macros/t.sql": "{% macro star() %}*{% endmacro %}",
    }
    result = translated(tmp_path, files)
    assert f"select {moved} as a" in result.files["joints/m.sql"]
