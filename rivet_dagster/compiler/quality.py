"""What can be said of the joints' checks before they run."""

from __future__ import annotations

from collections.abc import Collection

from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.graph import Graph
from rivet_dagster.errors import Diagnostic
from rivet_dagster.model.check import Check
from rivet_dagster.model.memo import Memo
from rivet_dagster.sql.check_query import read_check
from rivet_dagster.sql.check_schema import spark_type
from rivet_dagster.sql.dialect import SqlError, parse_expression
from rivet_dagster.sql.reads import reads

_TYPES = "Write types as Spark's SQL does: BIGINT, STRING, DECIMAL(10, 2), ARRAY<DATE>, ..."


def check_quality(graph: Graph, found: Diagnostics, memo: Memo) -> None:
    """RVT-209 for SQL that is no query and types that are none, RVT-298 for a query over other joints.

    What only the parser here cannot read is a warning: the engine may.
    """
    for name, joint in graph.joints.items():
        for check in joint.quality:
            if check.kind == "expression":
                _check_expression(name, check, found, memo)
            elif check.kind == "custom":
                _check_query(name, check, graph, found, memo)
            elif check.kind == "schema":
                _check_types(name, check, found)


def _check_expression(joint: str, check: Check, found: Diagnostics, memo: Memo) -> None:
    assert check.sql is not None
    if memo.recall("check_expression", check.sql) is not None:
        return
    try:
        parse_expression(check.sql)
    except SqlError as error:
        found.warnings.append(_diagnostic("RVT-209", joint, check, f"`{check.sql}` {error}"))
    else:
        memo.keep("check_expression", check.sql, True)


def _check_query(joint: str, check: Check, graph: Graph, found: Diagnostics, memo: Memo) -> None:
    read = _reads(joint, check, found, memo)
    if read is None:
        return
    others = sorted(name for name in read if name in graph.joints and name != joint)
    if others:
        message = f"it reads {', '.join(others)}: checks over other joints are not available yet"
        found.errors.append(_diagnostic("RVT-298", joint, check, message, remediation=None))
    elif joint not in read:
        message = f"its SQL does not read the rows it judges, '{joint}' or {{{{ this }}}}"
        found.errors.append(_diagnostic("RVT-209", joint, check, message))


def _reads(joint: str, check: Check, found: Diagnostics, memo: Memo) -> Collection[str] | None:
    """The tables that a check's query reads; None where that cannot be told, which is then reported."""
    assert check.sql is not None
    text = f"{joint}\n{check.sql}"
    read: Collection[str] | None = memo.recall("check_query", text)
    if read is not None:
        return read
    try:
        query = read_check(check.sql, joint)
    except SqlError as error:
        found.errors.append(_diagnostic("RVT-209", joint, check, f"its SQL {error}", error))
        return None
    if query.tree is None:
        unreadable = query.unreadable
        found.warnings.append(_diagnostic("RVT-209", joint, check, f"its SQL {unreadable}", unreadable))
        return None
    read = list(reads(query.tree))
    memo.keep("check_query", text, read)
    return read


def _check_types(joint: str, check: Check, found: Diagnostics) -> None:
    unknown = [f"{name}: {type_}" for name, type_ in check.types if spark_type(type_) is None]
    if unknown:
        message = f"no type of Spark's: {', '.join(unknown)}"
        found.errors.append(_diagnostic("RVT-209", joint, check, message, remediation=_TYPES))


def _diagnostic(
    code: str,
    joint: str,
    check: Check,
    message: str,
    error: SqlError | None = None,
    remediation: str | None = "Correct the check's SQL.",
) -> Diagnostic:
    line = check.line
    if check.sql_line is not None and error is not None and error.line is not None:
        line = check.sql_line + error.line - 1
    return Diagnostic(code, f"check {check.name}: {message}", joint, check.file, line, remediation)
