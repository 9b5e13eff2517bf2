"""The plan of the project that a command is about, with the variables of its ``--var`` options."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from rivet_dagster.cli.variables import command_variables
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.loading import compile_directory


def compile_for_command(
    root: Path,
    profile: str | None,
    *,
    introspect: bool = False,
    recall: bool = False,
    engine: str | None = None,
    only: Collection[str] | None = None,
) -> CompiledAssembly:
    """Compile the project as ``compile_directory`` does."""
    variables = command_variables()
    return compile_directory(
        root, profile, introspect=introspect, recall=recall, variables=variables, engine=engine, only=only
    )
