"""Rules of write strategies: the columns that their options name exist, as far as schemas are known before a run."""

from __future__ import annotations

from rivet_dagster.compiler.context import GroupsContext
from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.errors import nearest
from rivet_dagster.model.joint import SINK, Joint
from rivet_dagster.model.schema import Schema
from rivet_dagster.model.write_strategy import SPELLINGS


def check_strategies(context: GroupsContext) -> None:
    """Report RVT-324 for columns missing in published rows, or in them although the strategy adds them; RVT-325."""
    graph, schemas, diagnostics = context.graph, context.schemas, context.diagnostics
    for name, joint in graph.joints.items():
        if joint.write_strategy.keeps_history and joint.partitions is not None:
            message = "scd2 keeps a history of each key over all time, so its table has no `partitions`"
            diagnostics.error(joint, "RVT-325", message, key="partitions")
        batch = schemas[name].batch
        if joint.publishes and batch is not None:
            _check(joint, batch, diagnostics)


def _check(joint: Joint, schema: Schema, diagnostics: Diagnostics) -> None:
    present = {field.name.lower() for field in schema}
    giver = "upstream" if joint.type == SINK else "query"
    for option, column in joint.write_strategy.columns:
        if column.lower() not in present:
            message = f"`{option}` names {column}, which its {giver} does not have{nearest(column, present)}"
            diagnostics.error(joint, "RVT-324", message, key=_key(joint, option))
    for option, column in joint.write_strategy.validity:
        if column.lower() in present:
            message = f"scd2 adds the column {column} (`{option}`), and its {giver} has one of that name"
            remedy = f"Leave it out, or give scd2's own another name: `{option}: ...`."
            diagnostics.error(joint, "RVT-324", message, _key(joint, option), remedy)


def _key(joint: Joint, option: str) -> str:
    """Return the key at which the declaration gives an option, whichever of its spellings is used."""
    names = (option, *(other for other, name in SPELLINGS.items() if name == option))
    keys = [f"write_strategy.{name}" for name in names]
    return next((key for key in keys if key in joint.origin.lines), "write_strategy")
