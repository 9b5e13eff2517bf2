"""An engine of your own: its base class, that of its sessions, and the values that pass through them."""

from __future__ import annotations

from rivet_dagster.engines.contract import (
    DagsterResource,
    Engine,
    EngineSession,
    Frame,
    Observed,
    Progress,
    QueryPlan,
    Typed,
    WriteMode,
    cannot_read,
    cannot_write,
)
from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.engines.views import ScopedViews
from rivet_dagster.entry_points import refuse_wrong_options
from rivet_dagster.errors import RivetError
from rivet_dagster.model.finding import Finding, broken, doubtful, in_order
from rivet_dagster.model.plugins import SPARK, Wrong
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.model.relations import ArrowRows, CatalogTable, Files, JdbcTable, Kinds, Relation
from rivet_dagster.model.session_needs import SessionNeeds, merge_needs
from rivet_dagster.model.storage import Projection
from rivet_dagster.sql.generated_statements import GeneratedStatement

__all__ = [
    "SPARK",
    "ArrowRows",
    "CatalogTable",
    "DagsterResource",
    "Engine",
    "EngineSession",
    "EngineSpec",
    "Files",
    "Finding",
    "Frame",
    "GeneratedStatement",
    "JdbcTable",
    "Kinds",
    "Observed",
    "Progress",
    "Projection",
    "PySparkEngine",
    "QueryPlan",
    "Relation",
    "RivetError",
    "ScopedViews",
    "SessionNeeds",
    "Typed",
    "WriteMode",
    "Wrong",
    "broken",
    "cannot_read",
    "cannot_write",
    "doubtful",
    "in_order",
    "merge_needs",
    "refuse_wrong_options",
]
