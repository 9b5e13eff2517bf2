"""@rivet_assets: steps that run a function of the user, and several parts of a project."""

import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import dagster as dg
import pytest
from support.shop import SHOP

from rivet_dagster import (
    RivetError,
    RivetGroupRun,
    RivetProject,
    load_definitions,
    rivet_assets,
    rivet_executor,
    rivet_resources,
)


class Pager(dg.ConfigurableResource):
    """A resource that records messages."""

    channel: str

    def send(self, text: str) -> None:
        SENT.append(f"{self.channel}: {text}")


class Settings(dg.Config):
    """The config of a step."""

    owner: str = "nobody"


SENT: list[str] = []


def definitions(project: RivetProject, *assets: list[dg.AssetsDefinition], **resources: Any) -> dg.Definitions:
    return dg.Definitions(
        assets=[asset for some in assets for asset in some],
        resources={**rivet_resources(project), **resources},
        executor=rivet_executor(project),
    )


def plain(context: dg.AssetExecutionContext, group: RivetGroupRun) -> Iterator[Any]:
    yield from group.run(context)


def test_the_decorator_makes_the_same_assets_as_load_definitions(folder):
    root = folder(SHOP).root
    project = RivetProject.load(root)
    own, whole = definitions(project, rivet_assets(project)(plain)), load_definitions(root)
    assert steps(own) == steps(whole)
    assert own.resolve_asset_graph().asset_check_keys == whole.resolve_asset_graph().asset_check_keys
    theirs = {spec.key: spec for spec in whole.resolve_all_asset_specs()}
    assert {spec.key: spec for spec in own.resolve_all_asset_specs()} == theirs
    assert own.resolve_implicit_global_asset_job_def().executor_def is rivet_executor(project)


def test_the_function_gets_its_group_resources_and_config(project, instance):
    shop = project(SHOP)
    rivet = RivetProject.load(shop.root)
    seen: dict[str, Any] = {}

    @rivet_assets(rivet, exclude="group:marts", required_resource_keys={"clock"})
    def staging(context: dg.AssetExecutionContext, group: RivetGroupRun, pager: Pager, config: Settings):
        seen[group.name] = ([joint.name for joint in group.joints], list(group.given), context.resources.clock)
        for event in group.run(context):
            if isinstance(event, dg.MaterializeResult):
                yield event._replace(metadata={**event.metadata, "owner": config.owner})
        pager.send(f"{group.name} is there")

    @rivet_assets(rivet, select="group:marts", exclude='key:"named"')
    def marts(context: dg.AssetExecutionContext, group: RivetGroupRun):
        yield from group.run(context)

    @rivet_assets(rivet, select='key:"named"')
    def named(context: dg.AssetExecutionContext, group: RivetGroupRun):
        yield from group.run(context)

    defs = definitions(rivet, staging, marts, named, pager=Pager(channel="ops"), clock="noon")
    assert steps(defs) == {
        "observe__raw": {"orders", "customers"},
        "paid": {"paid"},
        "scored": {"scored"},
        "named": {"named"},
        "large": {"large"},
        "large_table": {"large_table"},
        "check__customers": set(),
    }
    job = defs.resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(
        instance=instance, run_config={"ops": {"scored": {"config": {"owner": "ada"}}}}, raise_on_error=False
    )
    assert result.success
    made = {event.asset_key.to_user_string(): event.materialization.metadata for event in materializations(result)}
    assert {name: found["owner"].value for name, found in made.items() if "owner" in found} == {
        "paid": "nobody",
        "scored": "ada",
    }
    assert seen == {"paid": (["paid"], [], "noon"), "scored": (["scored"], ["paid"], "noon")}
    assert SENT == ["ops: paid is there", "ops: scored is there"]
    # Joints outside of the part are computed in its query and not stored.
    assert shop.rows("large") == [
        {"id": 2, "amount": 50.0, "name": "Bo"},
        {"id": 3, "amount": 70.0, "name": "Ann"},
    ]
    assert made["named"]["dagster/row_count"].value == 3
    assert {event.check_name for event in result.get_asset_check_evaluations()} == {"not_null_id"}
    assert len(result.get_asset_check_evaluations()) == 2


def test_joints_that_are_not_selected_are_external_dependencies(folder):
    project = RivetProject.load(folder(SHOP).root)
    defs = definitions(project, rivet_assets(project, select='key:"large"')(plain))
    dg.Definitions.validate_loadable(defs)
    graph = defs.resolve_asset_graph()
    assert graph.materializable_asset_keys == {dg.AssetKey("large")}
    # It also depends on what the joint in its group reads, since its rows come from there.
    parents = {key.to_user_string() for key in graph.get(dg.AssetKey("large")).parent_keys}
    assert parents == {"named", "scored", "customers"}
    whole = load_definitions(project.root).resolve_asset_graph()
    assert {key.to_user_string() for key in whole.get(dg.AssetKey("large")).parent_keys} == {"named"}


def test_the_checks_of_a_source_are_selected_with_the_source(folder):
    project = RivetProject.load(folder(SHOP).root)
    with_source = definitions(project, rivet_assets(project, select='key:"customers"')(plain))
    assert steps(with_source) == {"observe__raw__customers": {"customers"}, "check__customers": set()}
    assert steps(definitions(project, rivet_assets(project, select="group:marts")(plain))) == {
        "large": {"named", "large"},
        "large_table": {"large_table"},
    }


def test_step_settings_apply_to_all_groups(folder):
    daily = {"type": "daily", "column": "day", "start": "2024-01-01"}
    project = RivetProject.load(
        folder({**SHOP, "joints/days.sql": f"-- rivet:partitions: {daily}\nSELECT DATE '2024-01-01' AS day"}).root
    )
    policy = dg.BackfillPolicy.multi_run(7)
    assets = rivet_assets(project, op_tags={"team": "sales"}, pool="warehouse", backfill_policy=policy)(plain)
    groups = {asset.op.name: asset for asset in assets if "team" in asset.op.tags}
    assert set(groups) == {"paid", "scored", "large", "large_table", "days"}
    assert {asset.op.pool for asset in groups.values()} == {"warehouse"}
    assert {asset.op.tags["rivet/engine"] for asset in groups.values()} == {"spark"}
    assert {name: asset.backfill_policy for name, asset in groups.items() if asset.backfill_policy} == {"days": policy}


def test_the_engine_tag_cannot_be_overridden(folder):
    project = RivetProject.load(folder(SHOP).root)
    with pytest.raises(RivetError, match=r"RVT-104.*'rivet/engine'"):
        rivet_assets(project, op_tags={"rivet/engine": "other"})(plain)


def test_annotations_may_be_strings(folder):
    """As in a module with `from __future__ import annotations`."""
    text = """
        from __future__ import annotations
        import dagster as dg
        from rivet_dagster import RivetGroupRun, rivet_assets

        class Pager(dg.ConfigurableResource):
            channel: str

        @rivet_assets(project, select="group:marts")
        def marts(context: dg.AssetExecutionContext, group: RivetGroupRun, pager: Pager):
            yield from group.run(context)
    """
    module = ModuleType("marts")
    vars(module)["project"] = RivetProject.load(folder(SHOP).root)
    exec(compile(textwrap.dedent(text), "marts.py", "exec"), vars(module))
    assert all("pager" in asset.required_resource_keys for asset in vars(module)["marts"])


def test_a_function_with_wrong_parameters_is_an_error(folder):
    project = RivetProject.load(folder(SHOP).root)

    def none(): ...
    def no_group(context): ...
    def no_context(group, context): ...
    def untold(context, group, config): ...
    def joint(context, group, paid: Pager): ...
    def several(context, group, *more: Pager): ...
    def named(context, group, **more: Pager): ...

    for body, message in {
        none: "the function 'none' must take `context` and, second, the group",
        no_group: "the function 'no_group' must take `context` and, second, the group",
        no_context: "the function 'no_context' must take `context` and, second, the group",
        untold: "does not say by an annotation what its `config` is",
        joint: "has a parameter named as the joint 'paid'",
        several: "'*more: ",
        named: "'**more: ",
    }.items():
        with pytest.raises(RivetError) as caught:
            rivet_assets(project)(body)
        (diagnostic,) = caught.value.diagnostics
        assert diagnostic.code == "RVT-121"
        assert message in diagnostic.message
        assert (diagnostic.file, diagnostic.line) == (__file__, body.__code__.co_firstlineno)


def test_a_function_that_yields_nothing_fails_its_step(folder, instance):
    project = RivetProject.load(folder(SHOP).root)

    def forgetful(context: dg.AssetExecutionContext, group: RivetGroupRun):
        group.run(context)

    defs = definitions(project, rivet_assets(project, select='key:"paid"')(forgetful))
    job = defs.resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(instance=instance, raise_on_error=False)
    (failure,) = result.get_step_failure_events()
    description = failure.step_failure_data.user_failure_data.description
    assert "RVT-121" in description
    assert "'forgetful' gives nothing" in description


def steps(defs: dg.Definitions) -> dict[str, set[str]]:
    """Return the assets that each step materializes or observes, none for a step that only checks."""
    found: dict[str, set[str]] = {}
    for asset in [*(defs.assets or []), *(defs.asset_checks or [])]:
        found[asset.op.name] = {key.to_user_string() for key in asset.keys}
    return found


def materializations(result):
    return result.get_asset_materialization_events()
