"""Findings about whether Spark could be started or connected to, made without starting Spark."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from glob import glob
from pathlib import Path
from zipfile import is_zipfile

from rivet_dagster.engines.pyspark.class_archive.making import examine_archive
from rivet_dagster.engines.pyspark.comet import examine_comet
from rivet_dagster.engines.pyspark.config import JARS, PACKAGES, list_setting
from rivet_dagster.engines.pyspark.jars import is_runtime, local_jar, refuse_missing_jars, refuse_unfit_runtime
from rivet_dagster.engines.pyspark.java import find_java
from rivet_dagster.engines.pyspark.launch import expect_server, require_imports, server_of
from rivet_dagster.engines.pyspark.server.command import server_settings
from rivet_dagster.engines.pyspark.server.record import changed_settings, find_running
from rivet_dagster.engines.pyspark.server.starting import ServerSpec
from rivet_dagster.engines.pyspark.spark_home import distribution, refuse_unfit_home, refuse_unfit_server, spark_version
from rivet_dagster.errors import RivetError
from rivet_dagster.machine import (
    Server,
    amount,
    any_server,
    free_space,
    little_space,
    servers_in,
    try_to_write,
    web_servers,
)
from rivet_dagster.model.finding import Finding, broken, doubtful, in_order

_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def examine(
    subject: str,
    config: Mapping[str, str],
    environ: Mapping[str, str],
    home: Path | None = None,
    archives: Path | None = None,
) -> Iterator[Finding]:
    """Yield findings about whether a session with these settings could begin, and from which archive of classes."""
    remote = config.get("spark.remote")
    try:
        require_imports(remote=remote is not None)
        if remote:
            expect_server(remote, environ)
            yield in_order(subject, "Spark Connect at {}:{}".format(*server_of(remote)))
            return
        if home is not None:
            refuse_unfit_home(home)
        java = find_java(environ)
    except RivetError as error:
        yield from broken(subject, error)
    else:
        yield in_order(subject, f"Spark on {config['spark.master']}, Java {java.major} in {java.home}")
        yield examine_archive(subject, archives, java, config, home, environ)
    if not remote:
        yield from _start_findings(subject, config, environ)


def examine_own_server(subject: str, server: ServerSpec, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield findings about whether the project's own server runs, or could start."""
    record = find_running(server.files)
    try:
        require_imports(remote=True)
        refuse_unfit_server(distribution(server.home))
        java = find_java(environ)
    except RivetError as error:
        yield from broken(subject, error)
    else:
        if record is not None:
            yield in_order(subject, f"Spark server at {record.address}, pid {record.pid}, on {record.master}")
        else:
            started = "starts with the first run"
            text = f"Spark server on {server.config['spark.master']}, {started}; Java {java.major} in {java.home}"
            yield in_order(subject, text)
        yield examine_archive(subject, server.archives, java, server.config, server.home, environ)
    if record is not None and (different := changed_settings(record, server_settings(server.config))):
        text = f"the server was started with other values of {', '.join(different)}"
        yield doubtful(subject, text, "`rivet-dagster spark stop`: the next run starts it with the new ones.")
    yield from _start_findings(subject, server.config, environ)


def _start_findings(subject: str, config: Mapping[str, str], environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield findings about what Spark needs when it starts with these settings, besides Java."""
    yield from examine_jars(subject, config, Path.home())
    yield from examine_comet(subject, config, spark_version())
    yield from examine_master(subject, config["spark.master"], environ)
    yield from examine_local_folders(subject, config, environ)
    yield from _memory_findings(subject, config)


def _memory_findings(subject: str, config: Mapping[str, str]) -> Iterator[Finding]:
    setting = config.get("spark.driver.memory", "")
    total = _memory()
    if config["spark.master"].startswith("local") and _bytes(setting) > total:
        text = f"spark.driver.memory is {setting}, and this machine has {total / 2**30:.1f} GiB in all"
        yield doubtful(subject, text, "Lower it in the engine's `config`.")


def _bytes(text: str) -> int:
    """Return an amount of memory in bytes, as Spark reads it; 0 for a text that is not one.

    >>> _bytes("2g") == 2 * 2**30, _bytes("512") == 512 * 2**20, _bytes("")
    (True, True, 0)
    """
    match = re.fullmatch(r"(\d+)([kmgt]?)b?", text.strip().lower())
    return int(match[1]) * _UNITS[match[2] or "m"] if match else 0


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


_MASTER = "Start it, or correct the engine's `master`."
_YARN = "Set HADOOP_CONF_DIR to the folder of the cluster's configuration."
_FOLDER = "Name a folder that this user may write to: `spark.local.dir` in the engine's `config`, or SPARK_LOCAL_DIRS."


def examine_master(subject: str, master: str, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield findings about the master of a cluster; none where Spark runs on this machine."""
    if master == "yarn":
        if not {"HADOOP_CONF_DIR", "YARN_CONF_DIR"} & environ.keys():
            message = "neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set, by which Spark finds YARN"
            yield from broken(subject, RivetError("RVT-502", message, remediation=_YARN))
        return
    yield from any_server(subject, "master", _masters(master), "RVT-502", _MASTER)


def examine_local_folders(subject: str, config: Mapping[str, str], environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield a finding for each folder in which Spark puts shuffled and spilled rows."""
    folders = _local_folders(config, environ)
    refused = {folder: why for folder in folders if (why := _refusal(folder)) is not None}
    for folder in folders:
        if folder not in refused:
            yield in_order(subject, f"Spark's local files in {folder}: {amount(free_space(folder))} free")
            yield from little_space(subject, folder, f"Spark's local files in {folder}")
            continue
        message = f"Spark cannot write its local files in {folder}: {refused[folder]}"
        if len(refused) == len(folders):
            yield from broken(subject, RivetError("RVT-502", message, remediation=_FOLDER))
        else:
            yield doubtful(subject, message, _FOLDER)


def _local_folders(config: Mapping[str, str], environ: Mapping[str, str]) -> list[Path]:
    """Return the folders, in Spark's order of precedence.

    >>> _local_folders({"spark.local.dir": "/a"}, {"SPARK_LOCAL_DIRS": "/b,/c"}), _local_folders({}, {})
    ([PosixPath('/b'), PosixPath('/c')], [PosixPath('/tmp')])
    """
    names = environ.get("SPARK_LOCAL_DIRS") or config.get("spark.local.dir") or "/tmp"
    return [Path(name) for part in names.split(",") if (name := part.strip())]


def _refusal(folder: Path) -> str | None:
    try:
        try_to_write(folder)
    except OSError as error:
        return error.strerror or str(error)
    return None


def _masters(master: str) -> tuple[Server, ...]:
    """Return the servers of a master.

    >>> print(*_masters("spark://a:7077,b"), *_masters("k8s://https://api.invalid:6443"), *_masters("local[*]"))
    a:7077 b:7077 api.invalid:6443
    """
    if master.startswith("spark://"):
        return servers_in(master, 7077)
    address = master.removeprefix("k8s://")
    if address == master:
        return ()
    return web_servers(address if "://" in address else f"https://{address}")


_FETCH = (
    "Start Spark once where Maven's repositories can be reached, have `mvn dependency:get -Dartifact={package}` fetch "
    "it, or name its file in `jars`."
)
_AGAIN = "Fetch it again: the download may have ended early."
_LOOK = "Correct the engine's `jars`, or have the file there before Spark starts."


def examine_jars(subject: str, config: Mapping[str, str], home: Path) -> Iterator[Finding]:
    """Yield a finding for each jar and package of these settings; ``home`` is the user's, with Maven's and Ivy's files.

    Nothing is fetched.
    """
    for jar in list_setting(config, JARS):
        yield from _refused(subject, {JARS: jar}) or (_jar(subject, jar),)
    for package in list_setting(config, PACKAGES):
        yield from _refused(subject, {PACKAGES: package}) or (_package(subject, package, config, home),)


def _refused(subject: str, config: Mapping[str, str]) -> tuple[Finding, ...]:
    try:
        refuse_missing_jars(config)
        refuse_unfit_runtime(config, spark_version())
    except RivetError as error:
        return broken(subject, error)
    return ()


def _jar(subject: str, jar: str) -> Finding:
    path = local_jar(jar)
    if path is None:
        return doubtful(
            subject, f"the jar {jar} is fetched when Spark starts; it is not known whether it can be", _LOOK
        )
    files = [path] if Path(path).is_file() else glob(path)
    if not files:
        return doubtful(subject, f"the jar {jar}: no file has such a name", _LOOK)
    damaged = [file for file in files if not is_zipfile(file)]
    if damaged:
        return doubtful(subject, f"{damaged[0]} is no jar", _AGAIN)
    return in_order(subject, f"the jar {jar} is there{_for_spark(jar)}")


def _package(subject: str, package: str, config: Mapping[str, str], home: Path) -> Finding:
    place = find_cached(package, config, home)
    if place is None:
        text = f"{package} is not on this machine: it is fetched when Spark starts, if Maven's repositories answer"
        return doubtful(subject, text, _FETCH.format(package=package))
    return in_order(subject, f"{package} is in {place}{_for_spark(package)}")


def find_cached(package: str, config: Mapping[str, str], home: Path) -> Path | None:
    """Return the folder of Maven or Ivy from which Spark takes a package without a network; None if it must fetch it.

    >>> find_cached("org.postgresql:postgresql:42", {}, Path("/nowhere")) is None
    True
    """
    group, artifact, version, *_ = [*package.split(":"), "", ""]
    ivy = [Path(config["spark.jars.ivy"])] if "spark.jars.ivy" in config else sorted(home.glob(".ivy2*"))
    jar = f"{artifact}-{version}.jar"
    maven = home / ".m2/repository" / group.replace(".", "/") / artifact / version
    if (maven / jar).is_file() and (maven / f"{artifact}-{version}.pom").is_file():
        return home / ".m2"
    for place in ivy:
        module = place / "cache" / group / artifact
        if (module / f"ivy-{version}.xml").is_file() and any(module.glob(f"*/{jar}")):
            return place
        if (place / "local" / group / artifact / version / "jars" / f"{artifact}.jar").is_file():
            return place
    return None


def _for_spark(artifact: str) -> str:
    version = spark_version()
    return f", for the installed Spark {version}" if version is not None and is_runtime(artifact) else ""
