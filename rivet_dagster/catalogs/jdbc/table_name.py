"""The names of tables of a database."""

from __future__ import annotations

from rivet_dagster.errors import RivetError


def table_name(text: str, schema: str) -> tuple[str, str]:
    """Return schema and name of what a source's ``table`` names, as the database stores them. Raises RVT-204.

    >>> table_name("orders", "public"), table_name("shop.Orders", "public")
    (('public', 'orders'), ('shop', 'Orders'))
    """
    parts = text.split(".")
    if len(parts) > 2 or not all(parts) or "\0" in text:
        message = f"no table of a database can be called '{text}'"
        raise RivetError(
            "RVT-204", message, remediation="Name it `table` or `schema.table`, as the database stores it."
        )
    return (schema, parts[0]) if len(parts) == 1 else (parts[0], parts[1])
