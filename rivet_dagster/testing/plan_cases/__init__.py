"""The meaning of every write plan as data: the rows of a table, a batch, and the rows after the write.

``CASES`` are writes that succeed, ``REFUSALS`` writes that fail, and ``HISTORIES`` take several runs. A catalog proves
that it carries out write plans by running ``rivet_dagster.testing.catalog.CatalogConformance``, which covers all cases.
"""

from rivet_dagster.testing.plan_cases import batches, beginnings, columns, histories, upserts
from rivet_dagster.testing.plan_cases.case import PlanCase, RefusalCase
from rivet_dagster.testing.plan_cases.runs import HISTORIES

CASES: tuple[PlanCase, ...] = (
    *beginnings.CASES,
    *batches.REPLACE_CASES,
    *batches.APPEND_CASES,
    *upserts.CASES,
    *batches.PARTITION_CASES,
    *columns.CASES,
    *histories.CASES,
    *beginnings.REFRESH_CASES,
)

REFUSALS: tuple[RefusalCase, ...] = (
    *batches.APPEND_REFUSALS,
    *upserts.REFUSALS,
    *columns.REFUSALS,
    *histories.REFUSALS,
    *beginnings.REFRESH_REFUSALS,
)

__all__ = ["CASES", "HISTORIES", "REFUSALS", "PlanCase", "RefusalCase"]
