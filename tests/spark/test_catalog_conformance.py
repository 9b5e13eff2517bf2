"""What the conformance suite of catalogs asks of Spark, on the filesystem catalog.

The whole suite runs on DuckDB, in tests/unit/catalogs/test_filesystem_environments.py. ``make torture`` runs it on
Spark, too.
"""

from pathlib import Path

import pytest
from support.conformance import READ_BY_ENGINES, ROWS, TESTS, only, with_few_cases_by_day
from support.torture import some

from rivet_dagster.catalogs.capabilities import capable
from rivet_dagster.catalogs.capabilities.sources import HasLandingZones
from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from rivet_dagster.engines.pyspark.session import PySparkSession
from rivet_dagster.errors import RivetError
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.testing.catalog import CatalogConformance
from rivet_dagster.testing.memory import MemoryCatalog
from rivet_dagster.testing.plan_cases import CASES, PlanCase


@pytest.fixture
def session(quick_session):
    """A session for small queries, of which the suite has hundreds."""
    return quick_session


@with_few_cases_by_day
@only([*ROWS, *READ_BY_ENGINES], TESTS)
class TestFilesystem(CatalogConformance):
    """The filesystem catalog, whose versions share files."""

    def new_catalog(self, folder: Path) -> FilesystemCatalog:
        return FilesystemCatalog(CatalogSpec("lake", "filesystem", {"path": "lake"}), folder)

    @pytest.mark.parametrize("case", some(CASES, 20), ids=lambda case: case.name)
    def test_the_meaning_of_a_write_plan(
        self, catalog: FilesystemCatalog, session: PySparkSession, case: PlanCase
    ) -> None:
        super().test_the_meaning_of_a_write_plan(catalog, session, case)


def test_a_capability_that_a_catalog_lacks_is_an_error_with_a_remedy(tmp_path):
    with pytest.raises(RivetError) as caught:
        capable(MemoryCatalog(CatalogSpec("mine", "memory"), tmp_path), HasLandingZones)
    assert "RVT-413 the catalog 'mine', of the type memory, is none that has landing zones" in str(caught.value)


def test_a_missing_method_is_an_error_when_the_catalog_is_constructed(tmp_path):
    class Half(MemoryCatalog):
        begin = HasLandingZones.landing_zone

    with pytest.raises(TypeError, match="abstract"):
        Half(CatalogSpec("half", "memory"), tmp_path)
