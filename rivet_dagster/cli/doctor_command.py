"""``rivet-dagster doctor``: all examinations in order, from the Python interpreter on, and a line for each finding."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

from packaging.requirements import Requirement

from rivet_dagster.catalogs.capabilities.targets import HasTargets
from rivet_dagster.catalogs.registry import open_catalog
from rivet_dagster.engines.registry import open_engine
from rivet_dagster.errors import RivetError, is_configuration
from rivet_dagster.model.finding import FAIL, Finding, broken, doubtful, in_order
from rivet_dagster.model.profile import CatalogSpec, EngineSpec, Profile
from rivet_dagster.model.project import Project
from rivet_dagster.project.load import load_project
from rivet_dagster.secrets.variables import variables_in
from rivet_dagster.version import __version__


def examine_all(root: Path, profile: str | None, as_json: bool) -> int:
    """Print each finding as soon as it is known, or all of them as JSON.

    Return 0 without failures, 10 if all are configuration, else 1.
    """
    examined = []
    for finding in examine(root, profile, os.environ):
        examined.append(finding)
        if not as_json:
            print(render_finding(finding), flush=True)
    failed = [finding for finding in examined if finding.status == FAIL]
    if as_json:
        findings = [asdict(finding) for finding in examined]
        print(json.dumps({"success": not failed, "findings": findings}, indent=2, ensure_ascii=False))
    if not failed:
        return 0
    return 10 if all(is_configuration(finding.code or "") for finding in failed) else 1


def examine(root: Path, profile: str | None, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield all findings, without starting Spark and without changing the project or its catalogs."""
    yield python()
    yield from packages()
    needs = None
    try:
        declared = load_project(root, profile, environ)
    except RivetError as error:
        yield from broken("project", error)
    else:
        yield from variables(declared.profile)
        yield from catalogs(declared, root, environ)
        yield from engines(declared.profile, root, environ)
        # Imported only here: importing Dagster takes seconds.
        from rivet_dagster.cli.doctor_instance import project

        findings, needs = project(root, profile)
        yield from findings
    from rivet_dagster.cli.doctor_instance import Needs, instance

    yield from instance(needs or Needs(), environ)


def render_finding(finding: Finding) -> str:
    """Return the finding as a line, followed by its remedy on a second line.

    >>> print(render_finding(Finding("fail", "engine spark", "none is on PATH", "Install one.", "RVT-111")))
    fail  engine spark        RVT-111 none is on PATH
                              Install one.
    """
    code = f"{finding.code} " if finding.code else ""
    line = f"{finding.status:<4}  {finding.subject:<18}  {code}{finding.text}"
    return f"{line}\n{'':26}{finding.remedy}" if finding.remedy else line


_DISTRIBUTION = "rivet-dagster"
_EXTRAS = ("ui", "java", "fast", "connect", "iceberg", "pandas")
"""The extras for users; the packages of the development extras may have any version."""
_SHOWN = ("dagster", "dagster-webserver", "dagster-pyspark", "pyspark", "pyarrow", "pandas", "polars", "sqlglot")


def python() -> Finding:
    """Report the Python that runs this command; too old a one could not have imported the package."""
    return in_order("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")


def packages() -> Iterator[Finding]:
    """Report the installed packages, and each whose version does not fit rivet_dagster's requirements and extras."""
    try:
        declared = requires(_DISTRIBUTION) or []
    except PackageNotFoundError:
        text = "rivet_dagster runs from its source tree: the versions that it requires are not known"
        yield doubtful("packages", text, "Install it: pip install -e .")
        declared = []
    wrong = [error for requirement in _to_judge(declared) if (error := _misfit(requirement)) is not None]
    for error in wrong:
        yield from broken("packages", error)
    versions = ((name, installed_version(name)) for name in _SHOWN)
    shown = ", ".join(f"{name} {number}" for name, number in versions if number is not None)
    yield in_order("packages", f"rivet_dagster {__version__}, {shown}")


def _to_judge(declared: Sequence[str]) -> Iterator[Requirement]:
    """Yield the requirements; of a package that is always required, not the narrower ones of extras.

    Who has the package may not have asked for the extra; what needs such a version says so itself.
    """
    requirements = [Requirement(text) for text in declared]
    always = {requirement.name for requirement in requirements if "extra" not in str(requirement.marker)}
    for requirement in requirements:
        if requirement.name not in always or "extra" not in str(requirement.marker):
            yield requirement


def installed_version(distribution: str) -> str | None:
    """Return the version of a distribution, None where it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _misfit(requirement: Requirement) -> RivetError | None:
    """Return the error in the installed version, None without one; a package of an extra may be absent."""
    marker = requirement.marker
    extras = [extra for extra in ("", *_EXTRAS) if marker is None or marker.evaluate({"extra": extra})]
    number = installed_version(requirement.name)
    if number is None and "" in extras:
        return RivetError("RVT-123", f"{requirement.name} is not installed")
    if number is None or not extras or requirement.specifier.contains(number, prereleases=True):
        return None
    return RivetError("RVT-123", f"{requirement.name} is {number}, it must be {requirement.specifier}")


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
