"""The compiled plan as the state of a component."""

from __future__ import annotations

import os
from pathlib import Path

from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.compiler.plan_json import fingerprint
from rivet_dagster.version import __version__

_MADE_BY = f"rivet_dagster {__version__} {fingerprint(CompiledAssembly)}"
"""The version that made a plan, and the shape of its plans, which differs between two states of development, too."""


def write_state(path: Path, assembly: CompiledAssembly) -> None:
    """Write a plan and the version that made it, atomically: a reader sees either the old or the new plan.

    A plan whose secrets are left out cannot be run, and is marked as such.
    """
    staged = path.with_name(f"{path.name}.{os.getpid()}")
    made_by = f"{_MADE_BY}, without its secrets" if assembly.holds_secrets else _MADE_BY
    staged.write_text(f"{made_by}\n{assembly.to_json()}", "utf-8")
    staged.replace(path)


def read_state(path: Path | None, profile: str) -> CompiledAssembly | None:
    """Return the plan in ``path``; None without one, or if it is of another version or profile or lacks secrets."""
    if path is None or not path.exists():
        return None
    made_by, _, text = path.read_text("utf-8").partition("\n")
    if made_by != _MADE_BY:
        return None
    assembly = CompiledAssembly.from_json(text)
    return assembly if assembly.profile == profile else None
