"""The contexts that the rules of a compilation are given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rivet_dagster.cache import CompileCache
from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.fusion import Fusion
from rivet_dagster.compiler.graph import Graph
from rivet_dagster.compiler.plan import FusedGroup
from rivet_dagster.compiler.reach import Reach
from rivet_dagster.compiler.schemas import JointSchema
from rivet_dagster.compiler.tables import Tables
from rivet_dagster.model.plugins import Plugins
from rivet_dagster.model.profile import Profile
from rivet_dagster.model.project import Project
from rivet_dagster.model.target import Target


@dataclass(frozen=True)
class DeclaredContext:
    """The declarations: the joints as a graph, their tables, and the engine of each; rules add to ``diagnostics``."""

    project: Project
    plugins: Plugins
    cache: CompileCache
    graph: Graph
    tables: Tables
    engines: Mapping[str, str]
    diagnostics: Diagnostics

    @property
    def profile(self) -> Profile:
        """The profile of the project."""
        return self.project.profile


@dataclass(frozen=True)
class GroupsContext(DeclaredContext):
    """The declarations and the plan: groups, the columns of each joint, and the targets by the name of their joint."""

    fusion: Fusion
    schemas: Mapping[str, JointSchema]
    reach: Reach
    targets: Mapping[str, Target]
    groups: tuple[FusedGroup, ...]
