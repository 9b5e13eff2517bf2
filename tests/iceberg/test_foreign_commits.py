"""What is known of a table outlives the commits of other engines, which PyIceberg makes here; one run of a project."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table
from support.folders import ProjectFolder, sink, source
from support.iceberg import PACKAGES, declared
from support.iceberg_environments import NAME as ENVIRONMENT
from support.iceberg_folders import OPTIONS, profiles
from support.iceberg_runs import APPEND, NAMESPACE, TABLE, Work, access_of, lake, written
from support.maven import jars
from support.projects import sink as project_sink
from support.rows_between import NEW, ZONE, Shop

from rivet_dagster.catalogs.iceberg.commits.committing import Changes, commit
from rivet_dagster.catalogs.iceberg.commits.snapshots import SnapshotWriter, new_snapshot_id
from rivet_dagster.catalogs.iceberg.commits.updates import MAIN, set_branch, set_properties
from rivet_dagster.catalogs.iceberg.metadata import last_publication
from rivet_dagster.catalogs.iceberg.opened import OpenedTable
from rivet_dagster.catalogs.iceberg.settings.connection import connect_catalog
from rivet_dagster.cli.main import main
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.writing import publish as publishing
from rivet_dagster.model.inputs import ConsumedFiles, LandedFile, VersionPosition
from rivet_dagster.model.storage import Provenance, Published, Record
from rivet_dagster.model.watermark import Override

LANDED = ConsumedFiles((LandedFile("zone/a.csv", 1, 2),), (LandedFile("zone/0.csv", 1, 1),))
INPUTS = {"zone": LANDED, "customers": VersionPosition("lake", {"customers": "7"})}
CODE = {"orders": "1f"}
FIRST = Work([1, 2, 3], 1, errors=["bad"])


class Place:
    """A table ``orders`` in a catalog of folders, as we and as other engines open it."""

    def __init__(self, root: Path) -> None:
        self.root, self.options = root, declared("hadoop", root / "lake")
        self.catalog = lake(self.options, root)
        self.plain = connect_catalog("plain", self.options, root)

    def table(self, name: str = TABLE) -> Table:
        return self.plain.load_table((NAMESPACE, name))

    def publish(self, work: Work, inputs: Mapping[str, Any] = INPUTS, environment: str | None = None) -> Published:
        catalog = self.catalog.in_environment(environment) if environment else self.catalog
        with written(catalog, work, self.root) as transaction:
            return transaction.commit(work.identity, Provenance(inputs, CODE))

    def ids(self) -> list[int]:
        return sorted(self.table().scan().to_arrow()["id"].to_pylist())

    def messages(self, environment: str | None = None) -> list[str]:
        catalog = self.catalog.in_environment(environment) if environment else self.catalog
        relation = catalog.errors_of(catalog.current(TABLE))
        found = access_of(catalog).catalog.load_table(relation.identifier[1:])
        return sorted(found.scan(snapshot_id=relation.snapshot).to_arrow()["message"].to_pylist())

    def compact(self, name: str = TABLE) -> None:
        """Make a snapshot with the same rows, as engines that rewrite files do."""

        def changes(found: Table) -> Changes:
            current, new = found.current_snapshot(), new_snapshot_id()
            writer = SnapshotWriter(found.io, found.metadata, new, current)
            added = writer._snapshot(current.manifests(found.io), {"total-records": "3"}, "replace", {})
            return Changes((added, set_branch(MAIN, new)), (), (writer,))

        opened = self.catalog.access.open(name)
        commit(OpenedTable(self.plain, opened.name).load, changes, name)

    def expire(self, name: str = TABLE) -> None:
        """Have another engine expire all snapshots but the current one."""
        table = self.table(name)
        current = table.metadata.current_snapshot_id
        old = [s.snapshot_id for s in table.metadata.snapshots if s.snapshot_id != current]
        table.maintenance.expire_snapshots().by_ids(old).commit()

    def forget_metadata(self, name: str = TABLE) -> None:
        """Remove all metadata files but the last, as ``write.metadata.delete-after-commit.enabled`` has it."""
        for entry in self.table(name).metadata.metadata_log:
            Path(entry.metadata_file.removeprefix("file:").replace("///", "/", 1)).unlink()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def assert_known(place: Place, errors: list[str] | None = None) -> Published:
    """Assert that the facts of the first publication hold, and return the current version."""
    current = place.catalog.current(TABLE)
    assert (current.inputs, current.landed, current.code_versions) == (INPUTS, {"zone": LANDED}, CODE)
    assert current.unknown_before is None
    assert place.messages() == (["bad"] if errors is None else errors)
    assert place.catalog.published_by(TABLE, FIRST.identity).identity == FIRST.identity
    return current


def test_facts_hold_after_commits_of_another_engine(place):
    first = place.publish(FIRST)
    place.catalog.override_watermark(first, Override("2026-01-01"))
    place.table().delete("id = 1")
    place.table().append(Work([8], 2).rows)
    place.compact()
    current = assert_known(place)
    assert current.version != first.version
    assert place.catalog.watermark_override(current) == Override("2026-01-01")
    assert (current.identity, current.statistics.rows, current.rows_before) == ("", 3, 2)
    assert current.record == Record(1)  # of the last commit alone
    listed = place.catalog.versions(TABLE)
    assert [(v.identity, v.rows) for v in listed] == [("", 3), ("", 2), (FIRST.identity, 3)]
    assert all(version.inputs == INPUTS for version in listed)

    second = place.publish(Work([9], 3, APPEND, identity="second/orders"), inputs={})
    assert (second.rows_before, second.record.inserted, second.inputs) == (3, 1, {})
    assert place.ids() == [2, 3, 8, 9]
    assert place.catalog.watermark_override(second) is None


def test_a_version_of_another_engine_is_rolled_back_to_with_what_it_was_made_from(place):
    place.publish(FIRST)
    place.table().delete("id = 1")
    foreign = place.catalog.current(TABLE).version
    place.publish(Work([7], 2, identity="second/orders"), inputs={})
    with place.catalog.restage(TABLE, foreign) as transaction:
        back = transaction.commit("rollback")
    assert (place.ids(), back.inputs, back.code_versions) == ([2, 3], INPUTS, CODE)
    assert place.messages() == ["bad"]


def test_a_rollback_by_another_engine_brings_the_facts_of_that_snapshot_back(place):
    first = place.publish(FIRST)
    later = ConsumedFiles((LandedFile("zone/b.csv", 1, 3),), LANDED.files)
    second = place.publish(Work([7], 2, APPEND, identity="second/orders"), inputs={"zone": later})
    place.catalog.override_watermark(second, Override("2026-01-01"))
    place.table().manage_snapshots().rollback_to_snapshot(int(first.version)).commit()
    assert_known(place)
    assert place.catalog.watermark_override(place.catalog.current(TABLE)) is None
    place.table().delete("id = 1")
    assert_known(place)


def test_errors_that_another_engine_deletes_stay_deleted(place):
    place.publish(FIRST.having(errors=["bad", "secret"]))
    place.table(f"{TABLE}__errors").delete("message = 'secret'")
    assert_known(place)
    place.table().delete("id = 1")
    assert_known(place)
    place.compact(f"{TABLE}__errors")
    place.expire(f"{TABLE}__errors")
    assert_known(place)
    assert place.catalog.relation(f"{TABLE}__errors", {}) == place.catalog.errors_of(place.catalog.current(TABLE))


@pytest.mark.parametrize("log", [True, False], ids=["metadata files", "no metadata files"])
@pytest.mark.parametrize("commits", [1, 2])
def test_facts_outlive_the_expiry_of_the_last_publication(place, commits, log):
    place.publish(FIRST)
    before = place.catalog.current(TABLE)
    for number in range(commits):
        place.compact() if number else place.table().delete("id = 1")
    expired = str(place.table().current_snapshot().parent_snapshot_id)
    place.expire()
    if not log:
        place.forget_metadata()
    if commits == 1 or log:
        assert assert_known(place).version != before.version
        return
    # The parent that is gone may have been that of a rollback.
    current = place.catalog.current(TABLE)
    assert (current.inputs, current.code_versions, current.unknown_before) == ({}, {}, expired)
    with pytest.raises(RivetError) as error:
        place.catalog.errors_of(current)
    assert error.value.code == "RVT-420"
    assert expired in str(error.value)
    assert place.catalog.published_by(TABLE, FIRST.identity).inputs == INPUTS
    with place.table().transaction() as change:
        change.set_properties({"rivet.continues": expired})
    assert_known(place)
    place.publish(Work([9], 3, identity="second/orders"), inputs={})
    assert "rivet.continues" not in place.table().properties


@pytest.mark.parametrize("log", [True, False], ids=["metadata files", "no metadata files"])
def test_a_rollback_that_has_expired_is_not_taken_for_the_last_publication(place, log):
    first = place.publish(FIRST)
    place.publish(Work([7], 2, APPEND, identity="second/orders"), inputs={"zone": replace(LANDED, schema="x")})
    place.table().manage_snapshots().rollback_to_snapshot(int(first.version)).commit()
    place.table().delete("id = 1")
    place.expire()
    if log:
        assert_known(place)
    else:
        place.forget_metadata()
        assert place.catalog.current(TABLE).unknown_before == first.version


def test_many_consumed_files_are_found_in_the_metadata_files_alone(place, monkeypatch):
    monkeypatch.setattr(last_publication, "LONGEST", 600)
    place.publish(FIRST)
    assert "a.csv" not in place.table().properties[last_publication.LAST]
    place.table().delete("id = 1")
    place.expire()
    assert_known(place)
    place.forget_metadata()
    assert place.catalog.current(TABLE).unknown_before is not None


def test_an_environment_builds_upon_what_another_engine_has_committed(place):
    place.publish(FIRST)
    place.table().delete("id = 1")
    place.catalog.use_environment(ENVIRONMENT, "default")
    there = place.catalog.in_environment(ENVIRONMENT)
    assert there.current(TABLE).inputs == INPUTS
    mine = {"zone": replace(LANDED, schema="there")}
    place.publish(Work([9], 2, APPEND, errors=["there"], identity="there/orders"), mine, ENVIRONMENT)
    place.table().append(Work([10], 2).rows, branch=f"rivet_env_{ENVIRONMENT}")
    assert (there.current(TABLE).inputs, place.messages(ENVIRONMENT)) == (mine, ["there"])
    assert_known(place)
    there.override_watermark(there.current(TABLE), Override("2026-01-01"))
    (merged,) = place.catalog.merge(ENVIRONMENT)
    assert (place.ids(), merged.inputs, place.messages()) == ([2, 3, 9, 10], mine, ["there"])
    assert place.catalog.watermark_override(merged) == Override("2026-01-01")
    place.table().delete("id = 2")
    place.expire()
    place.forget_metadata()
    assert place.catalog.current(TABLE).inputs == mine


def test_a_table_that_another_engine_has_made_has_no_facts(place):
    place.plain.create_namespace(NAMESPACE)
    table = place.plain.create_table((NAMESPACE, TABLE), FIRST.rows.schema)
    table.append(FIRST.rows)
    table.append(FIRST.rows)
    place.expire()
    current = place.catalog.current(TABLE)
    assert (current.inputs, current.identity, current.unknown_before) == ({}, "", None)


def test_rows_of_a_stored_joint_are_appended_once_when_another_engine_deletes_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(publishing, "PAUSES", ())
    options = declared("hadoop", tmp_path / "lake")
    shop = Shop(tmp_path, ZONE, NEW, project_sink(TABLE, "new", write_strategy="append"), iceberg=options)
    place = connect_catalog("plain", options, tmp_path)

    def ids() -> list[int]:
        return sorted(place.load_table((NAMESPACE, TABLE)).scan().to_arrow()["n"].to_pylist())

    shop.put("a.parquet", 1, 5)
    shop.run("new", TABLE)
    shop.put("b.parquet", 6)
    shop.run("new")
    place.load_table((NAMESPACE, TABLE)).delete("n = 1")
    shop.run(TABLE)
    assert (shop.code(TABLE), ids()) == ("RVT-405", [5, 6])
    place.load_table((NAMESPACE, TABLE)).delete("n = 5")
    shop.run("new", TABLE)
    assert ids() == [6]


@pytest.mark.nightly
def test_a_project_reads_no_file_twice_when_another_engine_deletes_rows_and_expires_snapshots(
    tmp_path, capfd, iceberg_session
):
    jars(*PACKAGES)
    project = ProjectFolder(
        tmp_path,
        {
            "profiles.yaml": profiles(),
            "sources/landed.yaml": source("zone", "id STRING", options={"landing": True, "format": "csv"}),
            "joints/parsed.sql": "SELECT CAST(id AS INT) AS id FROM landed",
            "sinks/out.yaml": sink(TABLE, "parsed", write_strategy="append", on_error="quarantine"),
        },
    )
    plain = connect_catalog("plain", OPTIONS, tmp_path)

    def table(name: str = TABLE) -> Table:
        return plain.load_table((NAMESPACE, name))

    def run() -> tuple[list[int], int]:
        code = main(["-p", str(tmp_path), "run", "--format", "json"])
        printed = capfd.readouterr()
        assert (code, json.loads(printed.out)["success"]) == (0, True), printed
        ids = sorted(table().scan().to_arrow()["id"].to_pylist())
        return ids, table(f"{TABLE}__errors").scan().to_arrow().num_rows

    project.write({"data/zone/a.csv": "id\n1\n5\nx\n"})
    assert run() == ([1, 5], 1)
    project.write({"data/zone/b.csv": "id\n6\n"})
    assert run() == ([1, 5, 6], 1)
    table().delete("id = 1")
    assert run() == ([5, 6], 1)

    table().delete("id = 5")
    older = "older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 1"
    call = f"CALL lake.system.expire_snapshots(table => '{NAMESPACE}.{TABLE}', {older})"
    iceberg_session(lake=OPTIONS).query(call)
    assert len(table().metadata.snapshots) == 1
    assert run() == ([6], 1)


def test_metadata_files_that_the_log_does_not_name_any_more_are_removed(place):
    place.publish(FIRST)
    with place.table().transaction() as change:
        change.set_properties({"write.metadata.previous-versions-max": "2"})
    folder = Path(place.table().metadata_location.removeprefix("file:").replace("///", "/", 1)).parent
    for number in range(3):
        place.publish(Work([number], 3, APPEND, identity=f"run-{number}/orders"), inputs={})
        assert len([*folder.glob("*.metadata.json")]) <= 3
    with place.table().transaction() as change:
        change.set_properties({"write.metadata.delete-after-commit.enabled": "false"})
    place.publish(Work([4], 3, APPEND, identity="run-4/orders"), inputs={})
    assert len([*folder.glob("*.metadata.json")]) > 4


@pytest.mark.parametrize("content", [None, b"", b"Obj\x01" + bytes(60)], ids=["missing", "empty", "other"])
def test_a_damaged_old_snapshot_stops_only_what_needs_it(place, content):
    first = place.publish(FIRST)
    place.publish(Work([7], 3, APPEND, identity="run-1/orders"), inputs={})
    snapshot = place.table().snapshot_by_id(int(first.version))
    file = Path(snapshot.manifest_list.removeprefix("file:").replace("///", "/", 1))
    file.unlink() if content is None else file.write_bytes(content)
    assert place.publish(Work([8], 3, APPEND, identity="run-2/orders"), inputs={}).statistics.rows == 5
    assert place.ids() == [1, 2, 3, 7, 8]
    assert [version.rows for version in place.catalog.versions(TABLE)] == [5, 4, 3]
    assert place.catalog.sweep() == ()
    with pytest.raises(RivetError, match=file.name):
        place.catalog.statistics(first)
    with pytest.raises(RivetError, match=file.name), place.catalog.restage(TABLE, first.version) as transaction:
        transaction.commit("back/orders")
    assert place.ids() == [1, 2, 3, 7, 8]


@pytest.mark.filterwarnings("ignore:Failed to delete old metadata:UserWarning:pyiceberg")
@pytest.mark.parametrize("flag", ["true", "perhaps"])
def test_old_metadata_files_that_cannot_be_removed_fail_no_commit(place, monkeypatch, flag):
    place.publish(FIRST)
    properties = {"write.metadata.previous-versions-max": "1", "write.metadata.delete-after-commit.enabled": flag}
    location = place.table().location()
    table = place.table()
    changes = Changes(set_properties(properties))
    commit(lambda: table.refresh(), lambda found: changes, TABLE)
    delete, tried = PyArrowFileIO.delete, []

    def refuses(io, path):
        if str(path).endswith(".metadata.json") and location in str(path):
            tried.append(path)
            raise ValueError("not now")
        delete(io, path)

    monkeypatch.setattr(PyArrowFileIO, "delete", refuses)
    published = place.publish(Work([7], 3, APPEND, identity="run-1/orders"), inputs={})
    assert (published.statistics.rows, place.ids()) == (4, [1, 2, 3, 7])
    assert bool(tried) == (flag == "true")
