"""Selections in dbt's syntax."""

import dagster as dg
import pytest
from support.folders import ProjectFolder
from support.shop import SHOP

from rivet_dagster import RivetError, RivetProject, build_rivet_asset_selection
from rivet_dagster.definitions.load import build_definitions


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    manifest = {"profiles": "profiles.yaml", "sources": "sources", "joints": "joints", "sinks": "sinks"}
    prefixed = {"rivet.yaml": {**manifest, "dagster": {"key_prefix": ["shop"]}}}
    return RivetProject.load(ProjectFolder(tmp_path_factory.mktemp("shop"), {**SHOP, **prefixed}).root)


@pytest.fixture(scope="module")
def selected(project):
    """Return the joints that a text selects among the project's definitions."""
    graph = build_definitions(project).resolve_asset_graph()
    return lambda text: {key.path[-1] for key in build_rivet_asset_selection(project, text).resolve(graph)}


# Sources are read, never materialized: Dagster includes them neither in upstream nor in groups.
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("named", {"named"}),
        ("orders", {"orders"}),
        ("+named", {"paid", "scored", "named"}),
        ("1+named", {"scored", "named"}),
        ("0+named", {"named"}),
        ("named+", {"named", "large", "large_table"}),
        ("named+1", {"named", "large"}),
        ("1+named+1", {"scored", "named", "large"}),
        ("+scored+", {"paid", "scored", "named", "large", "large_table"}),
        ("@scored", {"paid", "scored", "named", "large", "large_table"}),
        ("@large_table", {"paid", "scored", "named", "large", "large_table"}),
        ("paid large", {"paid", "large"}),
        ("  paid   large  ", {"paid", "large"}),
        ("tag:fresh", {"named", "large"}),
        ("tag:fresh,large", {"large"}),
        ("tag:fresh,large+", {"large"}),
        ("+named,path:joints/staging", {"paid", "scored"}),
        ("tag:fresh,large paid", {"large", "paid"}),
        ("tag:layer=staged", {"paid"}),
        ("tag:layer", {"paid", "large"}),
        ("group:marts", {"named", "large", "large_table"}),
        ("group:*a*", {"paid", "scored", "named", "large", "large_table"}),
        ("path:joints", {"paid", "scored", "named", "large"}),
        ("path:joints/marts/", {"named", "large"}),
        ("path:joints/marts/named.sql", {"named"}),
        ("1+path:joints/marts", {"scored", "named", "large"}),
        ("path:sources", {"orders", "customers"}),
        ("kind:python", {"scored"}),
        ("large*", {"large", "large_table"}),
    ],
)
def test_selection_texts(selected, text, expected):
    assert selected(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nmed", "there is no joint 'nmed'; did you mean 'named'?"),
        ("paid +lrge+", "there is no joint 'lrge'; did you mean 'large'?"),
        ("tag:frsh", "there is no tag 'frsh'; did you mean 'fresh'?"),
        ("tag:layer=gold", "there is no tag 'layer=gold'; did you mean 'layer="),
        ("group:mart", "there is no group 'mart'; did you mean 'marts'?"),
        ("kind:pyton", "there is no kind 'pyton'; did you mean 'python'?"),
        ("path:joints/mart", "no joint lies at 'joints/mart'; did you mean 'joints/marts' or"),
        ("tags:fresh", "'tags:fresh': there is no method 'tags'; did you mean 'tag'?"),
        ("@paid+", "'@paid+' is no part of a selection"),
        ("paid+x", "'paid+x' is no part of a selection"),
        ("paid,,large", "'' is no part of a selection"),
        ("paid,", "'' is no part of a selection"),
        ("  ", "the selection is empty"),
    ],
)
def test_an_unknown_name_is_an_error_with_the_nearest_names(project, text, message):
    with pytest.raises(RivetError) as caught:
        build_rivet_asset_selection(project, text)
    assert caught.value.code == "RVT-122"
    assert message in str(caught.value)


def test_a_selection_makes_a_job(project):
    job = dg.define_asset_job("marts", build_rivet_asset_selection(project, "1+named"))
    found = dg.Definitions.merge(build_definitions(project), dg.Definitions(jobs=[job])).resolve_job_def("marts")
    assert {node.name for node in found.nodes} == {"shop__scored", "shop__large"}


def test_a_part_of_a_project_selects_only_its_own_joints(project):
    with pytest.raises(RivetError, match="there is no joint 'paid'; known: named"):
        build_rivet_asset_selection(project.part('key:"shop/named"'), "paid")
