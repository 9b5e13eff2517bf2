"""The options of a JVM that concern archives, as Spark's launcher reads them."""

from __future__ import annotations

import os
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path  # noqa: F401, an example uses it

from rivet_dagster.engines.pyspark.class_archive.jvm import SparkJvm
from rivet_dagster.engines.pyspark.class_archive.store import Archive

ARGUMENTS = "java.args"
"""The file of an archive with arguments of the command ``java``: a class path, where an archive needs another one."""
OPTIONS = "SPARK_SUBMIT_OPTS"
"""The variable with options of the JVM that Spark's launcher puts before those of its settings."""


def use_options(jvm: SparkJvm, archive: Archive) -> str:
    """Return the options by which a JVM uses an archive, and says nothing where it cannot.

    >>> from rivet_dagster.engines.pyspark.java import Java
    >>> use_options(SparkJvm(Java(Path("/java"), 17), Path("/spark")), Archive((Path("/my cache/classes.jsa"),)))
    '-Xlog:cds*=off "-XX:SharedArchiveFile=/my cache/classes.jsa"'
    """
    arguments = [f"{quote_option(f'@{file}')} " for file in archive.files if file.name == ARGUMENTS]
    files = os.pathsep.join(str(file) for file in archive.files if file.name != ARGUMENTS)
    option = "AOTCache" if jvm.is_ahead_of_time else "SharedArchiveFile"
    return f"{''.join(arguments)}{quiet_options(jvm)} {quote_option(f'-XX:{option}={files}')}"


def quiet_options(jvm: SparkJvm) -> str:
    """Return the options by which a JVM says nothing about archives on the terminal."""
    return "-Xlog:cds*=off -Xlog:aot*=off" if jvm.is_ahead_of_time else "-Xlog:cds*=off"


def quote_option(option: str) -> str:
    r"""Return an option as Spark's launcher reads it.

    >>> print(quote_option("-Da=b"), quote_option('-Da="b" c'))
    -Da=b "-Da=\"b\" c"
    """
    if not any(character in option for character in " \t\"'\\"):
        return option
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@contextmanager
def options_set(options: str, environ: MutableMapping[str, str]) -> Iterator[None]:
    """Put options before those that ``environ`` has for Spark's JVM, while it starts.

    They are for this JVM alone: what this process starts later may be another Java, or another Spark.
    """
    if not options:
        yield
        return
    before = environ.get(OPTIONS)
    environ[OPTIONS] = f"{options} {before or ''}".strip()
    try:
        yield
    finally:
        if before is None:
            environ.pop(OPTIONS, None)
        else:
            environ[OPTIONS] = before
