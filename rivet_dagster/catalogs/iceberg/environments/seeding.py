"""Seeding: giving a table of an environment the base's state, by a commit that copies no data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rivet_dagster.catalogs.iceberg.environments.branch import EnvironmentBranch, Seed, seed_in, seed_key, seeded
from rivet_dagster.catalogs.iceberg.nessie.server import Content, Key, delete, put
from rivet_dagster.errors import RivetError


def seed(environment: EnvironmentBranch, table: Key, declared: str, version: str) -> None:
    """Have a table that was not built in the environment be the base's, which is at ``version``."""
    mark = seed_key(table)
    of_base = environment.server.contents(environment.base, [table])[1].get(table)
    mine = environment.contents([table]).get(table)
    if of_base is not None and (mine is None or mine["id"] != of_base["id"]):
        _fetch(environment, table, of_base, mine)
    snapshot = str(of_base["snapshotId"]) if of_base is not None else ""
    metadata = str(of_base["metadataLocation"]) if of_base is not None else ""
    new = Seed(declared, snapshot, version, metadata)

    def changes(found: Mapping[Key, Content]) -> list[dict[str, Any]]:
        known, mine = found.get(mark), found.get(table)
        if known is not None and seed_in(known) == new:
            return []
        operations = [seeded(table, new, known)]
        if of_base is not None and mine != of_base:
            operations.append(put(table, of_base))
        elif of_base is None and mine is not None:
            operations.append(delete(table))
        return operations

    environment.change(f"Begin {'.'.join(table)} upon the base", [table, mark], changes)


def give_back(environment: EnvironmentBranch, table: Key, snapshot: int) -> None:
    """Undo what was built, unless ``snapshot`` is not current any more: the table there is the base's again."""
    mark = seed_key(table)
    of_base = environment.server.contents(environment.base, [table])[1].get(table)

    def changes(found: Mapping[Key, Content]) -> list[dict[str, Any]]:
        undone = [delete(mark)] if mark in found else []
        if table not in found:
            return undone
        if found[table].get("snapshotId") != snapshot:
            return []  # another version has been published since
        same = of_base is not None and found[table]["id"] == of_base["id"]
        return [*undone, put(table, of_base) if same and of_base is not None else delete(table)]

    environment.change(f"Give up {'.'.join(table)}", [table, mark], changes)


def _fetch(environment: EnvironmentBranch, table: Key, of_base: Content, mine: Content | None) -> None:
    """Have the environment's branch have the base's table, one with another id than its own."""
    server = environment.server
    if mine is not None:
        environment.change(
            f"Remove {'.'.join(table)}", [table], lambda found: [delete(table)] if table in found else []
        )
    missing = [table[:length] for length in range(1, len(table))]
    known = environment.contents(missing)
    forced = [table, *(key for key in missing if key not in known)]
    into, source = server.reference(environment.ref), server.reference(environment.base)
    server.merge(into, source, f"Begin {'.'.join(table)} upon the base", forced)
    if environment.contents([table]).get(table, {}).get("id") != of_base["id"]:
        message = f"the environment '{environment.name}' cannot take over '{'.'.join(table)}' of the base"
        raise RivetError("RVT-404", message, remediation="Drop the environment, and make it anew.")
