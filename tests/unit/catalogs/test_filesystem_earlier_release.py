"""A catalog folder written by the first release: `tests/data/catalog_of_0_1`."""

import shutil
from pathlib import Path

import pytest
from support.tables import catalog, fill, ids, tree

from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from rivet_dagster.model.inputs import ConsumedFiles, LandedFile
from rivet_dagster.model.storage import CURRENT, OLDER, WITHHELD, Record
from rivet_dagster.model.watermark import Override

WRITTEN = Path(__file__).parents[2] / "data/catalog_of_0_1/lake"
READ = {"zone": ConsumedFiles((LandedFile("zone/a.csv", 1, 2),), (), "id INT")}


@pytest.fixture
def lake(tmp_path: Path) -> FilesystemCatalog:
    shutil.copytree(WRITTEN, tmp_path / "lake", symlinks=True)
    return catalog(tmp_path, "lake")


def test_a_published_version_of_an_earlier_release_is_read(lake, tmp_path):
    published = lake.current("orders")
    assert (published.identity, published.record) == ("tuesday/orders", Record(1, 0, 0, 486))
    assert (published.inputs, published.landed) == (READ, READ)
    assert ids(tmp_path / "lake/orders") == [1, 2, 3]
    statistics = lake.statistics(published)
    assert (statistics.rows, statistics.values["id"].max) == (3, 3)
    assert lake.max_of(published, "id") == 3
    assert lake.watermark_override(published) == Override("2")
    versions = [(version.state, version.rows, version.identity) for version in lake.versions("orders")]
    assert versions == [(CURRENT, 3, "tuesday/orders"), (OLDER, 2, "monday/orders"), (WITHHELD, 1, "")]


def test_a_retry_finds_an_expired_version_of_an_earlier_release(lake):
    assert lake.published_by("orders", "sunday/orders").identity == "sunday/orders"


def test_a_new_version_builds_on_that_of_an_earlier_release(lake, tmp_path):
    before = lake.current("orders")
    published = fill(lake.begin("orders"), [4]).commit("thursday/orders")
    assert (published.rows_before, lake.current("orders")) == (3, published)
    assert Path(lake.read(before).paths[0]).is_dir()
    assert f".rivet/orders/{published.version}.files.json" in tree(tmp_path / "lake")


def test_a_rollback_to_a_version_of_an_earlier_release(lake, tmp_path):
    (older,) = [version.name for version in lake.versions("orders") if version.state == OLDER]
    assert lake.restage("orders", older).commit("rollback").inputs == READ
    assert ids(tmp_path / "lake/orders") == [1, 2]


def test_a_withheld_version_of_an_earlier_release_is_published(lake, tmp_path):
    (withheld,) = [version.name for version in lake.versions("orders") if version.state == WITHHELD]
    assert lake.take_up("orders", withheld).commit("by hand").landed == READ
    assert lake.published_by("orders", "wednesday/orders").version == withheld
    assert ids(tmp_path / "lake/orders") == [9]
