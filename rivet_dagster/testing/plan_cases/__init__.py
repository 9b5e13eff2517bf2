"""The meaning of every write plan, as data: what a table holds before, the batch, what it holds then.

``CASES`` are written, ``REFUSALS`` are not, ``HISTORIES`` take several runs. A catalog proves the whole meaning by
deriving from ``rivet_dagster.testing.catalog.CatalogConformance``, which plays all of them.
"""

from rivet_dagster.testing.plan_cases import appending, beginnings, columns, histories, partitions, replacing, upserts
from rivet_dagster.testing.plan_cases.case import PlanCase, Refusal
from rivet_dagster.testing.plan_cases.runs import HISTORIES

CASES: tuple[PlanCase, ...] = (
    *beginnings.CASES,
    *replacing.CASES,
    *appending.CASES,
    *upserts.CASES,
    *partitions.CASES,
    *columns.CASES,
    *histories.CASES,
)

REFUSALS: tuple[Refusal, ...] = (*appending.REFUSALS, *upserts.REFUSALS, *columns.REFUSALS, *histories.REFUSALS)

__all__ = ["CASES", "HISTORIES", "REFUSALS", "PlanCase", "Refusal"]
