"""Reading of a project's folder into its declarations."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rivet_dagster.cache import CompileCache
from rivet_dagster.errors import Diagnostic, RivetError
from rivet_dagster.model.check import Check
from rivet_dagster.model.joint import PYTHON, Joint
from rivet_dagster.model.profile import Profile
from rivet_dagster.model.project import MANIFEST, MacroFile, Project, PythonFunction, is_of_block
from rivet_dagster.near_names import NearNames
from rivet_dagster.project.joint_file import module_of, python_joint, sql_joint, yaml_joint
from rivet_dagster.project.known_files import Draft, KnownDrafts, broken_draft
from rivet_dagster.project.manifest import ProjectManifest, read_manifest
from rivet_dagster.project.profiles import read_profile
from rivet_dagster.project.python_function import FunctionError, PythonSources
from rivet_dagster.project.quality import (
    QualityFile,
    joint_error,
    list_quality_files,
    quality_file_of_joint,
    read_quality,
)
from rivet_dagster.project.text_file import UnreadableError, list_files, read_text
from rivet_dagster.project.variables import refuse_unknown, unset_variables, variables_of

_READERS = {".yaml": yaml_joint, ".yml": yaml_joint, ".sql": sql_joint, ".py": python_joint}
ReadDrafts = Callable[[Sequence[str], KnownDrafts], list[Draft]]
"""A function that returns the drafts of the files, in order."""

_NO_FUNCTION = "Correct `function`, or define it in the file that it names."


def read_drafts(paths: Sequence[str], known: KnownDrafts) -> list[Draft]:
    """Return the drafts of the files, in order."""
    return [_draft(path, known) for path in paths]


def load_project(
    root: Path,
    profile: str | None = None,
    environ: Mapping[str, str] | None = None,
    joints: Sequence[Joint] = (),
    cache: CompileCache | None = None,
    variables: Mapping[str, Any] | None = None,
) -> Project:
    """Return everything declared in the folder ``root`` under one profile, with ``joints`` declared in Python.

    Errors in single joints are in ``Project.errors``; errors in rivet.yaml or the profiles are raised, all of them in
    one RivetError. Nothing is executed: no module of the user is imported. ``cache`` holds the parsed files of earlier
    calls; ``variables`` win over those that rivet.yaml and the profile declare.
    """
    project = read_project(root, profile, environ, joints, cache, variables)
    if in_block := [error for error in project.errors if is_of_block(error)]:
        raise RivetError.of(in_block)
    return project


def read_project(
    root: Path,
    profile: str | None = None,
    environ: Mapping[str, str] | None = None,
    joints: Sequence[Joint] = (),
    cache: CompileCache | None = None,
    variables: Mapping[str, Any] | None = None,
    read: ReadDrafts | None = None,
) -> Project:
    """Read a project as ``load_project`` does, but with the errors of the ``dagster:`` block in ``Project.errors``.

    ``read`` may have another process read some of the joints' files.
    """
    root = Path(root)
    cache = CompileCache() if cache is None else cache
    environ = os.environ if environ is None else environ
    manifest, chosen = _settings(root, profile, environ)
    values = variables_of(manifest.variables, chosen.variables, variables or {})
    unset = unset_variables(manifest.variables, values, environ, MANIFEST, manifest.variable_lines)
    if unset:
        raise RivetError.of(unset)
    paths = _joint_files(root, manifest)
    quality_files = {path: quality for path in paths if (quality := quality_file_of_joint(path)) is not None}
    known = KnownDrafts(root, cache)
    joint_files = [path for path in paths if path not in quality_files]
    drafts = (read or read_drafts)(joint_files, known)
    known.store()
    folder = list_quality_files(root, manifest.quality)
    checks, errors = _checks(root, (*quality_files.values(), *folder), _folders(drafts, joints), cache)
    declared: list[Joint] = []
    asset_groups: dict[str, str] = {}
    defaults: dict[str, Mapping[str, str]] = {}
    group_of = functools.cache(functools.partial(_asset_group, folders=manifest.joint_folders))
    for draft, places in map(manifest.defaults.apply, drafts):
        joint, wrong = draft.joint(checks.get(draft.name, ()))
        errors += wrong
        if joint is not None:
            declared.append(joint)
            if places:
                defaults[joint.name] = places
            group = group_of(_folder(draft))
            if group:
                asset_groups[joint.name] = group
    declared += [replace(j, quality=(*j.quality, *checks[j.name])) if j.name in checks else j for j in joints]
    macros, wrong_macros = _macros(root, manifest.macros)
    if variables:
        texts = [*(file.text for file in macros), *(joint.sql for joint in declared if joint.sql is not None)]
        refuse_unknown(variables, {*manifest.variables, *chosen.variables}, texts)
    functions, wrong_functions = _functions(PythonSources(root, cache), declared)
    return Project(
        chosen,
        tuple(declared),
        functions,
        asset_groups,
        manifest.dagster,
        _in_order((*errors, *wrong_macros, *wrong_functions, *manifest.dagster_errors)),
        manifest.fail_fast,
        defaults,
        macros,
        values,
    )


def _settings(root: Path, profile: str | None, environ: Mapping[str, str]) -> tuple[ProjectManifest, Profile]:
    """Return the manifest and the profile. Raise one RivetError with all errors in both."""
    manifest, errors = read_manifest(root)
    chosen = None
    if manifest.profiles is not None:
        try:
            chosen = read_profile(root, manifest.profiles, profile, environ)
        except RivetError as error:
            errors += error.diagnostics
    if errors or chosen is None:
        errors += manifest.dagster_errors
        raise RivetError.of(_in_order(errors))
    return manifest, chosen


def _joint_files(root: Path, manifest: ProjectManifest) -> list[str]:
    declared = {*manifest.joint_folders, manifest.profiles, manifest.quality, manifest.tests, manifest.macros} - {None}
    without = frozenset(str(path) for path in declared)
    return [path for folder in manifest.joint_folders for path in list_files(root, folder, tuple(_READERS), without)]


def _macros(root: Path, folder: str | None) -> tuple[tuple[MacroFile, ...], list[Diagnostic]]:
    """Return the files of macros, and the errors of those that cannot be read."""
    read: list[MacroFile] = []
    errors: list[Diagnostic] = []
    for file in list_files(root, folder, (".sql",)) if folder is not None else ():
        try:
            read.append(MacroFile(file, read_text(root / file)))
        except UnreadableError as error:
            errors.append(Diagnostic("RVT-211", error.message, None, file, error.line, error.remediation))
    return tuple(read), errors


def _draft(path: str, known: KnownDrafts) -> Draft:
    try:
        return known.of(path, _READERS[f".{path.rpartition('.')[2].lower()}"])
    except UnreadableError as error:
        return broken_draft(path, "RVT-211", error, error.remediation)


def _folders(drafts: Iterable[Draft], joints: Iterable[Joint]) -> dict[str, set[str]]:
    """Return the folders of each joint's files; a joint declared in Python has none."""
    folders: dict[str, set[str]] = {joint.name: set() for joint in joints}
    for draft in drafts:
        folders.setdefault(draft.name, set()).add(_folder(draft))
    return folders


def _folder(draft: Draft) -> str:
    return str(draft.origin.file).rpartition("/")[0]


def _checks(
    root: Path, quality_files: Iterable[QualityFile], folders: Mapping[str, set[str]], cache: CompileCache
) -> tuple[dict[str, list[Check]], list[Diagnostic]]:
    """Return the checks of the quality files by joint, and the errors in them."""
    checks: dict[str, list[Check]] = {}
    errors: list[Diagnostic] = []
    near = NearNames(folders)
    for quality_file in quality_files:
        error = joint_error(quality_file, folders, near)
        if error is not None:
            errors.append(error)
            continue
        file_checks, file_errors = read_quality(root, quality_file, cache)
        checks.setdefault(quality_file.joint, []).extend(file_checks)
        errors += file_errors
    return checks, errors


def _asset_group(folder: str, folders: Iterable[str]) -> str | None:
    """Return the top-level folder between a manifest's path and a folder in it, with characters that Dagster allows."""
    below = max((path for path in folders if f"{folder}/".startswith(f"{path}/")), key=len)
    top = folder[len(below) + 1 :].partition("/")[0]
    return re.sub(r"[^A-Za-z0-9_]", "_", top) if top else None


def _functions(sources: PythonSources, joints: Iterable[Joint]) -> tuple[dict[str, PythonFunction], list[Diagnostic]]:
    functions: dict[str, PythonFunction] = {}
    errors: list[Diagnostic] = []
    for joint in joints:
        if joint.type != PYTHON or joint.function is None:
            continue
        file = joint.origin.file
        is_joint_file = (
            file is not None and file.lower().endswith(".py") and joint.function.rpartition(":")[0] == module_of(file)
        )
        try:
            functions.setdefault(joint.name, sources.find(joint.function, file if is_joint_file else None))
        except FunctionError as error:
            errors.append(_wrong_function(joint, error, is_joint_file))
    return functions, errors


def _wrong_function(joint: Joint, error: FunctionError, is_joint_file: bool) -> Diagnostic:
    if error.file is not None:
        return Diagnostic("RVT-210", error.message, joint.name, error.file, error.line)
    remediation = (
        "Define it; or, where the file is no joint, let its name begin with '_'." if is_joint_file else _NO_FUNCTION
    )
    return joint.origin.diagnostic("RVT-210", error.message, joint=joint.name, key="function", remediation=remediation)


def _in_order(errors: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    return tuple(sorted(errors, key=lambda error: (error.file is None, error.file or "", error.line or 0)))
