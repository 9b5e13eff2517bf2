"""Tables that environments have built and the base does not have, or did not have then."""

from __future__ import annotations

import json
from dataclasses import replace

from rivet_dagster.catalogs.iceberg.metadata.summary import ENVIRONMENT_OF
from rivet_dagster.catalogs.iceberg.names import ENVIRONMENTS
from rivet_dagster.catalogs.iceberg.opened import OpenedTable


def has_table_of_environment(table: OpenedTable) -> bool:
    """Return whether an environment has a table that will be ``table``, among whose files its own files lie."""
    if not table.catalog.namespace_exists((ENVIRONMENTS,)):
        return False
    wanted = json.dumps(table.name.identifier)
    for identifier in table.catalog.list_tables((ENVIRONMENTS,)):
        found = table.beside(replace(table.name, namespace=(ENVIRONMENTS,), name=identifier[-1])).load_if_any()
        if found is not None and found.metadata.properties.get(ENVIRONMENT_OF) == wanted:
            return True
    return False
