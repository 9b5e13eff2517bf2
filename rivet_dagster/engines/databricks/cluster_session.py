"""Sessions on a cluster, whose own catalog may have another name than Spark's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from rivet_dagster.engines.contract import Frame
from rivet_dagster.engines.databricks.tables import in_catalog
from rivet_dagster.engines.pyspark.session import PySparkSession
from rivet_dagster.model.relations import Relation
from rivet_dagster.model.storage import Projection

if TYPE_CHECKING:
    from rivet_dagster.engines.pyspark.adapter import SparkAdapter


class ClusterSession(PySparkSession):
    """A session that finds the tables of the session's own catalog in ``catalog``."""

    def __init__(
        self,
        base: SparkAdapter,
        settings: Mapping[str, str],
        catalog: str,
        check_interrupt: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(base, settings, check_interrupt)
        self.own_catalog = catalog

    def load(self, relation: Relation, projection: Projection | None = None) -> Frame:
        """Return a frame that reads ``relation`` in place; Arrow rows of this process are read now."""
        return super().load(in_catalog(relation, self.own_catalog), projection)
