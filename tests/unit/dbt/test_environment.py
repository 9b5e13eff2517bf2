"""Variables of the environment: `${NAME}` where a run can read them, else what they are for the import."""

import json

import pytest
from support.dbt import write_dbt

from rivet_dagster.cli.main import main


def imported(tmp_path, capsys, files, project="name: shop\nprofile: shop\n"):
    """Return the exit code and the report of an import, and the folder of the new project."""
    old = write_dbt(tmp_path / "old", files, project)
    code = main(["import", "dbt", str(old), "--to", str(tmp_path / "new"), "--format", "json"])
    return code, json.loads(capsys.readouterr().out), tmp_path / "new"


def told(report):
    return {(e["name"], e["file"], e["line"]) for e in report["others"] if e["kind"] == "environment"}


SOURCE = """sources:
- name: crm
  schema: "{{ env_var('RAW') }}_in"
  tables:
  - name: visits
  - name: days
    identifier: "days_{{ env_var('YEAR') }}"
"""
READERS = {
    "models/s.yml": SOURCE,
    "models/v.sql": "select * from {{ source('crm', 'visits') }}",
    "models/d.sql": "select * from {{ source('crm', 'days') }}",
}


def test_a_schema_is_the_database_of_a_catalog(tmp_path, capsys, monkeypatch):
    """A run reads it; the identifier is a part of a table's name, where no run reads anything."""
    monkeypatch.setenv("YEAR", "2026")
    monkeypatch.delenv("RAW", raising=False)
    code, report, new = imported(tmp_path, capsys, READERS)
    assert code == 0
    assert told(report) == {("YEAR", "models/s.yml", 7)}
    (visits,) = (entry for entry in report["others"] if entry["name"] == "crm.visits")
    assert visits["reasons"] == ["its schema, ${RAW}_in, is the database of the catalog 'session_raw'"]
    profile = (new / "profiles.yaml").read_text()
    assert 'session_raw: {type: spark, database: "${RAW}_in"}' in profile
    assert "catalogs: [warehouse, session_raw]" in profile
    assert "catalog: session_raw\ntable: visits\n" in (new / "sources/crm/visits.yaml").read_text()
    assert "catalog: session_raw\ntable: days_2026\n" in (new / "sources/crm/days.yaml").read_text()
    monkeypatch.setenv("RAW", "a")
    assert main(["-p", str(new), "compile"]) == 0


def test_catalogs_of_several_schemas(tmp_path, capsys):
    files = {
        "models/s.yml": "sources:\n"
        "- {name: a, schema: \"{{ env_var('RAW') }}\", tables: [{name: t}]}\n"
        "- {name: b, schema: \"{{ env_var('RAW') }}\", tables: [{name: u}]}\n"
        "- {name: c, schema: \"{{ env_var('RAW') }}_x\", tables: [{name: v}]}\n"
        "- {name: d, schema: plain, tables: [{name: w}]}\n",
    }
    code, _, new = imported(tmp_path, capsys, files)
    assert code == 0
    profile = (new / "profiles.yaml").read_text()
    for entry in ("session: {type: spark, database: default}", 'session_raw: {type: spark, database: "${RAW}"}'):
        assert f"    {entry}" in profile
    assert 'session_raw_2: {type: spark, database: "${RAW}_x"}' in profile
    assert "catalog: session_raw\ntable: u\n" in (new / "sources/b/u.yaml").read_text()
    assert "catalog: session\ntable: plain.w\n" in (new / "sources/d/w.yaml").read_text()


def test_a_schema_in_a_database_is_that_of_the_import(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("RAW", "crm")
    files = {
        "models/s.yml": "sources: [{name: a, schema: \"{{ env_var('RAW') }}\", database: crm, tables: [{name: t}]}]",
        "profiles.yml": "shop: {target: s, outputs: {s: {type: spark, schema: s}, "
        "p: {type: postgres, host: h, user: u, dbname: crm, schema: public}}}",
    }
    code, report, new = imported(tmp_path, capsys, files)
    assert code == 0
    assert told(report) == {("RAW", "models/s.yml", 1)}
    assert "catalog: crm\ntable: crm.t\n" in (new / "sources/a/t.yaml").read_text()


def test_a_variable_that_is_read_twice_is_one(tmp_path, capsys):
    text = "select {{ env_var('X') }} as a, concat('b', {{ env_var('X') }}) as b"
    code, _, new = imported(tmp_path, capsys, {"models/m.sql": text})
    assert code == 0
    assert (new / "rivet.yaml").read_text().count("${X}") == 1


def test_variables_in_configuration(tmp_path, capsys, monkeypatch):
    """The value of the environment is taken, not the default of `env_var`; what has no use is not told."""
    for name, value in {"KIND": "table", "ALIAS": "orders_7", "OFF": "false", "META": "x"}.items():
        monkeypatch.setenv(name, value)
    files = {
        "models/m.sql": "{{ config(alias=env_var('ALIAS')) }}select 1 as id",
        "models/none.sql": "select 1 as id",
        "models/m.yml": "models:\n- {name: none, config: {enabled: \"{{ env_var('OFF') | as_bool }}\"}}\n",
        "seeds/s.csv": "id\n1\n",
    }
    project = """name: shop
profile: shop
models: {+materialized: "{{ env_var('KIND', 'view') }}", +meta: {a: "{{ env_var('META') }}"}}
seeds: {+alias: "{{ env_var('ALIAS') }}_seed"}
"""
    code, report, new = imported(tmp_path, capsys, files, project)
    assert code == 0
    assert "-- rivet:table: orders_7" in (new / "joints/m.sql").read_text()
    assert not (new / "joints/none.sql").exists()
    assert {name for name, _, _ in told(report)} == {"KIND", "ALIAS", "OFF"}


WITH_VARIABLE = "name: shop\nprofile: shop\nvars: {db: \"{{ env_var('DB') }}\"}"


@pytest.mark.parametrize(
    "text",
    [
        "select * from {{ var('db') }}.orders",
        "select * from {{ env_var('DB') }}.orders",
        "select * from {{ table_of() }}",
        "{% if env_var('DB') == 'sales' %}select * from sales.orders{% else %}){% endif %}",
        "select * from {{ env_var('DB') ~ '.orders' }}",
        "select *\nfrom {{ ref(env_var('DB')) }}",
        "select *\nfrom {{ ref('raw_' ~ var('db')) }}",
    ],
)
def test_names_and_conditions_have_the_value_of_the_import(tmp_path, capsys, monkeypatch, text):
    monkeypatch.setenv("DB", "sales")
    files = {
        "models/m.sql": text,
        "macros/m.sql": "{% macro table_of() %}{{ env_var('DB') }}.orders{% endmacro %}",
        "seeds/sales.csv": "id\n1\n",
        "seeds/raw_sales.csv": "id\n1\n",
    }
    _, report, new = imported(tmp_path, capsys, files, WITH_VARIABLE)
    entry = next(entry for entry in report["models"] if entry["name"] == "m")
    assert entry["status"] != "left_out", entry
    assert {name for name, _, _ in told(report)} == {"DB"}
    assert "db: sales" in (new / "rivet.yaml").read_text()
    assert main(["-p", str(new), "compile"]) == 0


def test_values_remain_those_of_a_run(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("DAY", "2026-01-01")
    code, report, new = imported(tmp_path, capsys, {"models/m.sql": "select '{{ env_var('DAY') }}' as day"})
    assert (code, told(report)) == (0, set())
    assert 'day: "${DAY}"' in (new / "rivet.yaml").read_text()


def test_tests_have_the_value_of_the_import(tmp_path, capsys, monkeypatch):
    """A check is SQL without variables."""
    monkeypatch.setenv("LEAST", "3")
    files = {
        "models/m.sql": "select 1 as id",
        "tests/few.sql": "select * from {{ ref('m') }} where id < {{ env_var('LEAST') }} - {{ var('db') }}",
    }
    code, report, new = imported(tmp_path, capsys, files, WITH_VARIABLE.replace("DB", "LEAST"))
    assert code == 0
    assert "where id < 3 - 3" in (new / "quality/m/few.sql").read_text()
    assert {name for name, _, _ in told(report)} == {"LEAST"}


def test_secrets_and_what_is_not_set(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("DB_PASSWORD", "hidden")
    monkeypatch.setenv("PLACE", "jdbc:x://ann:hidden@host/db")
    monkeypatch.delenv("NOT_SET", raising=False)
    files = {
        "models/a.sql": "select * from {{ env_var('DB_PASSWORD') }}.t",
        "models/b.sql": "{{ config(alias=env_var('DB_PASSWORD')) }}select 1 as id",
        "models/d.sql": "{{ config(alias=env_var('PLACE')) }}select 1 as id",
        "models/c.sql": "{{ config(materialized=env_var('NOT_SET')) }}select 1 as id",
        "models/s.yml": "sources: [{name: s, tables: [{name: t, identifier: \"{{ env_var('NOT_SET') }}\"}]}]",
    }
    code, report, new = imported(tmp_path, capsys, files)
    assert code == 2
    assert "hidden" not in json.dumps(report)
    assert not [path for path in new.rglob("*") if path.is_file() and "hidden" in path.read_text()]
    reasons = {e["name"]: " ".join(e["reasons"]) for e in [*report["models"], *report["others"]]}
    assert "which only a run knows" in reasons["a"]
    assert "a secret, whose value is not copied" in reasons["alias"]
    assert "NOT_SET is not set: set it for the import" in reasons["c"]


PROFILE = """shop:
  target: "{{ env_var('TARGET') }}"
  outputs:
    dev: {type: spark, schema: dev}
    prod: {type: spark, method: thrift, host: "{{ env_var('HOST') }}", schema: "{{ env_var('SCHEMA') }}"}
"""


def test_the_schema_of_the_target(tmp_path, capsys, monkeypatch):
    """A source may name it; hosts and users of the profile are not read from the environment."""
    for name, value in {"TARGET": "prod", "SCHEMA": "sales", "HOST": "h.example.org"}.items():
        monkeypatch.setenv(name, value)
    files = {
        "models/s.yml": 'sources: [{name: s, schema: "{{ target.schema }}_raw", tables: [{name: t}]}]',
        "profiles.yml": PROFILE,
    }
    code, report, new = imported(tmp_path, capsys, files)
    assert code == 0
    assert told(report) == {("TARGET", "profiles.yml", 2), ("SCHEMA", "profiles.yml", 5)}
    assert "table: sales_raw.t\n" in (new / "sources/s/t.yaml").read_text()
    assert "h.example.org" not in (new / "profiles.yaml").read_text()
