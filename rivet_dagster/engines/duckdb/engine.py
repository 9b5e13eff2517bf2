"""The engine ``duckdb``: its options, and the database of its sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar

from rivet_dagster.engines.contract import Engine
from rivet_dagster.engines.duckdb.config import DUCKDB, OPTIONS, PATHS, database_config, further_settings, wrong_options
from rivet_dagster.entry_points import refuse_wrong_options
from rivet_dagster.model.finding import Finding
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.model.relations import ArrowRows, CatalogTable, Files, Kinds
from rivet_dagster.model.session_needs import SessionNeeds

if TYPE_CHECKING:
    from rivet_dagster.engines.duckdb.database import MemoryDatabase
    from rivet_dagster.engines.duckdb.session import DuckDBSession
    from rivet_dagster.engines.kept_translations import KeptTranslations


class DuckDBEngine(Engine):
    """DuckDB in this process.

    Options: ``memory_limit`` (``4GB``, ``50%``), ``threads``, ``temp_directory``, where it writes what does not fit
    into memory (default: below the project's ``.rivet``), ``config``, further settings of DuckDB, ``dialect``, the SQL
    of joints that do not name theirs (``spark``, the default, or ``duckdb``), and ``max_fusion_depth``.
    """

    type: ClassVar[str] = "duckdb"
    options: ClassVar[frozenset[str]] = OPTIONS
    path_options: ClassVar[frozenset[str]] = PATHS
    reads: ClassVar[Kinds] = frozenset({Files, CatalogTable, ArrowRows})
    writes: ClassVar[Kinds] = frozenset({Files})
    dialect: ClassVar[str] = DUCKDB

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Return what is wrong with the values of ``options``, by key."""
        return wrong_options(options)

    @classmethod
    def sql_support(cls, spec: EngineSpec) -> str | None:
        """Return the list of what of Spark's SQL has Spark's rows on DuckDB."""
        return DUCKDB

    @classmethod
    def on_this_machine(cls, spec: EngineSpec) -> bool:
        """Return True: the database is a part of the process."""
        return True

    def __init__(
        self,
        spec: EngineSpec,
        connect: Callable[[], Any] | None = None,
        check_interrupt: Callable[[], None] | None = None,
        needs: Sequence[SessionNeeds] = (),
    ) -> None:
        refuse_wrong_options(DuckDBEngine, f"engine '{spec.name}'", spec.options)
        self.name = spec.name
        self._spec = spec
        self._check_interrupt = check_interrupt
        self._readers = {catalog: read for need in needs for catalog, read in need.readers.items()}
        self._lock = Lock()
        self._database: MemoryDatabase | None = None
        self._kept: KeptTranslations | None = None

    def import_packages(self) -> None:
        """Import duckdb. Raises RVT-123."""
        from rivet_dagster.engines.duckdb.installed import require_duckdb

        require_duckdb()

    def session(self) -> DuckDBSession:
        """Begin a session; the database starts with the first one."""
        with self._lock:
            if self._database is None:
                self.import_packages()
                from rivet_dagster.engines.duckdb.database import MemoryDatabase
                from rivet_dagster.engines.kept_translations import KeptTranslations

                self._database = MemoryDatabase(self.database_config(), further_settings(self._spec))
                self._kept = KeptTranslations(self.root)
        from rivet_dagster.engines.duckdb.session import DuckDBSession

        return DuckDBSession(self._database, self._readers, self._check_interrupt, self._kept)

    def database_config(self) -> dict[str, str]:
        """Return the settings with which the database starts."""
        return database_config(self._spec, Path(self.root))

    def examine(self) -> Iterable[Finding]:
        """Return findings about the package, the settings and the folder for what does not fit into memory."""
        from rivet_dagster.engines.duckdb.examining import examine

        return examine(f"engine {self.name}", self.database_config(), further_settings(self._spec))
