"""`publish: run`: the groups of a run stage, and its last step publishes all or none; on an engine without a JVM."""

import json
import os
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dagster._core.definitions.automation_tick_evaluation_context import build_run_requests
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.api import execute_run
from support.folders import MANIFEST, ProjectFolder, sink
from support.plugins import install
from support.sensors import Ticker, sensor_of
from support.torture import at_length, examples

from rivet_dagster import RivetProject, load_definitions, rivet_assets, rivet_resources
from rivet_dagster.catalogs.filesystem.versions import records
from rivet_dagster.catalogs.filesystem.writes.transaction import FilesystemTransaction
from rivet_dagster.cli.main import main
from rivet_dagster.definitions.resources.rivet_executor import one_process_executor
from rivet_dagster.definitions.resources.steps_in_threads import execute_here
from rivet_dagster.definitions.runs import staged_heartbeats
from rivet_dagster.errors import RivetError

ENGINE = {"name": "duck", "type": "duck", "catalogs": ["lake", "raw"], "concurrency_limit": 2}
CATALOGS = {
    "lake": {"type": "filesystem", "path": "lake", "publish": "run"},
    "raw": {"type": "filesystem", "path": "data"},
}
PROFILES = {"default": {"catalogs": CATALOGS, "engines": [ENGINE], "workspace": "lake"}}
ORDERS = "-- rivet:eager: true\nSELECT n FROM numbers"
GATE = "-- rivet:assert: expression(sql='total < 100', name=gate)"
TOTALS = f"-- rivet:catalog: lake\n{GATE}\nSELECT sum(n) AS total FROM orders"
FILES = {
    "profiles.yaml": PROFILES,
    "sources/numbers.yaml": {"type": "source", "catalog": "raw", "table": "numbers.parquet"},
    "joints/orders.sql": ORDERS,
    "joints/totals.sql": TOTALS,
    "sinks/report.yaml": sink("report", "totals"),
}
TABLES = ["orders", "totals", "report"]
JOB = """
import dagster as dg

from rivet_dagster import load_definitions

def in_processes():
    return load_definitions({root!r}).resolve_job_def("all")

def in_one_process():
    return load_definitions({root!r}, executor=dg.in_process_executor).resolve_job_def("all")
"""


@pytest.fixture
def shop(tmp_path, monkeypatch) -> ProjectFolder:
    for name in ("DAGSTER_HOME", "RIVET_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    install(monkeypatch, tmp_path / "site", engines={"duck": "support.duckdb_engine:DuckDBEngine"})
    return ProjectFolder(tmp_path / "project", FILES)


def given(shop, *numbers: int) -> None:
    """Replace the rows of the source."""
    pq.write_table(pa.table({"n": pa.array(numbers, pa.int64())}), shop.root / "data/numbers.parquet")


def seen(shop) -> dict[str, object]:
    """Return what readers of the base see."""
    found = {name: shop.root / "lake" / name for name in TABLES}
    rows = {name: pq.read_table(path).to_pylist() for name, path in found.items() if path.exists()}
    return {name: sorted(value for row in table for value in row.values()) for name, table in rows.items()}


def published(*numbers: int) -> dict[str, object]:
    return {"orders": sorted(numbers), "totals": [sum(numbers)], "report": [sum(numbers)]}


def staged(shop) -> dict[str, int]:
    """Return how many versions are staged, by table."""
    catalog = shop.runtime.target_catalog("lake")
    count = {name: sum(v.state == "staged" for v in catalog.versions(name)) for name in TABLES}
    return {name: number for name, number in count.items() if number}


def execute(shop, instance, job="all", **options):
    return (
        load_definitions(shop.root)
        .resolve_job_def(job)
        .execute_in_process(instance=instance, raise_on_error=False, **options)
    )


def errors_of(instance, run_id: str) -> list[tuple[str, str | None]]:
    entries = instance.all_logs(run_id, of_type=dg.DagsterEventType.STEP_FAILURE)
    failures = [entry.dagster_event.step_failure_data.user_failure_data for entry in entries]
    records = [f.metadata["rivet/diagnostics"].value for f in failures if f and "rivet/diagnostics" in f.metadata]
    return [(record["code"], record["joint"]) for found in records for record in found]


def test_the_plan_says_how_a_run_publishes(shop, capfd):
    targets = {group.name: group.target for group in shop.assembly.fused_groups if group.target}
    assert {name: target.publish for name, target in targets.items()} == dict.fromkeys(TABLES, "run")
    assert main(["-p", str(shop.root), "compile"]) == 0
    text = "readers see it when the last step of the run publishes all tables, one after another"
    assert capfd.readouterr().out.count(text) == 3
    assert main(["-p", str(shop.root), "compile", "--format", "json"]) == 0
    plan = json.loads(capfd.readouterr().out)
    assert {group["target"]["publish"] for group in plan["fused_groups"] if group["target"]} == {"run"}


def test_the_last_step_publishes_all_tables_of_a_run(shop, instance):
    given(shop, 1, 2)
    assert execute(shop, instance).success
    assert seen(shop) == published(1, 2)
    given(shop, 3, 4)
    result = execute(shop, instance)
    assert seen(shop) == published(3, 4)
    assert staged(shop) == {}
    assert list((shop.root / "lake").rglob("*.alive")) == []
    (made,) = [
        e.materialization for e in result.get_asset_materialization_events() if e.asset_key == dg.AssetKey("orders")
    ]
    assert made.metadata["rivet/staged"].value["version"] == made.metadata["rivet/version"].value
    checks = {evaluation.asset_key.to_user_string(): evaluation for evaluation in result.get_asset_check_evaluations()}
    assert {
        name: (c.passed, c.check_name, c.blocking) for name, c in checks.items() if c.check_name == "published"
    } == dict.fromkeys(("orders", "report", "totals"), (True, "published", False))
    assert checks["orders"].metadata["rivet/version"].value == made.metadata["rivet/version"].value
    assert checks["orders"].metadata["rivet/one_commit"].value is False
    assert "not one commit" in checks["orders"].description


def test_a_gate_keeps_back_the_whole_run(shop, instance):
    given(shop, 1, 2)
    assert execute(shop, instance).success
    given(shop, 300)
    result = execute(shop, instance)
    assert not result.success
    assert seen(shop) == published(1, 2)
    assert staged(shop) == {"orders": 1}
    assert "publish" not in {event.step_key for event in result.get_step_success_events()}


@pytest.mark.parametrize("numbers", [(1, 2), (300,)])
def test_the_report_of_the_command_line(shop, capfd, numbers):
    given(shop, *numbers)
    code = main(["-p", str(shop.root), "run", "--format", "json"])
    report = json.loads(capfd.readouterr().out)
    statuses = {group["name"]: group["status"] for group in report["groups"]}
    rows = {group["name"]: group["rows"] for group in report["groups"]}
    if numbers == (300,):
        assert (code, statuses) == (4, {"orders": "skipped", "totals": "failed", "report": "skipped"})
        assert list(rows.values()) == [{}, {}, {}]
    else:
        assert (code, statuses) == (0, dict.fromkeys(TABLES, "success"))
        assert rows["orders"]["total"] == 2
    assert [check["check"] for check in report["checks"]] == ["gate"]
    assert report["success"] is (code == 0)


def test_a_last_step_that_fails_is_a_failure_that_names_the_tables(shop, capfd):
    given(shop, 1, 2)
    overtaken = RivetError("RVT-405", "'totals' was at 1 when this run began and is at 2 now")
    check = FilesystemTransaction.check_base

    def conflict(transaction):
        if transaction.table == "totals":
            raise overtaken
        check(transaction)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FilesystemTransaction, "check_base", conflict)
        code = main(["-p", str(shop.root), "run", "--format", "json"])
    report = json.loads(capfd.readouterr().out)
    assert code == 1
    assert {group["status"] for group in report["groups"]} == {"failed"}
    assert [group["rows"] for group in report["groups"]] == [{}, {}, {}]
    (error,) = report["errors"]
    assert error["code"] == "RVT-405"
    assert all(f"{name} (0" in error["message"] for name in TABLES)
    assert seen(shop) == {}
    catalog = shop.runtime.target_catalog("lake")
    assert [v.state for name in TABLES for v in catalog.versions(name)] == ["withheld"] * 3
    for name in TABLES:
        (version,) = catalog.versions(name)
        assert main(["-p", str(shop.root), "versions", "publish", name, version.name]) == 0
    assert seen(shop) == published(1, 2)


def test_threads_of_one_process_run_the_last_step(shop, tmp_path):
    """Steps in processes of their own do, too: a re-execution from failure below."""
    given(shop, 1, 2)
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        executor = one_process_executor(RivetProject.load(shop.root))
        job = load_definitions(shop.root, executor=executor).resolve_job_def("all")
        assert execute_here(job, instance, str(uuid.uuid4()), {}, {})
    assert seen(shop) == published(1, 2)
    assert staged(shop) == {}


def test_a_subset_is_published_before_its_run_ends(shop, instance):
    given(shop, 1, 2)
    assert execute(shop, instance, asset_selection=[dg.AssetKey("orders")]).success
    assert seen(shop) == {"orders": [1, 2]}
    result = dg.materialize(
        load_definitions(shop.root).assets,
        instance=instance,
        resources=rivet_resources(RivetProject.load(shop.root)),
        selection=["totals"],
    )
    assert result.success
    assert seen(shop) == {"orders": [1, 2], "totals": [3]}


def test_a_job_of_the_user_publishes_too(shop, instance):
    given(shop, 1, 2)
    own = dg.Definitions(jobs=[dg.define_asset_job("some", dg.AssetSelection.assets("orders", "totals"))])
    job = dg.Definitions.merge(load_definitions(shop.root), own).resolve_job_def("some")
    assert job.execute_in_process(instance=instance).success
    assert seen(shop) == {"orders": [1, 2], "totals": [3]}


@pytest.mark.nightly
def test_dagsters_own_command_publishes_too(shop, tmp_path):
    given(shop, 1, 2)
    (tmp_path / "defs.py").write_text(
        "import dagster as dg\nfrom rivet_dagster import load_definitions\n"
        f"defs = load_definitions({str(shop.root)!r}, executor=dg.in_process_executor)\n"
    )
    home = tmp_path / "home"
    home.mkdir()
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "DAGSTER_HOME": str(home)}
    command = [sys.executable, "-m", "dagster", "asset", "materialize", "-f", "defs.py", "--select"]
    done = subprocess.run([*command, "+totals"], env=environ, cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert seen(shop) == {"orders": [1, 2], "totals": [3]}


def test_a_run_that_leaves_out_the_checks_fails_before_it_computes(shop, instance):
    given(shop, 1, 2)
    some = dg.AssetSelection.assets("orders", "totals").without_checks()
    own = dg.Definitions(jobs=[dg.define_asset_job("some", some)])
    job = dg.Definitions.merge(load_definitions(shop.root), own).resolve_job_def("some")
    result = job.execute_in_process(instance=instance, raise_on_error=False)
    assert not result.success
    assert ("RVT-524", "orders") in errors_of(instance, result.run_id)
    assert (seen(shop), staged(shop)) == ({}, {})


def test_assets_beside_the_project_read_the_rows_of_their_run(shop, instance):
    given(shop, 1, 2)
    assert execute(shop, instance).success
    found: dict[str, object] = {}

    @dg.asset(ins={"orders": dg.AssetIn(input_manager_key="rivet_io_manager")})
    def beside(orders: pa.Table) -> None:
        found["staged"] = sorted(orders["n"].to_pylist())
        found["base"] = seen(shop)

    given(shop, 5, 6)
    definitions = dg.Definitions.merge(load_definitions(shop.root), dg.Definitions(assets=[beside]))
    own = dg.Definitions(jobs=[dg.define_asset_job("with_beside")])
    job = dg.Definitions.merge(definitions, own).resolve_job_def("with_beside")
    assert job.execute_in_process(instance=instance).success
    assert found == {"staged": [5, 6], "base": published(1, 2)}
    assert seen(shop) == published(5, 6)
    assert sorted(
        load_definitions(shop.root).load_asset_value("orders", instance=instance).to_arrow()["n"].to_pylist()
    ) == [5, 6]


def reexecute(job, instance, run_id):
    options = dg.ReexecutionOptions.from_failure(run_id, instance)
    return dg.execute_job(job, instance, reexecution_options=options)


@pytest.fixture
def reconstructable(shop, tmp_path, monkeypatch):
    """Return a function that returns the job for a run, or a re-execution, which reads the project then."""
    (tmp_path / "job_to_execute_again.py").write_text(JOB.format(root=str(shop.root)))
    sys.modules.pop("job_to_execute_again", None)
    monkeypatch.syspath_prepend(tmp_path)

    def job(name="in_one_process"):
        return dg.build_reconstructable_job("job_to_execute_again", name, reconstructor_working_directory=str(tmp_path))

    return job


@at_length
def test_a_re_execution_from_failure_joins_what_its_run_staged(shop, tmp_path, reconstructable):
    """Each step has a process of its own, which knows nothing of what others have staged."""
    given(shop, 300)
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        job = reconstructable("in_processes")
        assert job.get_definition().executor_def.name == "multiprocess"
        failed = dg.execute_job(job, instance)
        assert not failed.success
        assert staged(shop) == {"orders": 1}
        given(shop, 7)  # which `orders` does not read again
        shop.write({"joints/totals.sql": TOTALS.replace("100", "1000")})
        again = reexecute(reconstructable("in_processes"), instance, failed.run_id)
        assert again.success
        steps = {event.step_key for event in again.filter_events(lambda event: event.is_step_start)}
        assert steps == {"totals", "report", "publish"}
        assert seen(shop) == published(300)
        assert staged(shop) == {}


def test_a_re_execution_of_failed_assets_as_in_the_ui_joins_what_its_run_staged(shop, instance):
    given(shop, 300)
    failed = execute(shop, instance)
    shop.write({"joints/totals.sql": TOTALS.replace("100", "1000")})
    plan = instance.get_execution_plan_snapshot(failed.dagster_run.execution_plan_snapshot_id)
    assets, checks = instance.run_domain.get_keys_to_reexecute(failed.run_id, plan)
    assert {key.to_user_string() for key in assets} == {"totals", "report"}
    assert {key.asset_key.to_user_string() for key in checks if key.name == "published"} == set(TABLES)
    executor = one_process_executor(RivetProject.load(shop.root))
    whole = load_definitions(shop.root, executor=executor).resolve_job_def("all")
    job = whole.get_subset(asset_selection=assets, asset_check_selection=checks)
    tags = {"dagster/is_asset_resume_retry": "true"}
    run = instance.create_run_for_job(job, parent_run_id=failed.run_id, root_run_id=failed.run_id, tags=tags)
    events = execute_run(InMemoryJob(job), run, instance, raise_on_error=False)
    assert events.success
    starts = [event.step_key for event in events.filter_events(lambda event: event.is_step_start)]
    assert (set(starts), starts[-1]) == ({"totals", "report", "publish"}, "publish")
    assert seen(shop) == published(300)


def test_a_re_execution_whose_rows_were_swept_says_so(shop, tmp_path, reconstructable):
    given(shop, 300)
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        failed = dg.execute_job(reconstructable(), instance)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(records, "now", lambda table: time.time() + 4000)
            assert len(shop.runtime.catalog("lake").sweep()) == 1
        shop.write({"joints/totals.sql": TOTALS.replace("100", "1000")})
        again = reexecute(reconstructable(), instance, failed.run_id)
        assert not again.success
        assert ("RVT-418", "orders") in errors_of(instance, again.run_id)
        assert seen(shop) == {}


def test_kill_9_between_two_tables_is_finished_by_a_re_execution(shop, tmp_path, reconstructable, monkeypatch):
    given(shop, 1, 2)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    module = Path(__file__).parents[1] / "support/killed_between_tables.py"
    run_id = str(uuid.uuid4())
    done = subprocess.run([sys.executable, str(module), str(shop.root), run_id], env=environ, capture_output=True)
    assert done.returncode == -9, done.stderr[-2000:]
    assert seen(shop) == {"orders": [1, 2]}
    with dg.DagsterInstance.get() as instance:
        instance.report_run_failed(instance.get_run_by_id(run_id))
        again = reexecute(reconstructable(), instance, run_id)
        assert again.success
        assert {event.step_key for event in again.filter_events(lambda event: event.is_step_start)} == {"publish"}
    assert seen(shop) == published(1, 2)
    assert staged(shop) == {}


def test_a_step_that_is_executed_again_alone_does_not_leave_its_rows_unpublished(shop, tmp_path, reconstructable):
    given(shop, 1, 2)
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        run_id = dg.execute_job(reconstructable(), instance).run_id
        given(shop, 3)
        alone = dg.ReexecutionOptions(run_id, step_selection=["orders"])
        result = dg.execute_job(reconstructable(), instance, reexecution_options=alone)
        assert errors_of(instance, result.run_id) == [("RVT-524", "orders")]
        assert seen(shop) == published(1, 2)
        with_last = dg.ReexecutionOptions(run_id, step_selection=["orders", "publish"])
        assert dg.execute_job(reconstructable(), instance, reexecution_options=with_last).success
        assert seen(shop) == published(1, 2) | {"orders": [3]}


def test_heartbeats_go_on_until_the_run_has_ended(shop, instance, monkeypatch):
    monkeypatch.setattr(staged_heartbeats, "SECONDS", 0.05)
    given(shop, 300)
    result = execute(shop, instance)
    assert not result.success
    assert staged(shop) == {"orders": 1}
    deadline = time.monotonic() + 10
    while result.run_id in staged_heartbeats._HEARTBEATS and time.monotonic() < deadline:
        time.sleep(0.05)
    assert result.run_id not in staged_heartbeats._HEARTBEATS
    monkeypatch.setattr(records, "now", lambda table: time.time() + 61)
    assert [name.split("/")[0] for name in shop.runtime.catalog("lake").sweep()] == ["orders"]


def test_a_sweep_from_elsewhere_spares_a_run_that_lives(shop, instance):
    given(shop, 1, 2)

    @dg.asset(deps=["orders"])
    def sweeper() -> None:
        assert staged(shop)["orders"] == 1
        assert shop.runtime.catalog("lake").sweep() == ()

    definitions = dg.Definitions.merge(load_definitions(shop.root), dg.Definitions(assets=[sweeper]))
    own = dg.Definitions(jobs=[dg.define_asset_job("swept")])
    assert dg.Definitions.merge(definitions, own).resolve_job_def("swept").execute_in_process(instance=instance).success
    assert seen(shop) == published(1, 2)


def test_partitions_are_published_with_their_run(shop, instance):
    parts = {"type": "static", "column": "part", "values": ["a", "b", "c"]}
    head = f"-- rivet:eager: true\n-- rivet:partitions: {json.dumps(parts)}\n"
    shop.write({
        "sources/numbers.yaml": {**FILES["sources/numbers.yaml"], "partitions": parts},
        "joints/orders.sql": head + "SELECT part, n FROM numbers",
        "joints/totals.sql": head + "SELECT part, max(n) AS n FROM orders GROUP BY part",
        "sinks/report.yaml": sink("report", "totals", partitions=parts),
    })  # fmt: skip
    table = pa.table({"part": ["a", "b", "c"], "n": pa.array([1, 2, 3], pa.int64())})
    pq.write_table(table, shop.root / "data/numbers.parquet")
    assert execute(shop, instance, "all_static", partition_key="b").success
    assert seen_parts(shop) == {"b"}
    tags = {"dagster/asset_partition_range_start": "a", "dagster/asset_partition_range_end": "c"}
    assert execute(shop, instance, "all_static", tags=tags).success
    assert seen_parts(shop) == {"a", "b", "c"}
    assert staged(shop) == {}


def seen_parts(shop) -> set[str]:
    found = [set(pq.read_table(shop.root / "lake" / name)["part"].to_pylist()) for name in TABLES]
    assert found[0] == found[1] == found[2]
    return found[0]


def test_a_run_in_an_environment_publishes_there(shop, capfd):
    given(shop, 1, 2)
    assert main(["-p", str(shop.root), "run"]) == 0
    given(shop, 3, 4)
    assert main(["-p", str(shop.root), "run", "--environment", "pr-7", "+totals"]) == 0
    assert seen(shop) == published(1, 2)
    links = {name: shop.root / "lake/.rivet/.environments/pr-7" / name for name in TABLES}
    assert sorted(pq.read_table(links["orders"])["n"].to_pylist()) == [3, 4]
    assert not links["report"].exists()
    given(shop, 300)
    assert main(["-p", str(shop.root), "run", "--environment", "pr-7", "+totals"]) == 4
    assert sorted(pq.read_table(links["orders"])["n"].to_pylist()) == [3, 4]
    assert seen(shop) == published(1, 2)
    merge = ["-p", str(shop.root), "environment", "merge", "pr-7"]
    assert main(merge) == 1  # of a run that has only just failed
    assert "RVT-417" in capfd.readouterr().err
    for alive in (shop.root / "lake").rglob("*.alive"):
        os.utime(alive, (time.time() - 61, time.time() - 61))
    assert main(merge) == 0
    assert seen(shop) == published(3, 4) | {"report": [3]}


def test_the_last_step_of_a_run_in_an_environment_is_not_executed_in_the_base(shop, instance, monkeypatch):
    given(shop, 1, 2)
    assert execute(shop, instance).success
    monkeypatch.setenv("RIVET_ENVIRONMENT", "pr-7")
    given(shop, 300)
    failed = execute(shop, instance)
    assert (failed.success, failed.dagster_run.tags["rivet/environment"]) == (False, "pr-7")
    monkeypatch.delenv("RIVET_ENVIRONMENT")
    checks = dg.Definitions(jobs=[dg.define_asset_job("checks", dg.AssetSelection.checks_for_assets("orders"))])
    job = dg.Definitions.merge(load_definitions(shop.root), checks).resolve_job_def("checks")
    (evaluation,) = job.execute_in_process(instance=instance).get_asset_check_evaluations()
    assert evaluation.passed  # what the base was last materialized with is published
    tags = {"rivet/environment": "pr-7"}
    alone = job.execute_in_process(instance=instance, tags=tags, raise_on_error=False)
    assert errors_of(instance, alone.run_id) == [("RVT-523", None)]


def test_parts_of_a_project_are_published_together(shop, instance):
    given(shop, 1, 2)
    project = RivetProject.load(shop.root)

    @rivet_assets(project, select='key:"orders"')
    def first(context: dg.AssetExecutionContext, group):
        yield from group.run(context)

    @rivet_assets(project, exclude='key:"orders"')
    def others(context: dg.AssetExecutionContext, group):
        assert seen(shop) == {}
        yield from group.run(context)

    definitions = dg.Definitions(
        assets=[*first, *others], resources=rivet_resources(project), jobs=[dg.define_asset_job("both")]
    )
    assert definitions.resolve_job_def("both").execute_in_process(instance=instance).success
    assert seen(shop) == published(1, 2)


def test_automation_waits_until_rows_are_published(shop, instance):
    rule = {"target": 'key:"report"', "condition": "eager"}
    shop.write({"rivet.yaml": {**MANIFEST, "dagster": {"automation": [rule]}}})

    class Ticks:
        cursor = None

        def __call__(self) -> int:
            found = dg.evaluate_automation_conditions(
                load_definitions(shop.root), instance, dg.AssetSelection.assets("report"), cursor=self.cursor
            )
            self.cursor = found.cursor
            return found.total_requested

    tick = Ticks()
    assert tick() == 0
    given(shop, 300)
    shop.write({"joints/totals.sql": TOTALS.replace("100", "1000")})
    only = [dg.AssetKey("orders"), dg.AssetKey("totals")]

    def fails(*_):
        raise RivetError("RVT-404", "no space")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FilesystemTransaction, "commit", fails)
        assert not execute(shop, instance, asset_selection=only).success
    assert tick() == 0
    assert tick() == 0
    assert execute(shop, instance, asset_selection=only).success
    assert tick() == 1


@pytest.mark.nightly
def test_the_events_that_a_step_reads_do_not_grow_with_the_tables_of_the_run(shop, instance, monkeypatch):
    """In one process, which has staged the tables itself."""
    read, all_logs = [], dg.DagsterInstance.all_logs

    def counted(self, run_id, of_type=None):
        entries = all_logs(self, run_id, of_type)
        read.extend(entries)
        return entries

    monkeypatch.setattr(dg.DagsterInstance, "all_logs", counted)

    def events(count: int) -> int:
        shop.write({f"joints/totals_{i}.sql": TOTALS.replace("gate", f"gate_{i}") for i in range(count)})
        given(shop, 1, 2)
        read.clear()
        assert execute(shop, instance).success
        assert staged(shop) == {}
        return len(read)

    few, many = events(2), events(12)
    assert many - few == 3 * 10  # of each table the materialization and both planned checks, once


def test_the_condition_of_a_joint_names_what_it_reads_alone(shop):
    """The size of the definitions is linear in the number of joints."""

    def size(count: int) -> int:
        copies = {f"joints/totals_{i}.sql": TOTALS.replace("totals", f"totals_{i}") for i in range(count)}
        rule = {"target": 'key:"report"', "condition": "eager"}
        shop.write({**copies, "rivet.yaml": {**MANIFEST, "dagster": {"automation": [rule]}}})
        specs = {spec.key.to_user_string(): spec for spec in load_definitions(shop.root).resolve_all_asset_specs()}
        return len(dg.serialize_value(specs["report"].automation_condition))

    assert size(0) == size(30)


@pytest.mark.filterwarnings("ignore:Parameter `include_sources`")  # the default of the sensor
def test_a_requested_run_publishes_beside_the_checks_of_a_gated_source(shop, instance):
    """Dagster then names the checks of the run that it requests: the last step is among them."""
    gate = {"assertions": [{"type": "not_null", "columns": ["n"], "name": "gate"}]}
    rule = {"target": "*", "condition": "eager"}
    shop.write({
        "rivet.yaml": {**MANIFEST, "dagster": {"automation": [rule]}},
        "sources/numbers.yaml": {**FILES["sources/numbers.yaml"], "quality": gate},
    })  # fmt: skip
    given(shop, 1, 2)
    definitions = load_definitions(shop.root)
    graph = definitions.resolve_asset_graph()
    everything = dg.AssetSelection.all(include_sources=True) | dg.AssetSelection.all_asset_checks()
    found = dg.evaluate_automation_conditions(definitions, instance, everything)
    subsets = [result.true_subset for result in found.results if result.true_subset.size]
    (request,) = build_run_requests(subsets, graph, {}, emit_backfills=False)
    assert {key.to_user_string() for key in request.asset_selection} == set(TABLES)
    names = {(key.asset_key.to_user_string(), key.name) for key in request.asset_check_keys}
    assert names == {("numbers", "gate"), ("totals", "gate"), *((name, "published") for name in TABLES)}
    asked = dg.AssetSelection.assets(*request.asset_selection).without_checks()
    asked |= dg.AssetSelection.checks(*request.asset_check_keys)
    own = dg.Definitions(jobs=[dg.define_asset_job("asked", asked)])
    job = dg.Definitions.merge(definitions, own).resolve_job_def("asked")
    assert job.execute_in_process(instance=instance).success
    assert seen(shop) == published(1, 2)
    again = dg.evaluate_automation_conditions(definitions, instance, everything, cursor=found.cursor)
    assert again.total_requested == 0
    tags = {"dagster/data_version": "new"}
    instance.report_runless_asset_event(dg.AssetObservation("numbers", tags=tags))
    later = dg.evaluate_automation_conditions(definitions, instance, everything, cursor=again.cursor)
    assert {key.to_user_string() for key in graph.get_all_asset_keys() if later.get_num_requested(key)} == set(TABLES)
    assert later.total_requested == 2 * len(TABLES) + 1


def test_a_sensor_waits_until_rows_are_published(shop, instance):
    sensor = {"type": "after_success", "monitored": 'key:"totals"', "target": 'key:"report"'}
    shop.write({"rivet.yaml": {**MANIFEST, "dagster": {"sensors": {"after": sensor}}}})
    ticker = Ticker(sensor_of(shop.root, "after"), instance)
    given(shop, 1)
    only = [dg.AssetKey("orders"), dg.AssetKey("totals")]

    def fails(*_):
        raise RivetError("RVT-404", "no space")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FilesystemTransaction, "commit", fails)
        assert not execute(shop, instance, asset_selection=only).success
    assert ticker.tick() == []
    assert execute(shop, instance, asset_selection=only).success
    assert len(ticker.tick()) == 1
    assert ticker.tick() == []


def test_checks_alone_tell_whether_the_last_materialization_is_published(shop, instance):
    given(shop, 1)
    assert execute(shop, instance).success
    checks = dg.Definitions(jobs=[dg.define_asset_job("checks", dg.AssetSelection.checks_for_assets("orders"))])
    job = dg.Definitions.merge(load_definitions(shop.root), checks).resolve_job_def("checks")

    def passed() -> bool:
        (evaluation,) = job.execute_in_process(instance=instance).get_asset_check_evaluations()
        return evaluation.passed

    assert passed()
    given(shop, 300)
    assert not execute(shop, instance).success
    assert not passed()
    assert seen(shop) == published(1)


def test_a_reader_sees_two_tables_apart_only_while_the_last_step_publishes(shop, instance):
    given(shop, 1)
    assert execute(shop, instance).success
    torn: list[float] = []
    polls: list[float] = []
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            at = time.time()
            first, second = (os.path.realpath(shop.root / "lake" / name) for name in ("orders", "totals"))
            orders = sum(pq.read_table(first)["n"].to_pylist())
            if pq.read_table(second)["total"].to_pylist() != [orders]:
                torn.append(at)
            polls.append(at)

    reader = threading.Thread(target=read)
    reader.start()
    spans = []
    try:
        for number in range(2, examples(5, 8)):
            given(shop, number)
            result = execute(shop, instance)
            assert result.success
            times = {
                entry.dagster_event.event_type: entry.timestamp
                for entry in instance.all_logs(result.run_id)
                if entry.dagster_event is not None and entry.dagster_event.step_key == "publish"
            }
            spans.append((times[dg.DagsterEventType.STEP_START], times[dg.DagsterEventType.STEP_SUCCESS]))
    finally:
        ended.set()
        reader.join()
    assert len(polls) > 5
    assert [at for at in torn if not any(start - 0.1 <= at <= end for start, end in spans)] == []
