"""The profile of a dbt project: its target, and the outputs that are PostgreSQL databases."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rivet_dagster.dbt.declared import POSTGRES, DbtDatabase, DbtPlace, DbtTarget, Other
from rivet_dagster.dbt.reading.postgres_output import read_postgres
from rivet_dagster.dbt.values import UnknownValueError, render_value, value_context
from rivet_dagster.dbt.yaml_file import line_of, read_file, read_yaml_file
from rivet_dagster.project.text_file import TextError

PROFILES_FILE = "profiles.yml"

_ONLY_SHOWN = frozenset(("method", "host", "port", "user", "dbname", "database"))
_USED = ("type", "schema", "method", "host", "port", "server_side_parameters")
_OF_POSTGRES = ("type", "schema", "host", "port", "user", "dbname", "database")
_SCHEMAS = {POSTGRES: "public"}


@dataclass(frozen=True)
class DbtProfile:
    """The target of a profile, its databases, and what is wrong with it."""

    target: DbtTarget
    databases: tuple[DbtDatabase, ...] = ()
    problems: tuple[Other, ...] = ()


def read_profile(root: Path, profile: str | None, target_path: str = "target") -> DbtProfile:
    """Return the profile of a project, of which only what is no secret is read.

    Without a profile in the project, its target is of the type that dbt last compiled it for, if that is known.
    """
    path = root / PROFILES_FILE
    if not path.is_file():
        return _without_file(root, profile, target_path)
    try:
        value = read_yaml_file(path)
    except TextError as error:
        problem = Other("profile", PROFILES_FILE, DbtPlace(PROFILES_FILE, error.line or 1), error.message)
        return DbtProfile(DbtTarget(), (), (problem,))
    name = profile if profile is not None else "default"
    own = value.get(name)
    outputs = own.get("outputs") if isinstance(own, Mapping) else None
    if not isinstance(own, Mapping) or not isinstance(outputs, Mapping):
        wrong = f"there is no profile '{name}' with `outputs`"
        problem = Other("profile", name, DbtPlace(PROFILES_FILE, line_of(value, name)), wrong)
        return DbtProfile(DbtTarget(profile=name), (), (problem,))
    target, problems = _read_target(name, own, outputs)
    databases = (
        read_postgres(key, output, DbtPlace(PROFILES_FILE, line_of(outputs, key)), key == target.name)
        for key, output in outputs.items()
        if isinstance(output, Mapping) and output.get("type") == POSTGRES
    )
    return DbtProfile(target, tuple(databases), tuple(problems))


def _without_file(root: Path, profile: str | None, target_path: str) -> DbtProfile:
    name, manifest = profile or "default", f"{target_path}/manifest.json"
    try:
        read = json.loads(read_file(root / manifest))
    except (TextError, ValueError):
        read = None
    metadata = read.get("metadata") if isinstance(read, Mapping) else None
    if not isinstance(metadata, Mapping) or metadata.get("adapter_type") != POSTGRES:
        return DbtProfile(DbtTarget(profile=name))
    place = DbtPlace(manifest)
    target = DbtTarget(profile=name, adapter=POSTGRES, schema=_SCHEMAS[POSTGRES], method="", place=place)
    database = read_postgres(target.name, {"password": "{{ env_var('PGPASSWORD') }}"}, place, True)
    why = f"there is no {PROFILES_FILE} in the project, which dbt has compiled for postgres: the catalog has variables"
    return DbtProfile(target, (database,), (Other("profile", name, place, why),))


def _read_target(name: str, own: Mapping[str, Any], outputs: Mapping[str, Any]) -> tuple[DbtTarget, list[Other]]:
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
    is_postgres = output.get("type") == POSTGRES
    values = {key: known(key, output, None) for key in (_OF_POSTGRES if is_postgres else _USED) if key in output}
    default = _SCHEMAS[POSTGRES] if is_postgres else "default"
    schema = str(values.get("schema") or default)
    if not re.fullmatch(r"\w+", schema, re.ASCII):
        message = f"the schema '{schema}' is no name of letters, digits and '_': `{default}` is taken"
        wrong_values.append(Other("profile", "schema", DbtPlace(PROFILES_FILE, line_of(output, "schema")), message))
        schema = default
    if is_postgres:
        database = values.get("dbname") or values.get("database")
        values |= {"dbname": database, "database": database}
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
