"""A joint's code version: a hash of what changes its rows, and of nothing else."""

from __future__ import annotations

import hashlib
import json

from rivet_dagster.model.joint import PYTHON, SINK, Joint
from rivet_dagster.model.project import PythonFunction
from rivet_dagster.sql.known_query import KnownQuery


def code_version(
    joint: Joint, upstream: tuple[str, ...], query: KnownQuery | None, function: PythonFunction | None
) -> str:
    """16 hexadecimal digits; comments, white space, description, group, owners, engine and place do not count."""
    logic = {
        "type": joint.type,
        "sql": query.fingerprint if query else None,
        "function": function.tree if function else None,
        "upstream": upstream if joint.type in (SINK, PYTHON) else None,
        "columns": joint.columns,
        "filter": joint.filter,
        "limit": joint.limit,
        "write_strategy": vars(joint.write_strategy),
        "on_error": joint.on_error,
    }
    if joint.partitions is not None:  # so that joints without keep the version they had
        logic["partitions"] = vars(joint.partitions)
    return hashlib.sha256(_JSON.encode(logic).encode()).hexdigest()[:16]


_JSON = json.JSONEncoder(sort_keys=True, default=str)
