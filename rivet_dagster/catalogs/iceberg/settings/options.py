"""The declaration of an Iceberg catalog: its kinds, what each needs and what it is for, and where its places are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.capabilities.staging import wrong_publish
from rivet_dagster.catalogs.iceberg.settings.upkeep_options import wrong_upkeep
from rivet_dagster.entry_points import is_unexpanded
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.model import convert
from rivet_dagster.paths import resolve_path, scheme

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


HADOOP, REST, JDBC, HIVE, GLUE, NESSIE = KINDS = ("hadoop", "rest", "jdbc", "hive", "glue", "nessie")
OPTIONS = frozenset({"catalog", "warehouse", "uri", "publish", "default-namespace", "upkeep"})
"""The keys that rivet_dagster itself reads; any other goes to Iceberg's catalogs as it is."""

OWN_OPTIONS = frozenset({"catalog", "publish", "upkeep"})
"""The keys that Iceberg does not know."""

SQLITE = "jdbc:sqlite:"

_NEEDED = {
    HADOOP: ("warehouse",),
    REST: ("uri",),
    JDBC: ("uri", "warehouse"),
    HIVE: ("uri",),
    GLUE: ("warehouse",),
    NESSIE: ("uri", "warehouse"),
}
_URIS = {
    REST: (re.compile(r"https?://[^/]"), "an address like https://host/catalog"),
    JDBC: (re.compile(r"jdbc:(postgresql:|sqlite:[^:])"), "jdbc:postgresql://host/database or jdbc:sqlite:file"),
    HIVE: (re.compile(r"thrift://[^/]"), "an address like thrift://host:9083"),
    NESSIE: (re.compile(r"https?://[^/]+.*/api/v\d"), "an address like https://host:19120/api/v2"),
}


def wrong_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Return what is wrong with the values of ``options``, by key: the end of a sentence that begins with the key.

    >>> wrong_options({"catalog": "jdbc", "uri": "jdbc:oracle:thin:@db"})["warehouse"]
    'is missing: a jdbc catalog needs it'
    >>> wrong_options({"catalog": "hadop", "warehouse": "lake"})
    {'catalog': "must be one of hadoop, rest, jdbc, hive, glue, nessie, not 'hadop'; did you mean 'hadoop'?"}
    """
    wrong = _wrong_values(options)
    kind = options.get("catalog")
    if kind is None:
        wrong["catalog"] = f"is missing: it is one of {', '.join(KINDS)}"
    elif kind in KINDS:
        missing = [key for key in _NEEDED[kind] if key not in options]
        wrong |= dict.fromkeys(missing, f"is missing: a {kind} catalog needs it")
        if "uri" in options and "uri" not in wrong and (why := _wrong_uri(kind, options["uri"])):
            wrong["uri"] = why
        if kind == HADOOP and "warehouse" not in wrong and (why := _wrong_folder(options["warehouse"])):
            wrong["warehouse"] = why
    elif not is_unexpanded(kind):
        hint = nearest(str(kind), KINDS, listed=False)
        wrong["catalog"] = f"must be one of {', '.join(KINDS)}, not {convert.show(kind)}{hint}"
    return wrong


def warehouse(options: Mapping[str, Any], root: Path) -> str | None:
    """Return the URI of the folder of all tables, which may be relative to ``root``; None without one.

    To a REST catalog it is a name that its server knows, and is returned as it is.

    >>> warehouse({"catalog": "hadoop", "warehouse": "lake"}, Path("/project"))
    'file:///project/lake'
    """
    declared = options.get("warehouse")
    if declared is None or options["catalog"] == REST or scheme(declared) not in (None, "file"):
        return declared
    return f"file://{resolve_path(declared, root)}"


def uri(options: Mapping[str, Any], root: Path) -> str | None:
    """Return the address of the catalog, None without one; a file of SQLite may be relative to ``root``.

    >>> uri({"uri": "jdbc:sqlite:catalog.db?busy_timeout=9"}, Path("/project"))
    'jdbc:sqlite:/project/catalog.db?busy_timeout=9'
    """
    declared: str | None = options.get("uri")
    if declared is None or not declared.startswith(SQLITE):
        return declared
    file, mark, parameters = declared.removeprefix(SQLITE).removeprefix("file:").partition("?")
    return f"{SQLITE}{resolve_path(file, root)}{mark}{parameters}"


def is_on_s3(options: Mapping[str, Any]) -> bool:
    """Return whether Iceberg needs the libraries of AWS for a catalog.

    >>> is_on_s3({"catalog": "rest", "uri": "http://host", "s3.endpoint": "http://store"})
    True
    """
    return (
        options["catalog"] == GLUE
        or scheme(str(options.get("warehouse"))) == "s3"
        or "S3FileIO" in str(options.get("io-impl"))
        or any(key.startswith("s3.") for key in options)
    )


def _wrong_values(options: Mapping[str, Any]) -> dict[str, str]:
    wrong = {}
    if (why := wrong_upkeep(options.get("upkeep"))) is not None:
        wrong["upkeep"] = why
    for key, value in options.items():
        if key == "upkeep":
            continue
        try:
            convert.text(value) if key in OPTIONS else convert.setting(value)
        except ValueError as error:
            wrong[key] = str(error)
    if "publish" not in wrong:
        wrong |= wrong_publish(options)
    if "catalog-impl" in options:
        wrong["catalog-impl"] = "cannot stand beside `catalog`, which names the kind"
    return wrong


def _wrong_uri(kind: str, address: str) -> str | None:
    if kind not in _URIS:
        return f"has no meaning for a {kind} catalog"
    form, wanted = _URIS[kind]
    if is_unexpanded(address) or form.match(address):
        return None
    return f"must be {wanted}, not {convert.show(address)}"


def _wrong_folder(warehouse: str) -> str | None:
    if is_unexpanded(warehouse) or scheme(warehouse) in (None, "file"):
        return None
    given = convert.show(warehouse)
    return f"must be a folder of this machine, not {given}: tables in an object store need another kind of catalog"


_OF_NESSIE = "nessie.is-nessie-catalog"
"""The setting by which Nessie tells clients of a REST catalog what it is."""


def refuse_nessie(catalog: Catalog) -> None:
    """Raise RVT-413 for a REST catalog of Nessie, which keeps no branches of a table in that protocol.

    What a run stages on a branch would be current at once.
    """
    if str(catalog.properties.get(_OF_NESSIE, "")).lower() == "true":
        message = (
            f"the server of the REST catalog '{catalog.name}' is Nessie, whose Iceberg REST endpoint keeps no branches "
            "of a table: readers would see rows before they are published"
        )
        remedy = "Use `catalog: nessie` with a `uri` that ends with /api/v2, and a `warehouse`."
        raise RivetError("RVT-413", message, remediation=remedy)
