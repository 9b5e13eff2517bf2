"""What can be said of the joints' checks before they run, and which joints they read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.references import broken_names
from rivet_dagster.errors import Diagnostic
from rivet_dagster.model.check import Check
from rivet_dagster.model.joint import SINK, Joint
from rivet_dagster.model.memo import Memo
from rivet_dagster.model.near_names import NearNames
from rivet_dagster.model.project import Project
from rivet_dagster.sql.check_query import tables_of_check
from rivet_dagster.sql.check_schema import spark_type
from rivet_dagster.sql.dialect import SqlError, parse_expression
from rivet_dagster.sql.error import Unreadable

_TYPES = "Write types as Spark's SQL does: BIGINT, STRING, DECIMAL(10, 2), ARRAY<DATE>, ..."
_SQL = "Correct the check's SQL."


def resolve_checks(project: Project, found: Diagnostics, memo: Memo) -> Project:
    """``project``, whose checks tell which other joints they read.

    RVT-209 for SQL that is no query and types that are none, RVT-302 and RVT-307 for joints that no check can read.
    What only the parser here cannot read is a warning: the engine may.
    """
    joints = {joint.name: joint for joint in project.joints}
    judge = _Resolver(joints, NearNames(joints), broken_names(project), found, memo)
    return replace(project, joints=tuple(judge.joint(joint) if joint.quality else joint for joint in project.joints))


class _Resolver:
    def __init__(
        self, joints: Mapping[str, Joint], near: NearNames, broken: Collection[str], found: Diagnostics, memo: Memo
    ) -> None:
        self._joints = joints
        self._near = near
        self._broken = broken
        self._found = found
        self._memo = memo

    def joint(self, joint: Joint) -> Joint:
        """The joint, whose checks tell what they read; itself where they read no other."""
        checks = tuple(self._check(joint.name, check) for check in joint.quality)
        return replace(joint, quality=checks) if checks != joint.quality else joint

    def _check(self, joint: str, check: Check) -> Check:
        read: Collection[str] = ()
        if check.kind == "expression":
            self._judge_expression(joint, check)
        elif check.kind == "schema":
            self._judge_types(joint, check)
        elif check.kind == "custom":
            read = self._read_by_query(joint, check)
        elif check.kind == "relationship":
            read = self._read_by_relationship(joint, check)
        others = sorted(set(read) - {joint})
        sinks = [name for name in others if self._joints[name].type == SINK]
        for name in sinks:
            message = f"it reads the sink '{name}', which has no downstream"
            self._error("RVT-307", joint, check, message, remediation=None)
        return replace(check, reads=tuple(others)) if others and not sinks else check

    def _judge_expression(self, joint: str, check: Check) -> None:
        assert check.sql is not None
        if self._memo.recall("check_expression", check.sql) is not None:
            return
        try:
            parse_expression(check.sql)
        except Unreadable as error:
            self._found.warnings.append(_diagnostic("RVT-209", joint, check, f"`{check.sql}` {error}"))
        except SqlError as error:
            self._error("RVT-209", joint, check, f"`{check.sql}` {error}")
        else:
            self._memo.keep("check_expression", check.sql, True)

    def _judge_types(self, joint: str, check: Check) -> None:
        unknown = [f"{name}: {type_}" for name, type_ in check.types if spark_type(type_) is None]
        if unknown:
            self._error("RVT-209", joint, check, f"no type of Spark's: {', '.join(unknown)}", remediation=_TYPES)

    def _read_by_relationship(self, joint: str, check: Check) -> Collection[str]:
        assert check.to is not None
        name = check.to[0]
        if name in self._joints:
            return (name,)
        if name not in self._broken:
            message = f"`to` names '{name}', which is no joint{self._near.hint(name)}"
            self._error("RVT-302", joint, check, message, remediation=None)
        return ()

    def _read_by_query(self, joint: str, check: Check) -> Collection[str]:
        read = self._tables(joint, check)
        if read is None:
            return ()
        if joint not in read:
            message = f"its SQL does not read the rows it judges, '{joint}' or {{{{ this }}}}"
            self._error("RVT-209", joint, check, message)
        return [name for name in read if name in self._joints]

    def _tables(self, joint: str, check: Check) -> Collection[str] | None:
        """The tables that a check's query reads; None where that cannot be told, which is then reported."""
        assert check.sql is not None
        text = f"{joint}\n{check.sql}"
        read: Collection[str] | None = self._memo.recall("check_query", text)
        if read is not None:
            return read
        try:
            read = tables_of_check(check.sql, joint)
        except Unreadable as error:
            self._found.warnings.append(_diagnostic("RVT-209", joint, check, f"its SQL {error}", error))
            return None
        except SqlError as error:
            self._error("RVT-209", joint, check, f"its SQL {error}", error)
            return None
        self._memo.keep("check_query", text, read)
        return read

    def _error(
        self,
        code: str,
        joint: str,
        check: Check,
        message: str,
        error: SqlError | None = None,
        remediation: str | None = _SQL,
    ) -> None:
        self._found.errors.append(_diagnostic(code, joint, check, message, error, remediation))


def _diagnostic(
    code: str,
    joint: str,
    check: Check,
    message: str,
    error: SqlError | None = None,
    remediation: str | None = _SQL,
) -> Diagnostic:
    line = check.line
    if check.sql_line is not None and error is not None and error.line is not None:
        line = check.sql_line + error.line - 1
    return Diagnostic(code, f"check {check.name}: {message}", joint, check.file, line, remediation)
