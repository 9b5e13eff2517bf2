"""The tables of a branch of Nessie, of which several can be published in one commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from rivet_dagster.catalogs.capabilities.staging import PublishesTogether, StagedTransaction
from rivet_dagster.catalogs.iceberg.catalog import IcebergTables
from rivet_dagster.catalogs.iceberg.reaching import reaching
from rivet_dagster.model.storage import Published

if TYPE_CHECKING:
    from rivet_dagster.catalogs.iceberg.nessie.nessie_catalog import NessieCatalog
    from rivet_dagster.catalogs.iceberg.writes.transaction import IcebergTransaction


class NessieTables(IcebergTables, PublishesTogether):
    """Tables of Apache Iceberg on a branch of Nessie."""

    def publish_together(self, staged: Sequence[tuple[StagedTransaction, str]]) -> tuple[Published, ...]:
        """Publish the tables by one commit of the branch."""
        from rivet_dagster.catalogs.iceberg.writes.publishing_together import publish_together

        ours = cast("Sequence[tuple[IcebergTransaction, str]]", staged)
        with reaching(self.name, code="RVT-404"):
            return publish_together(self._nessie, ours)

    @property
    def _nessie(self) -> NessieCatalog:
        from rivet_dagster.catalogs.iceberg.nessie.nessie_catalog import NessieCatalog

        catalog = self._catalog
        assert isinstance(catalog, NessieCatalog)
        return catalog
