"""Names of steps, made of the characters that Dagster allows."""

from __future__ import annotations

import re

from rivet_dagster.compiler.plan import CompiledAssembly


def step_name(assembly: CompiledAssembly, *parts: str) -> str:
    """Return the name of a step, with ``_`` for characters of the key prefix that Dagster does not allow in it.

    >>> from rivet_dagster.model.project import DagsterSettings
    >>> step_name(CompiledAssembly(profile="default", dagster=DagsterSettings(("shop-2", "eu"))), "observe", "raw")
    'shop_2__eu__observe__raw'
    """
    return re.sub(r"[^A-Za-z0-9_]", "_", "__".join([*assembly.dagster.key_prefix, *parts]))
