"""Plugins that cannot be imported or are no plugins: told where a project names them, harmless elsewhere."""

import pytest
from support.folders import MANIFEST, PROFILES, ProjectFolder
from support.plugins import install

from rivet_dagster import compile_directory


@pytest.fixture
def project(tmp_path, monkeypatch):
    installed = {"missing": "no_such_package:Catalog", "odd": "decimal:Decimal"}
    install(monkeypatch, tmp_path / "site", catalogs=installed, engines={"missing": "no_such_package:Engine"})

    def make(catalogs: dict) -> ProjectFolder:
        default = PROFILES["default"]
        profiles = {"default": {**default, "catalogs": {**default["catalogs"], **catalogs}}}
        return ProjectFolder(tmp_path / "project", {"rivet.yaml": MANIFEST, "profiles.yaml": profiles})

    return make


def test_a_project_that_names_no_broken_plugin_compiles(project):
    assert compile_directory(project({}).root).raise_errors().success


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        ("missing", "the catalog type 'missing' (no_such_package:Catalog) cannot be imported"),
        ("odd", "the catalog type 'odd' (decimal:Decimal) is no subclass of Catalog"),
    ],
)
def test_a_broken_plugin_is_reported_by_name_where_it_is_used(project, type_, message):
    with pytest.raises(Exception, match="RVT-109") as caught:
        compile_directory(project({"broken": {"type": type_}}).root).raise_errors()
    assert message in str(caught.value)
