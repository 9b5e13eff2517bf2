"""The engine ``pyspark``: its options, and the start of its sessions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar

from rivet_dagster.engines.contract import DagsterResource, Engine
from rivet_dagster.engines.pyspark.class_archive.store import archive_folder
from rivet_dagster.engines.pyspark.config import (
    LOCAL,
    OPTIONS,
    PATHS,
    few_rows_config,
    is_embedded,
    is_modifiable,
    session_config,
    without_catalog_secrets,
    wrong_options,
    wrong_session_settings,
)
from rivet_dagster.engines.pyspark.server.files import ServerFiles
from rivet_dagster.engines.pyspark.server.record import find_running
from rivet_dagster.engines.pyspark.server.starting import ServerSpec
from rivet_dagster.entry_points import refuse_wrong_options
from rivet_dagster.errors import RivetError
from rivet_dagster.model import convert
from rivet_dagster.model.finding import Finding
from rivet_dagster.model.plugins import SPARK
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.model.relations import ArrowRows, CatalogTable, Files, JdbcTable, Kinds
from rivet_dagster.model.session_needs import SessionNeeds

if TYPE_CHECKING:
    from rivet_dagster.engines.pyspark.adapter import SparkAdapter
    from rivet_dagster.engines.pyspark.class_archive.jvm import SparkJvm
    from rivet_dagster.engines.pyspark.session import PySparkSession

_starting = Lock()
"""Held while Spark starts in this process, or a server is attached to: threads that want it wait for the first."""


IDLE_TIMEOUT = "1h"


class PySparkEngine(Engine):
    """Spark SQL in this process (``local[*]``), on a cluster, or behind a Spark Connect server.

    Options: ``master`` (default ``local[*]``) or ``remote`` (``sc://host:port``, or ``local`` for a server of the
    project, which is started when it is needed, runs on ``master`` and ends ``idle_timeout`` after its last use);
    ``config``, any settings of Spark; ``packages``, Maven coordinates; ``jars``, files of the project, or URIs;
    ``app_name``; ``spark_home``, a Spark distribution; ``class_archive``, the folder of archives of loaded classes or
    False; ``max_fusion_depth``.
    """

    type: ClassVar[str] = "pyspark"
    separates_errors: ClassVar[bool] = True
    options: ClassVar[frozenset[str]] = OPTIONS
    path_options: ClassVar[frozenset[str]] = PATHS
    reads: ClassVar[Kinds] = frozenset({Files, CatalogTable, JdbcTable, ArrowRows})
    writes: ClassVar[Kinds] = frozenset({Files, CatalogTable, JdbcTable})
    dialect: ClassVar[str] = SPARK
    resource: ClassVar[DagsterResource | None] = DagsterResource("dagster_pyspark:LazyPySparkResource", "spark_session")

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Return what is wrong with the values of ``options``, by key."""
        return wrong_options(options)

    @classmethod
    def wrong_settings(cls, settings: Mapping[str, str]) -> Mapping[str, str]:
        """Return which of the settings hold for a whole application of Spark."""
        return wrong_session_settings(settings)

    @classmethod
    def on_this_machine(cls, spec: EngineSpec) -> bool:
        """Return whether Spark runs inside the process that uses it, or on a server of the project."""
        if cls.check(spec.options):
            return False
        config = session_config(spec)
        return is_embedded(config) or config.get("spark.remote") == LOCAL

    @classmethod
    def for_few_rows(cls, spec: EngineSpec) -> EngineSpec:
        """Return the declaration with other settings of the JVM, if one starts in this process."""
        if not is_embedded(session_config(spec)):
            return spec
        return replace(spec, options={**spec.options, "config": few_rows_config(spec.options.get("config") or {})})

    def __init__(
        self,
        spec: EngineSpec,
        connect: Callable[[], Any] | None = None,
        check_interrupt: Callable[[], None] | None = None,
        needs: Sequence[SessionNeeds] = (),
    ) -> None:
        refuse_wrong_options(PySparkEngine, f"engine '{spec.name}'", spec.options)
        self.name = spec.name
        self._config = session_config(spec, needs)
        self._connect = connect
        self._check_interrupt = check_interrupt
        self._base: SparkAdapter | None = None
        self._settings: dict[str, str] = {}
        home = spec.options.get("spark_home")
        self._home = None if home is None else Path(home)
        self._class_archive: str | bool | None = spec.options.get("class_archive")
        self._idle_seconds = convert.seconds(spec.options.get("idle_timeout", IDLE_TIMEOUT))

    def session_config(self) -> dict[str, str]:
        """Return Spark's settings, as its session builder takes them."""
        return dict(self._config)

    def resource_arguments(self) -> Mapping[str, Any]:
        """Return Spark's settings, but for secrets that sessions get later.

        With ``remote: local`` sessions do not use the resource; other code that does gets the running server.
        """
        if self.server is None:
            return {"spark_config": without_catalog_secrets(self._config)}
        record = find_running(self.server.files)
        if record is not None:
            return {"spark_config": {"spark.remote": record.remote}}
        settings = without_catalog_secrets(self._config)
        return {"spark_config": {key: value for key, value in settings.items() if key != "spark.remote"}}

    @property
    def server(self) -> ServerSpec | None:
        """The project's own server that this engine runs on, None for other engines; it need not run."""
        if self._config.get("spark.remote") != LOCAL:
            return None
        files = ServerFiles(self.root.resolve(), self.name)
        return ServerSpec(files, self._config, self._home, self._idle_seconds, self.class_archives)

    @property
    def class_archives(self) -> Path | None:
        """The folder of archives of loaded classes, None where they are turned off, or Spark is a server elsewhere."""
        if self._config.get("spark.remote", LOCAL) != LOCAL:
            return None
        return archive_folder(self._class_archive, os.environ)

    def jvm(self) -> SparkJvm | None:
        """Return the JVM that starts with the first session, None if that attaches to a server elsewhere.

        Raises RVT-108, RVT-111, RVT-112, RVT-123, RVT-128.
        """
        from rivet_dagster.engines.pyspark.class_archive.making import jvm_of
        from rivet_dagster.engines.pyspark.java import find_java
        from rivet_dagster.engines.pyspark.spark_home import refuse_unfit_home

        if self._config.get("spark.remote", LOCAL) != LOCAL:
            return None
        if self._home is not None:
            refuse_unfit_home(self._home)
        return jvm_of(find_java(os.environ), self._config, self._home, os.environ)

    def examine(self) -> Iterable[Finding]:
        """Return findings about Java and the driver's memory, or about whether a server accepts connections."""
        from rivet_dagster.engines.pyspark.examining import examine, examine_own_server

        subject = f"engine {self.name}"
        if self.server is not None:
            return examine_own_server(subject, self.server, os.environ)
        return examine(subject, self._config, os.environ, self._home, self.class_archives)

    def import_packages(self) -> None:
        """Import pyspark, or the client of its servers. Raises RVT-123."""
        from rivet_dagster.engines.pyspark.launch import require_imports

        require_imports(remote="spark.remote" in self._config)

    def session(self) -> PySparkSession:
        """Begin a session; Spark starts with the first one."""
        from rivet_dagster.engines.pyspark.messages import spark_error

        self.import_packages()
        from rivet_dagster.engines.pyspark.session import PySparkSession

        try:
            with self._waited_for(_starting):
                base = self._live_base()
            return PySparkSession(base, self._settings, self._check_interrupt)
        except Exception as error:
            ended = None if self._base is None or isinstance(error, RivetError) else self._base.lost()
            translated = ended or spark_error(error)
            if translated is None:
                raise
            raise translated from error

    @contextmanager
    def _waited_for(self, lock: Lock) -> Iterator[None]:
        """Hold the lock, and heed interrupts while another thread holds it."""
        while not lock.acquire(timeout=1):
            if self._check_interrupt is not None:
                self._check_interrupt()
        try:
            yield
        finally:
            lock.release()

    def _live_base(self) -> SparkAdapter:
        from rivet_dagster.engines.pyspark.waiting import wait_for

        if self._base is None or self._base.is_stopped:
            # Started in another thread, Spark does not replace the process's handler of SIGINT, which may be Dagster's.
            base = wait_for(self._connected, lambda: None, grace=0, tick=self._check_interrupt)
            # Another engine may have started this application; its settings of the JVM itself cannot be changed.
            self._settings = {key: value for key, value in self._config.items() if is_modifiable(base.spark, key)}
            self._base = base
        return self._base

    def _connected(self) -> SparkAdapter:
        from rivet_dagster.engines.pyspark.launch import connect_session

        if self.server is None:
            return connect_session(self._config, self._connect, self._home, self.class_archives)
        from rivet_dagster.engines.pyspark.server.connecting import UsedServer, connect_to_server

        return connect_to_server(UsedServer.ensure(self.server))
