"""Which declarations mean the same table: by the paths in a profile, and by links on this machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.folders import MANIFEST, PROFILES, ProjectFolder
from support.folders import sink as sink_file
from support.folders import source as source_file
from support.projects import PLUGINS, codes, profile, sink, source, sql

from rivet_dagster import compile_directory
from rivet_dagster.compiler.compilation import compile_project
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.model.joint import Joint
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.project import Project


def compiled(*joints: Joint, other: str = "other", workspace: str = "workspace") -> CompiledAssembly:
    """Compile joints with a second catalog ``other``."""
    found = profile()
    spark = replace(found.engines[0], catalogs=("lake", "other"))
    catalogs = (*found.catalogs, CatalogSpec("other", "filesystem", {"path": other}))
    changed = replace(found, catalogs=catalogs, engines=(spark, *found.engines[1:]), workspace=workspace)
    return compile_project(Project(changed, joints, {}), PLUGINS)


@pytest.mark.parametrize(
    "other",
    [
        "./lake", "lake/", "lake//", "./x/../lake", "a/b/../../lake", "LAKE",  # the folder itself
        "lake/.rivet", "lake/.rivet/report", "lake/report", "lake/report/x",  # a folder within it
    ],
)  # fmt: skip
def test_two_catalogs_over_one_folder_are_one_table(other: str) -> None:
    plan = compiled(
        source("raw"), sink("report", "raw"), sink("two", "raw", catalog="other", table="Report"), other=other
    )
    (error,) = (error for error in plan.errors if error.code == "RVT-310")
    assert error.joint == "two"
    assert error.message == "sink 'report' writes the table lake.report already, and other.Report shares its folder"


@pytest.mark.parametrize(
    "other", ["lake2", "../lake", "/lake", "file:lake", "lake/.rivet/x", "${LAKE}/..", "~/../lake"]
)
def test_two_folders_are_two_tables(other: str) -> None:
    assert compiled(source("raw"), sink("a", "raw"), sink("b", "raw", catalog="other", table="a"), other=other).success


STORED = sql("orders", "SELECT * FROM raw", eager=True)


@pytest.mark.parametrize(("workspace", "catalog"), [("lake", "lake"), ("workspace", "other")])
def test_a_stored_joint_and_a_sink_must_not_share_a_table(workspace: str, catalog: str) -> None:
    last = sql("total", "SELECT count(*) AS n FROM raw")  # without a reader it is stored, too
    sinks = [sink(f"to_{name.lower()}", "orders", catalog=catalog, table=name) for name in ("orders", "Total", "raw_")]
    plan = compiled(source("raw"), STORED, last, *sinks, other="./.rivet/workspace/", workspace=workspace)
    assert [(error.code, error.joint) for error in plan.errors] == [("RVT-310", "to_orders"), ("RVT-310", "to_total")]
    assert plan.errors[0].message.startswith(f"the joint 'orders' is stored between groups as {workspace}.orders")
    fused = sql("orders", "SELECT * FROM raw")
    assert compiled(source("raw"), fused, sinks[0], other="./.rivet/workspace/", workspace=workspace).success


def test_an_external_asset_and_a_sink_must_not_share_a_table() -> None:
    for catalog, table, wrong in (("other", "_asset_x", ["RVT-310"]), ("lake", "_asset_x", []), ("other", "_x", [])):
        plan = compiled(source("raw"), sink("s", "raw", catalog=catalog, table=table), other=".rivet/workspace")
        assert codes(plan) == wrong


@pytest.mark.parametrize(
    ("table", "is_read"),
    [
        ("report", True), ("Report/", True), ("./report", True), (".", True), ("*", True), ("rep*t", True),
        ("{x,report}", True), ("report/part-*.parquet", True), (".rivet/report/00000001-5be2f7c3", True),
        ("../lake", True), ("../lake/report", True), ("../*/report", True), ("x/../report", True),
        ("*.csv", False), ("reports", False), ("x/report", False), ("report.csv", False), ("/report", False),
        (".rivet/reports", False), ("../lake/x", False), ("[!r]*", False),
    ],
)  # fmt: skip
def test_a_source_must_not_read_a_table_of_a_sink(table: str, is_read: bool) -> None:
    plan = compiled(source("raw", table="raw/x"), source("old", table=table), sink("report", "raw"))
    assert [(error.code, error.joint) for error in plan.errors] == [("RVT-310", "old")] * is_read
    assert all("what the sink 'report' writes" in error.message for error in plan.errors)
    assert all(error.message.endswith(": read raw instead") for error in plan.errors)


def test_a_landing_zone_that_a_sink_writes_to_is_told_once() -> None:
    """The sink is not told as another source that reads the files."""
    options = {"schema": "id INT", "landing": True, "archive": True}
    plan = compiled(source("raw", table="drop", options=options), sink("out", "raw", table="drop"))
    assert [(error.code, error.joint) for error in plan.errors] == [("RVT-310", "raw")]


def test_a_source_must_not_read_a_stored_joint_but_hidden_folders_do_not_count() -> None:
    plan = compiled(source("raw"), STORED, source("old", catalog="other", table="orders"), other=".rivet/workspace")
    (error,) = plan.errors
    stored = "other.orders holds what is stored of the joint 'orders' as workspace.orders: read orders instead"
    assert (error.joint, error.message) == ("old", stored)
    assert compiled(source("raw"), STORED, source("all", catalog="other", table="*"), other=".").success


def test_an_archived_landing_zone_cannot_be_read_by_another_source() -> None:
    zone = source("zone", table="in", options={"landing": True, "archive": True})
    for catalog, table, shared in (
        ("other", "in", True), ("lake", "in/*.csv", True), ("lake", ".", True), ("lake", "inn", False),
    ):  # fmt: skip
        plan = compiled(zone, source("again", catalog=catalog, table=table), other="./lake")
        assert codes(plan) == ["RVT-321"] * shared


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    """Write a project with two sinks, the second in a catalog on another path."""
    files = {
        "rivet.yaml": MANIFEST,
        "sources/raw.yaml": source_file("raw", "id INT"),
        "sinks/report.yaml": sink_file("report", "raw"),
        "sinks/two.yaml": {**sink_file("report", "raw"), "catalog": "other"},
    }
    (tmp_path / "project/lake").mkdir(parents=True)
    return ProjectFolder(tmp_path / "project", files)


def errors_with(folder: ProjectFolder, path: str) -> list[str]:
    default = PROFILES["default"]
    catalogs = {**default["catalogs"], "other": {"type": "filesystem", "path": path}}
    engines = [{**engine, "catalogs": [*engine["catalogs"], "other"]} for engine in default["engines"]]
    folder.write({"profiles.yaml": {"default": {**default, "catalogs": catalogs, "engines": engines}}})
    return codes(compile_directory(folder.root, environ={"LAKE": "lake"}))


def test_paths_that_depend_on_the_machine_count_too(folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    root = folder.root
    (root / "link").symlink_to("lake")
    (root / "lake/.rivet").mkdir()
    (root / "versions").symlink_to("lake/.rivet")
    monkeypatch.setenv("HOME", str(root))
    lake = root.resolve() / "lake"
    one = ["link", "versions", "${LAKE}", "../project/lake", "~/lake", f"{lake}", f"file://{lake}", f"file:{lake}/"]
    assert [path for path in one if errors_with(folder, path) != ["RVT-310"]] == []
    assert errors_with(folder, "${LAKE}2") == []
    assert errors_with(folder, f"{lake}") == ["RVT-310"]
    assert str(root) not in str(compile_directory(root).errors[0])


def test_links_to_a_table_of_a_sink_count_too(folder: ProjectFolder) -> None:
    (folder.root / "lake/report").mkdir()
    (folder.root / "old").symlink_to("lake/report")
    folder.write({"sources/old.yaml": {**source_file("old", "id INT"), "table": "../old"}})
    assert errors_with(folder, "elsewhere") == ["RVT-310"]


def test_an_error_table_behind_a_link_counts_too(folder: ProjectFolder) -> None:
    (folder.root / "link").symlink_to("lake")
    folder.write({"sinks/two.yaml": {**sink_file("report__errors", "raw"), "catalog": "other"}})
    assert errors_with(folder, "link") == []
    folder.write({"sinks/report.yaml": sink_file("report", "raw", on_error="quarantine")})
    assert errors_with(folder, "link") == ["RVT-310"]
