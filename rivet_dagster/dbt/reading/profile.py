"""The profile of a dbt project: its target, and the outputs that are PostgreSQL databases.

An output of the type ``postgres`` is read with the options of a catalog of the type ``jdbc``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rivet_dagster.catalogs.jdbc.options import POSTGRES as URL
from rivet_dagster.catalogs.jdbc.options import wrong_options
from rivet_dagster.dbt.declared import POSTGRES, DbtDatabase, DbtLocation, DbtTarget, Other
from rivet_dagster.dbt.files import line_of, read_file, read_yaml_file
from rivet_dagster.dbt.values import (
    NOT_READ,
    ImportEnvironment,
    UnknownValueError,
    convert_setting,
    escape,
    name_only_variable,
    refer_to_environment,
    render_value,
    value_context,
    without_environment,
)
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.project.text_file import TextError

PROFILES_FILE = "profiles.yml"

_ONLY_SHOWN = frozenset(("method", "host", "port", "user", "dbname", "database"))
_OF_ENVIRONMENT = ("target", "schema")
_USED = ("type", "schema", "method", "host", "port", "server_side_parameters")
_OF_POSTGRES = ("type", "schema", "host", "port", "user", "dbname", "database")
_SCHEMAS = {POSTGRES: "public"}


@dataclass(frozen=True)
class DbtProfile:
    """The target of a profile, its databases, and what is wrong with it."""

    target: DbtTarget
    databases: tuple[DbtDatabase, ...] = ()
    problems: tuple[Other, ...] = ()


def read_profile(
    root: Path,
    profile: str | None,
    target_path: str = "target",
    environment: ImportEnvironment = NOT_READ,
    output: str | None = None,
) -> DbtProfile:
    """Return the profile of a project, of which only what is no secret is read.

    The target is the ``output`` of that name, else the profile's own, which may be a variable of the ``environment``,
    as its schema may. Raises RVT-145 if there is no such output.

    Without a profile in the project, its target is of the type that dbt last compiled it for, if that is known.
    """
    path = root / PROFILES_FILE
    if not path.is_file():
        if output is not None:
            raise _no_output(output, f"there is no {PROFILES_FILE} in {root}")
        return _without_file(root, profile, target_path)
    try:
        value = read_yaml_file(path)
    except TextError as error:
        if output is not None:
            raise _no_output(output, error.message, error.line or 1) from None
        problem = Other("profile", PROFILES_FILE, DbtLocation(PROFILES_FILE, error.line or 1), error.message)
        return DbtProfile(DbtTarget(), (), (problem,))
    name = profile if profile is not None else "default"
    declared = value.get(name)
    outputs = declared.get("outputs") if isinstance(declared, Mapping) else None
    if not isinstance(declared, Mapping) or not isinstance(outputs, Mapping):
        wrong = f"there is no profile '{name}' with `outputs`"
        if output is not None:
            raise _no_output(output, wrong, line_of(value, name))
        problem = Other("profile", name, DbtLocation(PROFILES_FILE, line_of(value, name)), wrong)
        return DbtProfile(DbtTarget(profile=name), (), (problem,))
    if output is not None and not isinstance(outputs.get(output), Mapping):
        wrong = f"it is no output of the profile '{name}'{nearest(output, map(str, outputs))}"
        raise _no_output(output, wrong, line_of(declared, "outputs"))
    target, problems = _read_target(name, declared, outputs, environment, output)
    databases = (
        read_postgres(key, each, DbtLocation(PROFILES_FILE, line_of(outputs, key)), key == target.name)
        for key, each in outputs.items()
        if isinstance(each, Mapping) and each.get("type") == POSTGRES
    )
    return DbtProfile(target, tuple(databases), tuple(problems))


def _no_output(output: str, why: str, line: int | None = None) -> RivetError:
    file = PROFILES_FILE if line is not None else None
    return RivetError("RVT-145", f"the target '{output}' cannot be used: {why}", file=file, line=line)


def _without_file(root: Path, profile: str | None, target_path: str) -> DbtProfile:
    name, manifest = profile or "default", f"{target_path}/manifest.json"
    try:
        read = json.loads(read_file(root / manifest))
    except (TextError, ValueError):
        read = None
    metadata = read.get("metadata") if isinstance(read, Mapping) else None
    if not isinstance(metadata, Mapping) or metadata.get("adapter_type") != POSTGRES:
        return DbtProfile(DbtTarget(profile=name))
    location = DbtLocation(manifest)
    target = DbtTarget(profile=name, adapter=POSTGRES, schema=_SCHEMAS[POSTGRES], method="", location=location)
    database = read_postgres(target.name, {"password": "{{ env_var('PGPASSWORD') }}"}, location, True)
    why = f"there is no {PROFILES_FILE} in the project, which dbt has compiled for postgres: the catalog has variables"
    return DbtProfile(target, (database,), (Other("profile", name, location, why),))


def _read_target(
    name: str,
    declared: Mapping[str, Any],
    outputs: Mapping[str, Any],
    environment: ImportEnvironment,
    chosen: str | None = None,
) -> tuple[DbtTarget, list[Other]]:
    context = value_context(dict[str, Any]().__getitem__, {}, environment)
    wrong_values: list[Other] = []

    def known(key: str, holder: Mapping[str, Any], default: Any) -> Any:
        read = context if key in _OF_ENVIRONMENT else without_environment(context)
        try:
            return render_value(holder.get(key, default), read, DbtLocation(PROFILES_FILE, line_of(holder, key)))
        except UnknownValueError as error:
            if key in _ONLY_SHOWN:
                return default
            location = DbtLocation(PROFILES_FILE, line_of(holder, key))
            wrong_values.append(Other("profile", key, location, f"`{key}` is left out: {error}"))
            return default

    target = chosen or str(known("target", declared, "default"))
    if target not in outputs:
        target = next(iter(outputs), target)
    output = outputs.get(target)
    if not isinstance(output, Mapping):
        wrong = f"the target '{target}' of the profile '{name}' is no mapping"
        return DbtTarget(target, name), [
            Other("profile", name, DbtLocation(PROFILES_FILE, line_of(outputs, target)), wrong)
        ]
    is_postgres = output.get("type") == POSTGRES
    values = {key: known(key, output, None) for key in (_OF_POSTGRES if is_postgres else _USED) if key in output}
    default = _SCHEMAS[POSTGRES] if is_postgres else "default"
    schema = str(values.get("schema") or default)
    if not re.fullmatch(r"\w+", schema, re.ASCII):
        message = f"the schema '{schema}' is no name of letters, digits and '_': `{default}` is taken"
        wrong_values.append(Other("profile", "schema", DbtLocation(PROFILES_FILE, line_of(output, "schema")), message))
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
            location=DbtLocation(PROFILES_FILE, line_of(outputs, target)),
            values={key: value for key, value in values.items() if value is not None and key != "schema"},
        ),
        wrong_values,
    )


_PORT = "5432"
_UNKNOWN = {"host": "${PGHOST}", "port": "${PGPORT}", "user": "${PGUSER}", "dbname": "${PGDATABASE}"}
"""The variables, as PostgreSQL's own programs name them, of what the profile does not say."""

_ALIASES = {"dbname": "database", "password": "pass"}
_USED_BY_CATALOGS = frozenset("type host port user dbname database password pass schema sslmode sslrootcert".split())
_WITHOUT = {
    "threads": "is not used: `connections` of the catalog says how many connections a run of a group has",
    "connect_timeout": "is not used: the catalog gives a connection 10 seconds",
    "keepalives_idle": "is not used: the catalog has its own",
    "retries": "is not used: joints have `options: {retries: 3}`",
    "search_path": "has no counterpart: tables are named with their schemas",
    "role": "has no counterpart: the user itself needs the rights",
    "sslcert": "has no counterpart: the catalog does not log in by a certificate",
    "sslkey": "has no counterpart: the catalog does not log in by a certificate",
}
_IPV6 = re.compile(r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*:[\w:.%]*")
_NO_NAME = re.compile(r"[/?#%&+\s\"'\\]")
"""Characters that a database's name in a URL cannot hold as they are."""


def read_postgres(name: str, output: Mapping[str, Any], location: DbtLocation, is_target: bool = False) -> DbtDatabase:
    """Return the database that an output is. No password is in it.

    >>> output = {"host": "::1", "user": "reader", "pass": "{{ env_var('PW') }}", "dbname": "shop", "threads": 4}
    >>> database = read_postgres("dev", output, DbtLocation("profiles.yml"))
    >>> database.options["url"], database.password, len(database.notes)
    ('jdbc:postgresql://[::1]:5432/shop', 'PW', 1)
    """
    reader = _OutputReader(output)
    host, port, database = reader.hosts(), reader.port(), reader.database()
    options = {"url": f"{URL}//{','.join(f'{each}:{port}' for each in host)}/{database}"}
    user = reader.text("user", _UNKNOWN["user"])
    options |= {"user": user if user is not None else _UNKNOWN["user"]}
    for key in ("schema", "sslmode", "sslrootcert"):
        value = reader.text(key, None)
        if value is not None:
            options[key] = value
    reader.check(options)
    reader.tell_unused()
    return DbtDatabase(name, database, options, reader.password(), location, is_target, tuple(reader.notes))


class _OutputReader:
    """Reads the keys of an output; ``notes`` are what is told of them."""

    def __init__(self, output: Mapping[str, Any]) -> None:
        self._output = {key: value for key, value in output.items() if value not in (None, "")}
        self.notes: list[str] = []

    def _given(self, key: str) -> Any:
        return self._output.get(key, self._output.get(_ALIASES.get(key, key)))

    def text(self, key: str, otherwise: str | None) -> str | None:
        """Return the text of a key; ``otherwise`` for one whose value nobody knows, None for one that is absent."""
        value = self._given(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, str | int):
            return self._unknown(key, "it is no text", otherwise)
        if isinstance(value, int) or "{" not in value:
            return escape(str(value))
        text = convert_setting(value)
        if text is None:
            return self._unknown(key, "it is computed", otherwise)
        if refer_to_environment(value) is None and "env_var" in value and "${" not in text.replace("$${", ""):
            self.notes.append(f"`{key}` is '{text}', the default of its env_var")
        return text

    def _unknown(self, key: str, why: str, otherwise: str | None) -> str | None:
        self.notes.append(f"`{key}` is {otherwise}: {why}" if otherwise else f"`{key}` is left out: {why}")
        return otherwise

    def hosts(self) -> list[str]:
        """Return the hosts as a URL has them: IPv6 addresses in brackets."""
        text = self.text("host", _UNKNOWN["host"]) or _UNKNOWN["host"]
        if text.startswith(("/", "@")):
            self.notes.append(f"`host` is localhost: '{text}' is a socket, and the JDBC driver knows TCP alone")
            return ["localhost"]
        hosts = [host.strip() for host in text.split(",")]
        return [
            f"[{host}]" if re.fullmatch(r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*:[\w:.%]*", host) else host for host in hosts
        ]

    def port(self) -> str:
        """Return the port, or the variable that has it."""
        text = self.text("port", _UNKNOWN["port"])
        if text is None:
            return _PORT
        if text.isdecimal() or "${" in text:
            return text
        self.notes.append(f"`port` is {_PORT}: '{text}' is no number")
        return _PORT

    def database(self) -> str:
        """Return the name of the database, or the variable that has it."""
        text = self.text("dbname", _UNKNOWN["dbname"])
        if text is not None and _NO_NAME.search(text):
            self.notes.append(f"`dbname` is {_UNKNOWN['dbname']}: a URL cannot hold '{text}' as it is")
            text = None
        return text or _UNKNOWN["dbname"]

    def password(self) -> str | None:
        """Return the variable that has the password, an empty text where the profile has it; see ``DbtDatabase``."""
        value = self._given("password")
        if value is None:
            return None
        name = name_only_variable(value) if isinstance(value, str) else None
        if (
            name is not None
            and refer_to_environment(str(value)) is None
            and convert_setting(str(value)) != f"${{{name}}}"
        ):
            self.notes.append(f"`password` is ${{{name}}}: its default is a secret, and is not copied")
        return name or ""

    def check(self, options: dict[str, str]) -> None:
        """Take out of ``options`` what a catalog does not take."""
        for key, why in wrong_options(options).items():
            self.notes.append(f"`{key}` is left out: it {why}")
            del options[key]
        certificate = options.get("sslrootcert")
        if certificate == "system":
            self.notes.append("`sslrootcert` is left out: name the file of the certificates instead of `system`")
            del options["sslrootcert"]
        elif certificate is not None and not os.path.isabs(certificate) and "${" not in certificate:
            self.notes.append(f"`sslrootcert` is relative to the new project: put '{certificate}' there")

    def tell_unused(self) -> None:
        """Add what is told of the keys that are not used."""
        for key in self._output:
            if key not in _USED_BY_CATALOGS:
                hint = nearest(key, (*_USED_BY_CATALOGS, *_WITHOUT), listed=False)
                self.notes.append(f"`{key}` {_WITHOUT.get(key) or f'is not known{hint}'}")
