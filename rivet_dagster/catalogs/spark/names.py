"""Names of tables, as joints declare them and as Spark's SQL writes them, and the columns of a Hive table as DDL."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rivet_dagster.catalogs.capabilities.staging import wrong_publish
from rivet_dagster.entry_points import is_unexpanded
from rivet_dagster.errors import RivetError
from rivet_dagster.model.convert import show
from rivet_dagster.model.target import PUBLISH
from rivet_dagster.paths import resolve_path, scheme

OWN = "spark_catalog"
"""Spark's name of a session's own catalog."""

_NAME = re.compile(r"[A-Za-z0-9_]{1,128}")


@dataclass(frozen=True)
class SparkTableName:
    """A table of a database of the session's own catalog, both in lower case, since letter case makes no difference."""

    database: str
    table: str

    @classmethod
    def of(cls, text: str, default: str) -> SparkTableName:
        """Return the name that a joint's ``table`` stands for; without a database it is in ``default``.

        Raises RVT-204.

        >>> SparkTableName.of("Orders", "default"), SparkTableName.of("shop.orders", "default").quoted
        (SparkTableName(database='default', table='orders'), '`spark_catalog`.`shop`.`orders`')
        """
        database, _, table = text.rpartition(".")
        if not is_name(table) or (text != table and not is_name(database)):
            raise RivetError(
                "RVT-204",
                f"no table can be called {show(text)}",
                remediation="Name it `table` or `database.table`, of letters, digits and '_'.",
            )
        return cls((database or default).lower(), table.lower())

    @property
    def identifier(self) -> tuple[str, str, str]:
        """The parts of the name, the catalog included."""
        return (OWN, self.database, self.table)

    @property
    def quoted(self) -> str:
        """The name in SQL."""
        return self.quoted_in(OWN)

    def quoted_in(self, catalog: str) -> str:
        """Return the name in SQL where the session's own catalog has that name.

        >>> SparkTableName("sales", "orders").quoted_in("main")
        '`main`.`sales`.`orders`'
        """
        return ".".join(f"`{part}`" for part in (catalog.replace("`", "``"), self.database, self.table))

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


def is_name(text: str) -> bool:
    """Return whether a database or a table can have the name.

    >>> is_name("orders_2024"), is_name("o'rders"), is_name("")
    (True, False, False)
    """
    return _NAME.fullmatch(text) is not None


OPTIONS = frozenset({"database", "hive", "metastore", "versions", "warehouse", PUBLISH})

_THRIFT = "thrift"


def wrong_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Return what is wrong with the values of ``options``: a sentence by key.

    >>> wrong_options({"metastore": "thrift://meta:9083", "hive": "yes"})
    {'hive': "must be true or false, not 'yes'"}
    """
    wrong = {}
    database, hive, versions = options.get("database", "default"), options.get("hive", True), options.get("versions", 2)
    if not is_unexpanded(database) and not (isinstance(database, str) and is_name(database)):
        wrong["database"] = f"must be a name of letters, digits and '_', not {show(database)}"
    if not isinstance(hive, bool):
        wrong["hive"] = f"must be true or false, not {show(hive)}"
    for key in ("metastore", "warehouse"):
        value = options.get(key, "a")
        if not isinstance(value, str) or not value:
            wrong[key] = f"must be {'an address or a folder' if key == 'metastore' else 'a folder'}, not {show(value)}"
    kind = scheme(str(options.get("metastore", "")))
    if kind not in (None, "file", _THRIFT) and "metastore" not in wrong:
        wrong["metastore"] = f"must be a thrift:// address or a folder, not {kind}://"
    if hive is False and "metastore" in options:
        wrong["metastore"] = "is Hive's, and has no meaning with `hive: false`"
    # An expanded variable is always a text.
    is_number = not isinstance(versions, bool) and str(versions).isdecimal() and int(versions) >= 1
    if not is_unexpanded(versions) and not is_number:
        wrong["versions"] = f"must be a whole number of at least 1, not {show(versions)}"
    return wrong | wrong_publish(options)


def resolve_paths(options: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """Return the options with absolute paths; ``root`` is the project's directory."""
    paths = {key: str(options[key]) for key in ("metastore", "warehouse") if key in options}
    local = {key: value for key, value in paths.items() if scheme(value) in (None, "file")}
    return {**options, **{key: resolve_path(value, root) for key, value in local.items()}}


def session_settings(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of a session that reaches the tables; ``options`` are resolved ones.

    >>> session_settings({"metastore": "thrift://meta:9083"})
    {'spark.sql.catalogImplementation': 'hive', 'spark.hadoop.hive.metastore.uris': 'thrift://meta:9083'}
    """
    settings = {"spark.sql.catalogImplementation": "hive"} if options.get("hive", True) else {}
    if "warehouse" in options:
        settings["spark.sql.warehouse.dir"] = options["warehouse"]
    metastore = options.get("metastore")
    if metastore is None:
        return settings
    if scheme(metastore) == _THRIFT:
        return {**settings, "spark.hadoop.hive.metastore.uris": metastore}
    return {
        **settings,
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={metastore};create=true",
        # A new version may have another type at the position of a column.
        "spark.hadoop.hive.metastore.disallow.incompatible.col.type.changes": "false",
        # Else Derby's log would be written to the working directory.
        "spark.driver.extraJavaOptions": f'"-Dderby.stream.error.file={metastore}.log"',
    }


_TYPES = {
    "byte": "TINYINT",
    "short": "SMALLINT",
    "integer": "INT",
    "long": "BIGINT",
    **{name: name.upper() for name in ("boolean", "float", "double", "string", "binary", "date", "timestamp")},
}
"""Types that Hive's metastore has, by their names in the JSON of a schema; DECIMAL(p, s) is another."""


def columns_ddl(schema: str) -> str:
    """Return the columns of a schema, which is the JSON of Spark's StructType, as they stand in CREATE TABLE.

    Raises RVT-404 for columns of types that Hive's metastore does not have.

    >>> columns_ddl('{"type": "struct", "fields": [{"name": "id", "type": "long"}, {"name": "at", "type": "date"}]}')
    '`id` BIGINT, `at` DATE'
    """
    fields = json.loads(schema)["fields"]
    unknown = [(field["name"], name) for field in fields for name in _unknown(field["type"])]
    if unknown:
        columns = ", ".join(f"'{column}' ({name})" for column, name in unknown)
        raise RivetError(
            "RVT-404",
            f"a Hive table has no columns of these types: {columns}",
            remediation="Give the columns other types, with CAST; a TIMESTAMP_NTZ can be a TIMESTAMP.",
        )
    return ", ".join(f"{_quoted(field['name'])} {_ddl(field['type'])}" for field in fields)


def _unknown(type_: Any) -> Iterator[str]:
    match type_:
        case str():
            if type_ not in _TYPES and not type_.startswith("decimal("):
                yield type_
        case {"type": "struct", "fields": fields}:
            for field in fields:
                yield from _unknown(field["type"])
        case {"type": "array", "elementType": element}:
            yield from _unknown(element)
        case {"type": "map", "keyType": key, "valueType": value}:
            yield from _unknown(key)
            yield from _unknown(value)
        case _:
            yield str(type_.get("type"))


def _ddl(type_: Any) -> str:
    match type_:
        case {"type": "struct", "fields": fields}:
            members = (f"{_quoted(field['name'])}: {_ddl(field['type'])}" for field in fields)
            return f"STRUCT<{', '.join(members)}>"
        case {"type": "array", "elementType": element}:
            return f"ARRAY<{_ddl(element)}>"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"MAP<{_ddl(key)}, {_ddl(value)}>"
    return _TYPES.get(type_) or str(type_).upper()


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
