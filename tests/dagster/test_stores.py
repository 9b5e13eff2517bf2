"""Sources on S3 as Dagster sees them: sensors, observations, and columns in the definitions. No engine is started."""

import json

import dagster as dg
import pytest
from support.folders import MANIFEST, PROFILES, ProjectFolder, sink
from support.object_store import Bucket, bucket, s3_url
from support.sensors import Ticker, sensor_of

from rivet_dagster import load_definitions
from rivet_dagster.cli.main import main

__all__ = ["bucket", "s3_url"]

SENSORS = {
    "landing": {"type": "files", "source": "orders", "target": 'key:"out"'},
    "moved": {"type": "source_changed", "sources": ["names"], "target": 'key:"out"'},
}
OBSERVED = {"hourly": {"sources": ["names"], "cron_schedule": "0 * * * *"}}


@pytest.fixture
def project(folder, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> ProjectFolder:
    monkeypatch.setenv("S3_KEY", bucket.owner["access_key"])
    monkeypatch.setenv("S3_SECRET", bucket.owner["secret_key"])
    options = {**bucket.options, "access_key": "${S3_KEY}", "secret_key": "${S3_SECRET}"}
    default = PROFILES["default"]
    catalogs = {**default["catalogs"], "raw": bucket.catalog(options=options)}
    bucket.put("raw/names.csv", content="id,name\n1,x\n")
    return folder({
        "profiles.yaml": {"default": {**default, "catalogs": catalogs}},
        "sources/orders.yaml": {
            "type": "source", "catalog": "raw", "table": "orders", "options": {"landing": True, "schema": "id INT"},
        },
        "sources/names.yaml": {"type": "source", "catalog": "raw", "table": "names.csv"},
        "joints/both.sql": "SELECT id, name FROM orders JOIN names USING (id)",
        "sinks/out.yaml": sink("out", "both"),
        "rivet.yaml": {**MANIFEST, "dagster": {"sensors": SENSORS, "observe": OBSERVED}},
    })  # fmt: skip


def test_new_files_request_one_run(project, bucket, instance):
    ticker = Ticker(sensor_of(project.root, "landing"), instance)
    assert ticker.tick() == []
    bucket.put("raw/orders/a.csv", "raw/orders/2026/b.csv", content="1\n")
    assert len(ticker.tick()) == 1
    assert ticker.tick() == []
    bucket.put("raw/orders/a.csv", content="10\n")
    assert len(ticker.tick()) == 1
    bucket.put("raw/orders/_archive/v1/c.csv", "raw/orders/.hidden", content="1\n")
    bucket.delete("raw/orders/2026/b.csv")
    assert ticker.tick() == []
    seen = instance.get_latest_data_version_record(dg.AssetKey("orders"))
    assert seen.asset_observation.tags["dagster/data_version"]


def test_changed_sources_request_one_run_and_a_failed_look_changes_nothing(project, bucket, instance, monkeypatch):
    ticker = Ticker(sensor_of(project.root, "moved"), instance)
    assert (ticker.tick(), ticker.skipped) == ([], "seen for the first time: names")
    bucket.make_older("raw/names.csv")
    assert len(ticker.tick()) == 1
    bucket.delete("raw/names.csv")
    with pytest.raises(Exception, match="RVT-403"):
        ticker.tick()
    bucket.put("raw/names.csv", content="id,name\n1,xy\n")
    assert len(ticker.tick()) == 1
    assert ticker.tick() == []


def test_observations_columns_and_the_doctor(project, bucket, instance, capsys):
    definitions = load_definitions(project.root, introspect=True)
    names = definitions.resolve_asset_graph().get(dg.AssetKey("names"))
    columns = dict(names.metadata)["dagster/column_schema"].columns
    assert [(column.name, column.type) for column in columns] == [("id", "string"), ("name", "string")]
    assert definitions.resolve_job_def("hourly").execute_in_process(instance=instance).success
    assert instance.get_latest_data_version_record(dg.AssetKey("names")) is not None
    assert main(["-p", str(project.root), "compile", "--introspect", "--format", "json"]) == 0
    out = capsys.readouterr().out
    joints = {joint["name"]: joint for joint in json.loads(out)["joints"]}
    assert [field["name"] for field in joints["names"]["schema"]] == ["id", "name"]
    assert bucket.owner["secret_key"] not in out
    main(["-p", str(project.root), "doctor"])
    assert f"s3a://{bucket.name}/raw: can be read" in capsys.readouterr().out
