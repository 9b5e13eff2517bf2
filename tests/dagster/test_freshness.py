"""Freshness rules: Dagster's own policies on the assets."""

from datetime import timedelta
from typing import Any

import dagster as dg
import pytest
from support.folders import MANIFEST, sink, source

from rivet_dagster import DagsterRivetTranslator, RivetError, load_definitions

SHOP = {
    "sources/orders.yaml": source("orders.csv", "id INT"),
    "joints/a.sql": "SELECT id FROM orders",
    "sinks/out.yaml": sink("out", "a"),
}
DAY = {"fail_window": "24h", "warn_window": "12h"}
MORNING = {"deadline_cron": "0 9 * * *", "lower_bound_delta": "90m", "timezone": "Europe/Berlin"}


def ruled(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"rivet.yaml": {**MANIFEST, "dagster": {"freshness": list(rules)}}}


def policies(definitions: dg.Definitions) -> dict[str, Any]:
    return {spec.key.to_user_string(): spec.freshness_policy for spec in definitions.resolve_all_asset_specs()}


def test_a_rule_sets_dagsters_own_policy_on_its_joints_and_sources_only(folder):
    rules = ruled(
        {"target": 'key:"out"', "time_window": DAY},
        {"target": 'key:"orders"', "cron": MORNING},
    )
    assert policies(load_definitions(folder({**SHOP, **rules}).root)) == {
        "out": dg.FreshnessPolicy.time_window(timedelta(hours=24), timedelta(hours=12)),
        "orders": dg.FreshnessPolicy.cron("0 9 * * *", timedelta(minutes=90), "Europe/Berlin"),
        "a": None,
    }


def test_the_last_rule_of_an_asset_wins_and_a_translators_policy_wins_over_all(folder):
    class Mine(DagsterRivetTranslator):
        def get_asset_spec(self, joint, project):
            spec = super().get_asset_spec(joint, project)
            hour = dg.FreshnessPolicy.time_window(timedelta(hours=1))
            return spec.replace_attributes(freshness_policy=hour) if joint.name == "a" else spec

    rules = ruled({"target": "*", "time_window": DAY}, {"target": 'key:"out"', "time_window": {"fail_window": "7d"}})
    assert policies(load_definitions(folder({**SHOP, **rules}).root, translator=Mine())) == {
        "orders": dg.FreshnessPolicy.time_window(timedelta(hours=24), timedelta(hours=12)),
        "a": dg.FreshnessPolicy.time_window(timedelta(hours=1)),
        "out": dg.FreshnessPolicy.time_window(timedelta(days=7)),
    }


@pytest.mark.parametrize(
    ("rule", "code", "words"),
    [
        ({"target": 'key:"nobody"', "time_window": DAY}, "RVT-115", "selects nothing"),
        ({"target": "+", "time_window": DAY}, "RVT-115", "no asset selection"),
        ({"target": "*", "cron": {**MORNING, "deadline_cron": "at nine"}}, "RVT-104", "cron"),
        ({"target": "*", "cron": {**MORNING, "lower_bound_delta": "25h"}}, "RVT-104", "lower_bound_delta"),
    ],
)
def test_errors_of_dagster_name_the_line_of_the_rule(folder, rule, code, words):
    root = folder({**SHOP, **ruled({"target": "*", "time_window": DAY}, rule)}).root
    with pytest.raises(RivetError) as caught:
        load_definitions(root)
    (found,) = caught.value.diagnostics
    assert (found.code, found.file) == (code, "rivet.yaml")
    assert found.message.startswith("freshness rule 2: ")
    assert words in found.message
    lines = (root / "rivet.yaml").read_text().splitlines()
    assert lines[found.line - 1].strip().lstrip("- ").startswith("target:" if code == "RVT-115" else "cron:")


def test_specs_of_a_project_with_a_wrong_rule_raise_its_error(folder):
    from rivet_dagster import RivetProject

    project = RivetProject.load(folder({**SHOP, **ruled({"target": 'key:"nobody"', "time_window": DAY})}).root)
    with pytest.raises(RivetError) as caught:
        project.spec("out")
    assert caught.value.code == "RVT-115"
