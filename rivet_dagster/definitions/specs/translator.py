"""DagsterRivetTranslator: the class to override in order to change the specs of joints and checks.

``TranslationContext`` is the view of a project that a translator has while the specs are made, in one pass.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import dagster as dg

from rivet_dagster.compiler.joints import FunctionJoint, QueryJoint, SourceJoint
from rivet_dagster.compiler.plan import CompiledAssembly, CompiledJoint
from rivet_dagster.definitions.partitions import partitions_definition
from rivet_dagster.definitions.specs.materialization_metadata import (
    column_lineage,
    column_schema,
    enforced,
    lineage_table,
    sql_markdown,
    table_name,
)
from rivet_dagster.definitions.specs.samples_and_errors import COLUMNS
from rivet_dagster.definitions.specs.selection import beta_accepted
from rivet_dagster.model.check_plan import CompiledCheck
from rivet_dagster.model.external_assets import is_external, key_path
from rivet_dagster.model.joint import SOURCE
from rivet_dagster.model.row_errors import SUFFIX

KIND_PREFIX = "dagster/kind/"
"""The beginning of the tags as which Dagster stores kinds."""

FUSED_SQL_LIMIT = 20_000
"""A group's query that is longer than this is only in the metadata of the group's exit."""


class DagsterRivetTranslator:
    """Makes the specs of joints and checks. Subclass it and pass it to ``load_definitions``.

    Its methods take ``project``, a read-only view: ``assembly`` is the plan, ``root`` the project's directory, and
    ``key(name)`` and ``keys(names)`` return the asset keys of the joints that the translated joint reads, or, for a
    check, of all joints. The key of the spec that ``get_asset_spec`` returns is used for the joint everywhere: in
    dependencies, checks and lineage.

    >>> class Loud(DagsterRivetTranslator):
    ...     def get_asset_spec(self, joint, project):
    ...         spec = super().get_asset_spec(joint, project)
    ...         return spec.merge_attributes(tags={"loud": ""})
    """

    def get_asset_spec(self, joint: CompiledJoint, project: TranslationContext) -> dg.AssetSpec:
        """Return the spec of a joint, whose key is ``key_prefix`` followed by the joint's name."""
        assembly = project.assembly
        return dg.AssetSpec(
            key=dg.AssetKey([*assembly.dagster.key_prefix, joint.name]),
            deps=_deps(joint, project),
            description=joint.description,
            group_name=re.sub(r"[^A-Za-z0-9_/]", "_", joint.asset_group),
            tags=dict(joint.tags),
            owners=list(joint.owners),
            kinds=_kinds(joint, assembly),
            code_version=joint.code_version,
            partitions_def=_partitions(joint),
            metadata={**_metadata(joint, assembly, project.root), **_lineage(joint, project)},
        )

    def get_errors_asset_spec(
        self, joint: CompiledJoint, spec: dg.AssetSpec, project: TranslationContext
    ) -> dg.AssetSpec:
        """Return the spec of the error table that is published with the table of a joint, whose own spec is ``spec``.

        Its key is that of the joint with ``__errors`` at the end.
        """
        target = project.assembly.target(joint.name)
        assert target is not None and target.errors is not None
        kind = _catalog_type(joint, project.assembly)
        table = f"{target.catalog}.{target.errors.table}"
        return dg.AssetSpec(
            key=dg.AssetKey([*spec.key.path[:-1], spec.key.path[-1] + SUFFIX]),
            deps=[dg.AssetDep(spec.key)],
            description=f"The rows that could not be evaluated when {joint.name} was computed, with the error of each.",
            group_name=spec.group_name,
            tags={key: value for key, value in spec.tags.items() if not key.startswith(KIND_PREFIX)},
            owners=list(spec.owners),
            kinds={"errors", kind},
            code_version=spec.code_version,
            partitions_def=spec.partitions_def,
            metadata={
                "rivet/joint": joint.name,
                "rivet/fused_group": joint.group,
                "dagster/column_schema": column_schema(COLUMNS),
                "dagster/table_name": table,
                "dagster/storage_kind": kind,
            },
        )

    def get_asset_check_spec(
        self, check: CompiledCheck, joint: CompiledJoint, project: TranslationContext
    ) -> dg.AssetCheckSpec:
        """Return the spec of a check; one of severity error blocks publishing, and the steps that read the joint."""
        metadata = {"rivet/kind": check.kind, "rivet/phase": check.phase, "rivet/severity": check.severity}
        return dg.AssetCheckSpec(
            name=check.name,
            asset=project.key(joint.name),
            additional_deps=project.keys(check.reads),
            blocking=check.blocking,
            description="\n\n".join(text for text in (check.description, check.remediation) if text) or None,
            metadata={**metadata, **{f"rivet/tag/{key}": value for key, value in check.tags.items()}},
        )


def _lineage(joint: CompiledJoint, project: TranslationContext) -> dict[str, Any]:
    if not joint.lineage:
        return {}
    keys = {name: project.key(name) for name in joint.upstream}
    return {
        "dagster/column_lineage": column_lineage(joint.lineage, keys),
        "rivet/column_lineage": dg.MetadataValue.md(lineage_table(joint.lineage)),
    }


def _partitions(joint: CompiledJoint) -> dg.PartitionsDefinition[str] | None:
    """Return the partitions definition; None for a source, whose observation has one data version for all data."""
    return partitions_definition(joint.partitions) if joint.partitions and joint.type != SOURCE else None


def _deps(joint: CompiledJoint, project: TranslationContext) -> list[dg.AssetDep]:
    """Return the dependencies of an asset without duplicates, since two sources may be the same external asset."""
    return [dg.AssetDep(key) for key in dict.fromkeys(project.keys(_before(joint)))]


def _before(joint: CompiledJoint) -> tuple[str, ...]:
    """Return the joints that an asset depends on: its upstream, and the joints that its checks read.

    The checks of a source have a step of their own.
    """
    judged_with = [name for check in joint.checks for name in check.reads] if joint.type != SOURCE else []
    return tuple(dict.fromkeys((*joint.upstream, *judged_with)))


def _kinds(joint: CompiledJoint, assembly: CompiledAssembly) -> set[str]:
    engines = {engine.name: engine.type for engine in assembly.engines}
    stored = {_catalog_type(joint, assembly)} if joint.catalog is not None else set()
    return {joint.type, engines[joint.engine]} | stored


def _metadata(joint: CompiledJoint, assembly: CompiledAssembly, project_dir: Path) -> Mapping[str, Any]:
    group = assembly.group(joint.group)
    metadata: dict[str, Any] = {"rivet/joint": joint.name, "rivet/fused_group": joint.group}
    texts = _own_sql(joint)
    fused = {"rivet/fused_sql": group.sql, "rivet/fused_sql_incremental": group.sql_incremental}
    for key, sql in {**texts, **fused}.items():
        if sql is not None and (key in texts or len(sql) <= FUSED_SQL_LIMIT or joint.name == group.exit):
            metadata[key] = sql_markdown(sql)
    if joint.schema is not None:
        metadata["dagster/column_schema"] = column_schema(joint.schema, enforced(joint, assembly.target(joint.name)))
    if joint.catalog is not None:
        metadata["dagster/table_name"] = table_name(joint)
        metadata["dagster/storage_kind"] = _catalog_type(joint, assembly)
    if joint.file is not None:
        metadata["dagster/code_references"] = _code_references(joint, project_dir)
    return metadata


def _own_sql(joint: CompiledJoint) -> dict[str, str | None]:
    """Return a SQL joint's own texts, or a source's projection."""
    if isinstance(joint, QueryJoint):
        return {"rivet/sql": joint.sql, "rivet/sql_incremental": joint.sql_incremental}
    return {"rivet/sql": joint.sql} if isinstance(joint, SourceJoint) else {}


def _catalog_type(joint: CompiledJoint, assembly: CompiledAssembly) -> str:
    return next(catalog.type for catalog in assembly.catalogs if catalog.name == joint.catalog)


def _code_references(joint: CompiledJoint, project_dir: Path) -> dg.CodeReferencesMetadataValue:
    """Return references to the file that declares the joint, and to that of its function, if it is another."""
    references = [(joint.file, joint.line or 1), (joint.function_file if isinstance(joint, FunctionJoint) else None, 1)]
    files = {file: line for file, line in reversed(references) if file is not None}
    with beta_accepted():
        return dg.CodeReferencesMetadataValue(
            code_references=[
                dg.LocalFileCodeReference(
                    file_path=os.path.normpath(os.path.join(project_dir, file)), line_number=line, label=file
                )
                for file, line in reversed(files.items())
            ]
        )


@dataclass(frozen=True)
class TranslationContext:
    """The read-only view of a project that is passed to the methods of a translator.

    ``assembly`` is the plan, ``root`` the absolute path of the project's directory. ``asset_keys`` are the keys known
    so far: for a joint those of the joints before it, which include its upstream; for a check those of all joints.
    """

    assembly: CompiledAssembly
    root: Path
    asset_keys: Mapping[str, dg.AssetKey]

    def key(self, joint: str) -> dg.AssetKey:
        """Return the asset key of a joint; for a source that is an external asset, the key of that asset.

        Raises RVT-306 if no joint has that name, KeyError if the joint has not been translated yet.
        """
        return self.asset_keys[self.assembly.joint(joint).name]

    def keys(self, joints: Iterable[str]) -> list[dg.AssetKey]:
        """Return the asset keys of joints, in their order. Raises as ``key`` does."""
        return [self.key(joint) for joint in joints]


@dataclass(frozen=True, eq=False)
class AssetSpecs:
    """The Dagster specs of a plan.

    ``keys`` are the asset keys of all joints by name. ``joints`` are the specs, in topological order, of those joints
    that are assets of the project: all but the sources that are external assets. ``errors`` are those of error tables,
    by the joint beside whose table they are published. ``checks`` are the specs of all checks, by the names of joint
    and check.
    """

    keys: Mapping[str, dg.AssetKey]
    joints: Mapping[str, dg.AssetSpec]
    errors: Mapping[str, dg.AssetSpec]
    checks: Mapping[tuple[str, str], dg.AssetCheckSpec]

    @cached_property
    def joints_by_key(self) -> Mapping[dg.AssetKey, str]:
        """The names of the joints that are assets of the project, by asset key, in topological order."""
        return {spec.key: name for name, spec in self.joints.items()}

    @cached_property
    def errors_by_key(self) -> Mapping[dg.AssetKey, str]:
        """The joints whose error table an asset is, by asset key."""
        return {spec.key: name for name, spec in self.errors.items()}


def asset_specs(assembly: CompiledAssembly, root: Path, translator: DagsterRivetTranslator) -> AssetSpecs:
    """Return the specs that ``translator`` makes for a plan; ``root`` is the project's directory.

    A joint is translated after the joints that it reads, so that their keys are known.
    """
    ordered = list(_in_order(assembly))
    keys = {joint.name: dg.AssetKey(key_path(str(joint.table))) for joint in ordered if is_external(joint)}
    context = TranslationContext(assembly, root, MappingProxyType(keys))
    joints: dict[str, dg.AssetSpec] = {}
    for joint in ordered:
        if not is_external(joint):
            joints[joint.name] = translator.get_asset_spec(joint, context)
            keys[joint.name] = joints[joint.name].key
    errors = {
        joint.name: translator.get_errors_asset_spec(joint, joints[joint.name], context)
        for joint in ordered
        if (target := assembly.target(joint.name)) is not None and target.errors is not None
    }
    checks = {
        (joint.name, check.name): translator.get_asset_check_spec(check, joint, context)
        for joint in ordered
        for check in joint.checks
    }
    return AssetSpecs(keys, joints, errors, checks)


def _in_order(assembly: CompiledAssembly) -> Iterator[CompiledJoint]:
    """Yield the joints in topological order."""
    for group in assembly.execution_order:
        yield from map(assembly.joint, assembly.group(group).joints)
