"""Macros and variables of templates in the plan: what they change, where errors stand, and values from ``${VAR}``."""

from __future__ import annotations

import json
import shutil
import sys

import jinja2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.torture import examples

from rivet_dagster import compile_directory
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.errors import RivetError

FILES = {
    "rivet.yaml": "profiles: profiles.yaml\nsources: sources\njoints: joints\nsinks: sinks\nvars:\n  least: 1\n",
    "profiles.yaml": """\
default:
  catalogs: {lake: {type: filesystem, path: lake}}
  engines: {spark: {type: pyspark, catalogs: [lake]}}
other:
  catalogs: {lake: {type: filesystem, path: lake}}
  engines: {spark: {type: pyspark, catalogs: [lake]}}
  vars: {least: 2}
bound:
  catalogs: {lake: {type: filesystem, path: lake}}
  engines: {spark: {type: pyspark, catalogs: [lake]}}
  vars: {least: '${LEAST}'}
""",
    "sources/raw.yaml": "type: source\ncatalog: lake\ntable: raw\noptions: {schema: 'id INT, net INT'}\n",
    "sinks/out.yaml": "type: sink\ncatalog: lake\ntable: out\nupstream: rows\n",
    "macros/folder/m.sql": "{% macro cents(column) %}\n{{ column }} * 100\n{% endmacro %}\n",
    "joints/rows.sql": "-- rivet:eager: true\nSELECT id,\n{{ cents('net') }} AS c FROM raw "
    "WHERE net > {{ var('least') }}",
}
SECRET = "s3cret-value"


@pytest.fixture
def compiled(tmp_path):
    def compiled(profile=None, variables=None, environ=None, **changes) -> CompiledAssembly:
        for name, text in {**FILES, **changes}.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        return compile_directory(tmp_path, profile, variables=variables, environ=environ or {})

    return compiled


def errors(plan: CompiledAssembly) -> list[tuple[str, str | None, int | None]]:
    return [(error.code, error.file, error.line) for error in plan.errors]


def test_the_profile_wins_and_a_given_variable_before_both(compiled):
    least = [
        compiled(*arguments).joint("rows").sql.rpartition("> ")[2]
        for arguments in [(), ("other",), ("other", {"least": 3})]
    ]
    assert least == ["1", "2", "3"]


@pytest.mark.parametrize(("shape", "path"), [("{}", ""), ("[{}]", "[0]"), ("{{a: [{{b: {}}}]}}", ".a[0].b")])
def test_a_number_that_is_written_anew_is_rendered_anew(compiled, shape, path):
    """The text of one number does not come from the cache of another that is equal."""
    for written in ("1000.0", "1e3", "1.5", "1.50"):
        manifest = FILES["rivet.yaml"].replace("1", shape.format(written))
        joint = f"SELECT id, {{{{ var('least'){path} }}}} AS least FROM raw"
        plan = compiled(**{"rivet.yaml": manifest, "joints/rows.sql": joint}).raise_errors()
        assert plan.joint("rows").sql == f"SELECT id, {written} AS least FROM raw"


def test_lines_of_errors_are_those_of_files(compiled):
    loop = "-- rivet:eager: true\nSELECT\n{% for c in ['id', 'net'] %}\n  {{ c }} AS c_{{ c }},\n{% endfor %}\n"
    assert errors(compiled(**{"joints/rows.sql": f"{loop}  nte\nFROM raw"})) == [("RVT-327", "joints/rows.sql", 6)]
    assert errors(compiled(**{"joints/rows.sql": f"{loop} )\nFROM raw"})) == [("RVT-207", "joints/rows.sql", 6)]
    (warning,) = compiled(**{"joints/rows.sql": f"-- rivet:upstream: raw\n{loop[21:]} 1 1 1\nFROM raw"}).warnings
    assert (warning.code, warning.line) == ("RVT-315", 6)
    partition = compiled(**{"joints/rows.sql": f"{loop} 1 FROM raw\nWHERE id = :partition_start"})
    assert errors(partition) == [("RVT-323", "joints/rows.sql", 7)]
    wrong = FILES["macros/folder/m.sql"].replace("column }} *", "column }}x *")
    plan = compiled(**{"joints/rows.sql": FILES["joints/rows.sql"], "macros/folder/m.sql": wrong})
    assert errors(plan) == [("RVT-327", "macros/folder/m.sql", 2)]
    assert plan.errors[0].message.endswith("(in the macro 'cents', called at joints/rows.sql:3)")


def test_a_text_of_yaml_has_its_lines(compiled, tmp_path):
    text = "type: sql\ndescription: x\nsql: |\n  {% for n in range(3) %}\n  {% endfor %}\n  SELECT nte FROM raw\n"
    plan = compiled(**{"joints/other.yaml": text, "joints/rows.sql": "SELECT id FROM raw"})
    assert errors(plan) == [("RVT-327", "joints/other.yaml", 6)]


def test_the_plan_tells_the_lines_and_reads_them_back(compiled):
    plan = CompiledAssembly.from_json(compiled().raise_errors().to_json())
    joint = plan.joint("rows")
    assert joint.sql == "SELECT id,\n\nnet * 100\n AS c FROM raw WHERE net > 1"
    places = [(joint.locate(line).file, joint.locate(line).line) for line in (1, 2, 3, 4)]
    own, macro = "joints/rows.sql", "macros/folder/m.sql"
    assert places == [(own, 2), (own, 3), (macro, 2), (own, 3)]


def test_a_value_of_the_environment_is_a_parameter(compiled, tmp_path):
    plan = compiled("bound", environ={"LEAST": SECRET}).raise_errors()
    (cte,) = (cte for group in plan.fused_groups for cte in group.ctes)
    assert cte.text.endswith("WHERE net > :var_least")
    assert cte.parameters == ("var_least",)
    assert dict(plan.variables) == {"least": "${LEAST}"}
    assert SECRET not in plan.to_json()
    assert compiled("bound", environ={"LEAST": "other"}).to_json() == plan.to_json()
    assert compiled("bound", {"least": 4}, {"LEAST": ""}).raise_errors().variables == {}
    with pytest.raises(RivetError) as error:
        compiled("bound")
    assert [(d.code, d.file, d.line) for d in error.value.diagnostics] == [("RVT-107", "profiles.yaml", 11)]
    joined = "SELECT id FROM raw\nWHERE id = {{ var('least') }}_of_all"
    assert errors(compiled("bound", environ={"LEAST": SECRET}, **{"joints/rows.sql": joined})) == [
        ("RVT-212", "joints/rows.sql", 2)
    ]
    quoted = "SELECT id FROM raw\nWHERE id = '{{ var('least') }}'"
    assert errors(compiled("bound", environ={"LEAST": SECRET}, **{"joints/rows.sql": quoted})) == [
        ("RVT-212", "joints/rows.sql", 2)
    ]


def test_code_versions_follow_the_text_of_a_bound_variable_where_it_is_used(compiled):
    other = "-- rivet:eager: true\nSELECT id FROM raw"

    def versions(text, environ):
        profiles = FILES["profiles.yaml"].replace("'${LEAST}'", text)
        plan = compiled("bound", environ=environ, **{"profiles.yaml": profiles, "joints/other.sql": other})
        return [plan.raise_errors().joint(name).code_version for name in ("rows", "other")]

    first = versions("'${LEAST}'", {"LEAST": "1"})
    assert versions("'${LEAST}'", {"LEAST": "2"}) == first
    rows, unused = versions("'1${LEAST}'", {"LEAST": "1"})
    assert (rows != first[0], unused) == (True, first[1])


def test_macros_decide_what_is_read(compiled):
    macro = (
        "{% macro source() %}{{ ref('raw') }}{% if is_incremental() %} JOIN late USING (id){% endif %}{% endmacro %}"
    )
    plan = compiled(
        **{
            "macros/s.sql": macro,
            "joints/late.sql": "SELECT 1 AS id",
            "joints/rows.sql": "SELECT id FROM {{ source() }}",
            "sinks/out.yaml": FILES["sinks/out.yaml"] + "write_strategy: {mode: merge, key_columns: [id]}\n",
        }
    ).raise_errors()
    assert plan.joint("rows").upstream == ("late", "raw")
    assert (plan.joint("rows").sql, plan.joint("rows").sql_incremental) == (
        "SELECT id FROM raw",
        "SELECT id FROM raw JOIN late USING (id)",
    )


def test_an_error_in_a_word_of_a_macro_stands_in_the_macro(compiled):
    plan = compiled(
        **{
            "macros/s.sql": "{% macro source(name) %}\n{{ ref(name) }}{% endmacro %}",
            "joints/rows.sql": "SELECT id\nFROM {{ source('rwa') }}",
        }
    )
    assert errors(plan) == [("RVT-302", "macros/s.sql", 2)]
    assert plan.errors[0].message == (
        "ref('rwa') names no joint; did you mean 'raw'? (in the macro 'source', called at joints/rows.sql:2)"
    )


def test_an_error_in_a_file_of_macros_is_told_once(compiled):
    plan = compiled(**{"macros/folder/m.sql": "{% macro cents(column) %}\n{{ column"})
    assert errors(plan) == [("RVT-212", "macros/folder/m.sql", 2)]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("sinks/out.yaml", FILES["sinks/out.yaml"].replace("rows", "raw"), ("RVT-320", "joints/rows.sql", 2)),
        ("sinks/out.yaml", FILES["sinks/out.yaml"] + "nothing: 1\n", ("RVT-203", "sinks/out.yaml", 5)),
        ("macros/m.sql", "{% macro all() %}SELECT * FROM rows", ("RVT-212", "macros/m.sql", 1)),
    ],
)
def test_a_table_that_a_file_with_errors_may_lead_to_is_not_missing(compiled, name, text, expected):
    files = {
        "sinks/out.yaml": FILES["sinks/out.yaml"].replace("rows", "copy"),
        "joints/copy.sql": "{{ all() }}",
        "macros/m.sql": "{% macro all() %}SELECT * FROM rows{% endmacro %}",
        "joints/rows.sql": "SELECT id FROM raw\n{% if is_incremental() %} WHERE id > 1{% endif %}",
    }
    assert not compiled(**files).errors
    assert errors(compiled(**{**files, name: text})) == [expected]


def test_jinja_is_imported_only_for_templates_that_are_not_in_the_cache(compiled, monkeypatch):
    def without_jinja():
        for name in [name for name in sys.modules if name.partition(".")[0] == "jinja2"]:
            monkeypatch.delitem(sys.modules, name)
        for name in [name for name in sys.modules if name.startswith("rivet_dagster.project.templating.")]:
            if not name.endswith("words"):
                monkeypatch.delitem(sys.modules, name)

    first = compiled()
    without_jinja()
    assert compiled().to_json() == first.to_json()
    assert "jinja2" not in sys.modules
    assert compiled(**{"joints/rows.sql": "SELECT id FROM raw", "macros/folder/m.sql": "-- none"}).success
    monkeypatch.undo()


NAMES = ("a", "b", "c")
_USES = st.lists(st.sets(st.sampled_from([*NAMES, "m_a", "m_b", "m_c"])), min_size=3, max_size=5)


@pytest.mark.slow
@given(_USES, st.sampled_from(NAMES), st.booleans(), st.sampled_from(["1", "2"]))
@settings(max_examples=examples(6, 25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_change_concerns_exactly_the_joints_whose_text_it_changes(tmp_path, uses, changed, of_macro, value):
    """The texts are those that Jinja alone gives; both plans come from one cache, and the second from none, too."""
    root = tmp_path / "project"
    shutil.rmtree(root, ignore_errors=True)
    texts = {
        f"j{number}": "SELECT 1" + "".join(f", {{{{ {_use(name)} }}}} AS {name}" for name in sorted(used))
        for number, used in enumerate(uses)
    }
    values = dict.fromkeys(NAMES, "1")

    def plan(variables, macros, folder=root):
        files = {
            "rivet.yaml": FILES["rivet.yaml"].partition("vars")[0] + f"vars: {json.dumps(variables)}\n",
            "profiles.yaml": FILES["profiles.yaml"],
            "sources/raw.yaml": FILES["sources/raw.yaml"],
            "sinks/out.yaml": FILES["sinks/out.yaml"].replace("rows", "j0"),
            "macros/m.sql": "".join(f"{{% macro m_{n}() %}}{{{{ n_{n}() }}}}{{% endmacro %}}" for n in NAMES),
            "macros/n.sql": "".join(f"{{% macro n_{n}() %}}{macros[n]}{{% endmacro %}}" for n in NAMES),
            **{f"joints/{name}.sql": text for name, text in texts.items()},
        }
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        compiled = compile_directory(folder).raise_errors()
        return {name: compiled.joint(name).code_version for name in texts}, compiled.to_json()

    def rendered(variables, macros):
        environment = jinja2.Environment()
        environment.globals["var"] = variables.__getitem__
        environment.globals |= {f"m_{name}": (lambda name=name: macros[name]) for name in NAMES}
        return {name: environment.from_string(text).render() for name, text in texts.items()}

    before = (values, values)
    after = (values, {**values, changed: value}) if of_macro else ({**values, changed: value}, values)
    (first, _), (second, shown) = plan(*before), plan(*after)
    concerned = {name for name in texts if rendered(*before)[name] != rendered(*after)[name]}
    assert {name for name in texts if first[name] != second[name]} == concerned
    fresh = tmp_path / "fresh"
    shutil.rmtree(fresh, ignore_errors=True)
    assert plan(*after, fresh) == (second, shown)


def _use(name: str) -> str:
    return f"{name}()" if name.startswith("m_") else f"var('{name}')"
