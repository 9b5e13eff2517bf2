"""``vars:`` of rivet.yaml and of a profile, and ``--var``: the variables of templates."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rivet_dagster.errors import Diagnostic, RivetError, nearest
from rivet_dagster.model.project import ProjectVariables
from rivet_dagster.project.settings_file import SettingsSection
from rivet_dagster.project.yaml_text import annotation_value, plain, written_scalar
from rivet_dagster.secrets.variables import MalformedReferenceError, references

VARS = "vars"
_LITERAL = "$${"


def read_variables(settings: SettingsSection) -> dict[str, Any]:
    """Return the variables under ``vars`` by name, with texts as written; add RVT-104 for those that are wrong.

    Malformed references in a profile are reported with those in its other keys.
    """
    section = settings.section(VARS, f"{settings.subject}: `{VARS}`" if settings.subject else f"`{VARS}`")
    if section is None:
        return {}
    variables: dict[str, Any] = {}
    for name, value in section.value.items():
        try:
            problem = _wrong_name(name) or _wrong_value(plain(value))
        except MalformedReferenceError as error:
            problem = "" if settings.subject else str(error)
        if problem is None:
            variables[name] = plain(value)
        elif problem:
            section.wrong("RVT-104", f"`{name}` {problem}", name)
    return variables


def given_variables(texts: Iterable[str]) -> dict[str, Any]:
    """Return the variables of ``NAME=VALUE`` texts; values are written as in YAML. Raises RVT-110.

    >>> given_variables(["region=eu", "days=30", "states=[new, paid]", "note=a=b", "none="])
    {'region': 'eu', 'days': 30, 'states': ['new', 'paid'], 'note': 'a=b', 'none': ''}
    """
    variables: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        problem = _wrong_name(name) if equals else "has no value"
        if problem is not None:
            raise RivetError("RVT-110", f"--var: '{name}' {problem}; write --var NAME=VALUE")
        try:
            variables[name] = (
                plain(annotation_value(value, 1, comments=False, scalar=written_scalar)) if value.strip() else ""
            )
        except ValueError as error:
            raise RivetError("RVT-110", f"--var: the value of '{name}' cannot be read: {error}") from None
    return variables


def variables_of(manifest: Mapping[str, Any], profile: Mapping[str, Any], given: Mapping[str, Any]) -> ProjectVariables:
    """Return the variables: ``given`` ones before those of the profile, and these before those of the manifest.

    >>> variables_of({"day": 1, "region": "eu", "cost": "$${x}"}, {"region": "${REGION}"}, {"day": 2})
    ProjectVariables(values={'day': 2, 'cost': '${x}'}, bound={'region': '${REGION}'})
    """
    declared = {**manifest, **profile}
    bound = {n: v for n, v in declared.items() if n not in given and isinstance(v, str) and references(v)}
    values = {name: _literal(value) for name, value in declared.items() if name not in bound} | dict(given)
    return ProjectVariables(values, bound)


def refuse_unknown(given: Iterable[str], declared: Collection[str], templates: Sequence[str]) -> None:
    """Raise RVT-110 for a ``given`` variable that is not ``declared``, and that no template names in quotes."""
    for name in given:
        if name not in declared and not any(f"{quote}{name}{quote}" in text for text in templates for quote in "'\""):
            message = f"--var: there is no variable '{name}'{nearest(name, declared)}"
            raise RivetError("RVT-110", message, remediation="Declare it under `vars:` of rivet.yaml.")


def unset_variables(
    manifest: Mapping[str, Any],
    variables: ProjectVariables,
    environ: Mapping[str, str],
    file: str,
    lines: Mapping[str, int],
) -> list[Diagnostic]:
    """Return RVT-107 for each variable of the manifest that needs one of the environment that is not set."""
    return [
        Diagnostic(
            "RVT-107",
            f"`{VARS}.{name}` needs the environment variable {variable}, which is not set",
            None,
            file,
            lines.get(name),
        )
        for name, text in variables.bound.items()
        if manifest.get(name) is text
        for variable in dict.fromkeys(references(text))
        if variable not in environ
    ]


def _wrong_name(name: str) -> str | None:
    if not name.isidentifier() or not name.isascii():
        return "must be a name of letters, digits and '_' that does not begin with a digit"
    return None


def _wrong_value(value: Any) -> str | None:
    inner = [name for text in _texts(value) for name in references(text)]
    if inner and not isinstance(value, str):
        return "holds a ${NAME} within a list or mapping; make a variable of its own of it"
    return None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(item)


def _literal(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace(_LITERAL, "${")
    if isinstance(value, Mapping):
        return {key: _literal(item) for key, item in value.items()}
    return [_literal(item) for item in value] if isinstance(value, list) else value
