"""Spark's SQL on a Sail server of the project, without a JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import cached_property
from threading import Thread
from typing import TYPE_CHECKING, Any, ClassVar

from rivet_dagster.engines.contract import DagsterResource
from rivet_dagster.engines.pyspark.config import SAIL
from rivet_dagster.engines.pyspark.engine import PySparkEngine
from rivet_dagster.engines.pyspark.sail.options import sail_config, wrong_options
from rivet_dagster.engines.pyspark.sail.tables import refused_table
from rivet_dagster.engines.pyspark.server.sail_settings import HONOURED, KEPT_EVERY, wrong_in_session
from rivet_dagster.engines.pyspark.server.sail_version import refuse_unfit_sail
from rivet_dagster.model.finding import Finding
from rivet_dagster.model.plugins import Wrong
from rivet_dagster.model.profile import CatalogSpec, EngineSpec
from rivet_dagster.model.relations import ArrowRows, Files, Kinds
from rivet_dagster.model.session_needs import SessionNeeds

if TYPE_CHECKING:
    from rivet_dagster.engines.kept_translations import KeptTranslations
    from rivet_dagster.engines.pyspark.adapter import SparkAdapter
    from rivet_dagster.engines.pyspark.class_archive.jvm import SparkJvm
    from rivet_dagster.engines.pyspark.server.connecting import UsedServer
    from rivet_dagster.engines.pyspark.session import PySparkSession


class SailEngine(PySparkEngine, remote=SAIL):
    """The engine ``pyspark`` with ``remote: sail``: what it does otherwise than Spark is refused.

    Options: ``config``, of which Sail takes a part; ``idle_timeout``, ``max_fusion_depth``.
    """

    separates_errors: ClassVar[bool] = False
    reads: ClassVar[Kinds] = frozenset({Files, ArrowRows})
    writes: ClassVar[Kinds] = frozenset({Files})
    resource: ClassVar[DagsterResource | None] = None

    _used: Future[UsedServer] | None = None
    """The server that is being started or found."""

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Return what is wrong with the values of ``options``, by key."""
        return wrong_options(options)

    @classmethod
    def wrong_settings(cls, settings: Mapping[str, str]) -> Mapping[str, str]:
        """Return which of the settings the sessions of one group do not take."""
        return wrong_in_session(settings)

    @classmethod
    def refuses_table(
        cls, catalog: CatalogSpec, format: str | None, joint_options: Mapping[str, Any], is_written: bool
    ) -> Iterable[Wrong]:
        """Return RVT-328 for tables that Sail does not read, or write, as Spark does."""
        return refused_table(catalog, format, joint_options, is_written)

    @classmethod
    def on_this_machine(cls, spec: EngineSpec) -> bool:
        """Return True: the server is one of the project."""
        return not cls.check(spec.options)

    @classmethod
    def for_few_rows(cls, spec: EngineSpec) -> EngineSpec:
        """Return the declaration itself: nothing of it is for many rows."""
        return spec

    def jvm(self) -> SparkJvm | None:
        """Return None: there is no JVM."""
        return None

    def import_packages(self) -> None:
        """Import the client of servers, while the server starts, which is a process of its own. Raises RVT-123."""
        self._start_server()
        super().import_packages()

    def session(self) -> PySparkSession:
        """Begin a session; the server starts with the first one, while its client is imported."""
        self._start_server()
        return super().session()

    def examine(self) -> Iterable[Finding]:
        """Return findings about whether Sail is installed, and its server runs."""
        from rivet_dagster.engines.pyspark.sail.examining import examine_sail

        server = self.server
        assert server is not None
        return examine_sail(f"engine {self.name}", server)

    def _start_server(self) -> None:
        """Begin to start the server, or to find it, unless that has begun. Raises RVT-123."""
        refuse_unfit_sail()
        if self._base is None and self._used is None:
            self._used = _in_background(self._ensured, "rivet-sail-start")

    def _ensured(self) -> UsedServer:
        server = self.server
        assert server is not None
        from rivet_dagster.engines.pyspark.server.connecting import UsedServer

        return UsedServer.ensure(server)

    def _declared_config(self, spec: EngineSpec, needs: Sequence[SessionNeeds]) -> dict[str, str]:
        return sail_config(spec.options)

    def _session_on(self, base: SparkAdapter) -> PySparkSession:
        from rivet_dagster.engines.pyspark.sail.session import SailSession

        session = SailSession(base, self._settings, self._check_interrupt)
        session.kept = self._kept
        return session

    @cached_property
    def _kept(self) -> KeptTranslations:
        from rivet_dagster.engines.kept_translations import KeptTranslations

        return KeptTranslations(self.root)

    def _settings_of_sessions(self, base: SparkAdapter) -> dict[str, str]:
        return {key: value for key, value in self._config.items() if key in HONOURED}

    def _connected(self) -> SparkAdapter:
        from rivet_dagster.engines.pyspark.server.connecting import connect_to_server

        used, self._used = self._used, None
        adapter = connect_to_server(self._ensured() if used is None else used.result())
        adapter.keep_alive(KEPT_EVERY)
        return adapter


def _in_background(work: Callable[[], UsedServer], name: str) -> Future[UsedServer]:
    """Return the result that ``work`` will have in a thread, which does not keep the process from ending."""
    future: Future[UsedServer] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    Thread(target=run, name=name, daemon=True).start()
    return future
