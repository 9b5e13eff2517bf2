"""The name of the environment of the data in which a command or a code location works."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from rivet_dagster.errors import RivetError

VARIABLE = "RIVET_ENVIRONMENT"

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
"""The names that an environment can have."""

_LONGEST = 64


def environment_name(given: str | None, environ: Mapping[str, str]) -> str | None:
    """Return ``given``, else the value of RIVET_ENVIRONMENT, else the name of Dagster's branch deployment.

    None is the base. A branch deployment is named as Dagster+ names it, or by its git branch; names that no environment
    can have are changed and get a hash, so that two deployments never share an environment. Raises RVT-129.

    >>> environment_name(None, {"RIVET_ENVIRONMENT": "pr-7"}), environment_name("pr-8", {"RIVET_ENVIRONMENT": "pr-7"})
    ('pr-7', 'pr-8')
    >>> environment_name(None, {"DAGSTER_CLOUD_DEPLOYMENT_NAME": "prod"})
    >>> environment_name(None, {"DAGSTER_CLOUD_IS_BRANCH_DEPLOYMENT": "1", "DAGSTER_CLOUD_DEPLOYMENT_NAME": "5be2f7c3"})
    '5be2f7c3'
    >>> environment_name(None, {"DAGSTER_CLOUD_IS_BRANCH_DEPLOYMENT": "1", "DAGSTER_CLOUD_GIT_BRANCH": "Fix/Orders"})
    'fix-orders-4ccdf744'
    """
    name, source = given, "--environment"
    if name is None and environ.get(VARIABLE):
        name, source = environ[VARIABLE], VARIABLE
    if name is None:
        return _of_branch_deployment(environ)
    if not NAME.fullmatch(name):
        raise RivetError("RVT-129", f"{source}: no environment can be called '{name}'")
    return name


def _of_branch_deployment(environ: Mapping[str, str]) -> str | None:
    if environ.get("DAGSTER_CLOUD_IS_BRANCH_DEPLOYMENT") != "1":
        return None
    name = environ.get("DAGSTER_CLOUD_DEPLOYMENT_NAME") or environ.get("DAGSTER_CLOUD_GIT_BRANCH")
    if not name:
        raise RivetError(
            "RVT-107",
            "this is a branch deployment without DAGSTER_CLOUD_DEPLOYMENT_NAME and DAGSTER_CLOUD_GIT_BRANCH",
            remediation=f"Set {VARIABLE}: without the name of an environment its runs would write to the base.",
        )
    if NAME.fullmatch(name):
        return name
    ending = f"-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    plain = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_") or "branch"
    return plain[: _LONGEST - len(ending)] + ending
