"""Outputs of a dbt profile of the type ``postgres``, with the options of a catalog of the type ``jdbc``."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from rivet_dagster.catalogs.jdbc.options import POSTGRES as URL
from rivet_dagster.catalogs.jdbc.options import wrong_options
from rivet_dagster.dbt.declared import DbtDatabase, DbtPlace
from rivet_dagster.dbt.environment_text import convert_setting, escape, name_only_variable, refer_to_environment
from rivet_dagster.errors import nearest

_PORT = "5432"
_UNKNOWN = {"host": "${PGHOST}", "port": "${PGPORT}", "user": "${PGUSER}", "dbname": "${PGDATABASE}"}
"""The variables, as PostgreSQL's own programs name them, of what the profile does not say."""

_ALIASES = {"dbname": "database", "password": "pass"}
_USED = frozenset("type host port user dbname database password pass schema sslmode sslrootcert".split())
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
"""What a database's name in a URL cannot hold as it is."""


def read_postgres(name: str, output: Mapping[str, Any], place: DbtPlace, is_target: bool = False) -> DbtDatabase:
    """Return the database that an output is. No password is in it.

    >>> output = {"host": "::1", "user": "reader", "pass": "{{ env_var('PW') }}", "dbname": "shop", "threads": 4}
    >>> database = read_postgres("dev", output, DbtPlace("profiles.yml"))
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
    return DbtDatabase(name, database, options, reader.password(), place, is_target, tuple(reader.notes))


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
            if key not in _USED:
                hint = nearest(key, (*_USED, *_WITHOUT), listed=False)
                self.notes.append(f"`{key}` {_WITHOUT.get(key) or f'is not known{hint}'}")
