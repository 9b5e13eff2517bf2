"""A joint's code version: a hash of everything that affects its rows, and of nothing else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from rivet_dagster.compiler.graph import TemplateNeeds
from rivet_dagster.model.joint import PYTHON, SINK, Joint
from rivet_dagster.model.project import PythonFunction
from rivet_dagster.model.row_errors import FAIL
from rivet_dagster.sql.known_query import KnownQuery


def code_version(
    joint: Joint,
    upstream: tuple[str, ...],
    query: KnownQuery | None,
    function: PythonFunction | None,
    later: KnownQuery | None = None,
    template: TemplateNeeds | None = None,
    bound: Mapping[str, str] | None = None,
) -> str:
    """Return 16 hexadecimal digits. Comments, white space, description, group, owners, engine and file do not count.

    ``later`` is the query that a template gives for incremental runs, if it differs from the first run's; ``bound``
    are the texts with ``${VAR}``, unexpanded, of the variables of templates that a run binds.
    """
    logic: dict[str, Any] = {
        "type": joint.type,
        "sql": query.fingerprint if query else None,
        "function": function.tree if function else None,
        "upstream": upstream if joint.type in (SINK, PYTHON) else None,
        "columns": joint.columns,
        "filter": joint.filter,
        "limit": joint.limit,
        "write_strategy": vars(joint.write_strategy),
        "on_error": FAIL if joint.on_error is None else joint.on_error.mode,
    }
    if joint.partitions is not None:  # left out otherwise, so that the version of other joints stays the same
        logic["partitions"] = vars(joint.partitions)
    if later is not None and template is not None:
        logic["sql_incremental"] = later.fingerprint, template.sink
    if bound and template is not None and template.variables:
        logic["variables"] = {name: bound[name] for name in template.variables}
    return hashlib.sha256(_JSON.encode(logic).encode()).hexdigest()[:16]


_JSON = json.JSONEncoder(sort_keys=True, default=str)
