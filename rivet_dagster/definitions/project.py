"""A compiled project as Dagster sees it: the plan, where it lies, and how its joints and checks look."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.definitions.automation.rules import watched_sources, with_gate_condition, with_rules
from rivet_dagster.definitions.beta import beta_accepted
from rivet_dagster.errors import Diagnostic, RivetError
from rivet_dagster.loading import compile_directory
from rivet_dagster.model.check_plan import CompiledCheck
from rivet_dagster.model.joint import SOURCE, Joint
from rivet_dagster.model.kept import is_kept, key_path

if TYPE_CHECKING:
    from rivet_dagster.definitions.specs.translator import DagsterRivetTranslator


class RivetProject:
    """What all definitions of a project are made from.

    ``assembly`` is its plan, ``root`` the absolute path of its directory, ``translator`` says how its joints look,
    ``selected`` are the joints that are assets here, and sources whose checks are: all of them, but in a ``part``.
    ``io_manager_key`` is the resource key of the IO manager that keeps them.

    >>> project = RivetProject.load("example_repo")
    >>> project.key("fleet_age")
    AssetKey(['fleet_age'])
    """

    def __init__(self, assembly: CompiledAssembly, root: Path, translator: DagsterRivetTranslator) -> None:
        self.assembly = assembly
        self.root = root
        self.translator = translator
        self.joints: dict[dg.AssetKey, str] = {}
        """The joints by asset key, each after those that it reads."""
        self.io_manager_key = assembly.dagster.io_manager_key
        self._whole: RivetProject | None = None
        self.kept = {j.name: dg.AssetKey(key_path(str(j.table))) for j in assembly.joints if is_kept(j)}
        """The sources that stand for other Dagster assets, with the keys of these; they have no asset of their own."""
        self._specs: dict[str, dg.AssetSpec] = {}
        self.problems: Sequence[Diagnostic] = ()
        """Problems of the ``dagster:`` block of rivet.yaml, but for targets, which its builders judge."""
        for group in assembly.execution_order:
            for name in assembly.group(group).joints:
                if name not in self.kept:
                    self._specs[name] = spec = translator.get_asset_spec(assembly.joint(name), self)
                    self.joints[spec.key] = name
        self.selected = frozenset((*self._specs, *self.kept))
        self._specs, wrong_rules = with_rules(self, self._specs)
        self.problems = (*wrong_rules, *assembly.errors)
        self._watched = watched_sources(self, self._specs)

    @classmethod
    def load(
        cls,
        project_dir: str | Path,
        profile: str | None = None,
        *,
        joints: Sequence[Joint] = (),
        translator: DagsterRivetTranslator | None = None,
        introspect: bool = False,
    ) -> RivetProject:
        """Compile the project in ``project_dir``; ``joints`` are added to those in files.

        With ``introspect`` the catalogs are asked for the columns of sources, for 10 seconds at most. Without it, and
        where one does not answer, the columns are those that it told when it was last asked.

        Raises one RivetError that holds everything wrong with the project. Where nothing is but the ``dagster:`` block,
        what is made of the project raises it, together with the targets that select nothing.
        """
        from rivet_dagster.definitions.specs.translator import DagsterRivetTranslator

        root = Path(project_dir).resolve()
        assembly = compile_directory(root, profile, joints=joints, introspect=introspect, recall=True)
        return cls.of(assembly, root, translator or DagsterRivetTranslator())

    @classmethod
    def of(cls, assembly: CompiledAssembly, root: Path, translator: DagsterRivetTranslator) -> RivetProject:
        """The project of a plan; raises what is wrong with it, as ``load`` does."""
        if not assembly.fused_groups:
            assembly.raise_errors()
        return cls(assembly, root, translator)

    def part(self, select: str | None = None, exclude: str | None = None) -> RivetProject:
        """The same project where only what is selected, and not excluded, is an asset; both in Dagster's syntax.

        The other joints are still known: what is selected depends on them, and computes those of its own group in its
        query. Raises RVT-115, also where nothing is left.

        >>> sorted(RivetProject.load("example_repo").part("group:fleet", exclude='key:"fleet_age"').selected)
        ['aircraft_usage', 'fleet']
        """
        told = {text: set(self.select(text)) for text in (select, exclude) if text is not None}
        chosen = set(self.selected if select is None else told[select])
        if exclude is not None:
            chosen -= told[exclude]
        empty = [repr(text) for text, names in told.items() if not names]
        if empty or not chosen:
            raise RivetError("RVT-115", f"{' without '.join(empty or map(repr, told))} selects nothing of this project")
        part = copy(self)
        part.selected = frozenset(chosen)
        part._whole = self.whole
        return part

    @property
    def whole(self) -> RivetProject:
        """The project that this is a part of; itself where it is whole."""
        return self._whole or self

    def apart(self) -> RivetProject:
        """The same with an IO manager under a key of its own.

        Parts of one project that are loaded one by one can then stand in one Definitions, where what has one key must
        be one object.
        """
        apart = copy(self)
        apart.io_manager_key = f"{self.io_manager_key}__{self.names[0]}"
        return apart

    @property
    def names(self) -> list[str]:
        """The selected joints, each after those that it reads."""
        return [name for name in self.joints.values() if name in self.selected]

    def spec(self, joint: str) -> dg.AssetSpec:
        """How a joint looks in Dagster.

        Raises RVT-306, also for a source that stands for another Dagster asset, and what is wrong with the rules of the
        ``dagster:`` block.
        """
        if self.problems:
            raise RivetError.of(self.problems)
        if joint in self.kept:
            raise RivetError("RVT-306", f"'{joint}' is the asset {self.kept[joint].to_user_string()}, not one of ours")
        return self._specs[self.assembly.joint(joint).name]

    def asset_spec(self, joint: str) -> dg.AssetSpec:
        """The same of an asset that is made or observed here, with the project's IO manager. Raises RVT-306.

        Where it is computed from joints of its group that are no assets here, it depends on what those read, too.
        """
        spec = self.spec(joint)
        behind = self._behind(joint)
        if behind:
            told = {dep.asset_key for dep in spec.deps}
            spec = spec.merge_attributes(deps=[key for key in self.keys(behind) if key not in told])
        return spec.with_io_manager_key(self.io_manager_key)

    def key(self, joint: str) -> dg.AssetKey:
        """A joint's asset key; of a source that stands for another Dagster asset that one's. Raises RVT-306."""
        return self.kept.get(joint) or self._specs[self.assembly.joint(joint).name].key

    def keys(self, joints: Iterable[str]) -> list[dg.AssetKey]:
        """The asset keys of joints, in their order. Raises RVT-306."""
        return [self.key(joint) for joint in joints]

    def check_spec(self, check: CompiledCheck, joint: str) -> dg.AssetCheckSpec:
        """How a check of a joint looks in Dagster."""
        spec = self.translator.get_asset_check_spec(check, self.assembly.joint(joint), self)
        return with_gate_condition(spec) if joint in self._watched else spec

    def check_key(self, check: CompiledCheck, joint: str) -> dg.AssetCheckKey:
        """The key of a joint's check."""
        return self.check_spec(check, joint).key

    def select(self, text: str) -> tuple[str, ...]:
        """The selected joints, sources too, that a selection in Dagster's syntax names, in topological order.

        Raises RVT-115.

        >>> RivetProject.load("example_repo").select('1+key:"fleet_age"')
        ('airlines', 'aircraft_usage', 'fleet', 'fleet_age')
        """
        try:
            with beta_accepted():
                keys = dg.AssetSelection.from_string(text).resolve(self._graph)
        except dg.DagsterError as error:
            raise RivetError("RVT-115", f"{text!r} is no asset selection: {error}") from error
        return tuple(name for key, name in self.joints.items() if key in keys and name in self.selected)

    def _behind(self, joint: str) -> list[str]:
        """What joints of the same group that are no assets here, and that this one is computed from, read."""
        group = self.assembly.joint(joint).group
        found: dict[str, None] = {}
        ahead = [joint]
        while ahead:
            name = ahead.pop()
            for upstream in map(self.assembly.joint, self.assembly.joint(name).upstream):
                if upstream.type != SOURCE and upstream.group == group and upstream.name not in self.selected:
                    ahead.append(upstream.name)
                elif name != joint:
                    found[upstream.name] = None
        return sorted(found)

    def select_made(self, text: str) -> tuple[str, ...]:
        """The same without sources, which are only read. Raises RVT-115, also where nothing is left."""
        selected = self.select(text)
        joints = tuple(name for name in selected if self.assembly.joint(name).type != SOURCE)
        if not joints:
            found = f"only {', '.join(selected)}, which can only be read" if selected else "nothing of this project"
            raise RivetError("RVT-115", f"{text!r} selects {found}")
        return joints

    @cached_property
    def _graph(self) -> Any:
        # A selection finds nothing but what can be made, so here all of it is, sources too. Without partitions: a step
        # has one definition of them.
        @dg.multi_asset(specs=[spec.replace_attributes(partitions_def=None) for spec in self._specs.values()])
        def everything():  # type: ignore[no-untyped-def]  # Dagster takes an annotation for the outputs' type
            ...

        return dg.Definitions(assets=[everything]).resolve_asset_graph()
