"""Asking the catalogs for the columns of the sources: all at once, within a time limit; failures are warnings."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TypeVar

from rivet_dagster.cache import CompileCache
from rivet_dagster.catalogs.capabilities import capable
from rivet_dagster.catalogs.capabilities.targets import HasTargets
from rivet_dagster.catalogs.external_assets import ExternalAssets
from rivet_dagster.catalogs.registry import open_catalog
from rivet_dagster.errors import Diagnostic, RivetError
from rivet_dagster.model.external_assets import DAGSTER, is_external
from rivet_dagster.model.introspection import Introspection
from rivet_dagster.model.joint import SOURCE, Joint
from rivet_dagster.model.landing import landing_options
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.project import Project
from rivet_dagster.model.schema import Field, Schema

SECONDS = 10.0
"""How long all catalogs together may take."""

_THREADS = 8
_Result = TypeVar("_Result")
_Found = tuple[str, Schema | None]
"""What a table's columns follow from, and they."""


def introspection(
    project: Project, root: Path, environ: Mapping[str, str], cache: CompileCache, seconds: float = SECONDS
) -> Introspection:
    """The columns of the sources' tables, as their catalogs tell them without an engine.

    A source that declares its ``schema`` is not asked for. ``cache`` knows the columns of tables whose data has not
    changed since. Whatever goes wrong, and what takes longer than ``seconds``, is a warning (RVT-318).
    """
    known = CompileCache(cache.known)
    sources = _sources(project)
    asked = [partial(_columns, spec, joint, root, environ, known) for joint, spec in sources]
    tables: dict[str, Schema] = {}
    warnings: list[Diagnostic] = []
    for (joint, spec), found in zip(sources, _at_once(asked, seconds), strict=True):
        if isinstance(found, tuple):
            text, schema = found
            fields = [(field.name, field.type) for field in schema or ()]
            cache.put(_LAST_TOLD, _declared(joint, spec), fields)
            if schema is not None:
                tables[joint.name] = schema
                cache.put("table", text, fields)
        else:
            why = f"no answer within {seconds:g} seconds" if found is None else _said(found)
            warnings.append(joint.origin.diagnostic("RVT-318", f"its columns are unknown: {why}", joint=joint.name))
    return Introspection(tables, tuple(warnings))


def last_told(project: Project, cache: CompileCache) -> Introspection:
    """The columns of the sources' tables as their catalogs told them when they were last asked; none is asked now.

    They are found by what the source and its catalog declare, with ``${VAR}`` as it is written: neither a catalog nor
    the environment is looked at.
    """
    tables: dict[str, Schema] = {}
    for joint, spec in _sources(project):
        fields = cache.get(_LAST_TOLD, _declared(joint, spec))
        if fields:
            tables[joint.name] = tuple(Field(name, kind) for name, kind in fields)
    return Introspection(tables, earlier=frozenset(tables))


_LAST_TOLD = "last_told"


def _sources(project: Project) -> list[tuple[Joint, CatalogSpec]]:
    """The sources whose columns a catalog may tell."""
    specs = {spec.name: spec for spec in project.profile.catalogs}
    specs[DAGSTER] = specs[project.profile.workspace]
    return [
        (joint, specs[joint.catalog])
        for joint in project.joints
        if joint.type == SOURCE and "schema" not in joint.options and joint.catalog in specs
    ]


def _declared(joint: Joint, spec: CatalogSpec) -> str:
    return json.dumps((spec.type, spec.options, joint.catalog, joint.table, joint.options), default=str)


def _columns(spec: CatalogSpec, joint: Joint, root: Path, environ: Mapping[str, str], known: CompileCache) -> _Found:
    assert joint.table is not None
    _, options = landing_options(joint.options)
    opened = open_catalog(spec, root, environ)
    catalog = ExternalAssets(capable(opened, HasTargets)) if is_external(joint) else opened
    version = catalog.data_version(joint.table, options)
    place = f"{joint.catalog}.{joint.table}" if is_external(joint) else opened.uri(joint.table)
    text = json.dumps((spec.type, place, version, options, spec.options), default=str)
    stored = known.get("table", text)
    if stored is not None:
        return text, tuple(Field(name, kind) for name, kind in stored)
    return text, catalog.columns(joint.table, options)


def _at_once(tasks: Sequence[Callable[[], _Result]], seconds: float) -> list[_Result | Exception | None]:
    """The result of each task, the exception it raised, or None where it has not ended in time."""
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

    # Daemons: a store that never answers must not keep the process from ending.
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


def _said(error: Exception) -> str:
    # Another exception's text may hold a secret of the catalog's options.
    return error.diagnostics[0].message if isinstance(error, RivetError) else type(error).__name__
