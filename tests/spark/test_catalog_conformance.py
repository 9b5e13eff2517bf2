"""The conformance suite for catalogs on the catalog of this package; the one in memory runs it without a JVM."""

from pathlib import Path

import pytest

from rivet_dagster.catalogs.capabilities import capable
from rivet_dagster.catalogs.capabilities.landing import HasLandingZones
from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from rivet_dagster.errors import RivetError
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.testing.catalog import CatalogConformance
from rivet_dagster.testing.memory import MemoryCatalog


@pytest.fixture
def session(quick_session):
    """A session for small queries, of which the suite has hundreds."""
    return quick_session


class TestFilesystem(CatalogConformance):
    """The filesystem catalog, whose versions share files."""

    def new_catalog(self, folder: Path) -> FilesystemCatalog:
        return FilesystemCatalog(CatalogSpec("lake", "filesystem", {"path": "lake"}), folder)


def test_a_capability_that_a_catalog_lacks_is_an_error_with_a_remedy(tmp_path):
    with pytest.raises(RivetError) as caught:
        capable(MemoryCatalog(CatalogSpec("mine", "memory"), tmp_path), HasLandingZones)
    assert "RVT-413 the catalog 'mine', of the type memory, is none that has landing zones" in str(caught.value)


def test_a_missing_method_is_an_error_when_the_catalog_is_constructed(tmp_path):
    class Half(MemoryCatalog):
        begin = HasLandingZones.landing_zone

    with pytest.raises(TypeError, match="abstract"):
        Half(CatalogSpec("half", "memory"), tmp_path)
