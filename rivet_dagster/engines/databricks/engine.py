"""The engine ``databricks``: its options, and the sessions of a SQL warehouse and of a cluster."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from rivet_dagster.engines.contract import Engine
from rivet_dagster.engines.databricks.config import OPTIONS, connection_arguments, on_connect, wrong_options
from rivet_dagster.engines.databricks.tables import refused_on_cluster, refused_on_warehouse
from rivet_dagster.engines.pyspark.config import session_config
from rivet_dagster.engines.pyspark.engine import PySparkEngine
from rivet_dagster.entry_points import refuse_wrong_options
from rivet_dagster.errors import RivetError
from rivet_dagster.model.finding import Finding
from rivet_dagster.model.plugins import SPARK, Wrong
from rivet_dagster.model.profile import CatalogSpec, EngineSpec
from rivet_dagster.model.relations import CatalogTable, Files, Kinds
from rivet_dagster.model.session_needs import SessionNeeds

if TYPE_CHECKING:
    from rivet_dagster.engines.databricks.session import WarehouseSession
    from rivet_dagster.engines.pyspark.adapter import SparkAdapter
    from rivet_dagster.engines.pyspark.session import PySparkSession

_OWN = "spark_catalog"


class DatabricksEngine(Engine):
    """A SQL warehouse of Databricks; with ``cluster_id`` a cluster: ``DatabricksCluster``.

    Options: ``host``, of the workspace; ``token``; ``http_path``, of the warehouse; ``catalog``, that of the workspace
    in which a catalog ``spark`` of the profile finds its tables; ``config``, parameters of the warehouse's sessions;
    ``max_fusion_depth``.
    """

    type: ClassVar[str] = "databricks"
    options: ClassVar[frozenset[str]] = OPTIONS
    reads: ClassVar[Kinds] = frozenset({CatalogTable})
    writes: ClassVar[Kinds] = frozenset({Files})
    dialect: ClassVar[str] = SPARK
    default_concurrency: ClassVar[int] = 4

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Return what is wrong with the values of ``options``, by key."""
        return wrong_options(options)

    @classmethod
    def variant(cls, options: Mapping[str, Any]) -> builtins.type[Engine]:
        """Return the class for a cluster where ``cluster_id`` is among the options."""
        return DatabricksCluster if "cluster_id" in options else cls

    @classmethod
    def refuses_table(
        cls, catalog: CatalogSpec, format: str | None, joint_options: Mapping[str, Any], is_written: bool
    ) -> Iterable[Wrong]:
        """Return RVT-328 for tables that are not the warehouse's, and for what is not stored on this machine."""
        return refused_on_warehouse(catalog, joint_options, is_written)

    def __init__(
        self,
        spec: EngineSpec,
        connect: Callable[[], Any] | None = None,
        check_interrupt: Callable[[], None] | None = None,
        needs: Sequence[SessionNeeds] = (),
    ) -> None:
        refuse_wrong_options(DatabricksEngine, f"engine '{spec.name}'", spec.options)
        self.name = spec.name
        self._spec = spec
        self._connect = connect or self._connected
        self._check_interrupt = check_interrupt

    def import_packages(self) -> None:
        """Import the connector. Raises RVT-123."""
        from rivet_dagster.engines.databricks.installed import require_connector

        require_connector()

    def session(self) -> WarehouseSession:
        """Begin a session, which is a connection; the warehouse starts with it if it has stopped."""
        self.import_packages()
        from rivet_dagster.engines.databricks.session import WarehouseSession

        return WarehouseSession(self._connect, self._spec.options.get("catalog", _OWN), self._check_interrupt)

    def examine(self) -> Iterable[Finding]:
        """Return findings about the connector, and whether the workspace answers; the warehouse is not started."""
        from rivet_dagster.engines.databricks.examining import examine_warehouse

        return examine_warehouse(f"engine {self.name}", connection_arguments(self._spec.options))

    def _connected(self) -> Any:
        from rivet_dagster.engines.databricks.installed import require_connector
        from rivet_dagster.engines.databricks.messages import not_connected

        arguments = connection_arguments(self._spec.options)
        connector = require_connector()
        try:
            return connector.connect(**arguments)
        except RivetError:
            raise
        except Exception as error:  # those of the connector, of its HTTP client and of TLS
            raise not_connected(error, arguments["server_hostname"]) from error


class DatabricksCluster(PySparkEngine):
    """A cluster of Databricks, by its server of Spark Connect.

    Options: ``host``, of the workspace; ``token``; ``cluster_id``; ``catalog``, that of the workspace in which a
    catalog ``spark`` of the profile finds its tables; ``config``, settings of Spark SQL; ``max_fusion_depth``.
    """

    type: ClassVar[str] = "databricks"
    options: ClassVar[frozenset[str]] = OPTIONS
    path_options: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Return what is wrong with the values of ``options``, by key."""
        return wrong_options(options)

    @classmethod
    def variant(cls, options: Mapping[str, Any]) -> builtins.type[Engine]:
        """Return this class, or that of a warehouse."""
        return DatabricksEngine.variant(options)

    @classmethod
    def sql_support(cls, spec: EngineSpec) -> str | None:
        """Return None: it is Spark."""
        return None

    @classmethod
    def on_this_machine(cls, spec: EngineSpec) -> bool:
        """Return False."""
        return False

    @classmethod
    def for_few_rows(cls, spec: EngineSpec) -> EngineSpec:
        """Return the declaration itself: nothing of it is about how many rows there are."""
        return spec

    @classmethod
    def refuses_table(
        cls, catalog: CatalogSpec, format: str | None, joint_options: Mapping[str, Any], is_written: bool
    ) -> Iterable[Wrong]:
        """Return RVT-328 for catalogs that need settings which a cluster takes when it starts."""
        return refused_on_cluster(catalog)

    def __init__(
        self,
        spec: EngineSpec,
        connect: Callable[[], Any] | None = None,
        check_interrupt: Callable[[], None] | None = None,
        needs: Sequence[SessionNeeds] = (),
    ) -> None:
        super().__init__(spec, connect, check_interrupt)
        self._catalog = spec.options.get("catalog", _OWN)

    def _declared_config(self, spec: EngineSpec, needs: Sequence[SessionNeeds]) -> dict[str, str]:
        return session_config(on_connect(spec))

    def _session_on(self, base: SparkAdapter) -> PySparkSession:
        from rivet_dagster.engines.databricks.cluster_session import ClusterSession

        return ClusterSession(base, self._settings, self._catalog, self._check_interrupt)
