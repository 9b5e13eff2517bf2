"""Asset specs of a project whose joints run elsewhere."""

import dagster as dg
import pytest
from support.shop import SHOP

from rivet_dagster import Joint, RivetError, RivetProject, build_rivet_asset_specs, load_definitions


@pytest.fixture
def project(folder):
    return RivetProject.load(folder(SHOP).root)


def names(specs):
    return [spec.key.to_user_string() for spec in specs]


def test_specs_cover_all_joints_in_topological_order(project):
    found = names(build_rivet_asset_specs(project))
    assert sorted(found) == ["customers", "large", "large_table", "named", "orders", "paid", "scored"]
    order = ("orders", "paid", "scored", "named", "large", "large_table")
    assert sorted(order, key=found.index) == list(order)


def test_specs_equal_those_of_the_definitions(project):
    loaded = {spec.key: spec for spec in load_definitions(project.root).resolve_all_asset_specs()}
    for spec in build_rivet_asset_specs(project):
        twin = loaded[spec.key]
        assert (spec.group_name, spec.code_version) == (twin.group_name, twin.code_version)
        assert spec.tags == twin.tags
        assert {dep.asset_key for dep in spec.deps} == {dep.asset_key for dep in twin.deps}
        assert spec.metadata.items() <= twin.metadata.items()


def test_select_and_exclude_limit_the_specs(project):
    assert names(build_rivet_asset_specs(project, "group:marts")) == ["named", "large", "large_table"]
    assert names(build_rivet_asset_specs(project, "group:marts", 'key:"large"')) == ["named", "large_table"]
    assert names(build_rivet_asset_specs(project, exclude="group:marts or group:staging")) == ["customers", "orders"]


@pytest.mark.parametrize(
    ("select", "exclude", "message"),
    [
        ("group:mart", None, "'group:mart' selects nothing of this project"),
        ("group:marts", "tag:frsh", "'tag:frsh' selects nothing of this project"),
        ('key:"large"', "tag:fresh", "'key:\"large\"' without 'tag:fresh' selects nothing of this project"),
        ("group:", None, "'group:' is no asset selection"),
    ],
)
def test_a_selection_that_matches_nothing_is_an_error(project, select, exclude, message):
    with pytest.raises(RivetError) as caught:
        build_rivet_asset_specs(project, select, exclude)
    assert caught.value.code == "RVT-115"
    assert message in str(caught.value)


def test_definitions_of_specs_need_nothing_else(project):
    definitions = dg.Definitions(assets=build_rivet_asset_specs(project, "group:marts"))
    dg.Definitions.validate_loadable(definitions)
    graph = definitions.resolve_asset_graph()
    assert graph.get(dg.AssetKey("named")).is_external
    assert dg.AssetKey("scored") in graph.get(dg.AssetKey("named")).parent_keys


OWNERS = (
    "ada@example.org", "a.b_c%d+e-f@x-y.example.info", "A1@B2.CC", "a@b..cc", "a@.bb", "a@b.toolong", "a@b.toolongx",
    "_@b.cc", "a@b.c|d", "a@b.cd|", "a@b..c", "a@b.c", "a@b", "a", "@b.cc", "a@", "a@@b.cc", "a b@c.dd", ".a@b.cc",
    "-a@b.cc",
    "o'brien@example.com", "jörg@example.com", "a@exämple.com", "a@b.cc\n", " a@b.cc", "a@b.c1", "a@b_c.dd",
    "team:x", "team:a b", "team:", "team: ", "teams:x", "Team:x", "team:a\nb",
)  # fmt: skip


def test_owners_are_those_that_dagster_accepts():
    def is_accepted(declare):
        try:
            declare()
        except (RivetError, dg.DagsterError):
            return False
        return True

    ours = {one: is_accepted(lambda: Joint(name="a", type="sql", sql="SELECT 1", owners=[one])) for one in OWNERS}  # noqa: B023
    theirs = {one: is_accepted(lambda: dg.AssetSpec("a", owners=[one])) for one in OWNERS}  # noqa: B023
    assert ours == theirs
    assert set(theirs.values()) == {True, False}
