"""RivetProjectComponent in a defs folder: attributes, parts of projects, state."""

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster.components.testing import DefsFolderSandbox, create_defs_folder_sandbox
from support.folders import ProjectFolder
from support.shop import SHOP

from rivet_dagster import RivetError, RivetProjectComponent, load_definitions
from rivet_dagster.definitions import component

ADDED = {"dagster/component_origin", "dagster/code_references"}
COMPONENT = "rivet_dagster.RivetProjectComponent"


class Sandbox:
    """A defs folder, with a rivet project beside it."""

    def __init__(self, sandbox: DefsFolderSandbox, sales: ProjectFolder) -> None:
        self.sandbox = sandbox
        self.sales = sales

    def component(self, name: str = "sales", type: str = COMPONENT, **attributes: Any) -> None:
        """Add or replace a component."""
        folder = self.sandbox.defs_folder_path / name
        folder.mkdir(exist_ok=True)
        content = {"type": type, "attributes": {"project": str(self.sales.root), **attributes}}
        (folder / "defs.yaml").write_text(yaml.safe_dump(content))

    def load(self) -> dg.Definitions:
        """Load the definitions of the whole folder."""
        with self.sandbox.build_all_defs() as definitions:
            return definitions

    @property
    def states(self) -> list[Path]:
        """Return the existing state files."""
        return sorted(path for path in self.sandbox.project_root.rglob("*state*") if path.is_file())


@pytest.fixture
def sandbox(tmp_path, monkeypatch) -> Iterator[Sandbox]:
    monkeypatch.delenv("RIVET_PROFILE", raising=False)
    monkeypatch.delenv("DAGSTER_IS_DEV_CLI", raising=False)
    with create_defs_folder_sandbox() as sandbox:
        yield Sandbox(sandbox, ProjectFolder(tmp_path / "sales", SHOP))


@pytest.fixture
def compiled(monkeypatch) -> Callable[[], int]:
    """Count how often a plan is compiled from files."""
    calls = []
    original = component.compile_directory
    monkeypatch.setattr(
        component, "compile_directory", lambda *folder, **options: calls.append(folder) or original(*folder, **options)
    )
    return lambda: len(calls)


def keys(definitions: dg.Definitions) -> set[str]:
    return {key.to_user_string() for asset in definitions.assets or [] for key in asset.keys}


def shown(definitions: dg.Definitions) -> dict[dg.AssetKey, dg.AssetSpec]:
    """Return the specs, without what Dagster adds about the component."""
    specs = definitions.resolve_all_asset_specs()
    return {
        spec.key: spec.replace_attributes(
            kinds=spec.kinds,
            metadata={key: value for key, value in spec.metadata.items() if key not in ADDED},
        )
        for spec in specs
    }


def steps(definitions: dg.Definitions) -> set[str]:
    return {asset.op.name for asset in definitions.assets or []}


def causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def rivet_error(load: Callable[[], object]) -> RivetError:
    """Return the RivetError that caused Dagster's exception."""
    with pytest.raises(Exception) as caught:
        load()
    (found,) = [error for error in causes(caught.value) if isinstance(error, RivetError)]
    return found


def test_introspect_makes_the_component_ask_the_catalogs(sandbox):
    sandbox.sales.write({
        "data/more.csv": "id,amount\n1,2\n",
        "sources/more.yaml": {"type": "source", "catalog": "raw", "table": "more.csv"},
        "joints/most.sql": "SELECT * FROM more",
    })  # fmt: skip
    for attributes, known in (({}, False), ({"introspect": True}, True), ({}, True)):
        sandbox.component(**attributes)
        spec = shown(sandbox.load())[dg.AssetKey("more")]
        assert ("dagster/column_schema" in spec.metadata) is known


# scaffolding


def test_a_scaffolded_component_loads(sandbox):
    path = sandbox.sandbox.scaffold_component(RivetProjectComponent, "sales", {"project_path": str(sandbox.sales.root)})
    assert yaml.safe_load((path / "defs.yaml").read_text())["attributes"]["project"].startswith(
        "{{ context.project_root }}/../"
    )
    assert keys(sandbox.load()) == keys(load_definitions(sandbox.sales.root))


def test_scaffolding_needs_a_directory_with_a_project(sandbox, tmp_path):
    with pytest.raises(RivetError, match=r"RVT-101 there is no rivet.yaml in .*nowhere"):
        sandbox.sandbox.scaffold_component(RivetProjectComponent, "sales", {"project_path": str(tmp_path / "nowhere")})
    assert not list(sandbox.sandbox.defs_folder_path.rglob("defs.yaml"))


# attributes


def test_without_attributes_the_component_equals_load_definitions(sandbox):
    sandbox.component()
    found, whole = sandbox.load(), load_definitions(sandbox.sales.root)
    assert shown(found) == shown(whole)
    assert found.resolve_asset_graph().asset_check_keys == whole.resolve_asset_graph().asset_check_keys
    assert found.executor.name == "threads"
    assert set(found.resources or {}) == {"rivet_engine_spark", "rivet_io_manager"}
    assert found.resolve_job_def("all").name == "all"


@pytest.mark.parametrize(
    "written", ["{{ context.project_root }}/projects/sales", "../../../../projects/sales", "absolute"]
)
def test_the_directory_is_absolute_or_relative_to_the_file(sandbox, written):
    inside = ProjectFolder(sandbox.sandbox.project_root / "projects/sales", SHOP)
    sandbox.component(project=str(inside.root) if written == "absolute" else written)
    (orders,) = [spec for spec in sandbox.load().resolve_all_asset_specs() if spec.key == dg.AssetKey("orders")]
    places = {reference.file_path for reference in orders.metadata["dagster/code_references"].code_references}
    assert str((inside.root / "sources/orders.yaml").resolve()) in places


def test_the_profile_attribute_selects_the_profile(sandbox, monkeypatch):
    profiles = yaml.safe_load((sandbox.sales.root / "profiles.yaml").read_text())
    other = {**profiles["default"], "engines": [{**profiles["default"]["engines"][0], "name": "cluster"}]}
    sandbox.sales.write({"profiles.yaml": {**profiles, "other": other}})
    sandbox.component(profile="other")
    assert "rivet_engine_cluster" in (sandbox.load().resources or {})
    sandbox.component()
    assert "rivet_engine_spark" in (sandbox.load().resources or {})
    monkeypatch.setenv("RIVET_PROFILE", "other")
    assert "rivet_engine_cluster" in (sandbox.load().resources or {})


def test_select_and_exclude_limit_the_assets(sandbox):
    sandbox.component(select="group:marts", exclude='key:"named"')
    found = sandbox.load()
    assert keys(found) == {"large", "large_table"}
    nodes = {node.name for node in found.resolve_job_def("all").nodes}
    assert nodes == {"large", "large_table"}


def test_two_components_may_load_two_parts_of_one_project(sandbox, compiled):
    left = 'group:staging or key:"orders" or key:"named"'
    sandbox.component("left", select=left, automation=False)
    sandbox.component("right", exclude=left)
    found = sandbox.load()
    dg.Definitions.validate_loadable(found)
    assert keys(found) == keys(load_definitions(sandbox.sales.root))
    assert steps(found) == {
        "observe__raw__orders", "observe__raw__customers", "paid", "scored", "named", "large", "large_table",
        "check__customers",
    }  # fmt: skip
    assert {key for key in found.resources or {} if "io_manager" in key} == {
        "rivet_io_manager__customers",
        "rivet_io_manager__orders",
    }
    everything = found.resolve_job_def("all")
    assert {node.name for node in everything.nodes} == {"large", "large_table", "check__customers"}


BLOCK = {
    "schedules": {
        "staging": {"target": "group:staging", "cron_schedule": "0 1 * * *"},
        "marts": {"target": "group:marts", "cron_schedule": "0 2 * * *"},
        "both": {"target": 'group:marts or key:"paid"', "cron_schedule": "0 3 * * *"},
    },
    "observe": {
        "hourly": {"sources": ["orders", "customers"], "cron_schedule": "0 * * * *"},
        "once": {"sources": ["orders"], "cron_schedule": "0 4 * * *"},
    },
    "sensors": {
        "after": {"type": "after_success", "monitored": "group:staging", "target": "group:marts"},
        "moved": {"type": "source_changed", "sources": ["orders"], "target": "group:staging"},
        "clean_up": {"type": "sweep"},
    },
}


@pytest.mark.parametrize(
    ("select", "triggers", "jobs"),
    [
        (
            'group:marts or key:"customers"',
            {"marts", "both", "hourly", "after", "clean_up_failure", "clean_up_canceled"},
            {"both": {"large", "large_table", "check__customers"}, "hourly": {"observe__raw__customers"}},
        ),
        (
            'group:staging or key:"orders"',
            {"staging", "both", "hourly", "once", "moved", "clean_up_failure", "clean_up_canceled"},
            {"both": {"paid"}, "hourly": {"observe__raw__orders"}, "once": {"observe__raw__orders"}},
        ),
    ],
)
def test_a_part_includes_the_entries_of_the_block_that_concern_its_assets(sandbox, select, triggers, jobs):
    manifest = yaml.safe_load((sandbox.sales.root / "rivet.yaml").read_text())
    sandbox.sales.write({"rivet.yaml": {**manifest, "dagster": BLOCK}})
    sandbox.component(select=select)
    found = sandbox.load()
    dg.Definitions.validate_loadable(found)
    assert {trigger.name for trigger in [*(found.schedules or []), *(found.sensors or [])]} == triggers
    for name, expected in jobs.items():
        assert {node.name for node in found.resolve_job_def(name).nodes} == expected


def test_an_error_in_the_block_is_raised_in_every_part(sandbox):
    manifest = yaml.safe_load((sandbox.sales.root / "rivet.yaml").read_text())
    schedules = {"typo": {"target": "group:mart", "cron_schedule": "0 1 * * *"}}
    sandbox.sales.write({"rivet.yaml": {**manifest, "dagster": {"schedules": schedules}}})
    sandbox.component(select="group:staging")
    assert "'group:mart' selects nothing of this project" in str(rivet_error(sandbox.load))


def test_overlapping_parts_are_rejected_by_dagster(sandbox):
    sandbox.component("left", select="group:marts", automation=False)
    sandbox.component("right", select='key:"large"')
    with pytest.raises(dg.DagsterInvalidDefinitionError, match="large"):
        dg.Definitions.validate_loadable(sandbox.load())


def test_translation_changes_the_asset_of_a_joint(sandbox):
    sandbox.component(
        translation={
            "key": "shop/{{ joint.name }}",
            "tags": {"type": "{{ joint.type }}"},
            "metadata": {"table": "{{ joint.table }}", "was": "{{ spec.key.to_user_string() }}"},
        }
    )
    specs = {spec.key.to_user_string(): spec for spec in sandbox.load().resolve_all_asset_specs()}
    assert set(specs) == {f"shop/{name}" for name in keys(load_definitions(sandbox.sales.root))}
    table = specs["shop/large_table"]
    assert table.tags["type"] == "sink"
    assert specs["shop/named"].tags == {"fresh": "", "type": "sql", **kinds(specs["shop/named"])}
    assert (table.metadata["table"], table.metadata["was"]) == ("large", "large_table")
    assert [dep.asset_key.to_user_string() for dep in table.deps] == ["shop/large"]


def kinds(spec: dg.AssetSpec) -> dict[str, str]:
    return {f"dagster/kind/{kind}": "" for kind in spec.kinds}


def test_op_settings_apply_to_every_group(sandbox):
    settings = {"tags": {"team": "sales"}, "pool": "warehouse", "description": "By the shop"}
    sandbox.component(op={**settings, "backfill_policy": {"type": "multi_run", "max_partitions_per_run": 7}})
    daily = "{type: daily, column: day, start: 2024-01-01}"
    sandbox.sales.write({"joints/days.sql": f"-- rivet:partitions: {daily}\nSELECT DATE '2024-01-01' AS day"})
    groups = {asset.op.name: asset for asset in sandbox.load().assets or [] if "team" in asset.op.tags}
    assert set(groups) == {"paid", "scored", "large", "large_table", "days"}
    assert {asset.op.pool for asset in groups.values()} == {"warehouse"}
    assert {asset.op.description for asset in groups.values()} == {"By the shop"}
    policies = {name: asset.backfill_policy for name, asset in groups.items() if asset.backfill_policy}
    assert policies == {"days": dg.BackfillPolicy.multi_run(7)}


def test_a_name_for_the_op_is_rejected(sandbox):
    sandbox.component(op={"name": "sales"})
    assert str(rivet_error(sandbox.load)).startswith("RVT-103 `op` has no `name` ('sales')")


def test_executor_and_automation_can_be_left_out(sandbox):
    sandbox.component(executor=False, automation=False)
    found = sandbox.load()
    assert found.executor is None
    assert not found.jobs
    assert keys(found) == keys(load_definitions(sandbox.sales.root))


def test_an_unknown_attribute_is_an_error_at_its_line(sandbox):
    sandbox.component(selct="group:marts")
    with pytest.raises(Exception) as caught:
        sandbox.load()
    messages = "\n".join(str(error) for error in causes(caught.value))
    assert "defs.yaml:3" in messages
    assert "selct" in messages


def test_a_subclass_overrides_specs_and_execution(sandbox):
    code = """
        import dagster as dg
        from rivet_dagster import RivetProjectComponent

        class Own(RivetProjectComponent):
            def get_asset_spec(self, joint, project):
                return super().get_asset_spec(joint, project).merge_attributes(tags={"own": joint.name})

            def get_asset_check_spec(self, check, joint, project):
                return super().get_asset_check_spec(check, joint, project)._replace(description="ours")

            def execute(self, context, group, pager):
                yield from super().execute(context, group)
    """
    name = sandbox.sandbox.project_name
    (sandbox.sandbox.project_root / "src" / name / "own.py").write_text(textwrap.dedent(code))
    sandbox.component(type=f"{name}.own.Own", translation={"tags": {"and": "{{ spec.tags['own'] }}"}})
    found = dg.Definitions.merge(sandbox.load(), dg.Definitions(resources={"pager": "a pager"}))
    specs = {spec.key.to_user_string(): spec for spec in found.resolve_all_asset_specs()}
    assert (specs["paid"].tags["own"], specs["paid"].tags["and"]) == ("paid", "paid")
    groups = [asset for asset in found.assets or [] if asset.op.name in ("paid", "scored", "large", "large_table")]
    assert all("pager" in asset.required_resource_keys for asset in groups)
    assert {spec.description for asset in groups for spec in asset.check_specs} == {"ours"}


# a project that does not compile


def test_all_errors_of_a_project_are_in_one_exception(sandbox):
    sandbox.sales.write({"joints/bad.sql": "SELECT FROM FROM", "sinks/bad.yaml": {"type": "sink", "upstrem": "x"}})
    sandbox.component()
    error = rivet_error(sandbox.load)
    found = {(d.code, d.file, d.line) for d in error.diagnostics}
    assert {("RVT-315", "joints/bad.sql", 1), ("RVT-203", "sinks/bad.yaml", 2)} <= found
    assert all(str(diagnostic) in str(error) for diagnostic in error.diagnostics)


def test_a_directory_without_a_project_is_reported(sandbox, tmp_path):
    sandbox.component(project=str(tmp_path / "nowhere"))
    assert "nowhere" in str(rivet_error(sandbox.load))


# state


def develop(monkeypatch) -> None:
    """Load like ``dagster dev`` and ``dg`` load a code location."""
    monkeypatch.setenv("DAGSTER_IS_DEV_CLI", "1")


def test_the_plan_is_written_once_and_then_read(sandbox, monkeypatch, compiled):
    sandbox.component(translation={"tags": {"a": "b"}})
    develop(monkeypatch)
    written = sandbox.load()
    assert compiled() == 1
    (state,) = sandbox.states
    assert "RivetProjectComponent" in state.parent.name
    monkeypatch.delenv("DAGSTER_IS_DEV_CLI")
    sandbox.sales.write({"joints/marts/named.sql": "SELECT FROM FROM"})
    read = sandbox.load()
    assert compiled() == 1
    assert shown(read) == shown(written)


def test_without_state_the_project_is_compiled_and_no_state_is_written(sandbox, compiled):
    sandbox.component()
    sandbox.load()
    assert (compiled(), sandbox.states) == (1, [])


def test_a_plan_of_another_version_is_not_used(sandbox, monkeypatch, compiled):
    sandbox.component()
    develop(monkeypatch)
    sandbox.load()
    monkeypatch.delenv("DAGSTER_IS_DEV_CLI")
    (state,) = sandbox.states
    made_by, _, plan = state.read_text().partition("\n")
    state.write_text(f"{made_by}.1\n{plan.replace('orders', 'ordered')}")
    assert "orders" in keys(sandbox.load())
    assert compiled() == 2


def test_a_plan_of_another_profile_is_not_used(sandbox, monkeypatch, compiled):
    profiles = yaml.safe_load((sandbox.sales.root / "profiles.yaml").read_text())
    other = {**profiles["default"], "engines": [{**profiles["default"]["engines"][0], "name": "cluster"}]}
    sandbox.sales.write({"profiles.yaml": {**profiles, "other": other}})
    sandbox.component()
    develop(monkeypatch)
    sandbox.load()
    monkeypatch.delenv("DAGSTER_IS_DEV_CLI")
    monkeypatch.setenv("RIVET_PROFILE", "other")
    assert "rivet_engine_cluster" in (sandbox.load().resources or {})
    assert compiled() == 2


def test_a_plan_with_a_secret_is_stored_redacted_and_compiled_by_each_process(sandbox, monkeypatch, compiled):
    profiles = yaml.safe_load((sandbox.sales.root / "profiles.yaml").read_text())
    profiles["default"]["engines"][0]["config"] = {"spark.hadoop.fs.s3a.secret.key": "hunter2"}
    sandbox.sales.write({"profiles.yaml": profiles})
    sandbox.component()
    develop(monkeypatch)
    sandbox.load()
    (state,) = [path for path in sandbox.states if "rivet_dagster" in path.read_text()]
    assert "hunter2" not in state.read_text()
    monkeypatch.delenv("DAGSTER_IS_DEV_CLI")
    before = compiled()
    assert "orders" in keys(sandbox.load())
    assert compiled() == before + 1


def test_the_state_key_depends_on_the_project_and_the_profile(sandbox, tmp_path):
    assert RivetProjectComponent(project="shop").defs_state_config.key == "RivetProjectComponent[shop]"
    named = RivetProjectComponent(project=tmp_path / "shop", profile="production")
    assert named.defs_state_config.key == "RivetProjectComponent[shop:production]"
    parts = [RivetProjectComponent(project="shop", select=one, exclude="a") for one in (None, "b", "b", "c")]
    assert len({part.defs_state_config.key for part in parts}) == 3
    sandbox.component(
        defs_state={"management_type": "VERSIONED_STATE_STORAGE", "key": "sales", "refresh_if_dev": False}
    )
    with sandbox.sandbox.build_component_tree() as tree:
        (component,) = tree.get_all_components(of_type=RivetProjectComponent)
    config = component.defs_state_config
    assert (config.key, config.management_type.value, config.refresh_if_dev) == (
        "sales",
        "VERSIONED_STATE_STORAGE",
        False,
    )
