"""Exposures of rivet.yaml as external assets."""

import dagster as dg
import pytest
from support.folders import sink, source

from rivet_dagster import RivetError, load_definitions

MANIFEST = """\
profiles: profiles.yaml
sources: sources
joints: joints
sinks: sinks
dagster:
  key_prefix: [shop]
  exposures:
    board: {depends_on: [orders, report], owners: [team:sales], url: 'https://bi.example.org/1', description: Who buys.}
    plain: {depends_on: [report]}
"""
FILES = {
    "rivet.yaml": MANIFEST,
    "sources/orders.yaml": source("orders.csv", "id INT"),
    "joints/paid.sql": "SELECT id FROM orders",
    "sinks/report.yaml": sink("report", "paid", name="report"),
}


def test_exposures_are_external_assets(folder):
    definitions = load_definitions(folder(FILES).root)
    specs = {spec.key.to_user_string(): spec for spec in definitions.resolve_all_asset_specs()}
    board, plain = specs["shop/board"], specs["shop/plain"]
    assert [dep.asset_key.to_user_string() for dep in board.deps] == ["shop/orders", "shop/report"]
    assert (board.owners, board.description, board.kinds) == (["team:sales"], "Who buys.", {"exposure"})
    assert board.metadata["rivet/url"] == dg.MetadataValue.url("https://bi.example.org/1")
    assert (plain.owners, plain.description, "rivet/url" in plain.metadata) == ([], None, False)
    graph = definitions.resolve_asset_graph()
    assert not graph.get(board.key).is_materializable
    assert board.key not in definitions.resolve_job_def("all").asset_layer.asset_graph.materializable_asset_keys


def test_a_joint_that_does_not_exist(folder):
    wrong = FILES | {"rivet.yaml": FILES["rivet.yaml"].replace("depends_on: [report]", "depends_on: [reports]")}
    with pytest.raises(RivetError, match="there is no joint 'reports'; did you mean 'report'"):
        load_definitions(folder(wrong).root)
