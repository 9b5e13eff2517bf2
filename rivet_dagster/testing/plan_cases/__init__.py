"""The meaning of every write plan as data: the rows of a table, a batch, and the rows after the write.

``CASES`` are writes that succeed, ``REFUSALS`` writes that fail, and ``HISTORIES`` take several runs. A catalog proves
that it carries out write plans by running ``rivet_dagster.testing.catalog.CatalogConformance``, which covers all cases.
"""

from rivet_dagster.testing.plan_cases import (
    appending,
    beginnings,
    columns,
    histories,
    replacing,
    upserts,
)
from rivet_dagster.testing.plan_cases.case import PlanCase, Refusal
from rivet_dagster.testing.plan_cases.runs import HISTORIES

CASES: tuple[PlanCase, ...] = (
    *beginnings.CASES,
    *replacing.CASES,
    *appending.CASES,
    *upserts.CASES,
    *replacing.PARTITION_CASES,
    *columns.CASES,
    *histories.CASES,
    *beginnings.REFRESH_CASES,
)

REFUSALS: tuple[Refusal, ...] = (
    *appending.REFUSALS,
    *upserts.REFUSALS,
    *columns.REFUSALS,
    *histories.REFUSALS,
    *beginnings.REFRESH_REFUSALS,
)

__all__ = ["CASES", "HISTORIES", "REFUSALS", "PlanCase", "Refusal"]
