"""The URL by which SQLAlchemy connects to the database of a JDBC URL."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from rivet_dagster.catalogs.iceberg.settings.options import SQLITE

_PARAMETERS = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "connectTimeout": "connect_timeout",
    "ApplicationName": "application_name",
}
"""Parameters of PostgreSQL's JDBC driver, by their names in libpq; others are about that driver alone."""

_SECONDS = "10"
"""The seconds that a connection may take unless the options say; libpq by itself waits for minutes."""


def sqlalchemy_url(jdbc: str, properties: Mapping[str, str]) -> str:
    """Return SQLAlchemy's URL of a JDBC URL of PostgreSQL or SQLite; ``properties`` are the driver's, such as ``user``.

    >>> sqlalchemy_url("jdbc:postgresql://db:5433/sales?sslmode=require", {"user": "ann", "password": "a@b/c"})
    'postgresql+psycopg2://ann:a%40b%2Fc@db:5433/sales?connect_timeout=10&sslmode=require'
    >>> sqlalchemy_url("jdbc:sqlite:/lake/catalog.db?busy_timeout=9", {})
    'sqlite:////lake/catalog.db'
    """
    if jdbc.startswith(SQLITE):
        return f"sqlite:///{jdbc.removeprefix(SQLITE).partition('?')[0]}"
    # Without a host JDBC means this machine's port, libpq its socket.
    address = urlsplit(jdbc.removeprefix("jdbc:"))
    host, database = address.netloc or "localhost", address.path.removeprefix("/")
    given = {**properties, **dict(parse_qsl(address.query))}
    login = ":".join(quote(given[key], safe="") for key in ("user", "password") if key in given)
    query = {"connect_timeout": _SECONDS} | {
        ours: given[theirs] for theirs, ours in _PARAMETERS.items() if theirs in given
    }
    if "currentSchema" in given:
        query["options"] = f"-csearch_path={given['currentSchema']}"
    return f"postgresql+psycopg2://{login}{'@' if login else ''}{host}/{database}?{urlencode(query)}"
