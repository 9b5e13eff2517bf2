"""The plan of the project that a command is about, with the variables of its ``--var`` options."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rivet_dagster.compiler.plan import CompiledAssembly
    from rivet_dagster.compiler.selections import Select

VARIABLES = "rivet_dagster.variables"
"""Their key in the ``meta`` of the command's context."""


def command_variables() -> Mapping[str, Any]:
    """Return the variables that the command at hand was given; none outside of a command."""
    context = click.get_current_context(silent=True)
    variables: Mapping[str, Any] = {} if context is None else context.meta.get(VARIABLES, {})
    return variables


def compile_for_command(
    root: Path,
    profile: str | None,
    *,
    introspect: bool = False,
    recall: bool = False,
    engine: str | None = None,
    only: Collection[str] | None = None,
    select: Select | None = None,
) -> CompiledAssembly:
    """Compile the project as ``compile_directory`` does."""
    from rivet_dagster.loading import compile_directory

    variables = command_variables()
    return compile_directory(
        root,
        profile,
        introspect=introspect,
        recall=recall,
        variables=variables,
        engine=engine,
        only=only,
        select=select,
    )
