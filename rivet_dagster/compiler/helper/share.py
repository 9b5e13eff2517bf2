"""The helper's share of a project: joints with all that they read, so that their columns can be inferred alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rivet_dagster.compiler.graph import topological
from rivet_dagster.model.introspection import Introspection
from rivet_dagster.model.joint import SINK, SOURCE, SQL, Joint
from rivet_dagster.model.origin import Origin
from rivet_dagster.model.schema import Field
from rivet_dagster.project.templating import is_template

SHARE = 0.42
"""The part of the queries that the helper reads. It also infers their columns, while the other part is read."""

_WORD = re.compile(r"\w+")


def share_of(joints: Iterable[Joint]) -> list[Joint]:
    """Return the first joints in topological order, as far as the words of their queries tell it.

    A word that only looks like a joint's name costs time and nothing else. Templates, published histories and what
    follows them are left out, as are sinks.
    """
    named = {joint.name: joint for joint in joints}
    edges = {name: _reads(joint, named) for name, joint in named.items()}
    queries = SHARE * sum(joint.type == SQL for joint in named.values())
    chosen: dict[str, Joint] = {}
    for name in topological(edges):
        joint = named[name]
        template = joint.sql is not None and is_template(joint.sql)
        history = joint.publishes and joint.write_strategy.validity  # readers find more columns
        if template or history or joint.type == SINK or not edges[name] <= chosen.keys():
            continue
        queries -= joint.type == SQL
        if queries < 0:
            break
        chosen[name] = joint
    return list(chosen.values())


def _reads(joint: Joint, named: Mapping[str, Joint]) -> set[str]:
    if joint.upstream is not None:
        return {*joint.upstream} & named.keys()
    words = _WORD.findall(joint.sql.lower()) if joint.type == SQL and joint.sql is not None else ()
    return ({*words} & named.keys()) - {joint.name}


def request(share: Sequence[Joint], introspection: Introspection) -> dict[str, Any]:
    """Return what determines the columns of the joints, as plain data."""
    sources = [joint.name for joint in share if joint.type == SOURCE and joint.name in introspection.tables]
    tables = {name: [(field.name, field.type) for field in introspection.tables[name]] for name in sources}
    return {"joints": [_plain(joint) for joint in share], "tables": tables}


def _plain(joint: Joint) -> dict[str, Any]:
    values = {key: getattr(joint, key) for key in ("name", "type", "sql", "columns", "filter", "limit", "upstream")}
    ddl = joint.options.get("schema")
    options = {"schema": ddl} if isinstance(ddl, str) else {}
    return {key: value for key, value in values.items() if value is not None} | {"options": options}


def read_request(plain: Mapping[str, Any]) -> tuple[tuple[Joint, ...], Introspection]:
    """Return the joints and the columns of tables that ``request`` has written."""
    joints = tuple(Joint.of_converted(values, (), Origin()) for values in plain["joints"])
    tables = {name: tuple(Field(*field) for field in fields) for name, fields in plain["tables"].items()}
    return joints, Introspection(tables)
