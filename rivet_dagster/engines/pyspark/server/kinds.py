"""Differences between the servers that a project can have: Spark Connect in a JVM, and Sail without one."""

from __future__ import annotations

import os
import secrets
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from rivet_dagster.engines.pyspark.config import LOCAL, PACKAGES, SAIL, list_setting
from rivet_dagster.engines.pyspark.jars import refuse_missing_jars, refuse_unfit_runtime, unfetched_package
from rivet_dagster.engines.pyspark.java import find_java
from rivet_dagster.engines.pyspark.server.command import (
    PORT,
    TOKEN_KEY,
    Order,
    properties,
    server_command,
    server_environ,
    server_settings,
)
from rivet_dagster.engines.pyspark.server.ports import ADDRESS
from rivet_dagster.engines.pyspark.server.sail_process import sail_command, sail_environ
from rivet_dagster.engines.pyspark.server.sail_settings import PORT as SAIL_PORT
from rivet_dagster.engines.pyspark.server.sail_version import refuse_unfit_sail
from rivet_dagster.engines.pyspark.spark_home import distribution, refuse_unfit_server, spark_version
from rivet_dagster.errors import RivetError


class ServerKind(ABC):
    """A kind of server. Everything else about a server is the same for all kinds."""

    remote: ClassVar[str]
    """The ``remote`` of engines that have such a server."""
    title: ClassVar[str]
    """The name of it in messages."""
    folder: ClassVar[str]
    """The folder of its files in the project's ``.rivet``."""
    port: ClassVar[str]
    """The setting that gives it a fixed port."""

    ends_if_it_computes_for_nobody: ClassVar[bool] = False
    """Whether queries of clients that have died may go on, so that the server must end for them to end."""

    @abstractmethod
    def settings(self, config: Mapping[str, str]) -> dict[str, str]:
        """Return the settings that it starts with, made of those of its engine."""

    @abstractmethod
    def check(self, config: Mapping[str, str], home: Path | None) -> None:
        """Raise the errors that can be known before it starts."""

    @abstractmethod
    def token(self, config: Mapping[str, str]) -> str:
        """Return the token without which no session begins; empty for a server that asks for none."""

    @abstractmethod
    def start(self, order: Order, port: int) -> subprocess.Popen[bytes]:
        """Start its process, with a command line that tells no setting."""

    @abstractmethod
    def marker(self, order: Order, port: int) -> str:
        """Return a part of the command line by which the process is known."""

    @abstractmethod
    def master(self, settings: Mapping[str, str]) -> str:
        """Return where it computes, in the form of Spark's masters."""

    def start_error(self, config: Mapping[str, str], log: str) -> RivetError | None:
        """Return the error that the log of a server which did not start tells of; None if it is none that is known."""
        return None


class SparkConnectServer(ServerKind):
    """Spark Connect, in a JVM of its own."""

    remote: ClassVar[str] = LOCAL
    title: ClassVar[str] = "Spark server"
    folder: ClassVar[str] = "spark"
    port: ClassVar[str] = PORT

    def settings(self, config: Mapping[str, str]) -> dict[str, str]:
        """Return the settings without secrets and the token."""
        return server_settings(config)

    def check(self, config: Mapping[str, str], home: Path | None) -> None:
        """Raise RVT-108, RVT-111, RVT-112, RVT-127, RVT-128."""
        refuse_unfit_server(distribution(home))
        refuse_missing_jars(config)
        refuse_unfit_runtime(config, spark_version())
        find_java(os.environ)

    def token(self, config: Mapping[str, str]) -> str:
        """Return the token of the engine's ``config``, or else a random one."""
        return config.get(TOKEN_KEY) or secrets.token_urlsafe(32)

    def start(self, order: Order, port: int) -> subprocess.Popen[bytes]:
        """Start the JVM, from an archive of loaded classes if there is one."""
        # Imported here: other kinds of server need none of it.
        from rivet_dagster.engines.pyspark.class_archive.making import archive_options
        from rivet_dagster.engines.pyspark.class_archive.options import options_set
        from rivet_dagster.engines.pyspark.launch import prepare

        files, home = order.files, distribution(None if order.home is None else Path(order.home))
        settings = {**order.settings, PORT: str(port)}
        files.remove_old_settings()
        path = files.settings(os.getpid())
        with files.open_private(path) as file:
            file.write(properties(settings))
        environ = server_environ(os.environ, home, order.token)
        # Here, and not before: what it makes for a trimmed Java lasts as long as this process.
        java = prepare(settings, environ)
        archives = None if order.archives is None else Path(order.archives)
        with options_set(archive_options(archives, java, settings, home, environ), environ):
            return subprocess.Popen(server_command(home, path), cwd=order.root, env=environ, stdin=subprocess.DEVNULL)

    def marker(self, order: Order, port: int) -> str:
        """Return the path of its settings, which is named by the supervisor that calls this."""
        return str(order.files.settings(os.getpid()))

    def master(self, settings: Mapping[str, str]) -> str:
        """Return its master."""
        return settings["spark.master"]

    def start_error(self, config: Mapping[str, str], log: str) -> RivetError | None:
        """Return RVT-127 for a package that could not be fetched."""
        return unfetched_package(config, log) if list_setting(config, PACKAGES) else None


class SailServer(ServerKind):
    """Sail, which speaks Spark Connect and runs without a JVM. It asks for no token."""

    remote: ClassVar[str] = SAIL
    title: ClassVar[str] = "Sail server"
    folder: ClassVar[str] = "sail"
    port: ClassVar[str] = SAIL_PORT
    ends_if_it_computes_for_nobody: ClassVar[bool] = True

    def settings(self, config: Mapping[str, str]) -> dict[str, str]:
        """Return the settings of the server; those of Spark SQL belong to sessions."""
        return {key: value for key, value in config.items() if key.startswith("sail.")}

    def check(self, config: Mapping[str, str], home: Path | None) -> None:
        """Raise RVT-123 where Sail is not installed, or in a version that is not known."""
        refuse_unfit_sail()

    def token(self, config: Mapping[str, str]) -> str:
        """Return no token."""
        return ""

    def start(self, order: Order, port: int) -> subprocess.Popen[bytes]:
        """Start the process; its settings are in its environment."""
        environ = sail_environ(os.environ, order.settings)
        return subprocess.Popen(sail_command(ADDRESS, port), cwd=order.root, env=environ, stdin=subprocess.DEVNULL)

    def marker(self, order: Order, port: int) -> str:
        """Return the end of its command line."""
        return " ".join(sail_command(ADDRESS, port)[-4:])

    def master(self, settings: Mapping[str, str]) -> str:
        """Return that it computes on this machine."""
        return "local"


KINDS: Mapping[str, ServerKind] = {kind.remote: kind for kind in (SparkConnectServer(), SailServer())}
"""The kinds of server by the ``remote`` of their engines."""
