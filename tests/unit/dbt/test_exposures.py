"""Exposures, hooks, metrics and semantic models of dbt."""

import pytest
import yaml
from support.dbt import notes, translated

from rivet_dagster.cli.main import main

MODELS = {
    "models/a.sql": "select 1 as id",
    "models/board.sql": "select * from {{ ref('a') }}",
    "models/gone.sql": "select {{ run_query('select 1') }}",
    "models/s.yml": "sources: [{name: crm, tables: [{name: visits}]}]",
}
EXPOSURES = """exposures:
- name: weekly
  label: Weekly
  type: dashboard
  maturity: high
  url: "https://bi.example.org/{{ var('page') }}"
  description: "{{ doc('about') }}"
  owner: {name: Sales, email: sales@example.org}
  depends_on:
  - ref('a')
  - ref("shop", "board")
  - source('crm', 'visits')
  - metric('m')
- {name: board, label: A board, type: application, owner: {name: Sales}, depends_on: ["{{ ref('a') }}", ref('a')]}
- {name: lost, type: notebook, owner: {name: Sales}, depends_on: [ref('gone'), ref('nowhere')], colour: red}
- {name: unused, type: notebook, owner: {name: Sales}, config: {enabled: false}, depends_on: [ref('a')]}
"""


def test_exposures(tmp_path):
    files = {**MODELS, "models/e.yml": EXPOSURES, "models/d.md": "{% docs about %}Who buys.{% enddocs %}"}
    result = translated(tmp_path / "old", files, "name: shop\nvars: {page: 7}")
    assert yaml.safe_load(result.files["rivet.yaml"])["dagster"] == {
        "exposures": {
            "weekly": {
                "depends_on": ["a", "board", "visits"],
                "owners": ["sales@example.org"],
                "url": "https://bi.example.org/7",
                "description": "Who buys.",
            },
            "board_exposure": {"depends_on": ["a"], "owners": ["team:Sales"], "description": "A board"},
        }
    }
    told = {entry.name: (entry.status, entry.location.line, entry.reasons) for entry in notes(result, "exposure")}
    assert told["weekly"] == (
        "changed",
        2,
        (
            "it is the external asset 'weekly', of `exposures` in rivet.yaml",
            "metric('m') is left out: a metric has no counterpart",
        ),
    )
    assert told["board"][0] == "changed"
    assert told["lost"] == (
        "left_out",
        15,
        ("reads gone, which is left out", "ref('nowhere') names no model, seed or snapshot"),
    )
    assert [entry.name for entry in notes(result, "disabled")] == ["unused"]


def test_versions_in_exposures(tmp_path):
    files = {
        "models/p_v1.sql": "select 1 as id",
        "models/p_v2.sql": "select 1 as id",
        "models/p.yml": "models: [{name: p, latest_version: 2, versions: [{v: 1}, {v: 2}]}]\n"
        "exposures: [{name: e, type: notebook, owner: {name: O}, depends_on: [\"ref('p', v=1)\", ref('p')]}]",
    }
    result = translated(tmp_path, files)
    assert yaml.safe_load(result.files["rivet.yaml"])["dagster"]["exposures"]["e"]["depends_on"] == ["p_v1", "p_v2"]


def test_the_project_with_exposures_compiles(tmp_path):
    from support.dbt import write_dbt

    files = {name: text for name, text in MODELS.items() if name != "models/gone.sql"}
    old = write_dbt(tmp_path / "old", {**files, "models/e.yml": EXPOSURES.replace("doc('about')", "'x'")})
    main(["import", "dbt", str(old), "--to", str(tmp_path / "new")])
    assert main(["-p", str(tmp_path / "new"), "compile"]) == 0


@pytest.mark.parametrize(
    ("hook", "is_needed"),
    [
        ("grant select on {{ this }} to role reader", False),
        ("GRANT SELECT ON {{ this }} TO a; ANALYZE TABLE {{ this }} COMPUTE STATISTICS;", False),
        ("{# rights #} revoke all on {{ this }} from b -- by hand", False),
        ("insert into log values (1)", True),
        ("grant select on {{ this }} to a; insert into log values (1)", True),
        ("{{ grant_all(this) }}", True),
        ("grants.insert(1)", True),
    ],
)
def test_hooks_that_are_not_needed(tmp_path, hook, is_needed):
    project = f'name: shop\nprofile: shop\non-run-end: ["{hook}"]\nmodels: {{+post-hook: [{{sql: "{hook}"}}]}}\n'
    result = translated(tmp_path, {"models/a.sql": "select 1 as id"}, project)
    hooks = notes(result, "hook")
    assert {entry.name for entry in hooks} == {"on-run-end", "a: post-hook"}
    assert {entry.status for entry in hooks} == {"left_out" if is_needed else "not_needed"}
    assert result.report.is_whole


def test_metrics_beside_their_model_are_told(tmp_path):
    """As the YAML of dbt's engine of version 2 has them."""
    text = (
        "models: [{name: a, semantic_model: {enabled: true}, metrics: [{name: m}], columns: [{name: id, entity: x}]}]"
    )
    result = translated(tmp_path, {**MODELS, "models/m.yml": text})
    (entry,) = (entry for entry in result.report.models if entry.name == "a")
    assert entry.reasons == (
        "`semantic_model` has no counterpart",
        "`metrics` have no counterpart",
        "`entity` (id) has no counterpart",
    )


def test_metrics_and_semantic_models_are_told(tmp_path):
    text = "semantic_models: [{name: orders, model: ref('a')}]\nmetrics: [{name: m, type: simple, label: M}]\n"
    result = translated(tmp_path, {**MODELS, "models/m.yml": text})
    for kind, name in (("semantic_model", "orders"), ("metric", "m")):
        (entry,) = notes(result, kind)
        assert (entry.name, entry.status) == (name, "left_out")
