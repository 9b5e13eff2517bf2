"""The location of errors: the joint, and its file and line, of an error that the engine or a catalog raises."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rivet_dagster.compiler.group_query import FusedQuery
from rivet_dagster.compiler.joints import CompiledJoint, QueryJoint
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.errors import EngineUnusable, RivetError
from rivet_dagster.sql.fuse import locate


def locate_in_query(error: RivetError, query: FusedQuery, assembly: CompiledAssembly) -> RivetError:
    """Return an error whose line is one of the text of ``query``, at the joint and the line in the joint's file."""
    first = error.diagnostics[0]
    location = locate(query.ctes, first.line) if first.joint is None and first.line is not None else None
    name, line_of_text = location if location is not None else (query.result, 1)
    if all(joint.name != name for joint in assembly.joints):
        return error  # of a part of the query that is no joint's own text, such as the errors of rows
    joint = assembly.joint(name)
    if location is None or not isinstance(joint, QueryJoint):
        return locate_at_joint(error, joint)
    at = joint.place(line_of_text, dict(query.ctes)[name])
    message = f"{first.message}{at.note}"
    return RivetError(first.code, message, joint=name, file=at.file, line=at.line, remediation=first.remediation)


def locate_at_joint(error: RivetError, joint: CompiledJoint) -> RivetError:
    """Return the error with the joint, its file and line, unless it is an error of the engine or the configuration."""
    first = error.diagnostics[0]
    if first.joint is not None or isinstance(error, EngineUnusable) or error.is_configuration:
        return error
    return RivetError(
        first.code, first.message, joint=joint.name, file=joint.file, line=joint.line, remediation=first.remediation
    )


@contextmanager
def locating_errors(joint: CompiledJoint) -> Iterator[None]:
    """Add the joint, its file and line to RivetErrors of the block that name no joint."""
    try:
        yield
    except RivetError as error:
        raise locate_at_joint(error, joint) from error.__cause__
