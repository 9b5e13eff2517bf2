"""Data tests of dbt as checks."""

import duckdb
import pytest
from support.dbt import translated, write_dbt

from rivet_dagster.dbt.reading.project import read_dbt_project
from rivet_dagster.dbt.report import Refused
from rivet_dagster.dbt.translation.project import translate

MODELS = {
    "models/m.sql": "select 1 as id, 'a' as kind",
    "models/other.sql": "select 1 as key",
    "models/after.sql": "select * from {{ ref('m') }}",
}


def moved(tmp_path, test, column="id", files=(), project="name: shop"):
    """Return the report's entry of one test of a column of the model m, and the new project."""
    yml = f"models:\n- name: m\n  columns:\n  - name: {column}\n    data_tests:\n    - {test}\n"
    result = translated(tmp_path, {**MODELS, "models/m.yml": yml, **dict(files)}, project)
    (entry,) = result.report.tests
    return entry, result


def annotations(result):
    return [line for line in result.files["joints/m.sql"].splitlines() if line.startswith("-- rivet:a")]


@pytest.mark.parametrize(
    ("test", "check"),
    [
        ("unique", "{type: unique, columns: [id]}"),
        ("not_null: {severity: warn}", "{type: not_null, columns: [id], severity: warn}"),
        ("not_null: {config: {severity: WARN}}", "{type: not_null, columns: [id], severity: warn}"),
        (
            "not_null: {name: there, description: 'It is there.'}",
            "{type: not_null, columns: [id], name: there, description: It is there.}",
        ),
        ("accepted_values: {values: [1, a]}", '{type: accepted_values, column: id, values: ["1", a]}'),
        ("accepted_values: {values: [1, 2], quote: false}", "{type: accepted_values, column: id, values: [1, 2]}"),
        ("accepted_values: {arguments: {values: [x]}}", "{type: accepted_values, column: id, values: [x]}"),
        ("relationships: {to: ref('other'), field: key}", "{type: relationship, column: id, to: other.key}"),
        ("relationships: {to: \"{{ ref('other') }}\", field: key}", "{type: relationship, column: id, to: other.key}"),
        ("{test_name: unique, config: {store_failures: true}}", "{type: unique, columns: [id]}"),
        ("unique: {error_if: '>0', warn_if: '!= 0'}", "{type: unique, columns: [id]}"),
    ],
)
def test_built_in(tmp_path, test, check):
    entry, result = moved(tmp_path, test)
    assert annotations(result) == [f"-- rivet:assert: {check}"]
    assert entry.joint == "m"
    assert not [path for path in result.files if path.startswith("quality/")]


def test_built_in_with_a_source(tmp_path):
    files = {
        "models/s.yml": "sources: [{name: crm, tables: [{name: visits}]}]",
        "models/v.sql": "select * from {{ source('crm', 'visits') }}",
    }
    entry, result = moved(tmp_path, "relationships: {to: \"{{ source('crm', 'visits') }}\", field: key}", files=files)
    assert annotations(result) == ["-- rivet:assert: {type: relationship, column: id, to: visits.key}"]
    assert entry.joint == "m"


@pytest.mark.parametrize(
    ("test", "rows", "violations"),
    [
        ("unique: {where: id > 1}", "(1, 'a'), (1, 'a'), (2, 'a')", 0),
        ("unique: {where: id > 0}", "(1, 'a'), (1, 'a'), (2, 'a')", 1),
        ("not_null: {error_if: '> 1'}", "(null, 'a'), (2, 'a')", 0),
        ("not_null: {error_if: '> 1'}", "(null, 'a'), (null, 'b')", 1),
        ("not_null: {error_if: '> 1', limit: 1}", "(null, 'a'), (null, 'b')", 0),
        ("not_null: {severity: warn, warn_if: 'between 1 and 2', error_if: '> 100'}", "(null, 'a'), (null, 'b')", 1),
        ("unique: {fail_calc: 'sum(n_records)', error_if: '> 2'}", "(1, 'a'), (1, 'b')", 0),
        ("accepted_values: {values: ['1 + 1'], quote: false}", "(1, 'a'), (2, 'a')", 1),
        ("below: {most: 5}", "(4, 'a'), (6, 'a'), (7, 'a')", 2),
        ("below: {most: \"{{ var('most') }}\"}", "(4, 'a'), (6, 'a'), (7, 'a')", 1),
        ("tools.among: {values: [4, 6], where: \"kind = 'a'\"}", "(4, 'a'), (6, 'a'), (7, 'b'), (8, 'a')", 1),
        ("not_in: {others: ref('other'), column: key}", "(1, 'a'), (2, 'a')", 1),
    ],
)
def test_as_sql(tmp_path, test, rows, violations):
    """The query of a check gives rows exactly where the test fails; DuckDB runs it."""
    files = {
        "macros/tests.sql": "{% test below(model, column_name, most=3) %}\n"
        "{{ above(model, column_name, most) }}{% endtest %}"
        "{% macro above(model, column, most) %}select * from {{ model }} where {{ column }} > {{ most }}{% endmacro %}",
        "tests/generic/not_in.sql": "{% test not_in(model, column_name, others, column) %}"
        "select * from {{ model }} where {{ column_name }} in (select {{ column }} from {{ others }}){% endtest %}",
        "dbt_packages/tools/dbt_project.yml": "name: tools",
        "dbt_packages/tools/macros/t.sql": "{% test among(model, column_name, values) %}"
        "{{ adapter.dispatch('test_among', 'tools')(model, column_name, values) }}{% endtest %}"
        "{% macro default__test_among(model, column_name, values) %}select * from {{ model }} where {{ column_name }} "
        "not in ({% for v in values %}{{ v }}{{ ', ' if not loop.last }}{% endfor %}){% endmacro %}",
    }
    entry, result = moved(
        tmp_path, test.replace("columns", "column"), files=files, project="name: shop\nvars: {most: 6}"
    )
    assert entry.status == "changed", entry
    (sql,) = [text for path, text in result.files.items() if path.startswith("quality/m/")]
    with duckdb.connect() as database:
        database.execute(f"create table m as select * from (values {rows}) as t(id, kind)")
        database.execute("create table other as select 1 as key")
        assert len(database.execute(sql.replace("{{ this }}", "m")).fetchall()) == violations


@pytest.mark.parametrize(
    ("test", "reason"),
    [
        ("uniqe", "there is no generic test 'uniqe'; did you mean 'unique'?"),
        ("relationships: {to: ref('nothing'), field: id}", "ref('nothing') names no model"),
        ("not_null: {severity: loud}", "its severity 'loud' is neither error nor warn"),
        ("asks", "macros/asks.sql:1: calls run_query"),
        ("not_null: {where: \"{{ var('unset') }}\"}", "the variable 'unset' has no value"),
    ],
)
def test_left_out(tmp_path, test, reason):
    asks = "{% test asks(model, column_name) %}{{ run_query('select 1') }}{% endtest %}"
    entry, result = moved(tmp_path, test, files={"macros/asks.sql": asks})
    assert (entry.status, entry.joint, entry.check, entry.location.file) == ("left_out", None, None, "models/m.yml")
    assert reason in entry.reasons[0]
    assert entry.location.line in (5, 6)
    assert not result.report.is_whole
    assert annotations(result) == []


def test_singular_tests_belong_to_the_last_joint_that_they_read(tmp_path):
    files = {
        "tests/a.sql": "{{ config(severity='warn') }}\nselect * from {{ ref('m') }} join {{ ref('after') }} using (id)",
        "tests/b.sql": "select 1 where false",
        "tests/c.sql": "select * from {{ ref('gone') }}",
        "models/gone.sql": "select {{ nothing() }}",
    }
    result = translated(tmp_path, {**MODELS, **files})
    tests = {entry.name: entry for entry in result.report.tests}
    assert (tests["a"].joint, tests["a"].check) == ("after", "a")
    assert result.files["quality/after/a.sql"] == "-- @severity: warn\nselect * from m join after using (id)\n"
    assert (tests["b"].joint, tests["b"].check) == ("b", "b")
    assert tests["c"].reasons == ("reads gone, which is left out",)


def test_a_singular_test_that_reads_no_model_is_a_joint(tmp_path):
    """Its rows are the violations, whatever the names of its columns."""
    files = {
        "tests/after.sql": "{{ config(severity='warn', error_if='> 9') }}select 1, 1 as a, 2 as a, '{{ '{{' }}' as b;",
        "tests/few.sql": "{{ config(error_if='> 1') }}select 1 as a",
        "tests/two.sql": "select 1 as a -- one\nunion all select 2 -- two",
    }
    result = translated(tmp_path, {**MODELS, **files})
    assert {(e.name, e.joint, e.check) for e in result.report.tests} == {
        ("after", "after_2", "after"),
        ("few", "few", "few"),
        ("two", "two", "two"),
    }
    with duckdb.connect() as database:
        for joint, check, rows in (
            ("after_2", "{type: row_count, max: 0, name: after, severity: warn}", 1),
            ("few", "{type: row_count, max: 0, name: few}", 0),
            ("two", "{type: row_count, max: 0, name: two}", 2),
        ):
            text = result.files[f"joints/tests/{joint}.sql"]
            assert text.startswith(f"-- rivet:assert: {check}\n")
            query = text.replace("{% raw %}", "").replace("{% endraw %}", "")
            assert len(database.execute(query).fetchall()) == rows


def test_a_singular_test_whose_joint_does_not_compile_is_left_out(tmp_path):
    root = write_dbt(tmp_path, {**MODELS, "tests/odd.sql": "select from where"})
    result = translate(read_dbt_project(root), root, Refused(joints={"odd": ["it is no SQL"]}))
    assert [(entry.name, entry.reasons) for entry in result.report.tests] == [("odd", ("it is no SQL",))]
    assert "joints/tests/odd.sql" not in result.files


def test_sources_that_no_model_reads_are_judged(tmp_path):
    files = {
        "seeds/read.csv": "id\n1\n",
        "seeds/unread.csv": "id\n1\n",
        "seeds/untested.csv": "id\n1\n",
        "seeds/s.yml": "seeds: [{name: read, columns: [{name: id, tests: [unique]}]}, "
        "{name: unread, columns: [{name: id, tests: [unique, {relationships: {to: ref('untested'), field: id}}]}]}]",
        "models/src.yml": "sources: [{name: crm, tables: [{name: v, tests: [{at: {}}]}]}]",
        "macros/t.sql": "{% test at(model) %}select * from {{ model }} where id > 1{% endtest %}",
        "models/reader.sql": "select * from {{ ref('read') }}",
    }
    result = translated(tmp_path, {**MODELS, **files})
    text = result.files["joints/tests/unread_sources.sql"]
    assert "{{ ref('unread') }}" in text
    assert "{{ ref('v') }}" in text
    assert "'read'" not in text
    assert "untested" not in text
    noted = {entry.joint for entry in result.report.tests if "the joint 'unread_sources' does" in str(entry.reasons)}
    assert noted == {"unread", "v"}


def test_tests_of_incremental_tables_judge_the_whole_table(tmp_path):
    files = {
        "models/m.sql": "{{ config(materialized='incremental') }}select 1 as id, 'a' as kind",
        "models/m.yml": "models: [{name: m, columns: [{name: id, tests: [unique, {below: {most: 3}}]}]}]",
        "macros/t.sql": "{% test below(model, column_name, most) %}select * from {{ model }} where id > 1{% endtest %}",
    }
    result = translated(tmp_path, files)
    assert annotations(result) == ["-- rivet:audit: {type: unique, columns: [id]}"]
    assert result.files["quality/m/below_id.sql"].startswith("-- @phase: audit\n")
    assert {entry.check for entry in result.report.tests} == {"audit_unique_id", "below_id"}


def test_tests_of_sources_and_seeds(tmp_path):
    files = {
        "seeds/s.csv": "id\n1\n",
        "seeds/s.yml": "seeds: [{name: s, columns: [{name: id, tests: [unique]}]}]",
        "models/src.yml": "sources:\n- {name: crm, tables: [{name: v, columns: [{name: id, tests: [not_null, unique]}]}"
        "]}",
    }
    result = translated(tmp_path, {**MODELS, **files})
    assert "    - {type: unique, columns: [id]}\n" in result.files["sources/seeds/s.yaml"]
    assert "    - {type: not_null, columns: [id]}\n" in result.files["sources/crm/v.yaml"]
    assert {(entry.joint, entry.check) for entry in result.report.tests} == {
        ("s", "unique_id"),
        ("v", "not_null_id"),
        ("v", "unique_id"),
    }


def test_severity_by_folder_and_disabled_tests(tmp_path):
    project = "name: shop\ndata_tests:\n  shop:\n    +severity: warn"
    yml = "models: [{name: m, columns: [{name: id, tests: [unique, {not_null: {enabled: false}}]}]}]"
    result = translated(tmp_path, {**MODELS, "models/m.yml": yml}, project)
    assert annotations(result) == ["-- rivet:assert: {type: unique, columns: [id], severity: warn}"]
    assert [entry.name for entry in result.report.others if entry.kind == "disabled"] == ["not_null_m_id"]
    assert result.report.is_whole


@pytest.mark.parametrize(
    ("test", "tests", "is_there"),
    [
        ("unique", "{shop: {+enabled: false}}", False),
        ("unique: {config: {enabled: true}}", "{shop: {+enabled: false}}", True),
        ("unique: {enabled: \"{{ var('flag') }}\"}", "{}", False),
        ("unique", "{shop: {+enabled: \"{{ var('flag') }}\"}}", False),
        ("unique", "{tools: {+enabled: false}}", True),
    ],
)
def test_enabled(tmp_path, test, tests, is_there):
    yml = f"models: [{{name: m, columns: [{{name: id, data_tests: [{test}]}}]}}]"
    project = f"name: shop\nvars: {{flag: false}}\ndata_tests: {tests}"
    result = translated(tmp_path, {**MODELS, "models/m.yml": yml}, project)
    assert [entry.status for entry in result.report.tests] == (["unchanged"] if is_there else [])
    assert [e.name for e in result.report.others if e.kind == "disabled"] == ([] if is_there else ["unique_m_id"])


def test_unknown_whether_a_test_is_enabled(tmp_path):
    entry, _ = moved(tmp_path, "unique: {enabled: \"{{ env_var('X') }}\"}")
    assert (entry.status, "whether it is enabled is not known" in entry.reasons[0]) == ("left_out", True)


def test_tests_of_packages_are_configured_by_their_own_folders(tmp_path):
    files = {
        "dbt_packages/tools/dbt_project.yml": "name: tools\ndata_tests: {tools: {staging: {+severity: warn}}}",
        "dbt_packages/tools/models/staging/t.sql": "select 1 as id",
        "dbt_packages/tools/models/staging/t.yml": "models: [{name: t, columns: [{name: id, data_tests: [unique]}]}]",
    }
    result = translated(tmp_path, {**MODELS, **files})
    assert "{type: unique, columns: [id], severity: warn}" in result.files["joints/tools/staging/t.sql"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("{{ config(materialized='view') }}select * from {{ model }}", "calls config(...)"),
        ("{{ config(severity=model) }}select * from {{ model }}", "calls config(...)"),
        ("select '{{ invocation_id | default('x') }}' from {{ model }}", "uses invocation_id"),
    ],
)
def test_words_of_dbt_within_generic_tests(tmp_path, body, reason):
    files = {"macros/odd.sql": f"{{% test odd(model, column_name) %}}{body}{{% endtest %}}"}
    entry, _ = moved(tmp_path, "odd", files=files)
    assert (entry.status, reason in entry.reasons[0]) == ("left_out", True)


@pytest.mark.parametrize(
    "yml",
    [
        "models: [{name: m, versions: [{v: 1, columns: [{include: 5}]}], columns: [{name: id}]}]",
    ],
)
def test_properties_of_a_wrong_type_are_told(tmp_path, yml):
    result = translated(tmp_path, {**MODELS, "models/m.yml": yml})
    entry = next(entry for entry in result.report.others if entry.kind == "properties")
    assert "must be a list" in entry.reasons[0]


def test_tags_of_a_test_may_be_anything(tmp_path):
    assert moved(tmp_path, "unique: {config: {tags: 5}}")[0].status != "left_out"


@pytest.mark.parametrize(
    ("rules", "after", "violations"),
    [("", "1", 3), ("", "1), (2), (3", 0), (", config: {where: id < 3, severity: warn}", "1), (2", 0)],
)
def test_what_reads_a_later_joint_is_a_check_of_that(tmp_path, rules, after, violations):
    entry, result = moved(tmp_path, f"relationships: {{arguments: {{to: ref('after'), field: id}}{rules}}}")
    assert (entry.joint, entry.check, entry.status) == ("after", "relationships_m_id", "changed")
    assert "it is a check of after, which is computed from m" in entry.reasons
    sql = result.files["quality/after/relationships_m_id.sql"]
    database = duckdb.connect()
    database.sql("create table m as select * from (values (1), (2), (2), (3), (null)) m(id)")
    database.sql(f"create table after as select * from (values ({after})) a(id)")
    assert len(database.sql(sql).fetchall()) == violations
    assert annotations(result) == []


def test_a_check_of_the_last_of_the_later_joints(tmp_path):
    """Also of a source, and by a generic test of the project that reads several relations."""
    files = {
        "models/m.sql": "select * from {{ source('crm', 'visits') }}",
        "models/last.sql": "select * from {{ ref('after') }}",
        "models/s.yml": "sources: [{name: crm, tables: [{name: visits, data_tests: [{same: {first: ref('last'), "
        "second: ref('other'), third: ref('after')}}]}]}]",
        "tests/generic/same.sql": "{% test same(model, first, second, third) %}select 1 from {{ model }}, {{ first }}, "
        "{{ second }}, {{ third }}{% endtest %}",
    }
    result = translated(tmp_path, {**MODELS, **files})
    (entry,) = result.report.tests
    assert (entry.joint, entry.check) == ("last", "same_visits")
    assert result.files["quality/last/same_visits.sql"] == "select 1 from visits, last, other, after\n"
