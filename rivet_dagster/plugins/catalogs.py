"""A catalog of your own: its base class, its capabilities, and the values that pass through them."""

from __future__ import annotations

from rivet_dagster.catalogs.capabilities.sources import (
    HasLandingZones,
    HasSnapshots,
    LandingZone,
    ListsFiles,
    ListsTables,
    Snapshot,
    TellsLocations,
)
from rivet_dagster.catalogs.capabilities.staging import PublishesTogether, StagedTransaction, StagesForRuns
from rivet_dagster.catalogs.capabilities.targets import (
    NO_OPTIONS,
    Adopts,
    ChecksBatches,
    ErrorTransaction,
    HasErrorTables,
    HasTargets,
    HasVersions,
    HasWatermarks,
    PlanType,
    VersionTransaction,
)
from rivet_dagster.catalogs.capabilities.transaction import NO_CONTEXT, TableTransaction, WriteContext
from rivet_dagster.catalogs.capabilities.upkeep import HasUpkeep, Sweeps, UpkeepReport
from rivet_dagster.catalogs.contract import Catalog, NeedsEngine
from rivet_dagster.catalogs.environments.catalog import EnvironmentStorage, HasEnvironments, StoredEnvironment
from rivet_dagster.catalogs.environments.state import (
    ABANDONED_AFTER,
    DROPPED,
    MERGED,
    MERGING,
    OPEN,
    PUBLISHED,
    BuiltTable,
    Environment,
    EnvironmentState,
    StateOfEnvironment,
    merged_environment,
)
from rivet_dagster.catalogs.environments.tables_over_base import EnvironmentTables
from rivet_dagster.catalogs.parquet_rows import no_errors
from rivet_dagster.catalogs.rewriting.error_retention import loaded_errors, retained_errors
from rivet_dagster.catalogs.rewriting.intervals import Affected
from rivet_dagster.catalogs.rewriting.rewrite import Rewritten, WrittenRows, rewritten
from rivet_dagster.catalogs.rewriting.version import Remaining, RewritableVersion
from rivet_dagster.catalogs.versions.facts import describe_published, describe_version, record_of, update_provenance
from rivet_dagster.catalogs.versions.heartbeat import (
    DEAD_AFTER,
    Heartbeat,
    Leftover,
    find_dead,
    sweep_dead,
    telling_failures,
)
from rivet_dagster.catalogs.versions.manifest import inputs_from_json, landed_as_json, positions_as_json
from rivet_dagster.catalogs.versions.marks import (
    MarkedVersion,
    find_staged,
    find_staged_by,
    list_versions,
    require_staged,
    require_withheld,
)
from rivet_dagster.catalogs.versions.refusals import no_staged_version, overtaken, unknown_version
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.entry_points import refuse_wrong_options
from rivet_dagster.errors import RivetError
from rivet_dagster.model.finding import Finding, broken, doubtful, in_order
from rivet_dagster.model.inputs import (
    ConsumedFiles,
    DatabasePosition,
    FilesPosition,
    Inputs,
    LandedFile,
    Position,
    SnapshotPosition,
    TargetPosition,
    UnknownPosition,
    VersionPosition,
)
from rivet_dagster.model.plugins import Wrong
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.relations import ArrowRows, CatalogTable, Files, JdbcTable, Kinds, Relation, Unreadable
from rivet_dagster.model.row_errors import ERROR_COLUMNS, ERROR_TYPES
from rivet_dagster.model.schema import Field, Schema
from rivet_dagster.model.session_needs import SessionNeeds
from rivet_dagster.model.storage import Base, Provenance, Published, Record, Statistics, StoredRows, Version
from rivet_dagster.model.target import Location
from rivet_dagster.model.write_plan import (
    Append,
    AppendNewer,
    DeleteInsert,
    History,
    Refresh,
    ReplaceAll,
    ReplacePartitions,
    SchemaChange,
    Upsert,
    WritePlan,
)
from rivet_dagster.sql.write_strategies.statements import count_query, delete, delete_and_insert, update_or_insert

__all__ = [
    "ABANDONED_AFTER",
    "DEAD_AFTER",
    "DROPPED",
    "ERROR_COLUMNS",
    "ERROR_TYPES",
    "MERGED",
    "MERGING",
    "NO_CONTEXT",
    "NO_OPTIONS",
    "OPEN",
    "PUBLISHED",
    "Adopts",
    "Affected",
    "Append",
    "AppendNewer",
    "ArrowRows",
    "Base",
    "BuiltTable",
    "Catalog",
    "CatalogSpec",
    "CatalogTable",
    "ChecksBatches",
    "ConsumedFiles",
    "DatabasePosition",
    "DeleteInsert",
    "EngineSession",
    "Environment",
    "EnvironmentState",
    "EnvironmentStorage",
    "EnvironmentTables",
    "ErrorTransaction",
    "Field",
    "Files",
    "FilesPosition",
    "Finding",
    "Frame",
    "HasEnvironments",
    "HasErrorTables",
    "HasLandingZones",
    "HasSnapshots",
    "HasTargets",
    "HasUpkeep",
    "HasVersions",
    "HasWatermarks",
    "Heartbeat",
    "History",
    "Inputs",
    "JdbcTable",
    "Kinds",
    "LandedFile",
    "LandingZone",
    "Leftover",
    "ListsFiles",
    "ListsTables",
    "Location",
    "MarkedVersion",
    "NeedsEngine",
    "PlanType",
    "Position",
    "Provenance",
    "Published",
    "PublishesTogether",
    "Record",
    "Refresh",
    "Relation",
    "Remaining",
    "ReplaceAll",
    "ReplacePartitions",
    "RewritableVersion",
    "Rewritten",
    "RivetError",
    "Schema",
    "SchemaChange",
    "SessionNeeds",
    "Snapshot",
    "SnapshotPosition",
    "StagedTransaction",
    "StagesForRuns",
    "StateOfEnvironment",
    "Statistics",
    "StoredEnvironment",
    "StoredRows",
    "Sweeps",
    "TableTransaction",
    "TargetPosition",
    "TellsLocations",
    "UnknownPosition",
    "Unreadable",
    "UpkeepReport",
    "Upsert",
    "Version",
    "VersionPosition",
    "VersionTransaction",
    "WriteContext",
    "WritePlan",
    "WrittenRows",
    "Wrong",
    "broken",
    "count_query",
    "delete",
    "delete_and_insert",
    "describe_published",
    "describe_version",
    "doubtful",
    "find_dead",
    "find_staged",
    "find_staged_by",
    "in_order",
    "inputs_from_json",
    "landed_as_json",
    "list_versions",
    "loaded_errors",
    "merged_environment",
    "no_errors",
    "no_staged_version",
    "overtaken",
    "positions_as_json",
    "record_of",
    "refuse_wrong_options",
    "require_staged",
    "require_withheld",
    "retained_errors",
    "rewritten",
    "sweep_dead",
    "telling_failures",
    "unknown_version",
    "update_or_insert",
    "update_provenance",
]
