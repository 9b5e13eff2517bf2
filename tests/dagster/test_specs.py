"""Specs from a plan and a translator: the keys that a translator gets, and that nothing else is needed."""

from dataclasses import FrozenInstanceError
from pathlib import Path

import dagster as dg
import pytest
from support.projects import compile_joints, sink, source, sql

from rivet_dagster import DagsterRivetTranslator, RivetError, RivetProject, TranslationContext
from rivet_dagster.definitions.specs.translator import asset_specs

ROOT = Path("/somewhere")


def relationship(to):
    return {"assertions": [{"type": "relationship", "column": "customer", "to": to}]}


@pytest.fixture
def plan():
    """Checks of ``orders`` read ``zeta``, those of the source ``late`` read ``orders``; ``other`` is external."""
    return compile_joints(
        source("raw"),
        source("other", catalog="dagster", table="shop/other"),
        source("late", quality=relationship("orders.customer")),
        sql("zeta", "SELECT id FROM raw"),
        sql("orders", "SELECT id, customer FROM raw", quality=relationship("zeta.id")),
        sql("both", "SELECT o.id FROM orders o JOIN other USING (id)"),
        sink("out", "both"),
        sink("copy", "late"),
    ).raise_errors()


class Recorder(DagsterRivetTranslator):
    """A translator with other keys that records its arguments."""

    def __init__(self):
        self.known = {}
        self.contexts = []

    def get_asset_spec(self, joint, project):
        self.contexts.append(project)
        self.known[joint.name] = set(project.asset_keys)
        spec = super().get_asset_spec(joint, project)
        return spec.replace_attributes(key=["own", joint.name.upper()])


def test_a_translator_gets_the_keys_of_everything_that_a_joint_depends_on(plan):
    recorder = Recorder()
    asset_specs(plan, ROOT, recorder)
    for joint in plan.joints:
        if joint.name != "other":
            waits_for = {*joint.upstream, *(name for check in joint.checks for name in check.reads)}
            assert waits_for <= recorder.known[joint.name]
            assert joint.name not in recorder.known[joint.name]
    assert "other" in recorder.known["raw"]


def test_a_key_from_a_translator_is_used_in_dependencies_and_checks(plan):
    specs = asset_specs(plan, ROOT, Recorder())
    assert {name: key.to_user_string() for name, key in specs.keys.items()} == {
        "raw": "own/RAW", "other": "shop/other", "late": "own/LATE", "zeta": "own/ZETA", "orders": "own/ORDERS",
        "both": "own/BOTH", "out": "own/OUT", "copy": "own/COPY",
    }  # fmt: skip
    assert "other" not in specs.joints
    deps = {name: {dep.asset_key.to_user_string() for dep in spec.deps} for name, spec in specs.joints.items()}
    assert deps["orders"] == {"own/RAW", "own/ZETA"}
    assert deps["both"] == {"own/ORDERS", "shop/other"}
    assert deps["late"] == set()
    reads = {
        key: {dep.asset_key.to_user_string() for dep in spec.additional_deps} for key, spec in specs.checks.items()
    }
    assert reads == {
        ("orders", "relationship_customer"): {"own/ZETA"},
        ("late", "relationship_customer"): {"own/ORDERS"},
    }
    assert specs.checks["late", "relationship_customer"].asset_key == dg.AssetKey(["own", "LATE"])


def test_the_specs_depend_on_nothing_but_plan_translator_and_directory(plan):
    before, after = (asset_specs(plan, ROOT, DagsterRivetTranslator()) for _ in range(2))
    assert (before.keys, before.joints, before.checks) == (after.keys, after.joints, after.checks)


def test_the_translation_context_is_read_only(plan):
    recorder = Recorder()
    asset_specs(plan, ROOT, recorder)
    context = recorder.contexts[0]
    assert isinstance(context, TranslationContext)
    assert (context.assembly, context.root) == (plan, ROOT)
    assert context.keys(["both", "other"]) == [dg.AssetKey(["own", "BOTH"]), dg.AssetKey(["shop", "other"])]
    with pytest.raises(FrozenInstanceError):
        context.root = Path("/elsewhere")
    with pytest.raises(TypeError):
        context.asset_keys["both"] = dg.AssetKey("mine")
    with pytest.raises(RivetError, match="RVT-306"):
        context.key("nobody")


def test_a_project_is_immutable(plan):
    project = RivetProject.of(plan, ROOT, DagsterRivetTranslator())
    part = project.part('key:"orders"')
    apart = part.apart()
    assert (part.selected, apart.selected) == ({"orders"}, {"orders"})
    assert project.selected == part.whole.selected == {joint.name for joint in plan.joints}
    assert (project.io_manager_key, apart.io_manager_key) == ("rivet_io_manager", "rivet_io_manager__orders")
    assert part.specs is project.specs
    with pytest.raises(FrozenInstanceError):
        project.selected = frozenset()
