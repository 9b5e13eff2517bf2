"""The scaffolder behind ``dg scaffold defs rivet_dagster.RivetProjectComponent``."""

from __future__ import annotations

import os
from pathlib import Path

from dagster.components import Scaffolder, ScaffoldRequest, scaffold_component
from pydantic import BaseModel, Field

from rivet_dagster.errors import RivetError


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
