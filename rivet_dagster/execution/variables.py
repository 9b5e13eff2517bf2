"""The values of variables of templates that come from the environment of the process that runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.engines.contract import Typed
from rivet_dagster.model.profile import expand_variables
from rivet_dagster.sql.target import variable_of


def values_of_variables(
    assembly: CompiledAssembly, parameters: Collection[str], environ: Mapping[str, str]
) -> dict[str, Any]:
    """Return the values of those of ``parameters`` that are variables of the plan: texts, from now on redacted.

    Raises RVT-107.
    """
    texts = {variable_of(name): text for name, text in assembly.variables.items()}
    return {name: Typed(expand_variables(texts[name], environ), "string") for name in parameters if name in texts}
