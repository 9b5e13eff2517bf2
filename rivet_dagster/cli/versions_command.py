"""``rivet-dagster versions``: list a table's versions, and roll back, publish or drop one."""

from __future__ import annotations

import argparse

from rivet_dagster.catalogs.capabilities import capable
from rivet_dagster.catalogs.capabilities.transaction import TableTransaction
from rivet_dagster.catalogs.capabilities.versions import HasVersions, VersionTransaction
from rivet_dagster.cli.environment_command import runtime_of
from rivet_dagster.compiler.plan import CompiledAssembly, CompiledJoint
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.model.joint import SOURCE
from rivet_dagster.model.storage import CURRENT, OLDER, Published, Version

_KEEP_MORE = "Let the catalog keep more: `versions: 5`, or, of Iceberg, `upkeep: {expire_snapshots: {retain_last: 5}}`."


def versions_command(options: argparse.Namespace) -> int:
    """List the versions of a joint's table, or change which one is published."""
    runtime = runtime_of(options)
    joint = _stored(options.joint, runtime.assembly)
    assert joint.catalog is not None and joint.table is not None
    catalog = capable(runtime.catalog_within_reach(joint.catalog), HasVersions)
    if options.action == "list":
        _list(catalog.versions(joint.table), joint)
    elif options.action == "rollback":
        version = options.version or _previous(catalog, joint)
        _publish(catalog.restage(joint.table, version), joint, f"rollback to {version}")
    elif options.action == "publish":
        _publish_or_withhold(catalog.take_up(joint.table, _named(options)), joint, f"by hand, of {options.version}")
    else:
        catalog.take_up(joint.table, _named(options)).abort()
        print(f"{joint.name}: {options.version} is gone")
    return 0


def _list(versions: tuple[Version, ...], joint: CompiledJoint) -> None:
    if not versions:
        print(f"{joint.name}: nothing is published")
    for version in versions:
        rows = "? rows" if version.rows is None else f"{version.rows:,} rows"
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
    print(f"{joint.name}: readers see {published.version} now, {published.statistics.rows:,} rows ({identity})")


def _stored(name: str, assembly: CompiledAssembly) -> CompiledJoint:
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


def _named(options: argparse.Namespace) -> str:
    if options.version is None:
        raise RivetError("RVT-110", f"versions {options.action} needs a VERSION")
    return str(options.version)
