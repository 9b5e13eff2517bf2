"""The columns of the sources, asked of their catalogs in parallel, within a time limit; failures are warnings."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread, local
from typing import TypeVar

from rivet_dagster.cache import CompileCache
from rivet_dagster.catalogs.capabilities import capable
from rivet_dagster.catalogs.capabilities.targets import HasTargets
from rivet_dagster.catalogs.contract import Catalog
from rivet_dagster.catalogs.external_assets import ExternalAssets
from rivet_dagster.catalogs.registry import open_catalog
from rivet_dagster.errors import Diagnostic, RivetError
from rivet_dagster.model.external_assets import DAGSTER, is_external
from rivet_dagster.model.inputs import landing_options
from rivet_dagster.model.joint import SOURCE, Joint
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.project import Project
from rivet_dagster.model.schema import Field, Introspection, Schema

SECONDS = 10.0
"""The time limit for all catalogs together."""

_THREADS = 8
_Result = TypeVar("_Result")
_Answer = tuple[str, Schema | None]
"""The cache key of a table's columns, and the columns."""


def introspection(
    project: Project, root: Path, environ: Mapping[str, str], cache: CompileCache, seconds: float = SECONDS
) -> Introspection:
    """Return the columns of the sources' tables, as their catalogs determine them without an engine.

    Sources that declare a ``schema`` are left out. ``cache`` holds the columns of tables whose data has not changed
    since. A catalog that fails, or takes longer than ``seconds``, leads to a warning (RVT-318).
    """
    known = CompileCache(cache.known)
    sources = _sources(project)
    opened = _OpenedHere(root, environ)
    tasks = [partial(_columns, spec, joint, opened, known) for joint, spec in sources]
    tables: dict[str, Schema] = {}
    warnings: list[Diagnostic] = []
    for (joint, spec), answer in zip(sources, _in_parallel(tasks, seconds), strict=True):
        if isinstance(answer, tuple):
            text, schema = answer
            fields = [(field.name, field.type) for field in schema or ()]
            cache.put(_LAST_ANSWER, _declared(joint, spec), fields)
            if schema is not None:
                tables[joint.name] = schema
                cache.put("table", text, fields)
        else:
            why = f"no answer within {seconds:g} seconds" if answer is None else _message(answer)
            warnings.append(joint.origin.diagnostic("RVT-318", f"its columns are unknown: {why}", joint=joint.name))
    return Introspection(tables, tuple(warnings))


def recall_introspection(project: Project, cache: CompileCache) -> Introspection:
    """Return the columns of the sources' tables from their catalogs' last answers, which are in the cache.

    The cache key is what the source and its catalog declare, with ``${VAR}`` unexpanded: no catalog is contacted and
    the environment is not read.
    """
    tables: dict[str, Schema] = {}
    for joint, spec in _sources(project):
        fields = cache.get(_LAST_ANSWER, _declared(joint, spec))
        if fields:
            tables[joint.name] = tuple(Field(name, kind) for name, kind in fields)
    return Introspection(tables, earlier=frozenset(tables))


_LAST_ANSWER = "last_told"


def _sources(project: Project) -> list[tuple[Joint, CatalogSpec]]:
    """Return the sources whose columns a catalog may know, each with the declaration of its catalog."""
    specs = {spec.name: spec for spec in project.profile.catalogs}
    specs[DAGSTER] = specs[project.profile.workspace]
    return [
        (joint, specs[joint.catalog])
        for joint in project.joints
        if joint.type == SOURCE and "schema" not in joint.options and joint.catalog in specs
    ]


def _declared(joint: Joint, spec: CatalogSpec) -> str:
    return json.dumps((spec.type, spec.options, joint.catalog, joint.table, joint.options), default=str)


@dataclass(frozen=True)
class _OpenedHere:
    """Catalogs, each opened once by each thread that asks it."""

    root: Path
    environ: Mapping[str, str]
    _of_thread: local = field(default_factory=local)

    def catalog(self, spec: CatalogSpec) -> Catalog:
        """Return the catalog of a declaration."""
        opened: dict[str, Catalog] = vars(self._of_thread)
        if spec.name not in opened:
            opened[spec.name] = open_catalog(spec, self.root, self.environ)
        return opened[spec.name]


def _columns(spec: CatalogSpec, joint: Joint, catalogs: _OpenedHere, known: CompileCache) -> _Answer:
    assert joint.table is not None
    _, options = landing_options(joint.options)
    opened = catalogs.catalog(spec)
    catalog = ExternalAssets(capable(opened, HasTargets)) if is_external(joint) else opened
    version = catalog.data_version(joint.table, options)
    uri = f"{joint.catalog}.{joint.table}" if is_external(joint) else opened.uri(joint.table)
    text = json.dumps((spec.type, uri, version, options, spec.options), default=str)
    stored = known.get("table", text)
    if stored is not None:
        return text, tuple(Field(name, kind) for name, kind in stored)
    return text, catalog.columns(joint.table, options)


def _in_parallel(tasks: Sequence[Callable[[], _Result]], seconds: float) -> list[_Result | Exception | None]:
    """Return for each task its result, the exception that it raised, or None if it has not ended in time."""
    waiting: SimpleQueue[int] = SimpleQueue()
    for position in range(len(tasks)):
        waiting.put(position)
    ended: SimpleQueue[tuple[int, _Result | Exception]] = SimpleQueue()
    deadline = time.monotonic() + seconds

    def work() -> None:
        while time.monotonic() < deadline:
            try:
                position = waiting.get_nowait()
            except Empty:
                return
            try:
                ended.put((position, tasks[position]()))
            except Exception as error:
                ended.put((position, error))

    # Daemon threads: storage that never answers must not keep the process from ending.
    for _ in range(min(_THREADS, len(tasks))):
        Thread(target=work, daemon=True).start()
    results: list[_Result | Exception | None] = [None] * len(tasks)
    for _ in tasks:
        try:
            position, result = ended.get(timeout=max(0.0, deadline - time.monotonic()))
        except Empty:
            break
        results[position] = result
    return results


def _message(error: Exception) -> str:
    # The text of any other exception may contain a secret from the catalog's options.
    return error.diagnostics[0].message if isinstance(error, RivetError) else type(error).__name__
