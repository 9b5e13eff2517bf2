"""The database products that the catalog knows, by the beginning of their JDBC URL."""

from __future__ import annotations

from typing import Any

from rivet_dagster.catalogs.jdbc.mariadb.product import MARIA
from rivet_dagster.catalogs.jdbc.options import MARIADB, POSTGRES
from rivet_dagster.catalogs.jdbc.postgres.product import POSTGRESQL
from rivet_dagster.catalogs.jdbc.product import Product

_PRODUCTS = {POSTGRES: POSTGRESQL, MARIADB: MARIA}


def product_of(url: Any) -> Product:
    """Return the product of a JDBC URL; PostgreSQL where that cannot be known yet.

    >>> product_of("jdbc:postgresql://db/shop").name
    'PostgreSQL'
    """
    return next((product for prefix, product in _PRODUCTS.items() if str(url).startswith(prefix)), POSTGRESQL)
