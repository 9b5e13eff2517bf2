"""profiles.yaml: for each environment its catalogs and engines, the default engine and the workspace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rivet_dagster.errors import Diagnostic, RivetError, nearest
from rivet_dagster.model import convert
from rivet_dagster.model.external_assets import DAGSTER
from rivet_dagster.model.profile import WORKSPACE, CatalogSpec, EngineSpec, Profile
from rivet_dagster.model.text_lines import Origin
from rivet_dagster.project.settings_file import (
    SettingsSection,
    boolean,
    located_mapping,
    read_settings,
    text,
    texts,
    what,
)
from rivet_dagster.project.variables import VARS, read_variables
from rivet_dagster.project.yaml_text import Located, plain
from rivet_dagster.secrets.variables import MalformedReferenceError, references, remember_literals

VARIABLE = "RIVET_PROFILE"
DEFAULT = "default"

_KEYS = ("catalogs", "engines", "default_engine", "workspace", "row_values", VARS)
_BUILT_IN_WORKSPACE = CatalogSpec(WORKSPACE, "filesystem", {"path": ".rivet/workspace"})


def read_profile(root: Path, file: str, name: str | None, environ: Mapping[str, str]) -> Profile:
    """Return the profile ``name`` (else RIVET_PROFILE, else ``default``) of the file, with unexpanded texts.

    All profiles of the file are checked, but only the chosen one needs its environment variables.
    Raise one RivetError with all errors: RVT-102 to RVT-107 and RVT-501.
    """
    errors: list[Diagnostic] = []
    whole = SettingsSection(read_settings(root / file, file), "", file, errors)
    for other, value in whole.value.items():
        if not isinstance(value, Located):
            whole.wrong("RVT-104", f"profile '{other}' must be a mapping, not {what(value)}", other)
    sections = {
        n: SettingsSection(v, f"profile '{n}'", file, errors) for n, v in whole.value.items() if isinstance(v, Located)
    }
    profiles = {other: _profile(other, section) for other, section in sections.items()}
    chosen = chosen_profile(name, environ)
    if chosen not in whole.value:
        message = f"there is no profile '{chosen}'{nearest(chosen, whole.value)}"
        errors.append(Diagnostic("RVT-106", message, file=file))
    elif chosen in sections:
        _check_references(sections[chosen], environ)
    if errors:
        raise RivetError.of(errors)
    return profiles[chosen]


def chosen_profile(name: str | None, environ: Mapping[str, str]) -> str:
    """Return the name of the profile to use: ``name``, else RIVET_PROFILE, else ``default``.

    >>> chosen_profile(None, {"RIVET_PROFILE": "production"})
    'production'
    """
    return name if name is not None else environ.get(VARIABLE) or DEFAULT


def _profile(name: str, section: SettingsSection) -> Profile:
    section.only(_KEYS)
    catalog_sections = section.sections("catalogs", "catalog")
    catalogs = [_catalog(n, entry) for n, entry in catalog_sections.items()]
    workspace = section.get("workspace", text) or WORKSPACE
    catalog_entries = section.value.get("catalogs")
    declared = tuple(catalog_entries) if isinstance(catalog_entries, Mapping) else ()
    if workspace == WORKSPACE and WORKSPACE not in declared:
        catalogs.append(_BUILT_IN_WORKSPACE)
    elif workspace not in declared:
        message = f"`workspace` names no catalog of this profile: '{workspace}'{nearest(workspace, declared)}"
        section.wrong("RVT-104", message, "workspace")
    known = tuple(dict.fromkeys((*declared, *(catalog.name for catalog in catalogs), DAGSTER)))
    engine_sections = list(_engine_sections(section))
    engines = tuple(_engine(engine, entry, known) for engine, entry in engine_sections)
    names = [engine.name for engine in engines]
    default = section.get("default_engine", text)
    if default is None and len(names) == 1:
        default = names[0]
    elif default is not None and names and default not in names:
        message = f"`default_engine` names no engine of this profile: '{default}'{nearest(default, names)}"
        section.wrong("RVT-104", message, "default_engine")
    return Profile(
        name,
        tuple(catalogs),
        engines,
        default,
        workspace,
        section.get("row_values", boolean) is not False,
        section.origin,
        variables=read_variables(section),
        catalog_origins={catalog: entry.origin for catalog, entry in catalog_sections.items()},
        engine_origins={engine: _engine_origin(entry) for engine, entry in engine_sections if engine},
    )


def _catalog(name: str, section: SettingsSection) -> CatalogSpec:
    _check_name(section, name)
    if name == DAGSTER:
        message = f"'{DAGSTER}' is the built-in catalog of what other Dagster assets return, which nobody declares"
        section.wrong("RVT-104", message)
    kind = _need(section, "type")
    return CatalogSpec(name, kind or "", _options(section, ("type",)))


def _engine_sections(profile: SettingsSection) -> Iterator[tuple[str | None, SettingsSection]]:
    """Yield the engines with their names, from a list of mappings with ``name`` or a mapping by name."""
    value = profile.value.get("engines")
    if value is None:
        profile.wrong("RVT-105", "`engines` is missing", "engines")
    elif isinstance(value, Mapping):
        for name, section in profile.sections("engines", "engine").items():
            if section.value.get("name", name) != name:
                section.wrong("RVT-104", "`name` is not the name under which the engine stands", "name")
            yield name, section
    elif isinstance(value, list):
        yield from _listed_engines(profile, value)
    else:
        profile.wrong("RVT-104", f"`engines` must be a list of engines, not {what(value)}", "engines")


def _listed_engines(profile: SettingsSection, entries: list[Any]) -> Iterator[tuple[str | None, SettingsSection]]:
    taken: set[str] = set()
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, Located):
            profile.wrong(
                "RVT-104", f"engine {number} must be a mapping with `name` and `type`, not {what(entry)}", "engines"
            )
            continue
        section = SettingsSection(entry, f"engine {number}", str(profile.origin.file), profile.errors)
        name = _need(section, "name")
        section.subject = f"engine '{name}'" if name else section.subject
        if name in taken:
            section.wrong("RVT-104", "another engine of this profile has the same name", "name")
        taken.update([name] if name else [])
        yield name, section


def _engine(name: str | None, section: SettingsSection, catalogs: tuple[str, ...]) -> EngineSpec:
    if name is not None:
        _check_name(section, name)
    kind = _need(section, "type")
    reached = section.get("catalogs", texts) or ()
    for catalog in reached:
        if catalog not in catalogs:
            message = f"`catalogs` names no catalog of this profile: '{catalog}'{nearest(catalog, catalogs)}"
            section.wrong("RVT-104", message, "catalogs")
    limit = section.get("concurrency_limit", _limit, "RVT-501")
    keys = ("name", "type", "catalogs", "concurrency_limit")
    options = _options(section, (*keys, "options"))
    for key, value in (section.get("options", located_mapping) or {}).items():
        if key in options or key in keys:
            section.wrong(
                "RVT-104",
                f"`{key}` must not stand in `options` but beside it"
                if key in keys
                else f"`{key}` stands both in `options` and beside it",
                "options",
            )
        options.setdefault(key, plain(value))
    return EngineSpec(name or "", kind or "", reached, limit, options)


def _need(section: SettingsSection, key: str) -> str | None:
    """Return a required text; a similar key in its place is named in the error, as unknown keys may be options."""
    if section.value.get(key) is None and key not in section.value:
        similar = [other for other in section.value if nearest(other, [key], listed=False)]
        if similar:
            section.wrong("RVT-105", f"`{key}` is missing; is it meant by `{similar[0]}`?", similar[0])
            return None
    return section.need(key, text)


def _engine_origin(section: SettingsSection) -> Origin:
    """Return the engine's position in the file, with the lines of its own keys and of those under ``options``."""
    options = section.value.get("options")
    lines = options.lines if isinstance(options, Located) else {}
    return replace(section.origin, lines={**section.origin.lines, **lines})


def _check_name(section: SettingsSection, name: str) -> None:
    try:
        convert.name(name)
    except ValueError as error:
        section.wrong("RVT-104", str(error), "name")


def _limit(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError("must be a whole number of at least 1")
    return value


def _options(section: SettingsSection, known: tuple[str, ...]) -> dict[str, Any]:
    options = {key: plain(value) for key, value in section.value.items() if key not in known}
    remember_literals(options)
    return options


def _check_references(profile: SettingsSection, environ: Mapping[str, str]) -> None:
    """Report each variable of the profile that is not set, once, and malformed references."""
    reported: set[str] = set()
    for path, value, line in _texts(profile.value, (), profile.value.line):
        key = ".".join(path)
        try:
            missing = [name for name in references(value) if name not in environ and name not in reported]
        except MalformedReferenceError as error:
            message = f"{profile.subject}: `{key}` {error}"
            profile.errors.append(Diagnostic("RVT-104", message, None, profile.origin.file, line))
            continue
        for variable in dict.fromkeys(missing):
            message = f"{profile.subject}: `{key}` needs the environment variable {variable}, which is not set"
            profile.errors.append(Diagnostic("RVT-107", message, None, profile.origin.file, line))
        reported.update(missing)


def _texts(value: Any, path: tuple[str, ...], line: int) -> Iterator[tuple[tuple[str, ...], str, int]]:
    if isinstance(value, str):
        yield path, value, line
    elif isinstance(value, list):
        for number, item in enumerate(value, 1):
            yield from _texts(item, (*path, str(number)), line)
    elif isinstance(value, Located):
        for key, item in value.items():
            yield from _texts(item, (*path, key), value.lines.get(key, value.line))
