"""The kinds of checks by name."""

from __future__ import annotations

from typing import cast

from rivet_dagster.checks.contract import CheckKind
from rivet_dagster.entry_points import CHECKS, check_kind, plugins
from rivet_dagster.errors import RivetError
from rivet_dagster.model.check import Check


def check_kinds() -> dict[str, type[CheckKind]]:
    """Return the installed kinds by name. Raises RVT-109.

    >>> "not_null" in check_kinds()
    True
    """
    return {name: cast("type[CheckKind]", check_kind(name)) for name in sorted(plugins(CHECKS))}


def kind_of(check: Check) -> CheckKind:
    """Return the kind of a check, with the check's options. Raise RVT-109.

    >>> kind_of(Check(kind="not_null", name="n", phase="audit", options={"columns": ("id",)}))
    NotNull(columns=('id',))
    """
    kind_class = check_kind(check.kind)
    if kind_class is None:
        raise RivetError("RVT-109", f"no check is of kind '{check.kind}'")
    return cast("CheckKind", kind_class(**check.options))
