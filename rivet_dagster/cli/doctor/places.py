"""The profile: its variables, and the catalogs and engines that runs use."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

from rivet_dagster.catalogs.capabilities.targets import HasTargets
from rivet_dagster.catalogs.registry import open_catalog
from rivet_dagster.engines.registry import open_engine
from rivet_dagster.errors import RivetError
from rivet_dagster.model.finding import FAIL, Finding, broken, in_order
from rivet_dagster.model.profile import CatalogSpec, EngineSpec, Profile
from rivet_dagster.model.project import Project
from rivet_dagster.secrets.variables import variables_in

SECONDS = 60.0
"""The seconds for which an examination may give no finding; clients of servers that say nothing may wait for ever."""


TABLE_SECONDS = 30.0
"""The seconds for which the tables of a catalog are examined."""


def variables(profile: Profile) -> Iterator[Finding]:
    """Report the ``${VAR}`` of catalogs and engines, without values; an unset one already fails loading the profile."""
    names = variables_in([*(spec.options for spec in profile.catalogs), *(spec.options for spec in profile.engines)])
    if names:
        yield in_order("variables", f"set: {', '.join(names)}")


def catalogs(project: Project, root: Path, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Examine each catalog that joints name, and the workspace, in which any group may store rows."""
    used = {project.profile.workspace} | {joint.catalog for joint in project.joints}
    for spec in project.profile.catalogs:
        if spec.name in used:
            yield from catalog(project, spec, root, environ)


def engines(profile: Profile, root: Path, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Examine each engine, with what the catalogs that it reaches need of it."""
    for spec in profile.engines:
        yield from engine(profile, spec, root, environ)


def catalog(project: Project, spec: CatalogSpec, root: Path, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Examine one catalog of a project."""
    written = {joint.table for joint in project.joints if joint.publishes and joint.catalog == spec.name}
    tables = sorted(table for table in written if table is not None)

    def examined() -> Iterator[Finding]:
        opened = open_catalog(spec, root, environ)
        fails = False
        for finding in opened.examine(bool(tables) or spec.name == project.profile.workspace):
            fails = fails or finding.status == FAIL
            yield finding
        if isinstance(opened, HasTargets) and not fails:
            yield from examine_tables(opened, tables)

    yield from _findings(f"catalog {spec.name}", "RVT-403", examined)


def examine_tables(catalog: HasTargets, tables: Sequence[str]) -> Iterator[Finding]:
    """Yield the findings of published tables, as far as they can be examined within TABLE_SECONDS."""
    end = time.monotonic() + TABLE_SECONDS
    for number, table in enumerate(tables):
        if time.monotonic() > end:
            text = f"{number:,} of its {len(tables):,} tables were examined, within {TABLE_SECONDS:g} s"
            yield in_order(f"catalog {catalog.name}", text)
            return
        try:
            yield from catalog.examine_table(table)
        except RivetError as error:
            yield from broken(f"table {table}", error)


def engine(profile: Profile, spec: EngineSpec, root: Path, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Examine one engine of a profile."""

    def examined() -> Iterable[Finding]:
        reached = {*spec.catalogs, profile.workspace}
        catalogs = [open_catalog(catalog, root, environ) for catalog in profile.catalogs if catalog.name in reached]
        needs = [catalog.session_needs(spec.type) for catalog in catalogs]
        return open_engine(spec, root, environ, needs=needs).examine()

    yield from _findings(f"engine {spec.name}", "RVT-502", examined)


def _findings(subject: str, silent: str, examine: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """Yield the findings of ``examine``, or the errors that it raises; one of the code ``silent`` if it does not end.

    It goes on in a thread that the process does not wait for.
    """
    answers: SimpleQueue[Finding | BaseException | None] = SimpleQueue()

    def work() -> None:
        try:
            for finding in examine():
                answers.put(finding)
        except BaseException as error:
            answers.put(error)
        answers.put(None)

    Thread(target=work, name="rivet-doctor", daemon=True).start()
    while True:
        try:
            answer = answers.get(timeout=SECONDS)
        except Empty:
            message = f"no answer within {SECONDS:g} s"
            remedy = "Look whether its server, or its storage, answers other programs."
            yield from broken(subject, RivetError(silent, message, remediation=remedy))
            return
        if isinstance(answer, RivetError):
            yield from broken(subject, answer)
        elif isinstance(answer, BaseException):
            raise answer
        elif answer is None:
            return
        else:
            yield answer
