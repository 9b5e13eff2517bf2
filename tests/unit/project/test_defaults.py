"""The block ``defaults`` of rivet.yaml: which joints it concerns, what wins, and its errors."""

from __future__ import annotations

import json

import pytest
import yaml
from support.folders import MANIFEST, PROFILES, ProjectFolder, source

from rivet_dagster import compile_directory
from rivet_dagster.cli.main import main
from rivet_dagster.errors import RivetError

TWO_ENGINES = {
    "default": {
        **PROFILES["default"],
        "default_engine": "spark",
        "engines": [*PROFILES["default"]["engines"], {**PROFILES["default"]["engines"][0], "name": "large"}],
    }
}
ORDERS = {
    "profiles.yaml": TWO_ENGINES,
    "data/orders.csv": "id\n1\n",
    "sources/orders.yaml": source("orders.csv", "id BIGINT"),
    "joints/plain.sql": "SELECT id FROM orders",
    "joints/marts/paid.sql": "-- rivet:tags: [own]\nSELECT id FROM orders",
    "joints/marts/deep/few.sql": "SELECT id FROM orders",
    "sinks/out.yaml": "type: sink\ncatalog: lake\nupstream: [few, paid, plain]\n",
}


@pytest.fixture
def compiled(tmp_path):
    """Return a function that compiles the orders with a block of defaults."""

    def compile_(defaults, files=()):
        manifest = yaml.safe_dump({**MANIFEST, "defaults": defaults}, sort_keys=False)
        ProjectFolder(tmp_path, {**ORDERS, **dict(files), "rivet.yaml": manifest})
        return compile_directory(tmp_path)

    return compile_


def refused(compiled, defaults, files=()):
    with pytest.raises(RivetError) as raised:
        compiled(defaults, files).raise_errors()
    return raised.value.diagnostics


def test_a_key_without_a_value_has_no_default(compiled):
    """A joint, or a folder, can stand apart from what a catalog for all publishes."""
    files = {
        "joints/marts/paid.sql": "-- rivet:catalog: null\n-- rivet:owners: null\nSELECT id FROM orders",
        "joints/marts/own.yaml": "type: sql\ncatalog:\nsql: SELECT id FROM orders\n",
        "sinks/out.yaml": "type: sink\ntable: out\nupstream: [few, paid, plain, own]\n",
    }
    blocks = {"joints/marts/deep": {"catalog": None, "write_strategy": None}}
    plan = compiled(
        {"catalog": "lake", "owners": "team:all", "write_strategy": "append", **blocks}, files
    ).raise_errors()
    sql = [joint for joint in plan.joints if joint.type == "sql"]
    assert {joint.name for joint in sql if "catalog" in joint.defaults} == {"plain"}
    targets = {joint.name: plan.target(joint.name) for joint in sql}
    assert {name for name, target in targets.items() if target is not None and target.declared} == {"plain"}
    assert plan.joint("paid").owners == ()
    assert plan.joint("few").owners == plan.joint("own").owners == ("team:all",)
    assert {name: mode.split(":")[-1] for name, mode in plan.joint("plain").defaults.items()}.keys() == {
        "catalog",
        "owners",
        "write_strategy",
    }


def test_the_nearest_wins_and_the_joint_itself_always(compiled):
    blocks = {"joints/marts": {"tags": ["marts"], "owners": "team:marts"}, "joints/marts/deep": {"tags": ["deep"]}}
    sink = {"sinks/out.yaml": "type: sink\ncatalog: lake\ntable: out\nupstream: [few, paid, plain]\n"}
    plan = compiled({"tags": ["all"], "options": {"retries": 2}, **blocks}, sink).raise_errors()
    joints = {name: plan.joint(name) for name in ("orders", "plain", "paid", "few", "out")}
    assert {name: list(joint.tags) for name, joint in joints.items()} == {
        "orders": ["all"],
        "plain": ["all"],
        "paid": ["own"],
        "few": ["deep"],
        "out": ["all"],
    }
    assert (joints["few"].owners, joints["paid"].owners, joints["plain"].owners) == (("team:marts",),) * 2 + ((),)
    # What a step is for has no meaning on a source.
    assert [joint.step.retries for joint in joints.values()] == [0, 2, 2, 2, 2]
    lines = (plan.joint("few").defaults[key].rpartition(":") for key in ("tags", "owners", "options"))
    defaults = {"tags": ["all"], "options": {"retries": 2}, **blocks}
    text = yaml.safe_dump({**MANIFEST, "defaults": defaults}, sort_keys=False)
    found = [text.splitlines()[int(line) - 1].strip() for _, _, line in lines]
    assert found == ["tags:", "owners: team:marts", "options:"]


def test_values_are_replaced_and_not_merged(compiled):
    own = {"sinks/out.yaml": "type: sink\ncatalog: lake\ntable: out\nupstream: plain\noptions: {compression: zstd}\n"}
    plan = compiled({"options": {"retries": 2, "compression": "gzip"}}, own).raise_errors()
    assert plan.joint("out").step.retries == 0
    assert (plan.target("out").options, plan.joint("plain").step.retries) == ({"compression": "zstd"}, 2)


def test_a_default_may_be_what_a_joint_needs(compiled, tmp_path, capsys):
    sink = {"sinks/out.yaml": "type: sink\ntable: out\nupstream: plain\n"}
    plan = compiled({"sinks": {"catalog": "lake"}, "joints/marts": {"engine": "large", "eager": True}}, sink)
    assert (plan.success, plan.joint("out").catalog, plan.joint("paid").engine) == (True, "lake", "large")
    before = plan.joint("plain").code_version, plan.joint("out").code_version
    changed = compiled({"sinks": {"catalog": "lake", "write_strategy": "append"}}, sink)
    assert changed.joint("plain").code_version == before[0]
    assert changed.joint("out").code_version != before[1]
    assert main(["compile", "-p", str(tmp_path)]) == 0
    assert "    default write_strategy from rivet.yaml:8: out" in capsys.readouterr().out.splitlines()
    assert main(["compile", "-p", str(tmp_path), "--format", "json"]) == 0
    joints = {joint["name"]: joint for joint in json.loads(capsys.readouterr().out)["joints"]}
    assert joints["out"]["defaults"] == {"catalog": "rivet.yaml:7", "write_strategy": "rivet.yaml:8"}


@pytest.mark.parametrize(
    ("defaults", "code", "line", "words"),
    [
        ({"engin": "spark"}, "RVT-103", 6, "'engin' is no key of a joint; did you mean 'engine'?"),
        ({"joints/mart": {"eager": True}}, "RVT-108", 6, "there is no folder 'joints/mart'"),
        (
            {"joints/marts": {"eagr": True}},
            "RVT-103",
            7,
            "`defaults` of joints/marts: unknown key 'eagr'; did you mean",
        ),
        ({"name": "x"}, "RVT-103", 6, "`name`: each joint has its own"),
        ({"eager": "soon"}, "RVT-204", 6, "`defaults`: `eager` must be true or false"),
        ({"joints": {"options": {"retries": -1}}}, "RVT-204", 8, "`retries`"),
        ([], "RVT-104", 5, "`defaults` must be a mapping"),
    ],
)
def test_wrong_defaults_are_told_at_their_line(compiled, defaults, code, line, words):
    (error, *others) = refused(compiled, defaults)
    assert (error.code, error.file, error.line, others) == (code, "rivet.yaml", line, [])
    assert words in error.message


def test_a_catalog_publishes_the_joints_of_a_folder(compiled):
    blocks = {
        "joints/marts": {
            "catalog": "lake",
            "write_strategy": {"mode": "append", "on_empty": "skip"},
            "options": {"retries": 2, "compression": "zstd"},
        }
    }
    own = {
        "sinks/out.yaml": "type: sink\ncatalog: lake\ntable: out\nupstream: plain\n",
        "joints/marts/deep/few.py": "# rivet:table: fewer\ndef transform(orders): ...\n",
        "joints/marts/deep/few.sql": "-- rivet:name: some\nSELECT 1 AS id",
    }
    plan = compiled(blocks, own).raise_errors()
    targets = {name: plan.target(name) for name in ("paid", "few", "some", "out")}
    assert {name: (t.catalog, t.table, t.write.mode) for name, t in targets.items()} == {
        "paid": ("lake", "paid", "append"), "few": ("lake", "fewer", "append"), "some": ("lake", "some", "append"),
        "out": ("lake", "out", "replace"),
    }  # fmt: skip
    assert {name for name, target in targets.items() if target.options == {"compression": "zstd"}} == {
        "paid", "few", "some",
    }  # fmt: skip
    assert plan.joint("paid").defaults.keys() == {"catalog", "write_strategy", "options"}


def test_what_tables_have_does_not_concern_joints_without_one(compiled):
    sink = {"sinks/out.yaml": "type: sink\ncatalog: lake\ntable: out\nupstream: [few, paid, plain]\n"}
    plan = compiled({"write_strategy": "append", "options": {"retries": 2, "compression": "zstd"}}, sink)
    (group,) = [group for group in plan.raise_errors().fused_groups if group.target is not None]
    assert (group.name, group.target.write.mode, group.target.options) == ("out", "append", {"compression": "zstd"})
    assert plan.joint("plain").defaults.keys() == {"options"}
