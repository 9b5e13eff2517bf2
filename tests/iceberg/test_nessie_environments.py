"""Environments of a whole project on Nessie, looked at by PyIceberg's own reader of metadata files."""

import json
import signal

import pytest
from pyiceberg.table import StaticTable
from support.folders import ProjectFolder, sink, source
from support.iceberg import PACKAGES, declared
from support.iceberg_environments import NAME, all_works, nessie_merge_killed_before_a_change, rows, tables
from support.iceberg_runs import lake
from support.killing import PROCESSES, ended, start
from support.maven import jars
from support.spark import MASTER

from rivet_dagster.catalogs.iceberg.nessie.server import NessieServer
from rivet_dagster.cli.main import main

COLUMNS = "id INT, amount STRING"
FIRST = "id,amount\n1,10\n2,x\n"
SECOND = "id,amount\n2,20\n3,30\n4,y\n"


class Shop:
    """A project with two sinks on Nessie, one of them with an error table, and a reader of the server's branches."""

    def __init__(self, folder, options, nessie, capfd) -> None:
        self.nessie, self.ref, self._capfd = nessie, options["ref"], capfd
        catalogs = {
            "raw": {"type": "filesystem", "path": "data"},
            "lake": {"type": "iceberg", "default-namespace": "shop", **options},
        }
        spark = {"name": "spark", "type": "pyspark", "catalogs": ["raw", "lake"], "options": {"master": MASTER}}
        self.folder = ProjectFolder(
            folder,
            {
                "profiles.yaml": {"default": {"catalogs": catalogs, "engines": [spark]}},
                "data/orders.csv": FIRST,
                "sources/orders.yaml": source("orders.csv", COLUMNS),
                "joints/amounts.sql": "SELECT id, CAST(amount AS INT) AS amount FROM orders",
                "sinks/amounts_table.yaml": sink(
                    "amounts", "amounts", on_error="quarantine", write_strategy={"mode": "merge", "key_columns": ["id"]}
                ),
                "joints/ids.sql": "SELECT id FROM orders",
                "sinks/ids_table.yaml": sink("ids", "ids", write_strategy="append"),
            },
        )

    def cli(self, *arguments: str) -> tuple[int, str, str]:
        self._capfd.readouterr()
        code = main(["-p", str(self.folder.root), *arguments])
        out, err = self._capfd.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    def run(self, *arguments: str) -> None:
        code, out, err = self.cli("run", *arguments, "--format", "json")
        assert (code, json.loads(out)["success"]) == (0, True), (out, err)

    def contents(self, branch: str | None = None) -> dict[str, str]:
        """Return the metadata files of a branch by table, as the server itself names them."""
        entries = self.nessie.call("GET", f"trees/{branch or self.ref}/entries", params={"content": "true"})["entries"]
        tables = [entry["content"] | {"name": entry["name"]["elements"][-1]} for entry in entries]
        return {each["name"]: each["metadataLocation"] for each in tables if each["type"] == "ICEBERG_TABLE"}

    def rows(self, table: str, branch: str | None = None) -> list[tuple]:
        """Return the rows of a table as any reader of a branch sees them."""
        found = StaticTable.from_metadata(self.contents(branch)[table]).scan().to_arrow()
        return sorted(tuple(row.values()) for row in found.to_pylist())

    def commits(self) -> int:
        return len(self.nessie.call("GET", f"trees/{self.ref}/history")["logEntries"])


@pytest.fixture
def shop(tmp_path, application, nessie, iceberg_options, capfd, monkeypatch) -> Shop:
    jars(*PACKAGES)
    for name in ("DAGSTER_HOME", "RIVET_PROFILE", "RIVET_ENVIRONMENT"):
        monkeypatch.delenv(name, raising=False)
    return Shop(tmp_path / "project", iceberg_options("nessie"), nessie, capfd)


def test_a_run_in_an_environment_a_merge_and_a_drop(shop):
    shop.run()
    assert (shop.rows("amounts"), shop.rows("ids")) == ([(1, 10)], [(1,), (2,)])
    shop.folder.write({"data/orders.csv": SECOND})
    before, there = shop.contents(), f"rivet_env.{shop.ref}.pr-7"
    shop.run("--environment", "pr-7", "ids_table")
    shop.run("--environment", "pr-7", "amounts_table")
    assert shop.contents() == before
    assert shop.rows("amounts", there) == [(1, 10), (2, 20), (3, 30)]
    assert shop.rows("ids", there) == [(1,), (2,), (2,), (3,), (4,)]
    listed = json.loads(shop.cli("environment", "list", "--format", "json")[1])["environments"]
    assert [(one["name"], one["tables"]) for one in listed] == [("pr-7", ["lake.amounts", "lake.ids"])]

    commits = shop.commits()
    assert shop.cli("environment", "merge", "pr-7")[0] == 0
    assert shop.commits() == commits + 1
    assert shop.rows("amounts") == [(1, 10), (2, 20), (3, 30)]
    assert shop.rows("ids") == [(1,), (2,), (2,), (3,), (4,)]
    assert [row[-1] for row in shop.rows("amounts__errors")]
    assert there not in shop.nessie.branches()
    assert shop.cli("run", "--environment", "pr-7")[0] == 1

    shop.run("--environment", "pr-8", "ids_table")
    shop.run("ids_table")
    code, _, err = shop.cli("environment", "merge", "pr-8")
    assert (code, "RVT-405" in err, "lake.ids" in err) == (1, True, True), err
    assert shop.cli("environment", "drop", "pr-8")[0] == 0
    assert {name for name in shop.nessie.branches() if f".{shop.ref}." in name} == {f"rivet_merged.{shop.ref}.pr-7"}


def test_an_interrupted_merge_is_finished_by_the_next_one(shop, monkeypatch):
    shop.run()
    shop.run("--environment", "pr-7", "ids_table")
    original = NessieServer.make

    def dies(server, name, source, type_="BRANCH"):
        if type_ == "TAG":
            raise KeyboardInterrupt
        return original(server, name, source, type_)

    with monkeypatch.context() as patch:
        patch.setattr(NessieServer, "make", dies)
        assert shop.cli("environment", "merge", "pr-7")[0] != 0
    rows, commits = shop.rows("ids"), shop.commits()
    assert rows == [(1,), (1,), (2,), (2,)]
    assert shop.cli("run", "--environment", "pr-7")[0] == 1
    assert shop.cli("environment", "merge", "pr-7")[0] == 0
    assert (shop.rows("ids"), shop.commits()) == (rows, commits)
    assert f"rivet_env.{shop.ref}.pr-7" not in shop.nessie.branches()


def test_a_merge_is_refused_if_the_base_moves_after_it_was_judged(shop, monkeypatch):
    shop.run()
    shop.run("--environment", "pr-7", "ids_table")
    original = NessieServer.make

    def overtaken(server, name, source, type_="BRANCH"):
        made = original(server, name, source, type_)
        if name.startswith("rivet_merge."):
            shop.run("ids_table")
        return made

    with monkeypatch.context() as patch:
        patch.setattr(NessieServer, "make", overtaken)
        code, _, err = shop.cli("environment", "merge", "pr-7")
    assert (code, "RVT-405" in err) == (1, True), err
    assert shop.rows("ids") == [(1,), (1,), (2,), (2,)]
    assert shop.cli("environment", "drop", "pr-7")[0] == 0
    assert not [name for name in shop.nessie.branches() if f".{shop.ref}." in name]


def test_a_kill_before_each_change_of_a_merge(nessie, tmp_path):
    """Readers of the base see all tables or none, and the same command finishes it."""
    killed, at = [], 0
    while True:
        options = declared("nessie", tmp_path / str(at), nessie=nessie)
        all_works(lake(options, tmp_path), tmp_path)
        before, commits = rows_of(options, tmp_path), commits_of(nessie, options)
        steps, code = killed_merge(options, tmp_path, at)
        if code == 0:
            break
        assert (code, len(steps)) == (-signal.SIGKILL, at + 1)
        catalog, found = lake(options, tmp_path), rows_of(options, tmp_path)
        killed.append((steps[-1].split()[0], found))
        assert found in (before, MERGED), steps[-1]
        if catalog.is_merged(NAME):
            assert [environment.name for environment in catalog.environments()] == []
        else:
            published = catalog.merge(NAME)
            assert len(published) == len(MERGED), steps[-1]
        assert rows_of(options, tmp_path) == MERGED, steps[-1]
        assert commits_of(nessie, options) == commits + 1, steps[-1]
        assert {name for name in nessie.branches() if f".{options['ref']}." in name} == {
            f"rivet_merged.{options['ref']}.{NAME}"
        }
        at += 1
    assert rows_of(options, tmp_path) == MERGED
    assert {kind for kind, _ in killed} == {"POST", "DELETE"}
    assert [found == MERGED for _, found in killed] == sorted(found == MERGED for _, found in killed)
    assert (killed[0][1], killed[-1][1]) == (before, MERGED)


MERGED = {"orders": [(3, 2, 2), (4, 2, 2)], "more": [(3, 2), (4, 2)]}


def rows_of(options, root) -> dict[str, list[tuple]]:
    return {name: rows(table) for name, table in tables(options, root).items() if not name.endswith("__errors")}


def commits_of(nessie, options) -> int:
    return len(nessie.call("GET", f"trees/{options['ref']}/history")["logEntries"])


def killed_merge(options, root, at: int) -> tuple[list[str], int | None]:
    """Kill a merge before its change number ``at`` of the server; return its changes and its exit code."""
    test, child = PROCESSES.Pipe(duplex=False)
    process = start(nessie_merge_killed_before_a_change, child, options, root, at)
    child.close()
    steps = []
    while True:
        try:
            steps.append(test.recv())
        except EOFError:
            return steps, ended(process)
