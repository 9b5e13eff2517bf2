"""The compiled plan as the state of a component."""

from __future__ import annotations

import os
from pathlib import Path

from dagster.components import Scaffolder, ScaffoldRequest, scaffold_component
from pydantic import BaseModel, Field

from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.compiler.plan_json import fingerprint
from rivet_dagster.errors import RivetError
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


class RivetProjectScaffoldParams(BaseModel):
    """The parameters of ``dg scaffold defs rivet_dagster.RivetProjectComponent``."""

    project_path: str = Field(description="The directory of the project, in which its rivet.yaml lies.")


class RivetProjectScaffolder(Scaffolder[RivetProjectScaffoldParams]):
    """The scaffolder that writes a defs.yaml for a project."""

    @classmethod
    def get_scaffold_params(cls) -> type[RivetProjectScaffoldParams]:
        """Return the class of the parameters."""
        return RivetProjectScaffoldParams

    def scaffold(self, request: ScaffoldRequest[RivetProjectScaffoldParams]) -> None:
        """Write defs.yaml, with the project's path relative to the Dagster project. Raises RVT-101."""
        path = Path(request.params.project_path).resolve()
        if not (path / "rivet.yaml").is_file():
            raise RivetError("RVT-101", f"there is no rivet.yaml in '{path}'")
        root = (request.project_root or Path.cwd()).resolve()
        relative = Path(os.path.relpath(path, root)).as_posix()
        scaffold_component(request, {"project": "{{ context.project_root }}/" + relative})
