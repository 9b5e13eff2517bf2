"""``rivet-dagster versions`` and ``adopt``: the versions of a table that is stored, or that somebody else has made."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rivet_dagster.catalogs.capabilities import capable
from rivet_dagster.catalogs.capabilities.targets import Adopts, HasVersions, VersionTransaction
from rivet_dagster.catalogs.capabilities.transaction import TableTransaction
from rivet_dagster.cli.environment_command import runtime_of
from rivet_dagster.compiler.plan import CompiledAssembly, CompiledJoint
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.execution.adoption import find_table, partition_columns, refuse_other_project
from rivet_dagster.model.joint import SOURCE
from rivet_dagster.model.storage import CURRENT, OLDER, ExistingTable, Published, Version

_KEEP_MORE = "Let the catalog keep more: `versions: 5`, or, of Iceberg, `upkeep: {expire_snapshots: {retain_last: 5}}`."


@dataclass(frozen=True)
class VersionsOf:
    """The versions of the table of a ``joint`` in its catalog; each method is a command, and returns its exit code."""

    joint: CompiledJoint
    catalog: HasVersions

    @classmethod
    def find(cls, root: Path, profile: str | None, name: str, environment: str | None) -> VersionsOf:
        """Return the versions of the joint of that name, in an environment or in the base. Raises RVT-306, RVT-415."""
        runtime = runtime_of(root, profile, environment)
        joint = stored_joint(name, runtime.assembly)
        assert joint.catalog is not None
        return cls(joint, capable(runtime.catalog_within_reach(joint.catalog), HasVersions))

    @property
    def table(self) -> str:
        """The table's name in its catalog."""
        assert self.joint.table is not None
        return self.joint.table

    def list(self, as_json: bool = False) -> int:
        """Print the versions."""
        versions = self.catalog.versions(self.table)
        if as_json:
            listed = {
                "success": True,
                "joint": self.joint.name,
                "versions": [_to_dict(version) for version in versions],
            }
            print(json.dumps(listed, indent=2, ensure_ascii=False))
        else:
            _list(versions, self.joint)
        return 0

    def rollback(self, version: str | None) -> int:
        """Publish an older version again, by default the newest of them."""
        older = version or _previous(self.catalog, self.joint)
        _publish(self.catalog.restage(self.table, older), self.joint, f"rollback to {older}")
        return 0

    def publish(self, version: str) -> int:
        """Publish a withheld version."""
        _publish_or_withhold(self.catalog.take_up(self.table, version), self.joint, f"by hand, of {version}")
        return 0

    def drop(self, version: str) -> int:
        """Remove a withheld version."""
        self.catalog.take_up(self.table, version).abort()
        print(f"{self.joint.name}: {version} is gone")
        return 0


def _to_dict(version: Version) -> dict[str, Any]:
    return {
        "version": version.name,
        "state": version.state,
        "rows": version.rows,
        "published_at": version.published_at,
        "identity": version.identity,
        "inputs": {name: str(position) for name, position in sorted(version.inputs.items())},
    }


def _list(versions: tuple[Version, ...], joint: CompiledJoint) -> None:
    if not versions:
        print(f"{joint.name}: nothing is published")
    for version in versions:
        rows = "? rows" if version.rows is None else _rows(version.rows)
        columns = f"{version.name}  {version.state:9}  {rows:>16}  {version.published_at or '':29}  {version.identity}"
        print(columns.rstrip())
        for name, position in sorted(version.inputs.items()):
            print(f"    from {name}  {position}")


def _publish(transaction: TableTransaction, joint: CompiledJoint, identity: str) -> None:
    with transaction:
        _print_published(transaction.commit(identity), joint, identity)


def _publish_or_withhold(transaction: VersionTransaction, joint: CompiledJoint, identity: str) -> None:
    with transaction:
        try:
            published = transaction.commit(identity)
        except BaseException:
            transaction.withhold()
            raise
        _print_published(published, joint, identity)


def _print_published(published: Published, joint: CompiledJoint, identity: str) -> None:
    print(f"{joint.name}: readers see {published.version} now, {_rows(published.statistics.rows)} ({identity})")


def _rows(number: int) -> str:
    return f"{number:,} row{'' if number == 1 else 's'}"


def stored_joint(name: str, assembly: CompiledAssembly) -> CompiledJoint:
    """Return the joint of that name, which has a table. Raises RVT-306."""
    stored = {j.name: j for j in assembly.joints if j.catalog is not None and j.type != SOURCE}
    if name not in stored:
        known = {joint.name: joint for joint in assembly.joints}
        why = f"'{name}' is not stored" if name in known else f"no joint is named '{name}'"
        raise RivetError("RVT-306", f"{why}{nearest(name, stored)}", remediation="Name a joint that is stored.")
    return stored[name]


def _previous(catalog: HasVersions, joint: CompiledJoint) -> str:
    assert joint.table is not None
    states = {version.state: version.name for version in reversed(catalog.versions(joint.table))}
    if OLDER not in states:
        reason = "no version before this one is kept" if CURRENT in states else "nothing is published"
        raise RivetError("RVT-408", f"{joint.name}: {reason}", remediation=_KEEP_MORE)
    return states[OLDER]


def adopt(root: Path, profile: str | None, name: str, undo: bool = False) -> int:
    """Take over the table of a joint, or give it up again; print what was done, and return the exit code.

    Raises RVT-306, RVT-403, RVT-404, RVT-413, RVT-514.
    """
    runtime = runtime_of(root, profile, None)
    joint = stored_joint(name, runtime.assembly)
    assert joint.catalog is not None and joint.table is not None
    if runtime.environment is not None:
        message = f"in the environment '{runtime.environment}' no table is taken over: it is one of the base"
        raise RivetError("RVT-413", message, remediation="Take it over without RIVET_ENVIRONMENT.")
    catalog = capable(runtime.catalog_within_reach(joint.catalog), Adopts)
    if undo:
        adopted = catalog.give_up(joint.table)
        print(f"{name}: {'its versions are forgotten; the table stays' if adopted else 'nothing was published'}")
        return 0
    target = runtime.assembly.target(name)
    assert target is not None, "it is stored"
    existing = find_table(catalog, joint, target)
    if existing is not None:
        _show_existing(name, existing)
    published = catalog.adopt(joint.table, partition_columns(joint, target))
    if published is None and existing is not None:
        print(f"{name}: {existing.uri} has no version to take over; the joint's first run publishes to it")
        return 0
    if published is None:
        remedy = "Run the joint: its first run makes the table."
        raise RivetError("RVT-403", f"there is no table {catalog.uri(joint.table)}", remediation=remedy)
    refuse_other_project(joint, published)
    how = "is version" if existing is not None else "is published from here already, as version"
    print(f"{name}: {published.uri} {how} {published.version}, with {_rows(published.statistics.rows)}")
    return 0


def _show_existing(name: str, existing: ExistingTable) -> None:
    """Print what is taken over."""
    statistics = existing.statistics
    print(f"{name}: takes over {existing.uri}, {_rows(statistics.rows)}")
    width = max((len(column) for column, _ in statistics.columns), default=0)
    for column, type_ in statistics.columns:
        print(f"    {column:{width}}  {type_}")
    for title, text in existing.layout.items():
        print(f"  {title}: {text}")
