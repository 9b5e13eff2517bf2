"""The work on joints that can be shared: their order, and all that determines the values, as plain data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rivet_dagster.compiler.graph import levels, topological
from rivet_dagster.compiler.quality import shows_row_values
from rivet_dagster.entry_points import is_own_kind
from rivet_dagster.model.joint import SINK, SOURCE, SQL, Joint
from rivet_dagster.model.profile import Profile
from rivet_dagster.model.project import Project
from rivet_dagster.model.schema import Field, Introspection
from rivet_dagster.model.text_lines import Origin
from rivet_dagster.project.known_files import plain_checks, read_checks
from rivet_dagster.project.templating import is_template

_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Share:
    """Joints to analyze, in this order; ``inferable`` are those whose columns can be inferred, too.

    ``profile`` and ``introspection`` are what determines the values besides the joints.
    """

    joints: tuple[Joint, ...]
    inferable: frozenset[str]
    profile: Profile
    introspection: Introspection


def share_of(project: Project, introspection: Introspection) -> Share:
    """Return the joints whose values do not depend on templates, those that many others may read first.

    What a joint reads is told by the words of its query: a word that only looks like a joint's name costs time and
    nothing else. Templates, published histories and what follows them have columns that are only known later.
    """
    named = {joint.name: joint for joint in project.joints}
    edges = {name: _reads(joint, named) for name, joint in named.items()}
    inferable: set[str] = set()
    order = topological(edges)
    for name in order:
        joint = named[name]
        history = joint.publishes and joint.write_strategy.validity  # readers find more columns
        if not (_has_template(joint) or history or joint.type == SINK) and edges[name] <= inferable:
            inferable.add(name)
    first = [named[name] for level in levels(edges, order) for name in level if name in inferable]
    others = [
        joint
        for name, joint in named.items()
        if name not in inferable and (joint.quality or (joint.type == SQL and not _has_template(joint)))
    ]
    return Share((*first, *others), frozenset(inferable), project.profile, introspection)


def _has_template(joint: Joint) -> bool:
    return joint.sql is not None and is_template(joint.sql)


def _reads(joint: Joint, named: Mapping[str, Joint]) -> set[str]:
    if joint.upstream is not None:
        return {*joint.upstream} & named.keys()
    words = _WORD.findall(joint.sql.lower()) if joint.type == SQL and joint.sql is not None else ()
    return ({*words} & named.keys()) - {joint.name}


def plain_share(share: Share) -> dict[str, Any]:
    """Return the share as plain data."""
    tables = share.introspection.tables
    sources = [joint.name for joint in share.joints if joint.type == SOURCE and joint.name in tables]
    return {
        "joints": [_plain(joint, share.profile) for joint in share.joints],
        "inferable": sorted(share.inferable),
        "tables": {name: [(field.name, field.type) for field in tables[name]] for name in sources},
    }


def _plain(joint: Joint, profile: Profile) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the values of a joint on which those of the cache depend, and its checks if all are built in."""
    values = {key: getattr(joint, key) for key in ("name", "type", "sql", "columns", "filter", "limit", "upstream")}
    ddl = joint.options.get("schema")
    values["options"] = {"schema": ddl} if isinstance(ddl, str) else {}
    values["row_values"] = shows_row_values(joint, profile)
    checks = joint.quality if all(is_own_kind(check.kind) for check in joint.quality) else ()
    return {key: value for key, value in values.items() if value is not None}, plain_checks(checks)


def read_share(plain: Mapping[str, Any]) -> Share:
    """Return the share that ``plain_share`` has written."""
    joints = [Joint.of_converted(values, read_checks(checks), Origin()) for values, checks in plain["joints"]]
    tables = {name: tuple(Field(*field) for field in fields) for name, fields in plain["tables"].items()}
    inferable = frozenset(plain["inferable"])
    return Share(tuple(joints), inferable, Profile("", (), (), None), Introspection(tables))
