"""Macros and generic tests of packages that are not installed: what takes their place, and why others have nothing."""

import sys
from pathlib import Path

import duckdb
import pytest
from support.dbt import model, notes, translated

sys.path.insert(0, str(Path(__file__).parents[2] / "dbt"))
from package_cases import CASES
from package_macros import models_of_macros

from rivet_dagster.dbt.translation.macros import builtin_macros

ASKED = {
    "packages.yml": "packages:\n- package: dbt-labs/dbt_utils\n- {git: 'https://github.com/x/dbt-expectations.git'}\n",
    "models/m.sql": "select 1 as id, 'a' as kind",
}


def declared(*tests):
    listed = "".join(f"    - {test}\n" for test in tests)
    return f"models:\n- name: m\n  columns:\n  - name: id\n    data_tests:\n{listed}"


@pytest.mark.parametrize(
    ("test", "check"),
    [
        ("dbt_expectations.expect_column_values_to_be_unique", "{type: unique, columns: [id]}"),
        (
            "dbt_expectations.expect_column_values_to_not_be_null: {severity: warn}",
            "{type: not_null, columns: [id], severity: warn}",
        ),
        (
            "dbt_utils.accepted_range: {min_value: 0, name: a}",
            '{type: expression, sql: "1 = 1 and id >= 0", name: a}',
        ),
        (
            "dbt_expectations.expect_column_values_to_be_in_set: {value_set: [1], row_condition: id > 0, name: a}",
            "{type: expression, sql: \"(coalesce(id = '1', false)) or not (id > 0)\", name: a}",
        ),
    ],
)
def test_tests_of_rows_are_checks_of_ours(tmp_path, test, check):
    result = translated(tmp_path, {**ASKED, "models/m.yml": declared(test)})
    assert result.files["joints/m.sql"].splitlines()[0] == f"-- rivet:assert: {check}"
    (entry,) = result.report.tests
    assert (entry.status, entry.reasons) == ("unchanged", ())


@pytest.mark.parametrize(
    ("arguments", "bounds"),
    [
        ("expect_table_row_count_to_equal: {value: 3}", "min: 3, max: 3"),
        ("expect_table_row_count_to_be_between: {min_value: 1}", "min: 1"),
        ("expect_table_row_count_to_be_between: {min_value: 1, max_value: 0}", None),
        ("expect_table_row_count_to_be_between: {min_value: 1, strictly: true}", None),
        ("expect_table_row_count_to_equal: {value: 3, where: id > 1}", None),
    ],
)
def test_numbers_of_rows(tmp_path, arguments, bounds):
    yml = f"models: [{{name: m, data_tests: [dbt_expectations.{arguments}]}}]"
    files = translated(tmp_path, {**ASKED, "models/m.yml": yml}).files
    assert ("quality/m" in " ".join(files)) is (bounds is None)
    assert bounds is None or f"-- rivet:assert: {{type: row_count, {bounds}}}\n" in files["joints/m.sql"]


@pytest.mark.parametrize("test", ["{expression: id > (select 1)}", "{expression: id > 0, where: id > 0}"])
def test_other_conditions_are_queries(tmp_path, test):
    result = translated(tmp_path, {**ASKED, "models/m.yml": declared(f"dbt_utils.expression_is_true: {test}")})
    assert result.report.tests[0].reasons == ("it is SQL",)


def test_a_test_fails_by_its_own_calculation(tmp_path):
    """Rows without a difference are rows of the query, too."""
    test = "dbt_utils.equal_rowcount: {compare_model: ref('o'), group_by_columns: [kind]}"
    yml = f"models: [{{name: m, data_tests: [{test}]}}]"
    files = {**ASKED, "models/m.yml": yml, "models/o.sql": "select 2 as id, 'a' as kind"}
    result = translated(tmp_path, files)
    (sql,) = [text for path, text in result.files.items() if path.startswith("quality/")]
    database = duckdb.connect()
    database.sql("create table m as select 1 as id, 'a' as kind")
    for rows, violations in (("('a')", 0), ("('a'), ('b')", 0), ("('a'), ('a')", 1)):
        database.sql(f"create or replace table o as select * from (values {rows}) t(kind)")
        assert len(database.sql(sql.replace("{{ this }}", "m")).fetchall()) == violations


@pytest.mark.parametrize(
    ("test", "reason"),
    [
        (
            "dbt_expectations.expect_column_values_to_be_between",
            "it raises an error: it needs a min_value or a max_value",
        ),
        ("dbt_utils.nothing", "there is no generic test 'dbt_utils.nothing'"),
        ("dbt_expectations.expect_row_values_to_have_recent_data: {datepart: day, interval: 1}", "dbt_date:time_zone"),
    ],
)
def test_tests_left_out(tmp_path, test, reason):
    (entry,) = translated(tmp_path, {**ASKED, "models/m.yml": declared(test)}).report.tests
    assert (entry.status, reason in entry.reasons[0]) == ("left_out", True)


def test_equality_has_to_know_the_columns(tmp_path):
    yml = "models: [{name: m, data_tests: [dbt_utils.equality: {compare_model: ref('m')}]}]"
    (entry,) = translated(tmp_path, {**ASKED, "models/m.yml": yml}).report.tests
    message = "without compare_columns, or with precision, it asks the warehouse for the columns"
    assert (entry.status, entry.reasons) == ("left_out", (f"it raises an error: {message}",))


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("dbt_utils.star(ref('m'))", "calls dbt_utils.star, which asks the warehouse while dbt compiles"),
        ("dbt_utils.get_column_values(ref('m'), 'id')", "which asks the warehouse while dbt compiles"),
        ("dbt_date.date(2024, 1, 31)", "which is a date of Python"),
        ("dbt_utils.nothing()", "which is no macro of the project or of a package that is installed"),
        (
            "audit_helper.compare_queries('a', 'b')",
            "which is no macro of the project or of a package that is installed",
        ),
    ],
)
def test_models_left_out(tmp_path, call, reason):
    entry = model(translated(tmp_path, {**ASKED, "models/x.sql": f"select {{{{ {call} }}}}"}), "x")
    assert (entry.status, reason in entry.reasons[0]) == ("left_out", True)


def test_macros_are_written_to_the_file_of_their_package(tmp_path):
    files = {**ASKED, "models/x.sql": "select {{ dbt_date.day_name('d') }} as day {{ dbt_utils.group_by(1) }}"}
    result = translated(tmp_path, files)
    assert result.files["joints/x.sql"] == "select {{ day_name('d') }} as day {{ group_by(1) }}\n"
    assert "macro group_by" in result.files["macros/dbt_utils.sql"]
    assert "macro day_name" in result.files["macros/dbt_date.sql"]
    assert [(e.name, e.status, e.reasons) for e in notes(result, "package")] == [
        (
            name,
            "not_needed",
            ("is not installed in dbt_packages: the macros that are built in take its place",),
        )
        for name in ("dbt_expectations", "dbt_utils")
    ]


def test_a_package_that_is_installed_is_read(tmp_path):
    files = {
        **ASKED,
        "dbt_packages/dbt_utils/dbt_project.yml": "name: dbt_utils",
        "dbt_packages/dbt_utils/macros/m.sql": "{% macro group_by(n) %}group by all{% endmacro %}",
        "models/x.sql": "select {{ dbt_date.day_name('d') }} as day {{ dbt_utils.group_by(1) }}",
    }
    result = translated(tmp_path, files)
    assert "group by all" in result.files["macros/dbt_utils/m.sql"]
    assert "macro day_name" in result.files["macros/dbt_date.sql"]


@pytest.mark.parametrize(("order", "is_own"), [("[shop, dbt_utils]", True), ("[dbt_utils]", False), (None, True)])
def test_the_project_may_have_its_own_variant(tmp_path, order, is_own):
    files = {
        **ASKED,
        "macros/m.sql": "{% macro default__group_by(n) %}group by all{% endmacro %}"
        "{% macro spark__test_accepted_range(model, column_name) %}select 1 from {{ model }}{% endmacro %}",
        "models/x.sql": "select 1 {{ dbt_utils.group_by(1) }}",
        "models/m.yml": declared("dbt_utils.accepted_range"),
    }
    project = "name: shop\n" + (f"dispatch: [{{macro_namespace: dbt_utils, search_order: {order}}}]" if order else "")
    result = translated(tmp_path, files, project)
    assert ("default__group_by" in result.files["joints/x.sql"]) is is_own
    assert ("select 1 from" in result.files.get("quality/m/dbt_utils_accepted_range_id.sql", "")) is is_own


def test_packages_that_are_not_built_in_have_to_be_installed(tmp_path):
    result = translated(tmp_path, {**ASKED, "packages.yml": ASKED["packages.yml"] + "- package: x/codegen\n"})
    assert [(entry.name, entry.status) for entry in notes(result, "package")] == [
        ("dbt_expectations", "not_needed"),
        ("dbt_utils", "not_needed"),
        ("packages.yml", "left_out"),
    ]


@pytest.mark.parametrize("package", ["dbt_utils", "dbt_date", "dbt_expectations", "audit_helper"])
def test_the_documentation_lists_the_generic_tests(package):
    page = (Path(__file__).parents[3] / "docs" / "dbt-packages.md").read_text()
    section = page.split(f"## {package}\n")[1].split("\n## ")[0]
    assert [m.name for m in builtin_macros(package) if m.block.kind == "test" and f"`{m.name}`" not in section] == []


@pytest.mark.parametrize("package", ["dbt_utils", "dbt_date", "dbt_expectations", "audit_helper"])
def test_each_of_them_is_compared_with_dbt(package):
    """The project that dbt builds with them calls each macro, or one that calls it, and declares each test."""
    called = "\n".join([*models_of_macros().values(), builtin_macros(package)[0].template.text])
    declared = {name for name, _ in CASES}
    macros = {macro.name: macro.block.kind for macro in builtin_macros(package)}
    assert [
        name
        for name, kind in macros.items()
        if (f"{package}.{name}" not in declared if kind == "test" else f"{package}.{name}(" not in called)
    ] == []
