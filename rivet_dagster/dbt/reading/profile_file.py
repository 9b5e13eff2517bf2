"""profiles.yml in the project's directory: the target that dbt would run on. A profile elsewhere is not read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rivet_dagster.dbt.declared import Other, Place, Target
from rivet_dagster.dbt.values import UnknownValueError, rendered, value_context
from rivet_dagster.dbt.yaml_file import line_of, read_yaml_file
from rivet_dagster.project.text_file import TextError

PROFILES_FILE = "profiles.yml"

_ONLY_SHOWN = frozenset(("method", "host", "port"))
_USED = ("type", "schema", "method", "host", "port", "server_side_parameters")


def read_target(root: Path, profile: str | None) -> tuple[Target, list[Other]]:
    """Return the default target of a profile, and what is wrong with it. Only what is no secret is read."""
    path = root / PROFILES_FILE
    if not path.is_file():
        return Target(profile=profile or "default"), []
    try:
        value = read_yaml_file(path)
    except TextError as error:
        return Target(), [Other("profile", PROFILES_FILE, Place(PROFILES_FILE, error.line or 1), error.message)]
    name = profile if profile is not None else "default"
    own = value.get(name)
    outputs = own.get("outputs") if isinstance(own, Mapping) else None
    if not isinstance(own, Mapping) or not isinstance(outputs, Mapping):
        wrong = f"there is no profile '{name}' with `outputs`"
        return Target(profile=name), [Other("profile", name, Place(PROFILES_FILE, line_of(value, name)), wrong)]
    context = value_context(dict[str, Any]().__getitem__, {})
    wrong_values: list[Other] = []

    def known(key: str, holder: Mapping[str, Any], default: Any) -> Any:
        try:
            return rendered(holder.get(key, default), context)
        except UnknownValueError as error:
            if key in _ONLY_SHOWN:
                return default
            place = Place(PROFILES_FILE, line_of(holder, key))
            wrong_values.append(Other("profile", key, place, f"`{key}` is left out: {error}"))
            return default

    target = str(known("target", own, "default"))
    if target not in outputs:
        target = next(iter(outputs), target)
    output = outputs.get(target)
    if not isinstance(output, Mapping):
        wrong = f"the target '{target}' of the profile '{name}' is no mapping"
        return Target(target, name), [Other("profile", name, Place(PROFILES_FILE, line_of(outputs, target)), wrong)]
    values = {key: known(key, output, None) for key in _USED if key in output}
    schema = str(values.get("schema") or "default")
    if not re.fullmatch(r"\w+", schema, re.ASCII):
        message = f"the schema '{schema}' is no name of letters, digits and '_': `default` is taken"
        wrong_values.append(Other("profile", "schema", Place(PROFILES_FILE, line_of(output, "schema")), message))
        schema = "default"
    return (
        Target(
            name=target,
            profile=name,
            adapter=str(values.get("type") or "spark"),
            schema=schema,
            method=str(values.get("method") or ""),
            place=Place(PROFILES_FILE, line_of(outputs, target)),
            values={key: value for key, value in values.items() if value is not None and key != "schema"},
        ),
        wrong_values,
    )
