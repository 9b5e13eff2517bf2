"""Sources of the catalog `dagster`: other Dagster assets, which can only be read."""

import pytest
from support.folders import MANIFEST, ProjectFolder, sink
from support.projects import codes, compile_joints, groups, source, sql
from support.projects import sink as sink_joint

from rivet_dagster import compile_directory
from rivet_dagster.definitions.assets.rivet_assets import source_assets
from rivet_dagster.definitions.jobs import find_target
from rivet_dagster.definitions.load import build_definitions
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.errors import RivetError
from rivet_dagster.model.external_assets import DAGSTER, Part, external_table, key_path


def foreign(table="shop/raw", **fields):
    return source("raw", catalog=DAGSTER, table=table, **fields)


def test_an_external_source_is_fused_and_read_in_place_by_any_engine():
    plan = compile_joints(foreign(), sql("a", "SELECT * FROM raw"), sql("b", "SELECT * FROM raw", engine="other"))
    assert groups(plan) == {"raw": ("raw",), "a": ("a",), "b": ("b",)}
    assert {edge.method for edge in plan.engine_boundaries} == {"native_reference"}
    assert "raw" not in {m.joint for m in plan.materializations}
    assert [spec.name for spec in plan.catalogs] == ["lake", "workspace"]
    assert plan.default_engine == "spark"


@pytest.mark.parametrize("table", ["/raw", "raw/", "a//b", "a/ /b"])
def test_a_table_that_is_no_asset_key_is_an_error(table):
    plan = compile_joints(foreign(table), sql("a", "SELECT * FROM raw"))
    assert codes(plan) == ["RVT-204"]
    with pytest.raises(ValueError):
        key_path(table)


def test_options_sinks_and_own_joints_are_errors_reported_at_once():
    plan = compile_joints(
        foreign("a", options={"header": True, "landing": True}),
        sql("a", "SELECT 1 AS n"),
        sink_joint("out", "a", catalog=DAGSTER, table="shop/out"),
    )
    assert sorted(codes(plan)) == ["RVT-203", "RVT-309", "RVT-310"]
    text = "\n".join(error.message for error in plan.errors)
    assert "no joint can write to it" in text
    assert "`header`, `landing`" in text
    assert "the asset a is the joint 'a' of this project" in text


def test_a_profile_cannot_declare_the_catalog_dagster(tmp_path):
    folder = ProjectFolder(tmp_path, {"joints/a.sql": "SELECT 1 AS n"})
    text = (tmp_path / "profiles.yaml").read_text()
    folder.write({"profiles.yaml": text.replace("    lake:", "    dagster:").replace("- lake", "- dagster")})
    with pytest.raises(RivetError, match=r"RVT-104 profiles.yaml:\d+: .*'dagster' is the built-in catalog"):
        compile_directory(tmp_path)


def test_an_engine_may_list_the_catalog_dagster(tmp_path):
    folder = ProjectFolder(tmp_path, {"joints/a.sql": "SELECT 1 AS n"})
    folder.write({"profiles.yaml": (tmp_path / "profiles.yaml").read_text().replace("- lake", "- lake\n    - dagster")})
    assert compile_directory(tmp_path).success


def test_an_external_source_has_no_asset_of_its_own(tmp_path):
    files = {
        "rivet.yaml": MANIFEST | {"dagster": {"key_prefix": "mine"}},
        "sources/raw.yaml": {"type": "source", "catalog": "dagster", "table": "shop/raw"},
        "sources/again.yaml": {"type": "source", "catalog": "dagster", "table": "shop/raw"},
        "joints/names.sql": "SELECT raw.id FROM raw JOIN again ON raw.id = again.id",
        "sinks/report.yaml": sink("report", "names"),
    }
    project = RivetProject.load(ProjectFolder(tmp_path, files).root)
    assert [key.to_user_string() for key in project.joints] == ["mine/names", "mine/report"]
    assert project.key("raw").to_user_string() == "shop/raw"
    assert [dep.asset_key.to_user_string() for dep in project.spec("names").deps] == ["shop/raw"]
    lineage = project.spec("names").metadata["dagster/column_lineage"].deps_by_column
    assert {dep.asset_key.to_user_string() for deps in lineage.values() for dep in deps} == {"shop/raw"}
    assert project.select('key:"shop/raw"+') == ("names", "report")
    assert project.select('+key:"mine/report"') == ("names", "report")
    with pytest.raises(RivetError, match="RVT-306 'raw' is the asset shop/raw"):
        project.spec("raw")


def test_table_names_distinguish_keys_and_partitions():
    names = {
        external_table(path, part)
        for path in (["a", "b"], ["a_b"], ["A", "B"], ["a/b"], ["a", "b", ""], ["ä"], ["é"], ["_asset_a"])
        for part in (None, *(Part(key, text) for key in ("1", "a b", "a_b", "A_B") for text in ("daily", "static")))
    }
    assert len(names) == 8 * 9
    assert all(name.startswith("_") and set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_") for name in names)
    assert len(external_table(["x" * 999], Part("y" * 999, "z"))) < 130


def test_an_external_source_is_not_observed_but_its_checks_run_with_its_readers(tmp_path):
    check = {"type": "not_null", "columns": ["id"]}
    files = {
        "sources/raw.yaml": {
            "type": "source", "catalog": "dagster", "table": "shop/raw", "quality": {"assertions": [check]},
        },
        "sinks/report.yaml": sink("report", "raw"),
    }  # fmt: skip
    folder = ProjectFolder(tmp_path, files)
    project = RivetProject.load(folder.root)
    assert find_target(project, 'key:"report"').gated == ("raw",)
    definitions = build_definitions(project)
    (check_key,) = definitions.resolve_asset_graph().asset_check_keys
    assert check_key.to_user_string() == "shop/raw:not_null_id"
    assert source_assets(project) == []
    for wrong in (
        {"sensors": {"moved": {"type": "source_changed", "sources": ["raw"], "target": 'key:"report"'}}},
        {"observe": {"hourly": {"sources": ["raw"], "cron_schedule": "0 * * * *"}}},
    ):
        folder.write({"rivet.yaml": MANIFEST | {"dagster": wrong}})
        with pytest.raises(RivetError, match=r"RVT-117 rivet.yaml:.*'raw' is (another Dagster|the) asset"):
            build_definitions(RivetProject.load(folder.root))
