"""Reading of a dbt project, and the packages that are installed in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rivet_dagster.dbt.declared import DbtLocation, DbtProject, DbtTarget, Other, Package
from rivet_dagster.dbt.files import line_of, read_yaml_file
from rivet_dagster.dbt.reading.package import PackageReader
from rivet_dagster.dbt.reading.profile import read_profile
from rivet_dagster.dbt.reading.project_file import PROJECT_FILE, ProjectFile, read_project_file
from rivet_dagster.dbt.values import NOT_READ, ImportEnvironment, value_context
from rivet_dagster.errors import RivetError
from rivet_dagster.project.text_file import TextError

SELECTORS = "selectors.yml"
_LISTS = ("packages.yml", "dependencies.yml")

NEEDED_WITH = {"dbt_utils": (), "dbt_date": (), "dbt_expectations": ("dbt_date",), "audit_helper": ("dbt_utils",)}
"""The packages of which macros are built in, with those that come with them."""


def read_dbt_project(root: Path, environment: ImportEnvironment = NOT_READ, output: str | None = None) -> DbtProject:
    """Return all that the project in ``root`` declares. Raise RVT-141 or RVT-142 without a usable dbt_project.yml.

    ``environment`` has the variables that ``env_var`` reads. The target is the ``output`` of the profile with that
    name, else the profile's own. Raises RVT-145 if there is no such output.
    """
    project_file = read_project_file(root)
    profile = read_profile(root, project_file.profile, project_file.target_path, environment, output)
    target = profile.target
    installed, wrong = _installed(root, project_file)
    built_in, told = _missing(root, project_file, {package.name for package in installed})
    packages = [_read(root, project_file, None, target, environment)]
    packages += [_read(root, package, project_file, target, environment) for package in installed]
    others = [
        Other("selector", SELECTORS, DbtLocation(SELECTORS), "selectors have no counterpart: name joints by tags")
    ]
    packages[0] = replace(
        packages[0],
        problems=(*packages[0].problems, *profile.problems, *wrong, *told),
        others=(*packages[0].others, *(others if (root / SELECTORS).is_file() else ())),
    )
    return DbtProject(
        tuple(packages),
        target,
        project_file.dispatch,
        project_file.target_path,
        profile.databases,
        tuple(built_in),
    )


def _read(
    root: Path,
    project_file: ProjectFile,
    outer: ProjectFile | None,
    target: DbtTarget,
    environment: ImportEnvironment,
) -> Package:
    scopes = [project_file.variables] if outer is None else [outer.variables, project_file.variables]

    def variable(name: str) -> Any:
        for variables in scopes:
            nested = variables.get(project_file.name)
            for scope in (nested if isinstance(nested, dict) else {}, variables):
                if name in scope:
                    return scope[name]
        raise KeyError(name)

    context = value_context(variable, target_values(target), environment)
    return PackageReader(root, project_file, outer, context).package()


def target_values(target: DbtTarget) -> dict[str, Any]:
    """Return what ``target`` has in templates."""
    values = {"name": target.name, "schema": target.schema, "type": target.adapter, "profile_name": target.profile}
    return {**{key: value for key, value in target.values.items() if value is not None}, **values}


def _installed(root: Path, project_file: ProjectFile) -> tuple[list[ProjectFile], list[Other]]:
    """Return the packages that are installed, in order, and what is wrong with others there."""
    folder = root / project_file.packages_path
    installed: list[ProjectFile] = []
    problems: list[Other] = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if not (path / PROJECT_FILE).is_file():
            continue
        try:
            installed.append(read_project_file(root, f"{project_file.packages_path}/{path.name}"))
        except RivetError as error:
            first = error.diagnostics[0]
            location = DbtLocation(first.file or path.name, first.line or 1)
            problems.append(Other("package", path.name, location, first.message))
    return installed, problems


def _missing(root: Path, project_file: ProjectFile, installed: set[str]) -> tuple[list[str], list[Other]]:
    """Return the packages of which macros are built in, since they are asked for but not installed, and what is told.

    If nothing is installed, that is told of each file which asks for others.
    """
    built_in: list[str] = []
    told: list[Other] = []
    for file in _LISTS:
        if not (root / file).is_file():
            continue
        try:
            value = read_yaml_file(root / file)
        except TextError as error:
            if not installed:
                told.append(Other("package", file, DbtLocation(file, error.line or 1), error.message))
            continue
        location = DbtLocation(file, line_of(value, "packages"))
        entries = value.get("packages")
        names = [_name(entry) for entry in entries] if isinstance(entries, list) else []
        for name in [name for name in names if name in NEEDED_WITH and name not in installed]:
            built_in += [each for each in (name, *NEEDED_WITH[name]) if each not in {*installed, *built_in}]
            reason = f"is not installed in {project_file.packages_path}: the macros that are built in take its place"
            told.append(Other("package", name, location, reason, is_needed=False))
        if entries and not installed and not {*names} <= NEEDED_WITH.keys():
            reason = f"its packages are not installed in {project_file.packages_path}: run `dbt deps` first"
            told.append(Other("package", file, location, reason))
    return built_in, told


def _name(entry: Any) -> str | None:
    """Return the name of a package as one asks for it: that of the registry, or of the repository."""
    address = (entry.get("package") or entry.get("git")) if isinstance(entry, Mapping) else None
    if not isinstance(address, str):
        return None
    name = address.rstrip("/").rpartition("/")[2].removesuffix(".git").replace("-", "_")
    return name if name in NEEDED_WITH else name.removeprefix("dbt_")
