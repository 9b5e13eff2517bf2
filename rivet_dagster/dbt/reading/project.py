"""Reading of a dbt project, its profile, and the packages that are installed in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rivet_dagster.dbt.declared import DbtPlace, DbtProject, DbtTarget, Other
from rivet_dagster.dbt.reading.package import PackageReader
from rivet_dagster.dbt.reading.project_file import PROJECT_FILE, ProjectFile, read_project_file
from rivet_dagster.dbt.values import UnknownValueError, render_value, value_context
from rivet_dagster.dbt.yaml_file import line_of, read_yaml_file
from rivet_dagster.errors import RivetError
from rivet_dagster.project.text_file import TextError

SELECTORS = "selectors.yml"
_LISTS = ("packages.yml", "dependencies.yml")


def read_dbt_project(root: Path) -> DbtProject:
    """Return all that the project in ``root`` declares. Raise RVT-141 or RVT-142 without a usable dbt_project.yml."""
    own = read_project_file(root)
    target, problems = read_target(root, own.profile)
    installed, wrong = _installed(root, own)
    packages = [_read(root, own, None, target)]
    packages += [_read(root, package, own, target) for package in installed]
    others = [Other("selector", SELECTORS, DbtPlace(SELECTORS), "selectors have no counterpart: name joints by tags")]
    packages[0] = replace(
        packages[0],
        problems=(*packages[0].problems, *problems, *wrong),
        others=(*packages[0].others, *(others if (root / SELECTORS).is_file() else ())),
    )
    return DbtProject(tuple(packages), target, own.dispatch, own.target_path)


def _read(root: Path, own: ProjectFile, outer: ProjectFile | None, target: DbtTarget) -> Any:
    scopes = [own.variables] if outer is None else [outer.variables, own.variables]

    def variable(name: str) -> Any:
        for variables in scopes:
            nested = variables.get(own.name)
            for scope in (nested if isinstance(nested, dict) else {}, variables):
                if name in scope:
                    return scope[name]
        raise KeyError(name)

    context = value_context(variable, target_values(target))
    return PackageReader(root, own, outer, context).package()


def target_values(target: DbtTarget) -> dict[str, Any]:
    """Return what ``target`` has in templates."""
    values = {"name": target.name, "schema": target.schema, "type": target.adapter, "profile_name": target.profile}
    return {**{key: value for key, value in target.values.items() if value is not None}, **values}


def _installed(root: Path, own: ProjectFile) -> tuple[list[ProjectFile], list[Other]]:
    """Return the packages that are installed, in order, and those that are asked for but are not."""
    folder = root / own.packages_path
    found: list[ProjectFile] = []
    problems: list[Other] = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if not (path / PROJECT_FILE).is_file():
            continue
        try:
            found.append(read_project_file(root, f"{own.packages_path}/{path.name}"))
        except RivetError as error:
            first = error.diagnostics[0]
            place = DbtPlace(first.file or path.name, first.line or 1)
            problems.append(Other("package", path.name, place, first.message))
    if found:
        return found, problems
    for file in _LISTS:
        if not (root / file).is_file():
            continue
        try:
            value = read_yaml_file(root / file)
        except TextError as error:
            problems.append(Other("package", file, DbtPlace(file, error.line or 1), error.message))
            continue
        if value.get("packages"):
            place = DbtPlace(file, line_of(value, "packages"))
            reason = f"its packages are not installed in {own.packages_path}: run `dbt deps` first"
            problems.append(Other("package", file, place, reason))
    return found, problems


PROFILES_FILE = "profiles.yml"

_ONLY_SHOWN = frozenset(("method", "host", "port"))
_USED = ("type", "schema", "method", "host", "port", "server_side_parameters")


def read_target(root: Path, profile: str | None) -> tuple[DbtTarget, list[Other]]:
    """Return the default target of a profile, and what is wrong with it. Only what is no secret is read."""
    path = root / PROFILES_FILE
    if not path.is_file():
        return DbtTarget(profile=profile or "default"), []
    try:
        value = read_yaml_file(path)
    except TextError as error:
        return DbtTarget(), [Other("profile", PROFILES_FILE, DbtPlace(PROFILES_FILE, error.line or 1), error.message)]
    name = profile if profile is not None else "default"
    own = value.get(name)
    outputs = own.get("outputs") if isinstance(own, Mapping) else None
    if not isinstance(own, Mapping) or not isinstance(outputs, Mapping):
        wrong = f"there is no profile '{name}' with `outputs`"
        return DbtTarget(profile=name), [Other("profile", name, DbtPlace(PROFILES_FILE, line_of(value, name)), wrong)]
    context = value_context(dict[str, Any]().__getitem__, {})
    wrong_values: list[Other] = []

    def known(key: str, holder: Mapping[str, Any], default: Any) -> Any:
        try:
            return render_value(holder.get(key, default), context)
        except UnknownValueError as error:
            if key in _ONLY_SHOWN:
                return default
            place = DbtPlace(PROFILES_FILE, line_of(holder, key))
            wrong_values.append(Other("profile", key, place, f"`{key}` is left out: {error}"))
            return default

    target = str(known("target", own, "default"))
    if target not in outputs:
        target = next(iter(outputs), target)
    output = outputs.get(target)
    if not isinstance(output, Mapping):
        wrong = f"the target '{target}' of the profile '{name}' is no mapping"
        return DbtTarget(target, name), [
            Other("profile", name, DbtPlace(PROFILES_FILE, line_of(outputs, target)), wrong)
        ]
    values = {key: known(key, output, None) for key in _USED if key in output}
    schema = str(values.get("schema") or "default")
    if not re.fullmatch(r"\w+", schema, re.ASCII):
        message = f"the schema '{schema}' is no name of letters, digits and '_': `default` is taken"
        wrong_values.append(Other("profile", "schema", DbtPlace(PROFILES_FILE, line_of(output, "schema")), message))
        schema = "default"
    return (
        DbtTarget(
            name=target,
            profile=name,
            adapter=str(values.get("type") or "spark"),
            schema=schema,
            method=str(values.get("method") or ""),
            place=DbtPlace(PROFILES_FILE, line_of(outputs, target)),
            values={key: value for key, value in values.items() if value is not None and key != "schema"},
        ),
        wrong_values,
    )
