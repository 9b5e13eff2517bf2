"""Environments of a whole project on Iceberg with Spark, by the command line: run, diff, --changed, merge and drop."""

import json
from copy import deepcopy

import pytest
from support.folders import ProjectFolder, sink, source
from support.iceberg import PACKAGES
from support.iceberg_environments import rows, seen, tables
from support.maven import jars
from support.spark import MASTER
from support.torture import TORTURE

from rivet_dagster.cli.main import main

ORDERS = "id,net\n1,10\n2,20\n3,30\n"
MERGE = {"mode": "merge", "key_columns": ["id"], "on_schema_change": "add"}
NEWER = {"mode": "incremental_append", "watermark_column": "id"}

IDS = {"type": "sql", "sql": "SELECT id FROM orders", "catalog": "lake", "table": "ids", "write_strategy": NEWER}


class Shop:
    """A project that stores all in Iceberg: ``paid`` for two sinks, and a sink that appends what is new."""

    def __init__(self, folder, options, capfd) -> None:
        self.options, self._capfd = options, capfd
        catalogs = {
            "raw": {"type": "filesystem", "path": "data"},
            "lake": {"type": "iceberg", "default-namespace": "shop", **options},
        }
        spark = {"name": "spark", "type": "pyspark", "catalogs": ["raw", "lake"], "options": {"master": MASTER}}
        profile = {"catalogs": catalogs, "engines": [spark], "workspace": "lake"}
        self.folder = ProjectFolder(
            folder,
            {
                "profiles.yaml": {"default": profile, "other": deepcopy(profile)},
                "data/orders.csv": ORDERS,
                "sources/orders.yaml": source("orders.csv", "id INT, net INT"),
                "joints/paid.sql": "SELECT id, net FROM orders",
                "joints/total_out.sql": "-- rivet:catalog: lake\n-- rivet:table: total\n"
                "SELECT sum(net) AS net FROM paid",
                "sinks/paid_out.yaml": sink("paid_orders", "paid", write_strategy=MERGE),
                "joints/ids_out.yaml": IDS,
            },
        )

    def cli(self, *arguments: str) -> tuple[int, str, str]:
        self._capfd.readouterr()
        code = main(["-p", str(self.folder.root), *arguments])
        out, err = self._capfd.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    def run(self, *arguments: str) -> list[str]:
        """Run, and return the groups that have published."""
        code, out, err = self.cli("run", *arguments, "--format", "json")
        found = json.loads(out)
        assert (code, found["success"]) == (0, True), (out, err)
        return sorted(group["name"] for group in found["groups"])

    def diff(self, *joints: str) -> dict[str, dict]:
        code, out, err = self.cli("diff", *joints, "--environment", "pr-7", "--format", "json")
        assert code == 0, err
        return {table["joint"]: table for table in json.loads(out)["tables"]}

    def error(self, *arguments: str) -> str:
        code, _, err = self.cli(*arguments)
        assert code != 0
        return err

    def seen(self) -> dict:
        return seen(self.options, self.folder.root)


@pytest.fixture(params=[("hadoop", "run"), *([("nessie", "group")] if TORTURE else [])], ids="-".join)
def shop(request, tmp_path, application, iceberg_options, capfd, monkeypatch) -> Shop:
    jars(*PACKAGES)
    for name in ("DAGSTER_HOME", "RIVET_PROFILE", "RIVET_ENVIRONMENT"):
        monkeypatch.delenv(name, raising=False)
    kind, publish = request.param
    return Shop(tmp_path / "project", iceberg_options(kind) | {"publish": publish}, capfd)


@pytest.mark.nightly
def test_what_changed_is_built_compared_and_merged(shop, sql_executions):
    assert shop.run() == ["ids_out", "paid", "paid_out", "total_out"]
    assert "RVT-415" in shop.error("diff", "--environment", "pr-7")
    before = shop.seen()
    changed = "SELECT id, CASE id WHEN 2 THEN 21 ELSE net END AS net, id = 1 AS first FROM orders"
    shop.folder.write({"joints/paid.sql": changed})
    assert shop.run("--environment", "pr-7", "--changed") == ["paid", "paid_out", "total_out"]
    assert shop.run("--environment", "pr-7", "ids_out") == ["ids_out"]
    assert shop.seen() == before

    sql_executions.since()
    found = shop.diff()
    assert sql_executions.since() == 3
    logic = {joint: table["changed"] for joint, table in found.items()}
    assert logic == {"paid": "own", "paid_out": "upstream", "total_out": "upstream", "ids_out": "none"}
    assert [(each["column"], each["change"]) for each in found["paid_out"]["schema"]] == [("first", "added")]
    assert found["paid_out"]["rows"] == {"added": 0, "removed": 0, "changed": 1}
    assert found["paid_out"]["samples"]["changed"] == [{"old": {"id": 2, "net": 20}, "new": {"id": 2, "net": 21}}]
    assert found["total_out"]["rows"] == {"added": 1, "removed": 1, "changed": 0}
    assert found["ids_out"]["rows"] == {"added": 0, "removed": 0, "changed": 0}
    sql_executions.since()
    assert list(shop.diff("ids_out")) == ["ids_out"]
    assert sql_executions.since() == 0

    assert "RVT-416" in shop.error("--profile", "other", "run", "--environment", "pr-7", "ids_out")
    assert "RVT-415" in shop.error("environment", "merge", "pr-8")
    assert shop.cli("environment", "merge", "pr-7")[0] == 0
    base = tables(shop.options, shop.folder.root)
    assert rows(base["paid_orders"]) == [(1, 10, True), (2, 21, False), (3, 30, False)]
    assert (rows(base["total"]), rows(base["ids"])) == ([(61,)], [(1,), (2,), (3,)])
    assert "RVT-415" in shop.error("run", "--environment", "pr-7")
    assert shop.cli("run", "--environment", "pr-8", "--changed")[0] == 0

    assert shop.run("--environment", "pr-8", "ids_out") == ["ids_out"]
    shop.folder.write({"data/orders.csv": ORDERS + "4,40\n"})
    assert shop.run("ids_out") == ["ids_out"]
    err = shop.error("environment", "merge", "pr-8")
    assert ("RVT-405" in err, "lake.ids" in err, "environment drop pr-8" in err) == (True, True, True), err
    assert shop.cli("environment", "drop", "pr-8")[0] == 0
    assert json.loads(shop.cli("environment", "list", "--format", "json")[1])["environments"] == []
