"""Models of dbt as joints: their text, their write strategies, and what refuses to move."""

import pytest
from support.dbt import model, notes, translated

VIEW = "select 1 as id"


def text_of(result, name):
    """Return the file of a joint of the folder joints."""
    return next(text for path, text in result.files.items() if path.endswith(f"/{name}.sql"))


def body_of(result, name):
    lines = text_of(result, name).splitlines()
    return "\n".join(line for line in lines if not line.startswith("-- rivet:")).strip()


@pytest.mark.parametrize(
    ("written", "moved"),
    [
        ("select * from {{ ref('a') }}", "select * from {{ ref('a') }}"),
        ("select * from {{ ref('shop', 'a') }}", "select * from {{ ref('a') }}"),
        ("select * from {{ ref('Big-One') }}", "select * from {{ ref('big_one') }}"),
        ("select * from {{ source('crm', 'visits') }}", "select * from {{ ref('visits') }}"),
        ("select * from {{ source('crm', 'a') }}", "select * from {{ ref('crm_a') }}"),
        (
            "{% set s = source('crm', 'visits') %}select * from {{ s }}",
            "{% set s = ref('visits') %}select * from {{ s }}",
        ),
        ("{{ config(tags='x') }}\nselect 1", "select 1"),
        ("select 1 {{ config(tags='x') }}, 2", "select 1 , 2"),
        ("{% do config(tags='x') %}\nselect 1", "select 1"),
        ("{{ log('hello', info=True) }}\nselect 1", "select 1"),
        ("select '{{ project_name }}'", "select '{{ 'shop' }}'"),
        ("{% if execute %}select 1{% endif %}", "{% if true %}select 1{% endif %}"),
        ("select 1{% if is_incremental() %} where x{% endif %}", "select 1{% if false %} where x{% endif %}"),
        ("select {{ var('n') }}, {{ var('m', 2) }}", "select {{ var('n') }}, {{ var('m', 2) }}"),
        ("select {{ var('m', default='x') }}", "select {{ var('m', 'x') }}"),
        ("select '{{ target.name }}'", "select '{{ var('target_name') }}'"),
        ("select '{{ env_var('REGION') }}' as r", "select {{ var('region') }} as r"),
        ("select '{{ env_var('REGION', 'eu') }}' as r", "select '{{ var('region') }}' as r"),
        ("select cast('{{ run_started_at }}' as date)", "select cast({{ run_started_at }} as date)"),
        ("select {{ dbt.type_string() }}", "select {{ type_string() }}"),
        ("select {{ twice('a') }}", "select {{ twice('a') }}"),
        ("select {{ shop.twice('a') }}", "select {{ twice('a') }}"),
        ("select {{ tools.twice('a') }}", "select {{ tools__twice('a') }}"),
        ("select '{{ config.get('tags') }}', 1 {# note #}", "select '{{ ['x'] }}', 1 {# note #}"),
        ("{% raw %}{{ ref('nothing') }}{% endraw %} select 1", "{% raw %}{{ ref('nothing') }}{% endraw %} select 1"),
    ],
)
def test_text(tmp_path, written, moved):
    files = {
        "models/a.sql": VIEW,
        "models/Big-One.sql": VIEW,
        "models/m.sql": written,
        "models/s.yml": "sources: [{name: crm, tables: [{name: visits}, {name: a}]}]",
        "macros/twice.sql": "{% macro twice(x) %}{{ x }} * 2{% endmacro %}",
        "dbt_packages/tools/dbt_project.yml": "name: tools",
        "dbt_packages/tools/macros/t.sql": "{% macro twice(x) %}{{ x }} + {{ x }}{% endmacro %}",
    }
    result = translated(tmp_path, files, "name: shop\nvars: {n: 1}\nmodels: {+tags: x}")
    assert body_of(result, "m") == moved
    assert model(result, "m").status == ("unchanged" if moved == written else model(result, "m").status)


@pytest.mark.parametrize(
    ("written", "line", "told_of"),
    [
        ("select 1\nfrom {{ ref('nowhere') }}", 2, "ref('nowhere') names no model"),
        ("\n{% set x = run_query('select 1') %}select 1", 2, "calls run_query"),
        ("select {{ adapter.get_relation('x') }}", 1, "uses adapter.get_relation"),
        ("select\n\n{{ unheard_of(1) }}", 3, "calls 'unheard_of', which is no macro"),
        ("select {{ tools.nothing() }}", 1, "calls 'tools.nothing', which is no macro"),
        ("select {{ twise('a') }}", 1, "did you mean 'twice'"),
        ("select 1\n{% if %}", 2, "Jinja cannot read it"),
        ("select 1,\n\n{{ '\\N' }}", 3, "Jinja cannot read it: malformed"),
        ("select {{ source('crm', 'visit') }}", 1, "did you mean 'crm.visits'"),
        (
            "{{ config(materialized='tabel') }}select 1",
            1,
            "the materialization 'tabel' has no counterpart; did you mean",
        ),
        ("select {{ var('unset') }}", 1, "var('unset') has no value"),
        ("{{ config(materialized='incremental', incremental_strategy='microbatch') }}select 1", 1, "microbatch"),
        ("{{ config(sql_header='set x = 1') }} select 1", 1, "sql_header has no counterpart"),
        ("select '{{ run_started_at.year }}'", 1, "only a run knows when it started"),
        ("select '{{ invocation_id }}'", 1, "uses invocation_id"),
    ],
)
def test_left_out(tmp_path, written, line, told_of):
    files = {
        "models/sub/m.sql": written,
        "models/after.sql": "select * from {{ ref('m') }}",
        "models/after_that.sql": "select * from {{ ref('after') }}",
        "models/other.sql": VIEW,
        "models/s.yml": "sources: [{name: crm, tables: [{name: visits}]}]",
        "macros/twice.sql": "{% macro twice(x) %}{{ x }} * 2{% endmacro %}",
    }
    result = translated(tmp_path, files)
    left_out = model(result, "m")
    assert (left_out.status, left_out.location.file, left_out.location.line) == ("left_out", "models/sub/m.sql", line)
    assert told_of in " ".join(left_out.reasons)
    assert model(result, "after").reasons == ("reads m, which is left out",)
    assert model(result, "after_that").reasons == ("reads after, which is left out",)
    assert model(result, "other").status == "unchanged"
    assert not result.report.is_whole
    assert not [path for path in result.files if path.endswith(("/m.sql", "/after.sql", "/after_that.sql"))]


@pytest.mark.parametrize(
    ("config", "write"),
    [
        ("materialized='table'", None),
        ("materialized='incremental'", "{mode: append, on_schema_change: ignore}"),
        ("materialized='incremental', on_schema_change='append_new_columns'", "{mode: append, on_schema_change: add}"),
        ("materialized='incremental', on_schema_change='fail'", "{mode: append, on_schema_change: fail}"),
        (
            "materialized='incremental', incremental_strategy='insert_overwrite'",
            "{mode: truncate_insert, on_schema_change: ignore}",
        ),
        ("materialized='incremental', on_schema_change='no_such'", "{mode: append, on_schema_change: ignore}"),
        (
            "materialized='incremental', incremental_strategy='insert_overwrite', partition_by='day'",
            "{mode: snapshot, partition_column: day, on_schema_change: ignore}",
        ),
        (
            "materialized='incremental', incremental_strategy='insert_overwrite', partition_by=['a', 'b']",
            "{mode: delete_insert, partition_by: [a, b], on_schema_change: ignore}",
        ),
        (
            "materialized='incremental', incremental_strategy='merge', unique_key=['a', 'b']",
            "{mode: merge, key_columns: [a, b], on_schema_change: ignore}",
        ),
        (
            "materialized='incremental', incremental_strategy='delete+insert', unique_key='a'",
            "{mode: delete_insert, key_columns: [a], on_schema_change: ignore}",
        ),
    ],
)
def test_write_strategies(tmp_path, config, write):
    result = translated(tmp_path, {"models/m.sql": f"{{{{ config({config}) }}}}\nselect 1 as a"})
    lines = text_of(result, "m").splitlines()
    assert "-- rivet:catalog: warehouse" in lines
    assert [line for line in lines if "write_strategy" in line] == (
        [f"-- rivet:write_strategy: {write}"] if write else []
    )


def test_keys_of_the_joint(tmp_path):
    files = {
        "models/marts/m.sql": "{{ config(alias='published', tags=['own']) }}\nselect 1 as id",
        "models/marts/m.yml": (
            "groups: [{name: fin, owner: {name: F, email: f@example.org}}]\n"
            "models:\n- name: m\n  description: \"{{ doc('about') }}\"\n  config: {group: fin, tags: [yml]}\n"
            "  columns: [{name: id, description: 'The key: one each.'}]\n"
        ),
        "models/about.md": "{% docs about %}\nAbout *m*.\n{% enddocs %}",
    }
    project = "name: shop\nmodels:\n  shop:\n    +tags: folder\n    marts: {+materialized: table, +group: other}"
    result = translated(tmp_path, files, project)
    assert result.files["joints/marts/m.sql"] == (
        '-- rivet:description: "About *m*.\\n\\n- `id`: The key: one each."\n'
        "-- rivet:tags: [folder, yml, own]\n"
        "-- rivet:group: fin\n"
        '-- rivet:owners: ["f@example.org"]\n'
        "-- rivet:catalog: warehouse\n"
        "-- rivet:table: published\n"
        "\nselect 1 as id\n"
    )
    assert model(result, "m").status == "unchanged"


def test_nearest_configuration(tmp_path):
    """The file wins over the properties, these over the folder, a folder over those above."""
    folders = (
        "name: shop\nmodels:\n  +materialized: table\n  shop:\n    a: {+materialized: view, b: {+materialized: table}}"
    )
    files = {
        "models/a/in_a.sql": VIEW,
        "models/a/b/in_b.sql": VIEW,
        "models/a/b/by_properties.sql": VIEW,
        "models/a/b/by_file.sql": "{{ config(materialized='table') }}select 1 as id",
        "models/top.sql": VIEW,
        "models/a/p.yml": (
            "models:\n- {name: by_properties, config: {materialized: view}}\n"
            "- {name: by_file, config: {materialized: view}}"
        ),
    }
    result = translated(tmp_path, files, folders)
    stored = {
        name for name in ("in_a", "in_b", "by_properties", "by_file", "top") if "catalog" in text_of(result, name)
    }
    assert stored == {"in_b", "by_file", "top"}


def test_versions(tmp_path):
    files = {
        "models/p_v1.sql": VIEW,
        "models/second.sql": VIEW,
        "models/reads.sql": "select * from {{ ref('p') }} join {{ ref('p', v=1) }}",
        "models/p.yml": "models: [{name: p, versions: [{v: 1}, {v: 2, defined_in: second}]}]",
    }
    result = translated(tmp_path, files)
    assert body_of(result, "reads") == "select * from {{ ref('p_v2') }} join {{ ref('p_v1') }}"
    assert {entry.joint for entry in result.report.models} == {"p_v1", "p_v2", "reads"}


@pytest.mark.parametrize(("latest", "file"), [("", "models/p_v1.sql"), ("latest_version: 1, ", "models/p_v2.sql")])
def test_the_file_of_the_latest_version_may_have_the_name_of_the_model_alone(tmp_path, latest, file):
    files = {
        "models/p.sql": VIEW,
        file: VIEW,
        "models/reads.sql": "select * from {{ ref('p') }} join {{ ref('p', v=1) }} join {{ ref('p', v=2) }}",
        "models/p.yml": f"models: [{{name: p, {latest}versions: [{{v: 1}}, {{v: 2}}]}}]",
    }
    result = translated(tmp_path, files)
    newest = "p_v1" if latest else "p_v2"
    joined = "join {{ ref('p_v1') }} join {{ ref('p_v2') }}"
    assert body_of(result, "reads") == f"select * from {{{{ ref('{newest}') }}}} {joined}"
    assert {entry.joint: entry.location.file for entry in result.report.models}[newest] == "models/p.sql"


def test_two_models_of_one_name(tmp_path):
    result = translated(tmp_path, {"models/a/m.sql": VIEW, "models/b/m.sql": VIEW, "models/other.sql": VIEW})
    both = [entry for entry in result.report.models if entry.name == "m"]
    assert [entry.status for entry in both] == ["left_out", "left_out"]
    assert both[0].reasons == ("'m' is the name of several nodes: also at models/b/m.sql:1",)
    assert model(result, "other").status == "unchanged"


def test_cycle(tmp_path):
    files = {
        "models/a.sql": "select * from {{ ref('c') }}",
        "models/b.sql": "select * from {{ ref('a') }}",
        "models/c.sql": "select * from {{ ref('b') }}",
        "models/after.sql": "select * from {{ ref('a') }}",
        "models/other.sql": VIEW,
    }
    result = translated(tmp_path, files)
    assert model(result, "a").reasons == ("is in a cycle: a -> c -> b -> a",)
    assert {model(result, name).status for name in "abc"} == {"left_out"}
    assert model(result, "after").reasons == ("reads a, which is left out",)
    assert model(result, "other").status == "unchanged"


def test_broken_properties_leave_the_models(tmp_path):
    result = translated(tmp_path, {"models/m.sql": VIEW, "models/m.yml": "models:\n  - name: m\n   columns: []\n"})
    (broken,) = notes(result, "properties")
    assert (broken.status, broken.location.file, broken.location.line) == ("left_out", "models/m.yml", 3)
    assert model(result, "m").status == "unchanged"
    assert not result.report.is_whole


def test_what_is_told_alone_leaves_the_import_whole(tmp_path):
    files = {
        "models/m.sql": "{{ config(post_hook='select 1', grants={'select': ['a']}) }}select 1 as id",
        "models/off.sql": "{{ config(enabled=false) }}select 1",
        "models/m.yml": "exposures: [{name: e, type: dashboard}]\nunit_tests: [{name: u, model: m}]\n",
        "macros/ask.sql": "{% macro ask() %}{{ run_query('select 1') }}{% endmacro %}",
    }
    result = translated(tmp_path, files)
    kinds = {entry.kind for entry in result.report.others if entry.status == "left_out"}
    assert kinds == {"hook", "grants", "disabled", "exposure", "macro"}
    assert result.report.is_whole


def test_compiled_text(tmp_path):
    """The text that dbt compiled stands in for a template that cannot be carried over, with joints for its tables."""
    files = {
        "models/a.sql": VIEW,
        "models/m.sql": "{% set x = run_query('select 1') %}select {{ x }} from {{ ref('a') }}",
        "models/after.sql": "select * from {{ ref('m') }}",
        "profiles.yml": "shop: {target: dev, outputs: {dev: {type: spark, schema: main}}}",
        "target/compiled/shop/models/m.sql": "select 1, 'main.a' from main.a -- {{ main.a }}\n",
    }
    result = translated(tmp_path, files)
    assert body_of(result, "m") == "{% raw %}select 1, 'main.a' from a -- {{ main.a }}{% endraw %}"
    assert model(result, "m").status == "compiled"
    assert model(result, "after").status == "unchanged"
    assert result.report.is_whole


def test_variables(tmp_path):
    files = {
        "models/m.sql": "select {{ var('a') }}, {{ env_var('DAY') }}",
        "models/n.sql": "select {{ target.schema }}",
    }
    project = "name: shop\nvars:\n  a: 1\n  since: 2024-01-31\n  shop: {b: [x, 'y: z']}\n  price: 'in ${'"
    result = translated(tmp_path, files, project)
    assert result.files["rivet.yaml"].endswith(
        'vars:\n  a: 1\n  since: "2024-01-31"\n  price: "in $${"\n  b: [x, "y: z"]\n'
        '  day: "${DAY}"\n  target_schema: default\n'
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("'{{ invocation_id | default('x') }}'", "macros/m.sql:1: uses invocation_id"),
        ("{{ config(materialized='table') }}1", "macros/m.sql:1: calls config(...)"),
        ("{{ adapter.dispatch()() }}", "macros/m.sql:1: dispatches without a name"),
    ],
)
def test_words_of_dbt_within_macros(tmp_path, body, reason):
    """What our templates would render with another meaning counts in a macro, too."""
    files = {"models/m.sql": "select {{ f() }}", "macros/m.sql": f"{{% macro f() %}}{body}{{% endmacro %}}"}
    result = translated(tmp_path, files)
    assert model(result, "m").status == "left_out"
    assert reason in model(result, "m").reasons[0]
    assert notes(result, "macro")[0].status == "left_out"


@pytest.mark.parametrize(
    ("config", "status", "reason"),
    [
        ("incremental_predicates=['x > 1']", "left_out", "incremental_predicates has no counterpart"),
        ("predicates=['x > 1']", "left_out", "predicates has no counterpart"),
        ("full_refresh=true", "changed", "so it becomes replace with the full text"),
        ("full_refresh=false", "changed", "full_refresh: false is not used"),
    ],
)
def test_settings_of_incremental_models(tmp_path, config, status, reason):
    own = f"materialized='incremental', incremental_strategy='merge', unique_key='id', {config}"
    text = f"{{{{ config({own}) }}}}select 1 as id{{% if is_incremental() %}} where 1{{% endif %}}"
    result = translated(tmp_path, {"models/m.sql": text})
    entry = model(result, "m")
    assert (entry.status, sum(reason in notes for notes in entry.reasons)) == (status, 1)
    if "true" in config:
        assert "write_strategy" not in text_of(result, "m")
        assert "{% if false %}" in text_of(result, "m")


def test_secrets_of_the_profile(tmp_path):
    profile = (
        "shop: {outputs: {dev: {type: spark, schema: s, server_side_parameters: {fs.azure.account.key.x: abc, "
        "fs.s3a.access.key: d-e-f, my.token: ghi, spark.x: 'a ${b}'}}}}"
    )
    result = translated(tmp_path, {"models/m.sql": VIEW, "profiles.yml": profile})
    written = result.files["profiles.yaml"]
    assert not [secret for secret in ("abc", "d-e-f", "ghi") if secret in written]
    assert 'fs.azure.account.key.x: "${FS_AZURE_ACCOUNT_KEY_X}"' in written
    assert 'spark.x: "a $${b}"' in written
    assert {entry.name for entry in notes(result, "profile")} == {
        "fs.azure.account.key.x",
        "fs.s3a.access.key",
        "my.token",
    }
    assert "${MY_TOKEN}" in result.variables


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("{% if var('big') %}{{ config(materialized='table') }}{% else %}{{ config(tags='x') }}{% endif %}", True),
        ("{% if not var('big') %}{{ config(materialized='table') }}{% endif %}", False),
        ("{% if execute or is_incremental() %}{{ config(materialized='table') }}{% endif %}", False),
        ("{% if target.name == 'prod' %}{% do config(materialized='table') %}{% endif %}", False),
        ("{% set how = [] %}{% do how.append('table') %}{{ config(materialized=how[0]) }}", True),
        ("{% for m in ['view', 'table'] %}{{ config(materialized=m) }}{% endfor %}", True),
        ("{% set x = run_query('select 1') %}{{ config({'materialized': 'table'}) }}", None),
        ("{% if var('big') %}{% set how = 'table' %}{% endif %}{{ config(materialized=how) }}", True),
        ("{{ config(materialized='table') if var('big') else config(materialized='view') }}", True),
        ("{{ config(materialized='view') if var('big') else config(materialized='table') }}", False),
        ("{{ config(materialized='table', schema=env_var('X'), pre_hook='{{ f() }}') }}", True),
    ],
)
def test_configuration_in_branches(tmp_path, text, stored):
    """The calls that dbt reaches when it parses a model count, and no others."""
    project = "name: shop\nvars: {big: true}"
    result = translated(tmp_path, {"models/m.sql": f"{text}\nselect 1 as id"}, project)
    if stored is None:
        assert model(result, "m").status == "left_out"
    else:
        assert ("-- rivet:catalog: warehouse" in text_of(result, "m")) is stored
    assert not notes(result, "config")


def test_configuration_that_is_not_known(tmp_path):
    text = "{{ config(materialized='table', unique_key=env_var('KEY'), tags=['a']) }}select 1 as id"
    result = translated(tmp_path, {"models/m.sql": text})
    assert "-- rivet:tags: [a]\n-- rivet:catalog: warehouse" in text_of(result, "m")
    (entry,) = notes(result, "config")
    assert (entry.name, entry.location.line, "environment variable KEY" in entry.reasons[0]) == ("unique_key", 1, True)


def test_texts_of_yaml_remain_texts(tmp_path):
    """As in dbt: only `as_number`, `as_bool` and `as_native` read a text as a value."""
    project = (
        "name: shop\nvars: {zip: '007', n: \"{{ env_var('N', '12') }}\"}\n"
        "models: {shop: {+alias: \"{{ var('zip') }}\", +tags: [\"{{ var('n') | as_number }}\", \"{{ var('zip') }}\"], "
        "+materialized: \"{{ 'table' if var('n') == '12' else 'view' }}\"}}"
    )
    result = translated(tmp_path, {"models/m.sql": VIEW}, project)
    assert '-- rivet:tags: ["12", "007"]' in text_of(result, "m")
    assert '-- rivet:table: "007"' in text_of(result, "m")


def test_variables_that_need_another_name_or_value(tmp_path):
    project = (
        "name: shop\nvars: {start-date: 2024-01-31, start_date: x, 2x: [1], bucket: \"s3://{{ env_var('B') }}/d\", "
        'unused: "{{ env_var(\'U\') }}", twice: "{{ var(\'name\') }}2", name: b, odd: "{{ nothing() }}"}'
    )
    text = "select '{{ var('start-date') }}' a, {{ var('2x')[0] }} b, '{{ var(\"bucket\") }}' c, '{{ var('twice') }}' d"
    result = translated(tmp_path, {"models/m.sql": text, "models/n.sql": "select '{{ var('odd') }}' a"}, project)
    assert "'{{ var('var_start_date') }}' a, {{ var('v_2x')[0] }} b, " in text_of(result, "m")
    manifest = result.files["rivet.yaml"]
    assert 'var_start_date: "2024-01-31"' in manifest
    assert " start_date: x" in manifest
    assert 'bucket: "s3://${B}/d"' in manifest
    assert "twice: b2" in manifest
    assert "unused" not in manifest
    assert "odd" not in manifest
    assert {entry.name: entry.status for entry in notes(result, "variable")} == {
        "start-date": "changed",
        "2x": "changed",
        "odd": "left_out",
    }
    assert "has no value" in model(result, "n").reasons[0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("select * from {{ ref() }}", "models/m.sql:1: gives ref something else than a name, or a package and a name"),
        ("select * from {{ ref('a', 'b', 'c') }}", "gives ref something else than a name, or a package and a name"),
        ("select '{{ env_var('MY-VAR') }}'", "the environment variable 'MY-VAR' has no name that ${...} could hold"),
        ("select 1 {{ env_var() }}", "computes the name of an environment variable"),
    ],
)
def test_calls_that_are_wrong(tmp_path, text, reason):
    assert reason in model(translated(tmp_path, {"models/m.sql": text}), "m").reasons[0]


def test_variables_in_the_project_file(tmp_path):
    """dbt has no variables of dbt_project.yml in that file: only their defaults count; properties files have them."""
    project = (
        "name: shop\nvars: {stored: view, flag: false}\n"
        "models: {shop: {+materialized: \"{{ var('stored', 'table') }}\", +enabled: \"{{ var('flag', true) }}\"}}\n"
        "data_tests: {shop: {+enabled: \"{{ var('flag', true) }}\"}}"
    )
    yml = "models: [{name: n, config: {enabled: \"{{ var('flag', true) }}\"}}, "
    yml += "{name: m, columns: [{name: id, tests: [unique]}]}]"
    result = translated(tmp_path, {"models/m.sql": VIEW, "models/n.sql": VIEW, "models/p.yml": yml}, project)
    assert "-- rivet:catalog: warehouse" in text_of(result, "m")
    assert [entry.name for entry in notes(result, "disabled")] == ["n"]
    assert len(result.report.tests) == 1


def test_tags_beside_config_are_told(tmp_path):
    """dbt reads `meta`, `group` and the like there, but no tags."""
    yml = "models: [{name: m, tags: [a], group: g, config: {tags: [b]}}]"
    result = translated(tmp_path, {"models/m.sql": VIEW, "models/m.yml": yml})
    assert text_of(result, "m").startswith("-- rivet:tags: [b]\n-- rivet:group: g\n")
    assert model(result, "m").reasons == ("`tags` is not used: it belongs below `config`",)


@pytest.mark.parametrize(
    ("config", "project", "is_there"),
    [
        ("materialized=env_var('M')", "", False),
        ("materialized='incremental', unique_key=env_var('K')", "", False),
        ("materialized='table', unique_key=env_var('K')", "", True),
        ("tags='a'", "models: {+materialized: \"{{ env_var('M') }}\"}", False),
        ("materialized='view'", "models: {+materialized: \"{{ env_var('M') }}\"}", True),
    ],
)
def test_how_a_model_is_stored_must_be_known(tmp_path, config, project, is_there):
    text = f"{{{{ config({config}) }}}}select 1 as id"
    entry = model(translated(tmp_path, {"models/m.sql": text}, f"name: shop\n{project}"), "m")
    assert (entry.status != "left_out") is is_there
    if not is_there:
        assert "is not known: it depends on the environment variable" in entry.reasons[0]


def test_what_jinja_says_of_a_loop_is_known(tmp_path):
    loop = "{% for c in ['a', 'b'] %}{{ c }}{% if not loop.last %}, {% endif %}{% endfor %}"
    files = {
        "models/m.sql": f"select {loop} from values (1, 2) as t(a, b)",
        "macros/unused.sql": f"{{% macro unused() %}}{loop}{{% endmacro %}}",
    }
    result = translated(tmp_path, files)
    assert model(result, "m").status == "unchanged"
    assert [(entry.name, entry.status) for entry in notes(result, "macro")] == [("unused", "unchanged")]
