"""The plan of the project that a command is about, with the variables of its ``--var`` options."""

from __future__ import annotations

from pathlib import Path

from rivet_dagster.cli.variables import command_variables
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.loading import compile_directory


def compile_for_command(
    root: Path, profile: str | None, *, introspect: bool = False, recall: bool = False
) -> CompiledAssembly:
    """Compile the project as ``compile_directory`` does."""
    variables = command_variables()
    return compile_directory(root, profile, introspect=introspect, recall=recall, variables=variables)
