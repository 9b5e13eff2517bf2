"""``rivet-dagster spark``: the servers of engines with ``remote: local`` or ``sail``, and archives of classes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rivet_dagster.catalogs.registry import open_catalog
from rivet_dagster.engines.pyspark import SailEngine
from rivet_dagster.engines.pyspark.class_archive.jvm import SparkJvm
from rivet_dagster.engines.pyspark.class_archive.making import make_archive
from rivet_dagster.engines.pyspark.class_archive.store import Archive, find_archive
from rivet_dagster.engines.pyspark.config import SAIL
from rivet_dagster.engines.pyspark.engine import PySparkEngine
from rivet_dagster.engines.pyspark.server.record import ServerRecord, find_running, stop_running
from rivet_dagster.engines.pyspark.server.starting import ServerSpec, ensure_server
from rivet_dagster.engines.registry import declared_class, open_engine
from rivet_dagster.errors import RivetError
from rivet_dagster.model.profile import EngineSpec, Profile
from rivet_dagster.model.project import MANIFEST
from rivet_dagster.project.load import load_project


def with_each_server(root: Path, profile: str | None, act: Callable[[ServerSpec], str]) -> int:
    """Start, stop or look at the server of each engine that has one; print what ``act`` returns. Return 0."""
    for server in servers_of(load_project(root, profile).profile, root):
        print(f"engine {server.files.engine}: {act(server)}", flush=True)
    return 0


def servers_of(profile: Profile, root: Path) -> list[ServerSpec]:
    """Return the servers of a profile, with what the catalogs that their engines reach need. Raises RVT-110."""
    engines = [*spark_engines(profile, root), *_of_commands(root)]
    servers = [engine.server for engine in engines if engine.server is not None]
    if not servers:
        message = f"no engine of the profile '{profile.name}' has a Spark server of this project"
        remedy = (
            "Give an engine of the type pyspark `remote: local`, or `sail`, or choose another profile with --profile."
        )
        raise RivetError("RVT-110", message, remediation=remedy)
    return servers


def _of_commands(root: Path) -> Iterator[PySparkEngine]:
    """Yield the engine of commands with ``--engine sail``, which may be in no profile, if its server runs."""
    engine = SailEngine(EngineSpec(SAIL, "pyspark", options={"remote": SAIL}))
    engine.root = root
    if engine.server is not None and find_running(engine.server.files) is not None:
        yield engine


def spark_engines(profile: Profile, root: Path) -> list[PySparkEngine]:
    """Return the Spark engines of a profile, with what the catalogs that they reach need."""
    return [_opened(profile, spec, root) for spec in profile.engines if _is_spark(spec)]


def _is_spark(spec: EngineSpec) -> bool:
    return issubclass(declared_class(spec), PySparkEngine)


def _opened(profile: Profile, spec: EngineSpec, root: Path) -> PySparkEngine:
    names = {*spec.catalogs, profile.workspace}
    catalogs = [open_catalog(catalog, root, os.environ) for catalog in profile.catalogs if catalog.name in names]
    engine = open_engine(spec, root, os.environ, needs=[catalog.session_needs(spec.type) for catalog in catalogs])
    assert isinstance(engine, PySparkEngine)
    return engine


def start(server: ServerSpec) -> str:
    """Start the server, unless it runs. Return what to tell."""
    before = find_running(server.files)
    record, users = ensure_server(server)
    users.close()
    was_running = before is not None and before.pid == record.pid
    return f"the {server.kind.title} {'runs already' if was_running else 'has started'}, {_described(server, record)}"


def stop(server: ServerSpec) -> str:
    """Stop the server, if it runs. Return what to tell."""
    record, title = stop_running(server.files), server.kind.title
    return f"no {title} runs" if record is None else f"the {title} has ended, pid {record.pid}"


def status(server: ServerSpec) -> str:
    """Look whether the server runs. Return what to tell."""
    record, title = find_running(server.files), server.kind.title
    return f"no {title} runs" if record is None else f"the {title} runs, {_described(server, record)}"


def _described(server: ServerSpec, record: ServerRecord) -> str:
    return f"pid {record.pid}, address {record.address}, log {server.files.log}"


_WAIT_SECONDS = 600.0
_POLL_SECONDS = 0.5


def make_archives(root: Path, profile: str | None, to: Path | None) -> int:
    """Make the archive of each engine that starts Spark; print where each is. Return 0.

    ``to`` is the folder that they are made in, in place of the one that the engine uses. Raises RVT-110 if no engine
    starts Spark, and RVT-526.
    """
    for engine, jvm in _engines(root, profile):
        folder = to.absolute() if to is not None else engine.class_archives
        if folder is None:
            remedy = "Name a folder with --to, or turn archives on: `class_archive` of the engine, RIVET_CLASS_ARCHIVE."
            raise RivetError("RVT-526", f"engine {engine.name}: archives of classes are turned off", remediation=remedy)
        try:
            archive = _made(folder, jvm)
        except OSError as error:
            message = f"the archive cannot be written in {folder}: {error.strerror or error}"
            raise RivetError("RVT-526", message, remediation="Name another folder with --to.") from error
        print(f"engine {engine.name}: {folder / jvm.key}, {archive.size / 1e6:.0f} MB, for Java {jvm.java.major}")
    return 0


def _made(folder: Path, jvm: SparkJvm) -> Archive:
    """Return the archive; another process that makes one in this folder is waited for."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while (archive := make_archive(folder, jvm)) is None:
        if time.monotonic() > deadline:
            raise RivetError("RVT-526", f"another process has been making an archive in {folder} for too long")
        time.sleep(_POLL_SECONDS)
    existing = find_archive(folder, jvm)
    if not isinstance(existing, Archive):
        raise RivetError("RVT-526", f"the archive was made, but will not be used: {existing.reason}")
    return archive


def _engines(root: Path, profile: str | None) -> Sequence[tuple[PySparkEngine, SparkJvm]]:
    """Return the engines of a project that start Spark; without a project, one with no packages and jars."""
    if not (root / MANIFEST).is_file():
        engines = [PySparkEngine(EngineSpec("spark", "pyspark"))]
    else:
        engines = spark_engines(load_project(root, profile).profile, root)
    starting = [(engine, jvm) for engine in engines if (jvm := engine.jvm()) is not None]
    if not starting:
        remedy = "An engine with the address of a server as `remote` starts none: make the archive where that starts."
        raise RivetError("RVT-110", "no engine of the profile starts Spark", remediation=remedy)
    return starting
