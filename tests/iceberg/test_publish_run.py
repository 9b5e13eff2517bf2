"""`publish: run` in Dagster with tables of Iceberg: on Nessie a run is one commit; on an engine without a JVM."""

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable
from support.folders import ProjectFolder, sink
from support.plugins import install
from support.torture import at_length

from rivet_dagster import load_definitions
from rivet_dagster.catalogs.iceberg.settings.connection import connect_catalog
from rivet_dagster.cli.main import main

NAMESPACE = "shop"
GATE = "-- rivet:assert: expression(sql='total < 100', name=gate)"
TABLES = ["orders", "totals", "report"]
JOB = """
from rivet_dagster import load_definitions

def job():
    return load_definitions({root!r}).resolve_job_def("all")
"""


class Shop(ProjectFolder):
    """A project with three tables in a catalog of Iceberg, and another reader of them."""

    def __init__(self, root, options, kinds) -> None:
        own = {"type": "iceberg", **options, "default-namespace": NAMESPACE, "publish": "run"}
        catalogs = {
            "lake": own,
            "folder": {"type": "filesystem", "path": "folder", "publish": "run"},
            "raw": {"type": "filesystem", "path": "data"},
        }
        engine = {"name": "duck", "type": "duck", "catalogs": list(catalogs), "options": {"lakes": {"lake": options}}}
        files = {
            "profiles.yaml": {"default": {"catalogs": catalogs, "engines": [engine], "workspace": "lake"}},
            "sources/numbers.yaml": {"type": "source", "catalog": "raw", "table": "numbers.parquet"},
            "joints/orders.sql": "-- rivet:eager: true\nSELECT n FROM numbers",
            "joints/totals.sql": f"-- rivet:catalog: lake\n{GATE}\nSELECT sum(n) AS total FROM orders",
            "sinks/report.yaml": sink("report", "totals"),
        }
        super().__init__(root, files)
        self.options = options
        self.nessie = kinds

    def give(self, *numbers: int) -> None:
        """Replace the rows of the source."""
        pq.write_table(pa.table({"n": pa.array(numbers, pa.int64())}), self.root / "data/numbers.parquet")

    def contents(self, at: str = "", ref: str | None = None) -> dict[str, dict]:
        """Return the tables at a commit, staging tables too, as the server names them."""
        path = f"trees/{ref or self.options['ref']}{at}/entries"
        entries = self.nessie.call("GET", path, params={"content": "true"})["entries"]
        tables = [entry for entry in entries if entry["type"] == "ICEBERG_TABLE"]
        return {entry["name"]["elements"][-1]: entry["content"] for entry in tables}

    def seen(self, ref: str | None = None) -> dict[str, list]:
        """Return what readers see."""
        if self.nessie is not None:
            current = {name: made for name, made in self.contents(ref=ref).items() if made["snapshotId"] != -1}
            names = [name for name in TABLES if name in current]
            found = {name: StaticTable.from_metadata(current[name]["metadataLocation"]) for name in names}
        else:
            plain = connect_catalog("plain", self.options, self.root)
            names = [name for name in TABLES if plain.table_exists((NAMESPACE, name))]
            found = {name: plain.load_table((NAMESPACE, name)) for name in names}
        rows = {name: table.scan().to_arrow().to_pylist() for name, table in found.items()}
        return {name: sorted(value for row in each for value in row.values()) for name, each in rows.items()}

    def publications(self) -> list[set[str]]:
        """Return the tables that each commit has published, without commits that have published none."""
        history = self.nessie.call("GET", f"trees/{self.options['ref']}/history", params={"max-records": "1000"})
        shown: dict[str, int] = {}
        changes = []
        for entry in reversed(history["logEntries"]):
            tables = self.contents(f"@{entry['commitMeta']['hash']}")
            now = {name: tables[name]["snapshotId"] for name in TABLES if name in tables}
            changes.append({name for name, snapshot in now.items() if snapshot != shown.get(name, -1)})
            shown = now
        return [changed for changed in changes if changed]

    def commits(self) -> list[str]:
        """Return the messages of all commits, the newest first."""
        history = self.nessie.call("GET", f"trees/{self.options['ref']}/history", params={"max-records": "1000"})
        return [entry["commitMeta"]["message"] for entry in history["logEntries"]]

    def staged(self) -> list[str]:
        """Return the tables of which something is staged."""
        catalog = self.runtime.target_catalog("lake")
        return [name for name in TABLES if any(version.state == "staged" for version in catalog.versions(name))]

    def execute(self, instance, **options):
        job = load_definitions(self.root).resolve_job_def("all")
        return job.execute_in_process(instance=instance, raise_on_error=False, **options)


def published(*numbers: int) -> dict[str, list]:
    return {"orders": sorted(numbers), "totals": [sum(numbers)], "report": [sum(numbers)]}


@pytest.fixture
def shop_on(tmp_path, monkeypatch, request, iceberg_options):
    """Return a function that makes the project on a catalog of a kind."""
    for name in ("DAGSTER_HOME", "RIVET_PROFILE", "RIVET_ENVIRONMENT"):
        monkeypatch.delenv(name, raising=False)
    install(monkeypatch, tmp_path / "site", engines={"duck": "support.iceberg_duckdb:IcebergDuckDBEngine"})

    def shop_on(kind: str) -> Shop:
        nessie = request.getfixturevalue("nessie") if kind == "nessie" else None
        return Shop(tmp_path / "project", iceberg_options(kind), nessie)

    return shop_on


@pytest.fixture
def shop(shop_on) -> Shop:
    return shop_on("nessie")


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def checks_of(result) -> dict[str, dg.AssetCheckEvaluation]:
    found = (each for each in result.get_asset_check_evaluations() if each.check_name == "published")
    return {each.asset_key.to_user_string(): each for each in found}


def test_a_run_is_one_commit_and_everybody_is_told_so(shop, instance, capfd):
    shop.give(1, 2)
    result = shop.execute(instance)
    assert result.success
    assert shop.seen() == published(1, 2)
    shop.give(3)
    assert shop.execute(instance).success
    assert shop.publications() == [set(TABLES)] * 2
    assert shop.commits() == ["Publish lake.shop.orders, lake.shop.totals, lake.shop.report"] * 2
    assert shop.staged() == []
    for check in checks_of(result).values():
        assert check.passed
        assert check.metadata["rivet/one_commit"].value is True
        assert check.description == "published with the run: 3 tables, in one commit"
    (step,) = [
        node for node in load_definitions(shop.root).resolve_job_def("all").all_node_defs if node.name == "publish"
    ]
    assert step.description == "Publishes the tables of a run at its end, in one commit"
    assert main(["-p", str(shop.root), "compile"]) == 0
    text = "readers see it when the last step of the run publishes all tables, all of 'lake' in one commit"
    assert capfd.readouterr().out.count(text) == 3
    assert main(["-p", str(shop.root), "compile", "--format", "json"]) == 0
    plan = json.loads(capfd.readouterr().out)
    assert {group["target"]["one_commit"] for group in plan["fused_groups"] if group["target"]} == {True}


def test_a_gate_keeps_back_the_whole_run(shop, capfd):
    shop.give(1, 2)
    assert main(["-p", str(shop.root), "run"]) == 0
    shop.give(300)
    assert main(["-p", str(shop.root), "run"]) == 4
    assert shop.seen() == published(1, 2)
    assert (shop.staged(), len(shop.commits())) == (["orders"], 1)


def test_a_run_over_two_catalogs_is_not_one_commit(shop, instance, capfd):
    shop.write({"sinks/copy.yaml": sink("copy", "totals", catalog="folder")})
    shop.give(1, 2)
    result = shop.execute(instance)
    assert result.success
    assert shop.seen() == published(1, 2)
    assert pq.read_table(shop.root / "folder/copy").to_pylist() == [{"total": 3}]
    assert shop.publications() == [set(TABLES)]
    checks = checks_of(result)
    assert set(checks) == {*TABLES, "copy"}
    for check in checks.values():
        assert check.metadata["rivet/one_commit"].value is False
        assert "one commit for each catalog that can do that, else one table after another" in check.description
    assert main(["-p", str(shop.root), "compile"]) == 0
    told = capfd.readouterr().out
    assert (told.count("all of 'lake' in one commit"), told.count("all tables, one after another")) == (3, 1)


@at_length
@pytest.mark.parametrize(
    ("kind", "moment", "tables"),
    [
        ("nessie", "after the commit", TABLES),
        ("nessie", "before the commit", []),
        ("hadoop", "first iceberg table", ["orders"]),
    ],
)
def test_a_last_step_that_is_killed_is_finished_by_a_re_execution(shop_on, tmp_path, monkeypatch, kind, moment, tables):
    shop = shop_on(kind)
    shop.give(1, 2)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    module = Path(__file__).parents[1] / "support/killed_between_tables.py"
    run_id = str(uuid.uuid4())
    command = [sys.executable, str(module), str(shop.root), run_id, moment]
    done = subprocess.run(command, env=environ, capture_output=True)
    assert done.returncode == -9, done.stderr[-2000:]
    assert shop.seen() == {name: rows for name, rows in published(1, 2).items() if name in tables}
    (tmp_path / "job_killed_on_iceberg.py").write_text(JOB.format(root=str(shop.root)))
    sys.modules.pop("job_killed_on_iceberg", None)
    monkeypatch.syspath_prepend(tmp_path)
    job = dg.build_reconstructable_job("job_killed_on_iceberg", "job", reconstructor_working_directory=str(tmp_path))
    with dg.DagsterInstance.get() as instance:
        instance.report_run_failed(instance.get_run_by_id(run_id))
        again = dg.execute_job(job, instance, reexecution_options=dg.ReexecutionOptions.from_failure(run_id, instance))
        assert again.success
        assert {event.step_key for event in again.filter_events(lambda event: event.is_step_start)} == {"publish"}
        one_commit = {check.metadata["rivet/one_commit"].value for check in checks_of(again).values()}
    assert one_commit == {kind == "nessie"}
    assert shop.seen() == published(1, 2)
    assert shop.staged() == []
    if kind == "nessie":
        assert shop.publications() == [set(TABLES)]
        assert not [name for name in shop.contents() if "__rivet_" in name]


@pytest.mark.nightly
def test_a_run_that_was_overtaken_is_refused_whole(shop, instance):
    shop.give(1, 2)
    assert shop.execute(instance).success

    @dg.asset(deps=["orders"])
    def beside() -> None:
        with dg.DagsterInstance.ephemeral() as other:
            assert shop.execute(other, asset_selection=[dg.AssetKey("orders")]).success

    shop.give(5, 6)
    definitions = dg.Definitions.merge(load_definitions(shop.root), dg.Definitions(assets=[beside]))
    own = dg.Definitions(jobs=[dg.define_asset_job("overtaken")])
    job = dg.Definitions.merge(definitions, own).resolve_job_def("overtaken")
    result = job.execute_in_process(instance=instance, raise_on_error=False)
    assert not result.success
    assert shop.seen() == {**published(1, 2), "orders": [5, 6]}
    assert shop.publications() == [set(TABLES), {"orders"}]
    checks = checks_of(result)
    assert {check.passed for check in checks.values()} == {False}
    assert all("'lake.shop.orders' has been published by another run since" in c.description for c in checks.values())
    catalog = shop.runtime.target_catalog("lake")
    assert {name: sum(v.state == "withheld" for v in catalog.versions(name)) for name in TABLES} == dict.fromkeys(
        TABLES, 1
    )


@at_length
def test_a_run_in_an_environment_publishes_there_in_one_commit(shop, capfd):
    shop.give(1, 2)
    assert main(["-p", str(shop.root), "run"]) == 0
    shop.give(3, 4)
    there = f"rivet_env.{shop.options['ref']}.pr-7"
    assert main(["-p", str(shop.root), "run", "--environment", "pr-7"]) == 0
    assert shop.seen() == published(1, 2)
    assert shop.seen(there) == published(3, 4)
    assert main(["-p", str(shop.root), "environment", "merge", "pr-7"]) == 0
    assert shop.seen() == published(3, 4)
    assert shop.publications() == [set(TABLES)] * 2
    shop.give(300)
    assert main(["-p", str(shop.root), "run", "--environment", "pr-8"]) == 4
    assert main(["-p", str(shop.root), "environment", "merge", "pr-8"]) == 1  # of a run that has only just failed
    assert "RVT-417" in capfd.readouterr().err
    assert shop.seen() == published(3, 4)
