"""A plan's catalogs and engines, opened in this process when they are first needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rivet_dagster.catalogs.contract import Catalog
from rivet_dagster.catalogs.kept import KeptAssets
from rivet_dagster.catalogs.registry import open_catalog
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.engines.contract import Engine, Progress
from rivet_dagster.engines.registry import engine_class
from rivet_dagster.execution.progress import Watch
from rivet_dagster.project.environment import expand


class Runtime:
    """What a run needs of the outside world.

    ``connect`` gives an engine's underlying session by the engine's name; an engine without one connects by itself.
    ``${VAR}`` in options is expanded here, from ``environ`` (default: this process's environment). ``watches`` are told
    how far each write has come. ``heed`` is called before each action of an engine, about once a second while one runs,
    and before something is published; what it raises stops the action.
    """

    def __init__(
        self,
        assembly: CompiledAssembly,
        root: Path,
        connect: Mapping[str, Callable[[], Any]] | None = None,
        environ: Mapping[str, str] | None = None,
        watches: Sequence[Watch] = (),
        heed: Callable[[], None] | None = None,
    ) -> None:
        self.assembly = assembly
        self.root = root
        self._connect = connect or {}
        self._environ = os.environ if environ is None else environ
        self._watches = watches
        self._heed = heed

    def catalog(self, name: str) -> Catalog:
        """The catalog of that name."""
        return self._catalogs[name]

    def engine(self, name: str) -> Engine:
        """The engine of that name; it starts with its first session."""
        return self._engines[name]

    @property
    def default_engine(self) -> Engine:
        """The engine of what belongs to no joint: the one that joints take by default."""
        return self._engines[self.assembly.default_engine or self.assembly.engines[0].name]

    @cached_property
    def kept(self) -> KeptAssets:
        """What other Dagster assets return."""
        return KeptAssets(self.catalog(self.assembly.workspace))

    def heed(self) -> None:
        """Raise what is to stop the run, if anything."""
        if self._heed is not None:
            self._heed()

    def progress_of(self, joint: str) -> Callable[[Progress], None] | None:
        """Whom a session tells how far the write of this joint's rows has come; None where nobody listens."""

        def tell(progress: Progress) -> None:
            for watch in self._watches:
                watch(joint, progress)

        return tell if self._watches else None

    @cached_property
    def _catalogs(self) -> dict[str, Catalog]:
        return {spec.name: open_catalog(spec, self.root, self._environ) for spec in self.assembly.catalogs}

    @cached_property
    def _engines(self) -> dict[str, Engine]:
        return {
            spec.name: engine_class(spec.type)(
                replace(spec, options=expand(spec.options, self._environ)), self._connect.get(spec.name), self._heed
            )
            for spec in self.assembly.engines
        }
