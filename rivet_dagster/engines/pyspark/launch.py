"""Starting Spark, or connecting to it: with a suitable Java, quiet logging, and never with other settings unnoticed."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager, suppress
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rivet_dagster.engines.contract import QueryPlan
from rivet_dagster.engines.pyspark.adapter import SparkAdapter
from rivet_dagster.engines.pyspark.class_archive.making import archive_options
from rivet_dagster.engines.pyspark.class_archive.options import options_set
from rivet_dagster.engines.pyspark.config import without_catalog_secrets
from rivet_dagster.engines.pyspark.connect import ConnectAdapter
from rivet_dagster.engines.pyspark.jars import not_present, refuse_missing_jars, refuse_unfit_runtime, unfetched_package
from rivet_dagster.engines.pyspark.java import Java, find_java, prepare_java
from rivet_dagster.engines.pyspark.messages import summary
from rivet_dagster.engines.pyspark.progress import StageListener, stages_polled
from rivet_dagster.engines.pyspark.results import arrow_schema, plan_of_execution
from rivet_dagster.engines.pyspark.spark_home import (
    refuse_unfit_client,
    refuse_unfit_home,
    refuse_unfit_spark,
    spark_version,
)
from rivet_dagster.errors import RivetError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, Observation, SparkSession


_LISTENING_SECONDS, _POLL_SECONDS = 10.0, 0.005
"""How long Spark's listeners may take to be told of a write, and how often they are asked."""

_CONNECT = "Install what it needs besides pyspark: pip install 'rivet_dagster[connect]'."

_applications: dict[str, Mapping[str, str]] = {}
"""By Spark application (Connect: session) of this process, the settings of the engine that first used it."""


def connect_session(
    config: Mapping[str, str],
    connect: Callable[[], Any] | None,
    home: Path | None = None,
    archives: Path | None = None,
) -> SparkAdapter:
    """Prepare the environment, and return the session of ``connect`` (default: one built with ``config``).

    ``home`` is another Spark distribution than that of pyspark; ``archives`` is the folder of archives of loaded
    classes, None if the JVM is to start without one. Raises RVT-108, RVT-111, RVT-112, RVT-123, RVT-127,
    RVT-128, RVT-502, RVT-506.
    """
    if "spark.remote" not in config:
        refuse_missing_jars(config)
        refuse_unfit_runtime(config, spark_version())
        if home is not None:
            refuse_unfit_home(home)
    options = ""
    if not refuse_another_application(config, connect is None) and "spark.remote" not in config:
        if "SPARK_CONNECT_MODE_ENABLED" in os.environ:
            message = "this process uses a Spark server already"
            raise RivetError("RVT-506", f"{message}; it cannot start Spark on {config['spark.master']} too")
        if home is not None:
            os.environ["SPARK_HOME"] = str(home)
        options = archive_options(archives, prepare(config, os.environ), config, home, os.environ)
    if "spark.remote" in config:
        expect_server(config["spark.remote"], os.environ)
        require_imports(remote=True)
    try:
        if "spark.remote" not in config:
            Thread(target=_import_pandas, name="rivet-pandas-import", daemon=True).start()
        with options_set(options, os.environ):
            spark = adapter_of(connect() if connect else _build(config))
        owner = _applications.setdefault(spark.identity, config)
        if "spark.remote" in config and owner.get("spark.remote") != config["spark.remote"]:
            # Spark's builder returns its first Connect session, whatever server is asked for.
            spark = adapter_of(_build(config))
            _applications[spark.identity] = config
    except RivetError:
        raise
    except Exception as error:
        if remote := config.get("spark.remote"):
            raise not_connected(error, "sc://{}:{}".format(*server_of(remote))) from error
        message = summary(error)
        raise unfetched_package(config, message) or RivetError("RVT-502", f"Spark did not start: {message}") from error
    if isinstance(spark, ConnectAdapter) and "spark.remote" in config:
        spark.close_at_exit()
        refuse_unfit_client(spark.spark.version)
    return spark


def not_connected(error: Exception, address: str) -> RivetError:
    """Return RVT-502 for a server that answered with ``error``."""
    message = summary(error)
    if "UNAUTHENTICATED" in str(error):
        remedy = "Correct the token in the engine's `remote`: sc://host:port/;token=${TOKEN}."
        return RivetError("RVT-502", f"the Spark server at {address} refuses the token", remediation=remedy)
    return RivetError("RVT-502", f"no session on the Spark server at {address}: {message}")


def prepare(config: Mapping[str, str], environ: MutableMapping[str, str]) -> Java | None:
    """Set the variables that the JVM's launcher reads, unless the user has set them. Return the Java that it starts.

    Raises RVT-111, RVT-112.
    """
    if "PYSPARK_GATEWAY_PORT" in environ:
        return None  # spark-submit started this process, so the JVM is already running
    java = find_java(environ)
    prepare_java(java, environ)
    if config.get("spark.master", "").startswith("local") and "spark.pyspark.python" not in config:
        # For Python functions in a query; Spark's default is the `python3` on PATH, seldom that of this environment.
        environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if not _logging_is_configured(config, environ):
        environ["LOG4J_CONFIGURATION_FILE"] = str(Path(__file__).with_name("log4j2.properties"))
    return java


def require_imports(remote: bool) -> None:
    """Import what a session needs, ``remote`` or in this process. Raises RVT-123 if a package is missing or unfit."""
    refuse_unfit_spark()
    try:
        import_module("pyspark.sql.connect.session" if remote else "pyspark.sql.session")
    # An error of any package that is imported; the text names it. Where the main module is no file, as in processes of
    # multiprocessing, pyspark takes the import for that of a doctest, and exits if a package is missing.
    except (Exception, SystemExit) as error:
        imported = "the client of Spark Connect" if remote else "pyspark"
        reason = str(error).partition("\n")[0] if isinstance(error, Exception) else "a package is missing or too old"
        message = f"{imported} cannot be imported: {reason}"
        raise RivetError("RVT-123", message, remediation=_CONNECT if remote else None) from error


def expect_server(remote: str, environ: Mapping[str, str]) -> None:
    """Raise RVT-502 if no server accepts connections: Spark's client would retry for a quarter of an hour."""
    if any(name.lower() in ("grpc_proxy", "https_proxy", "http_proxy") for name in environ):
        return  # the server may only be reachable through the proxy
    host, port = server_of(remote)
    try:
        socket.create_connection((host, port), timeout=10).close()
    except OSError as error:
        message = f"no Spark server answers at {host}:{port}: {error.strerror or error}"
        raise RivetError(
            "RVT-502", message, remediation="Start the server, or correct the engine's `remote`."
        ) from error


def server_of(remote: str) -> tuple[str, int]:
    """Return the host and port of a ``remote``.

    >>> server_of("sc://spark.example/;token=secret")
    ('spark.example', 15002)
    """
    address = urlsplit(remote)
    return address.hostname or "", address.port or 15002


def _import_pandas() -> None:
    """Import pandas while the JVM starts: pyspark does so when it first passes a value to it, and that takes 0.5 s.

    Modules of pyspark import each other in circles, and are left to the thread that builds the session.
    """
    with suppress(ImportError):  # pyspark tells of it where it needs pandas
        import_module("pandas")


def _build(config: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for key, value in (config if "spark.remote" in config else without_catalog_secrets(config)).items():
        builder = builder.config(key, value)
    # For Connect, getOrCreate would return the process's first session, whatever its server is.
    session = builder.create() if "spark.remote" in config else builder.getOrCreate()
    _ = session.version  # the first access: only now does a Connect session contact its server
    return session


def refuse_another_application(config: Mapping[str, str], building: bool = True) -> bool:
    """Return whether this process runs a Spark application. Raises RVT-506 if that does not fit ``config``."""
    running = _running_application()
    if running is not None:
        _refuse_another(config, running, building)
    return running is not None


def _running_application() -> Any:
    """Return the SparkContext of this process, None without one. There can be only one."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    return context if context is not None and context._jsc is not None else None


def _refuse_another(config: Mapping[str, str], context: Any, building: bool) -> None:
    """Raise RVT-506 if this process runs a Spark application that does not fit ``config``."""
    running: Mapping[str, str] | None = _applications.get(context.applicationId)
    if running is None:
        if not building:
            return  # a session that the user started, returned by the user's own `connect`
        running = dict(context.getConf().getAll())
    remote, present = config.get("spark.remote"), running.get("spark.master", "")
    wanted = "{}:{}".format(*server_of(remote)) if remote else config["spark.master"]
    if remote or wanted != present:
        raise RivetError("RVT-506", f"Spark runs on {present} in this process already; it cannot run on {wanted} too")
    if missing := not_present(config, running):
        message = f"Spark runs in this process already, without {', '.join(sorted(missing))}"
        raise RivetError("RVT-506", message)


def _logging_is_configured(config: Mapping[str, str], environ: Mapping[str, str]) -> bool:
    if "LOG4J_CONFIGURATION_FILE" in environ or "spark.log.level" in config:
        return True
    if any("log4j" in value for value in config.values()):
        return True
    home = environ.get("SPARK_CONF_DIR") or (environ["SPARK_HOME"] + "/conf" if "SPARK_HOME" in environ else None)
    return home is not None and any(Path(home).glob("log4j2.*"))


def adapter_of(spark: SparkSession) -> SparkAdapter:
    """Return the adapter of a session, by its kind."""
    return ConnectAdapter(spark) if ".connect." in type(spark).__module__ else ClassicAdapter(spark)


class ClassicAdapter(SparkAdapter):
    """A session of this process's application."""

    @property
    def identity(self) -> str:
        """The application's id."""
        return str(self.spark.sparkContext.applicationId)

    @property
    def is_stopped(self) -> bool:
        """Whether the application has ended."""
        return self.spark.sparkContext._jsc is None

    @property
    def sees_local_files(self) -> bool:
        """Whether the executors run on this machine."""
        return str(self.spark.sparkContext.master).startswith("local")

    def lost(self) -> RivetError | None:
        """Return None: exceptions of py4j tell that its JVM has ended."""
        return None

    def new_session(self) -> ClassicAdapter:
        """Begin a session with views, functions and settings of its own."""
        return ClassicAdapter(self.spark.newSession())

    def begin(self, *tags: str) -> None:
        """Tag the jobs of the calling thread, and have a cancel interrupt tasks that wait."""
        for tag in tags:
            self.spark.sparkContext.addJobTag(tag)
        self.spark.sparkContext.setInterruptOnCancel(True)

    def cancel(self, tag: str) -> None:
        """Cancel the jobs under ``tag`` that run now."""
        self.spark.sparkContext.cancelJobsWithTag(tag)

    def listen(self, tag: str, listener: StageListener) -> AbstractContextManager[None]:
        """Poll the stages of the jobs under ``tag``."""
        return stages_polled(self.spark.sparkContext, tag, listener)

    def explain(self, frame: DataFrame, tag: Callable[[], str]) -> Callable[[], QueryPlan]:
        """Return a function that looks up the write in Spark's SQL status store."""
        return lambda: plan_of_execution(self.spark, tag())

    def observed(self, observation: Observation) -> Mapping[str, Any]:
        """Wait for Spark's listeners, which are told in the background, and may not be if there is much to tell."""
        known_by_jvm: Any = observation
        future = known_by_jvm._jo.future()
        deadline = time.monotonic() + _LISTENING_SECONDS
        while not future.isCompleted():
            if time.monotonic() > deadline:
                return {}
            time.sleep(_POLL_SECONDS)
        return known_by_jvm.get  # type: ignore[no-any-return]

    def analyzed(self, frame: DataFrame) -> DataFrame:
        """Return ``frame`` itself, which Spark analyzed when it was made."""
        return frame

    def adopted(self, frame: Any) -> DataFrame:
        """Return a frame of this session with the analyzed plan of ``frame``, in which its views are resolved."""
        return frame if frame.sparkSession is self.spark else self.resolved(frame)

    def resolved(self, frame: DataFrame) -> DataFrame:
        """Return a frame of the analyzed plan: ``writeTo`` takes the one before, which names views."""
        from pyspark.sql.classic.dataframe import DataFrame

        dataset = getattr(getattr(self.spark._jvm, "org.apache.spark.sql.classic.Dataset$"), "MODULE$")
        return DataFrame(dataset.ofRows(self.spark._jsparkSession, frame._jdf.queryExecution().analyzed()), self.spark)

    def batches(self, frame: DataFrame) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition after the other, each as Arrow from the JVM."""
        # Not toArrow(), which holds all rows in memory, nor toLocalIterator(), which makes a Python object of each row.
        import pyarrow as pa
        from pyspark import RDD
        from pyspark.serializers import NoOpSerializer

        encoded: Any = frame._jdf.toArrowBatchRdd().toJavaRDD()
        schema = None
        messages: RDD[bytes] = RDD(encoded, self.spark.sparkContext, NoOpSerializer())
        for message in messages.toLocalIterator():
            if schema is None:
                schema = arrow_schema(frame.schema)
            yield pa.ipc.read_record_batch(message, schema)

    @property
    def drops_slow_readers(self) -> bool:
        """False: each partition waits in the driver."""
        return False

    @property
    def keeps_views(self) -> bool:
        """True, as long as something references the session."""
        return True

    def close(self) -> None:
        """Do nothing: Spark drops a session that is not referenced any more."""
