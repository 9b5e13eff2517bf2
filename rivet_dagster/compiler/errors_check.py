"""The check of a quarantining group's row errors, which no project declares."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rivet_dagster.compiler.graph import Graph
from rivet_dagster.compiler.plan import FusedGroup
from rivet_dagster.compiler.quality import CompiledChecks, shows_row_values
from rivet_dagster.errors import REMEDIATIONS
from rivet_dagster.model.check import AUDIT, ERROR, WARN, distinct_names
from rivet_dagster.model.check_plan import ByErrors, CheckQueries, CompiledCheck
from rivet_dagster.model.joint import Joint
from rivet_dagster.model.profile import Profile
from rivet_dagster.model.row_errors import CHECK, ErrorTable
from rivet_dagster.model.target import Target
from rivet_dagster.sql import trees

SAMPLES = 10
"""The number of errors that a result shows."""


def with_errors_checks(
    checks: CompiledChecks, groups: Iterable[FusedGroup], graph: Graph, profile: Profile
) -> CompiledChecks:
    """Return the checks of each joint, with the check `evaluation_errors` at the end where errors are quarantined.

    A declared check of that name is renamed, as the second of two declared ones would be. The check has no samples if a
    joint of the group must not show values of rows.
    """
    added = dict(checks)
    for group in groups:
        target, name = group.target, group.exit
        if target is not None and target.errors is not None:
            shows = all(shows_row_values(graph.joints[member], profile) for member in group.joints)
            _, *names = distinct_names([CHECK, *(check.name for check in checks[name])])
            others = (replace(check, name=given) for check, given in zip(checks[name], names, strict=True))
            added[name] = (*others, _check(graph.joints[name], target.errors, target, shows))
    return added


def _check(joint: Joint, errors: ErrorTable, target: Target, shows_values: bool) -> CompiledCheck:
    limit = f"; more than {errors.max_errors} of them fail it" if errors.max_errors is not None else ""
    age = f"; those found more than {errors.max_age} days ago are removed" if errors.max_age is not None else ""
    key = "on_error.max_errors" if errors.max_errors is not None else "on_error"
    return CompiledCheck(
        kind=CHECK,
        name=CHECK,
        phase=AUDIT,
        severity=WARN if errors.max_errors is None else ERROR,
        samples=SAMPLES if shows_values else 0,
        queries=CheckQueries(
            counting=ByErrors(max_errors=errors.max_errors),
            shown=trees.text(trees.select(of=trees.relation(errors.table))),
        ),
        description=f"The rows that could not be evaluated, published as {target.catalog}.{errors.table}{limit}{age}.",
        remediation=REMEDIATIONS["RVT-520"].partition(",")[0] + ".",
        file=joint.origin.file,
        line=joint.origin.line_of(key),
    )
