"""Taking over a table that somebody else has made: only one that has the columns of the joint that is to write it."""

from __future__ import annotations

from rivet_dagster.catalogs.capabilities.targets import Adopts, ChecksBatches
from rivet_dagster.compiler.joints import CompiledJoint
from rivet_dagster.errors import RivetError
from rivet_dagster.model.schema import Field, Schema
from rivet_dagster.model.storage import ExistingTable, Published
from rivet_dagster.model.target import Target


def adopt_table(catalog: Adopts, joint: CompiledJoint, target: Target) -> Published | None:
    """Take over the table of a joint if it is not published from here; return its current version, None without one.

    Raises RVT-404 for one that another project publishes, and what ``find_table`` and ``Adopts.adopt`` do.
    """
    find_table(catalog, joint, target)
    published = catalog.adopt(target.table, partition_columns(joint, target))
    if published is not None:
        refuse_other_project(joint, published)
    return published


def find_table(catalog: Adopts, joint: CompiledJoint, target: Target) -> ExistingTable | None:
    """Return the table of a joint that somebody else has made; None if there is none.

    Raises RVT-514 for one of other columns, and what ``Adopts.existing`` does.
    """
    existing = catalog.existing(target.table, partition_columns(joint, target))
    # A catalog that tells which batches a table takes does so when they are written.
    if existing is not None and joint.schema is not None and not isinstance(catalog, ChecksBatches):
        refuse_other_columns(existing, joint.schema, target)
    return existing


def partition_columns(joint: CompiledJoint, target: Target) -> Schema:
    """Return the columns by which a joint is partitioned, or its write strategy, with their types as far as known."""
    declared = (target.partitions.column,) if target.partitions is not None else ()
    types = {field.name.lower(): field.type for field in joint.schema or ()}
    names = {name.lower(): name for name in (*declared, *target.write.partition_columns)}
    return tuple(Field(name, types.get(key)) for key, name in names.items())


def refuse_other_project(joint: CompiledJoint, published: Published) -> None:
    """Raise RVT-404 for a version that a run of another project has published: of another group than the joint's."""
    run, *group = published.identity.split("/")
    is_run = " " not in run  # nor a person's command, or the merge of an environment
    if is_run and group and group[0] != joint.group:
        by = f"its version {published.version} was published by {published.identity}"
        message = f"{published.uri} is a table of another project: {by}"
        remedy = (
            "Name another table. Or, if the joint has been renamed, or has taken the place of the other one: leave "
            "`adopt` out, since the table is published from here already."
        )
        raise RivetError("RVT-404", message, remediation=remedy)


def refuse_other_columns(existing: ExistingTable, columns: Schema, target: Target) -> None:
    """Raise RVT-514 unless a table has these columns, and their types where both are known.

    Letter case makes no difference, nor does the order. Columns that the write adds, or ignores, may be missing.

    >>> from rivet_dagster.model.schema import Field
    >>> from rivet_dagster.model.storage import Statistics
    >>> table = ExistingTable("file:/lake/t", Statistics(1, 9, (("id", "int"), ("at", "date"))))
    >>> refuse_other_columns(table, (Field("ID", "bigint"), Field("at")), Target(catalog="lake", table="orders"))
    Traceback (most recent call last):
    ...
    rivet_dagster.errors.BatchRefused: RVT-514 file:/lake/t has other columns than the joint: id is int and not bigint
        Have the query give the table's columns and types, or name another table.
    """
    stored = {name.lower(): type_ for name, type_ in existing.statistics.columns}
    given = {field.name.lower(): field.type for field in columns}
    may_lack = target.write.schema_change != "fail"
    wrong = [
        f"{name} is {stored[name]} and not {type_}"
        for name, type_ in given.items()
        if name in stored and type_ is not None and stored[name].lower() != type_.lower()
    ]
    wrong += [f"{name} is not the joint's" for name in stored if name not in given]
    wrong += [f"{name} is missing" for name in given if name not in stored and not may_lack]
    if wrong:
        message = f"{existing.uri} has other columns than the joint: {', '.join(wrong)}"
        remedy = "Have the query give the table's columns and types, or name another table."
        raise RivetError("RVT-514", message, remediation=remedy)
