"""What a run has staged, according to the materializations in Dagster's event log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import dagster as dg

from rivet_dagster.definitions.runs.identity import continued_run
from rivet_dagster.execution.results import GroupResult, StagedTable

STAGED = "rivet/staged"
"""The metadata of a materialization whose rows the last step of the run publishes."""


def staged_metadata(joint: str, result: GroupResult) -> dict[str, Any]:
    """Return the metadata from which ``staged_in_run`` reads; none unless the rows of the result are staged."""
    staged = staged_table(joint, result)
    return {STAGED: dg.MetadataValue.json(asdict(staged))} if staged is not None else {}


def staged_table(joint: str, result: GroupResult) -> StagedTable | None:
    """Return the table of a group's exit that its run has staged; None if it has not."""
    published = result.published
    if published is None or not result.staged:
        return None
    return StagedTable(joint, published.catalog, published.table, published.version, published.identity)


def staged_in_run(
    run: dg.DagsterRun, instance: dg.DagsterInstance, joints: Mapping[dg.AssetKey, str]
) -> dict[str, StagedTable]:
    """Return what a run has staged, by joint; ``joints`` are the names of joints by asset key.

    A run that continues another one, as a re-execution from failure does, has also staged what that one has, except for
    what it has materialized itself.
    """
    runs = [run]
    while (parent := continued_run(runs[-1], instance)) is not None:
        runs.append(parent)
    found: dict[str, StagedTable | None] = {}
    for each in reversed(runs):
        for entry in instance.all_logs(each.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION):
            event = entry.dagster_event
            name = joints.get(event.asset_key) if event is not None and event.asset_key is not None else None
            if event is not None and name is not None:
                found[name] = staged_of(event.step_materialization_data.materialization)
    return {name: table for name, table in found.items() if table is not None}


def staged_of(materialization: dg.AssetMaterialization) -> StagedTable | None:
    """Return the table that was staged with a materialization; None if its rows were published at once."""
    metadata = materialization.metadata.get(STAGED)
    facts: Any = metadata.value if metadata is not None else None
    return StagedTable(**facts) if facts is not None else None
