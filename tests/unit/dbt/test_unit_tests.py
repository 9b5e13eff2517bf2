"""Unit tests of dbt as tests of the new project."""

import json

import pytest
import yaml
from support.dbt import write_dbt

from rivet_dagster.cli.main import main

FILES = {
    "models/orders.sql": "select cast(1 as bigint) as id, 'x' as code, date'2024-01-01' as day",
    "models/paid.sql": "{{ config(materialized='incremental', incremental_strategy='append') }}"
    "select id, upper(code) as code, day from {{ ref('orders') }}"
    "{% if is_incremental() %} where id > (select max(id) from {{ this }}){% endif %}",
    "models/whole.sql": "select id from {{ ref('orders') }}",
    "tests/fixtures/ones.csv": "id,code\n2,B\n",
}
ORDERS = "{input: ref('orders'), rows: [{id: 1, code: a}]}"


def moved(tmp_path, capsys, tests, files=FILES):
    """Return the exit code, the report's entries of unit tests, and the documents of the tests."""
    old = write_dbt(tmp_path / "old", {**files, "models/u.yml": f"unit_tests:\n{tests}"})
    code = main(["import", "dbt", str(old), "--to", str(tmp_path / "new"), "--format", "json"])
    report = json.loads(capsys.readouterr().out)
    written = {path.name: yaml.safe_load(path.read_text()) for path in (tmp_path / "new").glob("tests/*.test.yaml")}
    return code, [entry for entry in report["others"] if entry["kind"] in ("unit_test", "disabled")], written


def test_rows(tmp_path, capsys):
    """Values have the types of their columns, and columns that are not expected are not compared, as in dbt."""
    test = """- name: codes
  model: paid
  given:
  - {input: "{{ ref('orders') }}", rows: [{ID: 1, CODE: 7}, {ID: 2, CODE: true, DAY: 2024-02-01}]}
  expect: {rows: [{ID: 1, CODE: "7"}, {id: 2, code: 'TRUE'}]}
"""
    code, (entry,), written = moved(tmp_path, capsys, test)
    assert (code, entry["status"], entry["joint"]) == (0, "changed", "paid")
    assert entry["reasons"] == ["it is the test tests/codes.test.yaml"]
    assert written["codes.test.yaml"] == {
        "name": "codes",
        "target": "paid",
        "inputs": {"orders": {"rows": [{"id": 1, "code": "7"}, {"id": 2, "code": "true", "day": "2024-02-01"}]}},
        "expected": {"rows": [{"id": 1, "code": "7"}, {"id": 2, "code": "TRUE"}]},
        "options": {"ignore_columns": ["day"]},
    }


def test_incremental_runs_and_csv(tmp_path, capsys):
    test = """- name: later
  model: paid
  description: Only new ones.
  overrides: {macros: {is_incremental: true}}
  given:
  - {input: ref('orders'), format: csv, rows: "id,code\\n 1,a\\n 2,\\n"}
  - {input: this, rows: [{id: 1}]}
  expect: {format: csv, fixture: ones}
"""
    code, _, written = moved(tmp_path, capsys, test)
    assert code == 0
    assert written["later.test.yaml"] == {
        "name": "later",
        "target": "paid",
        "inputs": {"orders": {"file": "fixtures/later_1.csv"}},
        "incremental": {"this": {"rows": [{"id": 1}]}},
        "expected": {"file": "fixtures/ones.csv"},
        "options": {"ignore_columns": ["day"]},
    }
    fixtures = tmp_path / "new" / "tests" / "fixtures"
    assert (fixtures / "later_1.csv").read_text() == "id,code\n1,a\n2,\n"
    assert (fixtures / "ones.csv").read_text() == FILES["tests/fixtures/ones.csv"]
    assert (tmp_path / "new" / "tests" / "later.test.yaml").read_text().startswith("# Only new ones.\nname: later\n")


def test_no_rows_and_equal_names(tmp_path, capsys):
    test = (
        "- {name: a-b, model: whole, given: [{input: ref('orders'), rows: []}], expect: {rows: []}}\n"
        f"- {{name: a-B, model: whole, given: [{ORDERS}], expect: {{rows: [{{id: 1}}]}}, "
        "overrides: {macros: {is_incremental: true}}}\n"
    )
    code, entries, written = moved(tmp_path, capsys, test)
    assert (code, len(entries)) == (0, 2)
    assert written["a-b.test.yaml"]["expected"] == {"columns": ["id"], "rows": []}
    assert written["a-b.test.yaml"]["inputs"] == {"orders": {"columns": ["id", "code", "day"], "rows": []}}
    assert "incremental" not in written["a-B_2.test.yaml"]


def test_versions(tmp_path, capsys):
    files = {
        **FILES,
        "models/p_v1.sql": "select id from {{ ref('orders') }}",
        "models/p_v2.sql": "select id from {{ ref('orders') }}",
        "models/p_v3.sql": "select id from {{ ref('orders') }}",
        "models/p.yml": "models: [{name: p, versions: [{v: 1}, {v: 2}, {v: 3}]}]",
    }
    test = (
        f"- {{name: t, model: p, given: [{ORDERS}], expect: {{rows: [{{id: 1}}]}}, versions: {{exclude: [2]}}}}\n"
        f"- {{name: u, model: p, given: [{ORDERS}], expect: {{rows: [{{id: 1}}]}}, versions: {{include: [2]}}}}\n"
    )
    _, _, written = moved(tmp_path, capsys, test, files)
    assert {name: test["target"] for name, test in written.items()} == {
        "t_v1.test.yaml": "p_v1",
        "t_v3.test.yaml": "p_v3",
        "u_v2.test.yaml": "p_v2",
    }


@pytest.mark.parametrize(
    ("test", "reason"),
    [
        ("model: paid, overrides: {vars: {x: 1}}", "its overrides of vars have no counterpart"),
        ("model: paid, overrides: {macros: {now: 1}}", "its overrides of now have no counterpart"),
        ("model: paid, given: [{input: ref('orders'), format: sql, rows: select 1}]", "rows in the format sql have no"),
        ("model: paid, given: [{input: ref('orders')}]", "names no rows of orders"),
        ("model: paid, given: [{input: ref('other'), rows: []}]", "ref('other') names no model"),
        ("model: paid, given: [{input: orders, rows: []}]", "'orders' is neither ref(...) nor source(...)"),
        ("model: paid, given: [{input: ref('orders'), format: csv, fixture: nil}]", "there is no fixture 'nil'"),
        ("model: paid, given: []", "the input 'orders' is missing, which 'paid' reads (RVT-215)"),
        ("model: pad", "there is no model 'pad'"),
        ("model: paid, given: [{input: ref('orders'), rows: [{nothing: 1}]}]", "nothing"),
    ],
)
def test_left_out(tmp_path, capsys, test, reason):
    code, (entry,), written = moved(tmp_path, capsys, f"- {{name: t, {test}, expect: {{rows: [{{id: 1}}]}}}}\n")
    assert (code, entry["status"], written) == (0, "left_out", {})
    assert reason in " ".join(entry["reasons"])


def test_disabled(tmp_path, capsys):
    _, (entry,), written = moved(tmp_path, capsys, "- {name: t, model: paid, config: {enabled: false}}\n")
    assert (entry["kind"], written) == ("disabled", {})
