"""Names of tables, as joints declare them and as Spark's SQL writes them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rivet_dagster.errors import RivetError
from rivet_dagster.model.convert import show

OWN = "spark_catalog"
"""Spark's name of a session's own catalog."""

_NAME = re.compile(r"[A-Za-z0-9_]{1,128}")


@dataclass(frozen=True)
class TableName:
    """A table of a database of the session's own catalog, both in lower case, since letter case makes no difference."""

    database: str
    table: str

    @classmethod
    def of(cls, text: str, default: str) -> TableName:
        """Return the name that a joint's ``table`` stands for; without a database it is in ``default``.

        Raises RVT-204.

        >>> TableName.of("Orders", "default"), TableName.of("shop.orders", "default").quoted
        (TableName(database='default', table='orders'), '`spark_catalog`.`shop`.`orders`')
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
        return ".".join(f"`{part}`" for part in self.identifier)

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


def is_name(text: str) -> bool:
    """Return whether a database or a table can have the name.

    >>> is_name("orders_2024"), is_name("o'rders"), is_name("")
    (True, False, False)
    """
    return _NAME.fullmatch(text) is not None
