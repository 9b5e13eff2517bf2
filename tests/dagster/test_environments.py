"""Environments of whole projects: on the command line and in Dagster, on an engine that needs no JVM."""

import io
import json
import shutil
import threading
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.environments import content
from support.folders import ProjectFolder, in_order, sink
from support.plugins import install

from rivet_dagster import load_definitions
from rivet_dagster.catalogs.environments.catalog import HasEnvironments
from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from rivet_dagster.cli.main import main
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.environments import use_environment
from rivet_dagster.execution.group_run import run_group
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.execution.writing.external_assets import store_external_asset

TAG = "rivet/environment"
CATALOGS = {
    "raw": {"type": "filesystem", "path": "data"},
    "lake": {"type": "filesystem", "path": "lake"},
}


def parquet(**columns: list[int]) -> bytes:
    """Return a Parquet file of integers."""
    file = io.BytesIO()
    pq.write_table(pa.table({name: pa.array(values, pa.int32()) for name, values in columns.items()}), file)
    return file.getvalue()


def source(table: str, **fields: object) -> dict[str, object]:
    return {"type": "source", "catalog": "raw", "table": table, **fields}


DUCK = {"catalogs": CATALOGS, "engines": [{"name": "duck", "type": "duck", "catalogs": ["raw", "lake"]}]}
SHOP = {
    "profiles.yaml": {"default": DUCK, "other": DUCK},
    "data/orders.parquet": parquet(id=[1, 2], amount=[10, 20]),
    "sources/orders.yaml": source("orders"),
    "joints/cleaned.sql": "-- rivet:eager: true\nSELECT id, amount FROM orders",
    "joints/doubled.sql": "SELECT id, amount * 2 AS amount FROM cleaned",
    "sinks/totals.yaml": sink("totals", "doubled", write_strategy={"mode": "merge", "key_columns": ["id"]}),
    "sinks/history.yaml": sink("history", "cleaned", write_strategy="append"),
    "joints/apart.sql": "SELECT 1 AS one",
    "sinks/apart_table.yaml": sink("apart_table", "apart"),
}


@pytest.fixture(autouse=True)
def base(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DAGSTER_HOME", "RIVET_PROFILE", "RIVET_ENVIRONMENT", "DAGSTER_CLOUD_IS_BRANCH_DEPLOYMENT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def shop(tmp_path, monkeypatch) -> ProjectFolder:
    install(monkeypatch, tmp_path / "site", engines={"duck": "support.duckdb_engine:DuckDBEngine"})
    return ProjectFolder(tmp_path / "project", SHOP)


@pytest.fixture
def cli(capfd, shop):
    """Return a function that runs a command in this process and returns its exit code, stdout and stderr."""

    def cli(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main(["-p", str(shop.root), *arguments])
        out, err = capfd.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    return cli


def run(cli, *arguments: str) -> list[str]:
    """Return the groups that a successful run has run."""
    code, out, err = cli("run", *arguments, "--format", "json")
    report = json.loads(out)
    assert (code, report["success"]) == (0, True), (err, report["errors"])
    return sorted(group["name"] for group in report["groups"])


def seen(shop: ProjectFolder, environment: str | None = None) -> dict[str, list]:
    """Return the rows of all stored joints that readers in an environment see."""
    runtime, found = Runtime(shop.assembly, shop.root, environment=environment), {}
    for group in shop.assembly.fused_groups:
        if group.target is not None:
            catalog = runtime.target_catalog(group.target.catalog)
            current = catalog.current(group.target.table)
            if current is not None:
                rows = [pq.read_table(path).to_pylist() for path in catalog.read(current).paths]
                found[group.name] = in_order(row for part in rows for row in part)
    return found


def storage(shop: ProjectFolder) -> list[dict]:
    return [content(shop.root / "lake"), content(shop.root / ".rivet/workspace")]


def test_a_run_in_an_environment_leaves_the_base_and_its_merge_equals_the_run_on_the_base(shop, cli, tmp_path):
    """Merging, appending and replacing tables, stored intermediates included."""
    everything = ["apart_table", "cleaned", "history", "totals"]
    assert run(cli) == everything
    shop.write({"data/orders.parquet": parquet(id=[2, 3], amount=[21, 30])})
    before, rows = storage(shop), seen(shop)
    assert run(cli, "--environment", "pr-7") == everything
    assert storage(shop) == before
    assert seen(shop) == rows
    there = seen(shop, "pr-7")
    assert there["totals"] == [{"id": 1, "amount": 20}, {"id": 2, "amount": 42}, {"id": 3, "amount": 60}]

    alone = tmp_path / "alone"
    shutil.copytree(shop.root, alone, symlinks=True)
    assert main(["-p", str(alone), "run"]) == 0
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(HasEnvironments, "environments", lambda catalog: pytest.fail("others are looked at"))
        code, out, _ = cli("environment", "merge", "pr-7")
    assert (code, out.splitlines()[-1]) == (0, "pr-7: merged, 4 tables published")
    merged = seen(shop)
    assert merged == there
    assert merged == seen(ProjectFolder(alone, {}))
    for command in (("environment", "merge"), ("environment", "drop"), ("run", "--environment")):
        code, _, err = cli(*command, "pr-7")
        assert code == 1
        assert "RVT-415" in err
        assert "has been merged" in err


def test_only_what_changed_is_run(shop, cli):
    assert run(cli, "--changed") == ["apart_table", "cleaned", "history", "totals"]  # never materialized
    assert run(cli, "--changed") == []
    assert "nothing has changed" in cli("run", "--changed", "--environment", "pr-7")[2]
    shop.write({"joints/doubled.sql": "-- twice\nSELECT id, amount * 2 AS amount  FROM cleaned"})
    assert run(cli, "--changed") == []
    shop.write({"joints/doubled.sql": "SELECT id, amount * 3 AS amount FROM cleaned"})
    for _ in range(2):  # compared with the base, not with the environment
        assert run(cli, "--changed", "--environment", "pr-7") == ["totals"]
    assert seen(shop, "pr-7")["totals"] == [{"id": 1, "amount": 30}, {"id": 2, "amount": 60}]
    assert seen(shop)["totals"] == [{"id": 1, "amount": 20}, {"id": 2, "amount": 40}]
    assert cli("environment", "merge", "pr-7")[0] == 0
    assert run(cli, "--changed", "--environment", "pr-8") == []


def test_what_is_downstream_of_a_change_has_changed(shop, cli):
    run(cli)
    shop.write({"joints/cleaned.sql": "-- rivet:eager: true\nSELECT id, amount FROM orders WHERE id > 1"})
    assert run(cli, "--changed", "--environment", "pr-7") == ["cleaned", "history", "totals"]
    shop.write({"joints/cleaned.sql": SHOP["joints/cleaned.sql"]})
    assert run(cli, "--changed", "--environment", "pr-7") == []
    shop.write({"sources/orders.yaml": source("orders", filter="id > 0")})
    assert run(cli, "--changed", "--environment", "pr-7") == ["cleaned", "history", "totals"]
    assert run(cli, "--changed", "--environment", "pr-7", "history") == ["history"]


def test_a_reader_of_rows_that_were_made_by_other_code_has_changed(shop, cli):
    """Also if what it reads has been made anew since, and its own code is the same."""
    run(cli)
    shop.write({"joints/cleaned.sql": "-- rivet:eager: true\nSELECT id, amount FROM orders WHERE id > 1"})
    run(cli, "cleaned")
    assert run(cli, "--changed", "--environment", "pr-7") == ["history", "totals"]
    run(cli, "history")
    assert run(cli, "--changed", "--environment", "pr-7") == ["totals"]
    run(cli, "totals")
    assert run(cli, "--changed") == []


def test_a_new_reader_changes_nothing_else(shop, cli):
    """Although it has a joint stored that was fused before: that is new, too, but its other reader is the same."""
    run(cli)
    shop.write({"sinks/second.yaml": sink("second", "doubled")})
    assert run(cli, "--changed", "--environment", "pr-7") == ["doubled", "second"]


def test_versions_of_earlier_releases_count_as_changed(shop, cli):
    run(cli)
    for manifest in (shop.root / "lake/.rivet/totals").glob("*-????????.json"):
        fields = json.loads(manifest.read_text())
        assert fields.pop("code_versions")["totals"]
        manifest.write_text(json.dumps(fields))
    assert run(cli, "--changed", "--environment", "pr-7") == ["totals"]


def test_the_environment_of_the_process(shop, cli, monkeypatch):
    run(cli)
    before = storage(shop)
    monkeypatch.setenv("RIVET_ENVIRONMENT", "from_env")
    run(cli, "apart_table")
    run(cli, "apart_table", "--environment", "pr-7")
    monkeypatch.delenv("RIVET_ENVIRONMENT")
    monkeypatch.setenv("DAGSTER_CLOUD_IS_BRANCH_DEPLOYMENT", "1")
    monkeypatch.setenv("DAGSTER_CLOUD_DEPLOYMENT_NAME", "5be2f7c3")
    run(cli, "apart_table")
    assert storage(shop) == before
    code, out, _ = cli("environment", "list", "--format", "json")
    found = json.loads(out)["environments"]
    assert (code, [one["name"] for one in found]) == (0, ["5be2f7c3", "from_env", "pr-7"])
    assert [(one["tables"], one["profile"], one["merging"]) for one in found] == [
        (["lake.apart_table"], "default", False)
    ] * 3
    assert cli("environment", "list")[1].splitlines()[1] == "    lake.apart_table"


def test_commands_in_an_environment(shop, cli):
    run(cli)
    run(cli, "totals", "--environment", "pr-7")
    base, there = (cli("versions", "list", "totals", *where)[1] for where in ((), ("--environment", "pr-7")))
    assert (len([line for line in base.splitlines() if line[0] == "0"]), base in there) == (1, False)
    assert cli("versions", "rollback", "totals", "--environment", "pr-7")[0] == 0
    assert cli("versions", "list", "totals")[1] == base
    assert cli("watermark", "list", "--environment", "pr-7")[0] == 0


def test_create_and_drop(shop, cli):
    assert cli("environment", "list")[1] == "there are no environments\n"
    assert cli("environment", "create", "pr-7")[0] == 0
    assert cli("environment", "create", "pr-7")[0] == 0
    assert cli("environment", "list")[1].startswith("pr-7  0 tables  created 20")
    assert cli("environment", "drop", "pr-7")[:2] == (0, "pr-7 is gone\n")
    code, _, err = cli("environment", "drop", "pr-7")
    assert (code, "there is no environment 'pr-7'" in err) == (1, True)


def test_wrong_names_and_uses(shop, cli):
    cli("environment", "create", "pr-7")
    for arguments in (("run", "--environment", "PR 7"), ("environment", "create", "-7"), ("environment", "merge")):
        assert cli(*arguments)[0] == 10
    assert cli("environment", "list", "pr-7")[0] == 10
    code, _, err = cli("environment", "merge", "pr-8")
    assert (code, "did you mean 'pr-7'?" in err) == (1, True)
    code, _, err = cli("versions", "list", "totals", "--environment", "pr-8")
    assert (code, "did you mean 'pr-7'?" in err) == (1, True)
    code, _, err = cli("run", "--profile", "other", "--environment", "pr-7")
    assert (code, "RVT-416" in err) == (1, True)


def test_help_has_an_example(capsys):
    assert main(["environment", "merge", "--help"]) == 0
    assert "  rivet-dagster environment merge pr-7" in capsys.readouterr().out.splitlines()


def test_a_merge_is_refused_where_the_base_has_moved(shop, cli):
    run(cli)
    run(cli, "--environment", "pr-7")
    run(cli, "history")
    run(cli, "cleaned")
    before = storage(shop)
    code, _, err = cli("environment", "merge", "pr-7")
    assert code == 1
    assert "RVT-405" in err
    assert "lake.history" in err
    assert ".cleaned" in err
    assert "lake.totals" not in err
    assert "run --environment pr-7 --changed" in err
    assert storage(shop) == before


def test_a_merge_that_is_interrupted_between_two_catalogs_is_finished(shop, cli, monkeypatch):
    run(cli)
    run(cli, "--environment", "pr-7")
    there, merge = seen(shop, "pr-7"), FilesystemCatalog.merge

    def interrupted(catalog, name):
        if not catalog.name.startswith("lake"):
            raise KeyboardInterrupt
        return merge(catalog, name)

    with monkeypatch.context() as patched:
        patched.setattr(FilesystemCatalog, "merge", interrupted)
        assert cli("environment", "merge", "pr-7")[0] == 130
    assert "RVT-415" in cli("run", "--environment", "pr-7")[2]
    code, out, _ = cli("environment", "merge", "pr-7")
    assert (code, out.splitlines()[-1]) == (0, "pr-7: merged, 1 table published")
    assert seen(shop) == there
    assert cli("environment", "list")[1] == "there are no environments\n"


def test_what_writes_to_a_catalog_without_environments_is_refused(shop, cli, monkeypatch, tmp_path):
    classes = {"memory": "support.plain_memory:PlainMemory"}
    engines = {"duck": "support.duckdb_engine:DuckDBEngine"}
    install(monkeypatch, tmp_path / "memory", catalogs=classes, engines=engines)
    catalogs = {**CATALOGS, "memory": {"type": "memory"}}
    duck = {"name": "duck", "type": "duck", "catalogs": [*catalogs]}
    shop.write({"profiles.yaml": {"default": {"catalogs": catalogs, "engines": [duck]}}})
    shop.write({"sinks/kept.yaml": {"type": "sink", "catalog": "memory", "table": "kept", "upstream": ["apart"]}})
    code, _, err = cli("run", "--environment", "pr-7")
    assert (code, "RVT-413" in err, "memory" in err) == (1, True, True), err
    assert not (shop.root / "lake/.rivet").exists()
    assert run(cli, "--environment", "pr-7", "history", "+totals")
    with dg.DagsterInstance.ephemeral() as instance:
        monkeypatch.setenv("RIVET_ENVIRONMENT", "pr-9")
        result = job_of(shop, "all").execute_in_process(instance=instance, raise_on_error=False)
        assert not result.success
        assert not list(result.get_asset_materialization_events())


def test_other_assets_are_refused_where_the_workspace_has_no_environments(shop, monkeypatch, tmp_path):
    classes = {"memory": "support.plain_memory:PlainMemory"}
    engines = {"duck": "support.duckdb_engine:DuckDBEngine"}
    install(monkeypatch, tmp_path / "memory", catalogs=classes, engines=engines)
    catalogs = {**CATALOGS, "memory": {"type": "memory"}}
    duck = {"name": "duck", "type": "duck", "catalogs": [*catalogs]}
    profile = {"catalogs": catalogs, "engines": [duck], "workspace": "memory"}
    runtime = shop.write({"profiles.yaml": {"default": profile}}).runtime
    runtime.environment = "pr-7"
    with pytest.raises(RivetError, match="RVT-413 the value of the asset is published in the catalog 'memory'"):
        store_external_asset(runtime, ["mine"], None, pa.table({"id": [1]}), "run")


def job_of(shop: ProjectFolder, name: str) -> dg.JobDefinition:
    return load_definitions(shop.root, executor=dg.in_process_executor).resolve_job_def(name)


def test_every_run_has_the_tag_and_each_materialization_the_metadata(shop, cli, monkeypatch):
    run(cli)
    before = storage(shop)
    with dg.DagsterInstance.ephemeral() as instance:
        for environment in (None, "pr-7"):
            if environment is not None:
                monkeypatch.setenv("RIVET_ENVIRONMENT", environment)
            definitions = load_definitions(shop.root, executor=dg.in_process_executor)
            assert definitions.resolve_job_def("all").tags.get(TAG) == environment
            # Like runs from the UI, whose job knows nothing of environments.
            job = definitions.resolve_implicit_global_asset_job_def()
            result = job.execute_in_process(
                instance=instance, asset_selection=[dg.AssetKey("apart_table"), dg.AssetKey("history")]
            )
            assert result.success
            assert instance.get_run_by_id(result.run_id).tags.get(TAG) == environment
            events = result.get_asset_materialization_events()
            assert len(events) == 2
            for event in events:
                value = event.materialization.metadata.get(TAG)
                assert (value.value if value is not None else None) == environment
            if environment is None:
                before = storage(shop)
            observed = definitions.resolve_implicit_global_asset_job_def().execute_in_process(
                instance=instance, asset_selection=[dg.AssetKey("orders")]
            )
            assert instance.get_run_by_id(observed.run_id).tags.get(TAG) == environment
    assert storage(shop) == before


def test_a_run_of_another_environment_is_refused(shop, cli, monkeypatch):
    """A re-execution has the tags of the first run."""
    run(cli)
    before = storage(shop)
    with dg.DagsterInstance.ephemeral() as instance:
        result = job_of(shop, "all").execute_in_process(instance=instance, tags={TAG: "pr-7"}, raise_on_error=False)
        assert not result.success
        (first, *_) = [event for event in result.all_events if event.is_step_failure]
        assert "RVT-523" in first.step_failure_data.error_display_string
    assert storage(shop) == before


def test_other_assets_are_stored_in_the_environment(shop, monkeypatch):
    @dg.asset(io_manager_key="rivet_io_manager")
    def mine() -> pa.Table:
        return pa.table({"id": [1]})

    with dg.DagsterInstance.ephemeral() as instance:
        for environment in ("pr-7", None):
            if environment is None:
                monkeypatch.delenv("RIVET_ENVIRONMENT")
            else:
                monkeypatch.setenv("RIVET_ENVIRONMENT", environment)
            definitions = dg.Definitions.merge(load_definitions(shop.root), dg.Definitions(assets=[mine]))
            before = storage(shop)
            job = definitions.resolve_implicit_global_asset_job_def()
            result = job.execute_in_process(instance=instance, asset_selection=[dg.AssetKey("mine")])
            assert result.success
            (event,) = result.get_asset_materialization_events()
            assert (TAG in event.materialization.metadata) == (environment is not None)
            assert instance.get_run_by_id(result.run_id).tags.get(TAG) == environment
            assert (storage(shop) == before) == (environment is not None)
        before = storage(shop)
        refused = job.execute_in_process(
            instance=instance, asset_selection=[dg.AssetKey("mine")], tags={TAG: "pr-7"}, raise_on_error=False
        )
        (failure,) = [event for event in refused.all_events if event.is_step_failure]
        assert "RVT-523" in failure.step_failure_data.error_display_string
        assert storage(shop) == before


def test_a_wrong_name_is_an_error_of_the_code_location(shop, monkeypatch):
    monkeypatch.setenv("RIVET_ENVIRONMENT", "Not this")
    with pytest.raises(RivetError, match="RVT-129 RIVET_ENVIRONMENT"):
        RivetProject.load(shop.root)


def test_two_runs_in_two_environments_at_once(shop, cli):
    run(cli)
    before, results = storage(shop), {}

    def work(name: str) -> None:
        runtime = Runtime(shop.assembly, shop.root, environment=name)
        use_environment(runtime)
        for number in range(5):
            group = runtime.assembly.group("history")
            results[name, number] = run_group(runtime, "history", group.joints, f"{name}-{number}/history")

    threads = [threading.Thread(target=work, args=(f"pr-{n}",)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 10
    assert all(result.published.environment == name for (name, _), result in results.items())
    assert storage(shop) == before
    assert [len(seen(shop, name)["history"]) for name in ("pr-0", "pr-1", None)] == [12, 12, 2]


def test_files_of_a_landing_zone_stay_until_the_base_has_read_them(shop, cli):
    zone = source("landing", options={"landing": True, "archive": True})
    shop.write({"data/landing/a.parquet": parquet(id=[1]), "sources/landing.yaml": zone})
    shop.write({"sinks/landed.yaml": sink("landed", "landing", write_strategy="append")})
    run(cli, "landed", "--environment", "pr-7")
    shop.write({"data/landing/b.parquet": parquet(id=[2])})
    run(cli, "landed", "--environment", "pr-7")  # which reads the new file alone
    assert seen(shop, "pr-7")["landed"] == [{"id": 1}, {"id": 2}]
    assert (shop.root / "data/landing/a.parquet").exists()
    run(cli, "landed")
    assert seen(shop)["landed"] == [{"id": 1}, {"id": 2}]
    assert not (shop.root / "data/landing/a.parquet").exists()


def test_rows_that_are_evicted_there_stay_in_the_base(shop, cli):
    shop.write({"joints/cleaned.sql": f"-- rivet:retention: run\n{SHOP['joints/cleaned.sql']}"})
    run(cli, "cleaned")
    before = storage(shop)
    run(cli, "history", "totals", "--environment", "pr-7")
    assert storage(shop) == before
    assert Path(shop.root / ".rivet/workspace/cleaned").exists()
    run(cli, "--environment", "pr-7")
    assert storage(shop) == before
