"""The settings of a Spark session, made of the engine's declaration and the needs of catalogs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rivet_dagster.engines.option_values import wrong_values
from rivet_dagster.entry_points import is_unexpanded
from rivet_dagster.model import convert
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.model.session_needs import SessionNeeds, merge_needs
from rivet_dagster.secrets.redaction import names_secret, secrets_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTIONS = frozenset(
    {
        "master",
        "remote",
        "config",
        "packages",
        "jars",
        "app_name",
        "spark_home",
        "class_archive",
        "idle_timeout",
        "max_fusion_depth",
    }
)
PATHS = frozenset({"jars", "spark_home", "class_archive"})
LOCAL = "local"
"""The ``remote`` of an engine whose server this package starts."""
SAIL = "sail"
"""The ``remote`` of an engine whose server is a Sail that this package starts."""
PACKAGES, JARS = "spark.jars.packages", "spark.jars"

_DEFAULTS = {
    # Spark's own default is the deprecated INT96, which other Parquet readers take for nanoseconds or refuse.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Spark must run the query that was compiled: `${env:X}` or `${spark.x}` would insert other text into it.
    "spark.sql.variable.substitute": "false",
    # A bug of Spark 4.1: a correlated subquery over ORDER BY with LIMIT becomes a join between the two, so that LIMIT
    # takes any rows. A single joint seldom triggers it, a fused query more often.
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.PushProjectionThroughLimitAndOffset",
}
_OF_THE_SERVER = ("spark.driver.", "spark.sql.catalogImplementation", "spark.sql.warehouse.dir")
"""Beginnings of settings that a server has from its start, and refuses from a client."""

_OF_THE_APPLICATION = ("spark.sql.catalog.", "spark.sql.extensions", "spark.sql.warehouse.", "spark.sql.catalogImpl")
_OF_EXTENSIONS = ("spark.sql.catalog.", "spark.sql.iceberg.")

_CLASSIC_DEFAULTS = {
    # Of groups that run at once none waits until another has used all processors. Without the file, jobs take turns
    # only if each thread names a pool of its own, which Spark never removes.
    "spark.scheduler.mode": "FAIR",
    "spark.scheduler.allocation.file": str(Path(__file__).with_name("fairscheduler.xml")),
    "spark.ui.showConsoleProgress": "false",
    # Spark looks up files that are named one by one, as those of a landing zone, in as many tasks as this says: by
    # default 10,000, of which each takes some milliseconds for one file.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "64",
    # Spark forgets the code that it has compiled for all but the last 100 parts of queries by default, fewer than a
    # pipeline has: on a session that lives on, each run would compile the same code again, and begin to optimize it.
    "spark.sql.codegen.cache.maxEntries": "500",
    # Spark's web UI shows all settings; its own default knows neither of the last two.
    "spark.redaction.regex": "(?i)secret|password|token|access[.-]?key|credential|authorization",
}

_CLUSTER_DEFAULTS = {
    # Spark merges small shuffle partitions by itself, but cannot split large ones: its 200 are too few for terabytes.
    "spark.sql.shuffle.partitions": "1000",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1000",
}

_CONVERTERS = {
    "master": convert.text,
    "remote": convert.text,
    "app_name": convert.text,
    "spark_home": convert.text,
    "class_archive": lambda value: value is False or convert.text(value),
    "idle_timeout": convert.seconds,
    "packages": convert.texts,
    "jars": convert.texts,
    "max_fusion_depth": convert.whole(1),
}

_COMPILED = frozenset({"max_fusion_depth"})
"""Options that the compiler needs; it does not know the values of variables."""


def remote_of(options: Mapping[str, Any]) -> Any:
    """Return the ``remote`` that an engine with these options has; None without one.

    >>> remote_of({"remote": "local"}), remote_of({"config": {"spark.remote": "sail"}}), remote_of({})
    ('local', 'sail', None)
    """
    config = options.get("config")
    return options.get("remote") or (config.get("spark.remote") if isinstance(config, Mapping) else None)


def session_config(spec: EngineSpec, needs: Sequence[SessionNeeds] = ()) -> dict[str, str]:
    """Return Spark's settings for ``spec`` and the ``needs`` of catalogs; its ``config`` overrides everything else.

    Lists (packages, jars and extensions) are joined. Needs that only a start can meet, such as packages and jars, are
    left out for a server that runs already. With ``remote: local`` these are the settings that the server starts with,
    and ``spark.remote`` is ``local``. Raises RVT-126.

    >>> spec = EngineSpec("spark", "pyspark", options={"master": "local[2]", "config": {"spark.ui.enabled": False}})
    >>> for setting in session_config(spec).items():
    ...     print(*setting)
    spark.master local[2]
    spark.app.name rivet_dagster
    spark.sql.parquet.outputTimestampType TIMESTAMP_MICROS
    spark.sql.variable.substitute false
    spark.sql.optimizer.excludedRules org.apache.spark.sql.catalyst.optimizer.PushProjectionThroughLimitAndOffset
    spark.scheduler.mode FAIR
    spark.scheduler.allocation.file ...fairscheduler.xml
    spark.ui.showConsoleProgress false
    spark.sql.sources.parallelPartitionDiscovery.parallelism 64
    spark.sql.codegen.cache.maxEntries 500
    spark.redaction.regex (?i)secret|password|token|access[.-]?key|credential|authorization
    spark.ui.enabled false
    """
    options = spec.options
    config = {key: convert.setting(value) for key, value in options.get("config", {}).items()}
    declared = remote_of(options)
    remote = None if declared == LOCAL else declared
    address = {"spark.remote": declared} if declared else {}
    if not remote:
        address["spark.master"] = options.get("master", "local[*]")
    defaults = address | {"spark.app.name": options.get("app_name", "rivet_dagster")} | _DEFAULTS
    if not remote:
        defaults |= _CLASSIC_DEFAULTS
        if not config.get("spark.master", address["spark.master"]).startswith("local"):
            defaults |= _CLUSTER_DEFAULTS
    packages = (*convert.texts(options.get("packages") or ()), *list_setting(config, PACKAGES))
    jars = (*convert.texts(options.get("jars") or ()), *list_setting(config, JARS))
    wanted = merge_needs(needs, SessionNeeds(packages, jars, config))
    lists = {} if remote else {PACKAGES: wanted.packages, JARS: wanted.jars}
    joined = {key: ",".join(dict.fromkeys(values)) for key, values in lists.items() if values}
    of_session = {
        k: v for k, v in wanted.config.items() if k in config or not (remote and k.startswith(_OF_THE_SERVER))
    }
    return {**defaults, **of_session, **joined}


def few_rows_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of an application that computes many queries of a few rows each.

    Only the JVM's quick compiler is used, since the other does not pay for them, and each sort or aggregate begins with
    little memory: by default a page is 16 MB or more, which is zeroed first.

    >>> few_rows_config({"spark.driver.extraJavaOptions": "-Da=b"})["spark.driver.extraJavaOptions"]
    '-Da=b -XX:TieredStopAtLevel=1 -XX:+UseParallelGC'
    """
    java = "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC"
    own = config.get("spark.driver.extraJavaOptions")
    return {
        "spark.buffer.pageSize": "256k",
        **config,
        "spark.driver.extraJavaOptions": f"{own} {java}" if own else java,
    }


def is_embedded(config: Mapping[str, str]) -> bool:
    """Return whether Spark runs inside the process that uses it."""
    return "spark.remote" not in config and config.get("spark.master", "").startswith("local")


def list_setting(config: Mapping[str, str], key: str) -> tuple[str, ...]:
    """Return the values of a setting that is a list with commas.

    >>> list_setting({"spark.jars": "a.jar, b.jar"}, "spark.jars"), list_setting({}, "spark.jars")
    (('a.jar', 'b.jar'), ())
    """
    return tuple(value for part in config.get(key, "").split(",") if (value := part.strip()))


def without_catalog_secrets(config: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with which Spark starts here: its JVM's command line would show the secrets of catalogs.

    Every session gets all settings of catalogs later.

    >>> lake = {"spark.sql.catalog.lake.uri": "https://lake", "spark.sql.catalog.lake.token": "hunter2"}
    >>> without_catalog_secrets(lake)
    {'spark.sql.catalog.lake.uri': 'https://lake'}
    """
    return {
        key: value
        for key, value in config.items()
        if not (key.startswith("spark.sql.catalog.") and (names_secret(key) or secrets_in(value)))
    }


def wrong_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Return what is wrong with the values of ``options``: a sentence by key."""
    wrong = wrong_values(options, _CONVERTERS, _COMPILED)
    config = options.get("config", {})
    if not isinstance(config, Mapping):
        wrong["config"] = f"must be a mapping, not {convert.show(config)}"
        config = {}
    for key, value in config.items():
        try:
            convert.setting(value)
        except ValueError as error:
            wrong["config"] = f"{key} {error}"
    remote = config.get("spark.remote", options.get("remote"))
    if remote == LOCAL or is_unexpanded(remote):
        return wrong
    if "remote" in options and ("master" in options or "spark.master" in config):
        wrong["remote"] = "cannot stand beside `master`: the one attaches to a running Spark, the other starts one"
    if isinstance(remote, str) and (why := _wrong_address(remote)) is not None:
        wrong["remote" if "remote" in options else "config"] = why
    for key in ("packages", "jars", "spark_home", "class_archive"):
        if key in options and remote is not None:
            wrong[key] = "has no effect with `remote`: install them where the server runs"
    if "idle_timeout" in options:
        wrong["idle_timeout"] = "has a meaning with `remote: local` alone, whose server this project starts"
    return wrong


def wrong_session_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return which settings hold for a whole application of Spark: a sentence by key.

    >>> wrong_session_settings({"spark.executor.memory": "8g", "spark.sql.shuffle.partitions": "8"})
    {'spark.executor.memory': 'is a setting of the whole application: it belongs to the `config` of the engine'}
    """
    whole = "is a setting of the whole application: it belongs to the `config` of the engine"
    return {key: whole for key in settings if not key.startswith("spark.sql.") or key.startswith(_OF_THE_APPLICATION)}


def is_modifiable(spark: SparkSession, key: str) -> bool:
    """Return whether a session can have its own value of a setting; Spark does not know those of its extensions."""
    return key.startswith(_OF_EXTENSIONS) or (key.startswith("spark.sql.") and bool(spark.conf.isModifiable(key)))


def _wrong_address(remote: str) -> str | None:
    """Return why a text is not the address of a server, without quoting it, since it may contain a token."""
    wrong = "must be an address like sc://host:15002 or sc://host:15002/;token=${TOKEN}, or `local`, or `sail`"
    try:
        address = urlsplit(remote)
        if address.scheme != "sc" or not address.hostname or address.port == 0:
            return wrong
    except ValueError:
        return wrong
    path, _, parameters = address.path.partition(";")
    pairs = [pair.partition("=") for pair in parameters.split(";") if pair]
    return None if path in ("", "/") and all(name and value for name, _, value in pairs) else wrong
