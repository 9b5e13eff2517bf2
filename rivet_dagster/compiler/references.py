"""Construction of the graph: a joint's upstream is declared, or derived from its query or its parameters."""

from __future__ import annotations

import functools
from contextlib import suppress
from dataclasses import replace
from pathlib import PurePosixPath

from rivet_dagster.cache import CompileCache
from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.dialects import dialect_of
from rivet_dagster.compiler.graph import Graph, TemplateNeeds
from rivet_dagster.compiler.templates import Know, Rendered, render_templates
from rivet_dagster.errors import Diagnostic
from rivet_dagster.model.joint import PYTHON, SINK, SQL, Joint
from rivet_dagster.model.project import Project
from rivet_dagster.model.text_lines import Stretch
from rivet_dagster.near_names import NearNames
from rivet_dagster.project.templating import is_template
from rivet_dagster.sql.parsing.dialect import SqlError
from rivet_dagster.sql.parsing.known_query import KnownQuery, know_query
from rivet_dagster.sql.parsing.other_dialect import know_other_query

_PLAIN = Rendered()
"""Stands for the text of a joint that is no template."""


def build_graph(project: Project, diagnostics: Diagnostics, cache: CompileCache) -> Graph:
    """Return the graph of all joints; report RVT-207, 301, 302, 311, 313, 315."""
    joints: dict[str, Joint] = {}
    for joint in project.joints:
        if joint.name in joints:
            first = joints[joint.name].origin.file or "one declared in Python"
            diagnostics.error(joint, "RVT-301", f"the name '{joint.name}' is taken already, by {first}", key="name")
        else:
            joints[joint.name] = joint

    queries: dict[str, KnownQuery] = {}
    incremental: dict[str, KnownQuery] = {}
    needs: dict[str, TemplateNeeds] = {}
    counted: dict[str, dict[str, int]] = {}
    upstream: dict[str, tuple[str, ...]] = {}
    broken, near = broken_names(project), NearNames(joints)
    know = functools.cache(functools.partial(know_query, cache=cache))
    dialects = {joint.name: dialect_of(joint, project.profile) for joint in joints.values() if joint.type == SQL}
    for joint in joints.values() if cache.awaits_values else ():  # those that another process reads come last
        if joint.type != SQL or not joint.sql or dialects[joint.name] is not None or is_template(joint.sql):
            continue
        if not cache.is_awaited("query", joint.sql):
            with suppress(SqlError):
                know(joint.sql)
    rendering = {name: joint for name, joint in joints.items() if dialects.get(name) is None}
    templates = render_templates(rendering, project, know, broken, diagnostics, cache)
    for joint in joints.values():
        if joint.type == SQL:
            rendered = templates.get(joint.name, _PLAIN)
            full = joint.sql if rendered is _PLAIN else rendered.full
            of_other = dialects[joint.name]
            if of_other is not None:
                query = _query(joint, full, (), functools.partial(know_other_query, dialect=of_other), diagnostics)
            else:
                query = _query(joint, full, rendered.lines, know, diagnostics)
            later = _query(joint, rendered.incremental, rendered.incremental_lines, know, diagnostics)
            if query is None or (later is None and rendered.incremental is not None):
                upstream[joint.name] = rendered.possible
                continue
            queries[joint.name] = query
            if later is not None:
                incremental[joint.name] = later
            if rendered.needs is not None:
                needs[joint.name] = rendered.needs
            renderings = [query] if later is None else [query, later]
            counted[joint.name] = _reads(joint, renderings, joints)
            upstream[joint.name] = _sql_upstream(joint, renderings, counted[joint.name], joints, near, diagnostics)
        elif joint.type == PYTHON:
            upstream[joint.name] = _python_upstream(joint, project, diagnostics)
        else:  # an `upstream` of a source is reported later, and is no edge
            upstream[joint.name] = (joint.upstream or ()) if joint.type == SINK else ()
        upstream[joint.name] = _known(joint, upstream[joint.name], project, joints, broken, near, diagnostics)
    return Graph(joints, upstream, queries, counted, incremental, needs)


def _query(
    joint: Joint, sql: str | None, lines: tuple[Stretch, ...], know: Know, diagnostics: Diagnostics
) -> KnownQuery | None:
    if sql is None:
        return None
    try:
        query = know(sql)
    except SqlError as error:
        diagnostics.sql_error(joint, "RVT-207", error, lines)
        return None
    if query.unreadable is not None:
        if joint.upstream is None:
            diagnostics.sql_error(joint, "RVT-315", query.unreadable, lines)
            return None
        diagnostics.sql_warning(joint, "RVT-315", "its schema and lineage are unknown", query.unreadable, lines)
    return replace(query, lines=lines) if lines else query


def _reads(joint: Joint, renderings: list[KnownQuery], joints: dict[str, Joint]) -> dict[str, int]:
    """Return how often each joint is evaluated at most; an unreadable query is assumed to evaluate each twice.

    A joint that names itself means the engine's table of that name.
    """
    counted: dict[str, int] = {}
    for query in renderings:
        if query.unreadable is not None:
            return dict.fromkeys(joint.upstream or (), 2)
        for name, times in query.reads.items():
            if name in joints and name != joint.name:
                counted[name] = max(counted.get(name, 0), times)
    return counted


def _sql_upstream(
    joint: Joint,
    renderings: list[KnownQuery],
    counted: dict[str, int],
    joints: dict[str, Joint],
    near: NearNames,
    diagnostics: Diagnostics,
) -> tuple[str, ...]:
    if joint.upstream is not None:
        for name in sorted(set(counted) - set(joint.upstream)):
            message = f"the query reads joint '{name}', which `upstream` does not name"
            diagnostics.error(joint, "RVT-313", message, key="upstream")
        return joint.upstream
    left = {name for query in renderings for name in query.reads if name not in joints}
    for name in sorted(left) if left else ():
        hint = near.hint(name, but=joint.name, listed=False)
        if hint:
            message = f"'{name}' is no joint and is left to the engine{hint}"
            diagnostics.warning(joint, "RVT-302", message, key="sql")
    return tuple(sorted(counted))


def _python_upstream(joint: Joint, project: Project, diagnostics: Diagnostics) -> tuple[str, ...]:
    function = project.functions.get(joint.name)
    if function is None:  # the error in its file has been reported
        return joint.upstream or ()
    if joint.upstream is None:
        return function.parameters
    single = len(joint.upstream) == len(function.parameters) == 1
    if not single and set(joint.upstream) != set(function.parameters):
        diagnostics.error(
            joint,
            "RVT-311",
            f"{function.name}({', '.join(function.parameters)}) in {function.file}:{function.line} does not take the "
            f"upstream {', '.join(joint.upstream) or '(none)'}",
            key="upstream",
        )
    return joint.upstream


def _known(
    joint: Joint,
    names: tuple[str, ...],
    project: Project,
    joints: dict[str, Joint],
    broken: set[str],
    near: NearNames,
    diagnostics: Diagnostics,
) -> tuple[str, ...]:
    for name in names:
        if name not in joints and name not in broken:
            diagnostics.errors.append(_unknown(joint, name, project, near))
    return tuple([name for name in names if name in joints])


def _unknown(joint: Joint, name: str, project: Project, near: NearNames) -> Diagnostic:
    function = project.functions.get(joint.name) if joint.upstream is None else None
    hint = f"; a list is written [{name}]" if "," in name else near.hint(name, but=joint.name)
    if function is None:
        message = f"upstream '{name}' is no joint{hint}"
        return joint.origin.diagnostic("RVT-302", message, joint=joint.name, key="upstream")
    message = f"the parameter '{name}' of {function.name} is no joint{hint}"
    return Diagnostic("RVT-302", message, joint.name, function.file, function.line)


def broken_names(project: Project) -> set[str]:
    """Return the names of joints whose own file has errors, so that their readers are not reported."""
    names = {d.joint for d in project.errors if d.joint}
    return names | {PurePosixPath(d.file).name.split(".")[0] for d in project.errors if d.file}
