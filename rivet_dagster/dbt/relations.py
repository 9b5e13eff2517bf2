"""Tables and views that dbt has made of a project, the joints that have their rows, and the metastore they are in."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rivet_dagster.dbt.declared import MODEL, SEED, SNAPSHOT, DbtNode, DbtProject, DbtTarget
from rivet_dagster.dbt.files import read_file
from rivet_dagster.dbt.report import LEFT_OUT, Report
from rivet_dagster.dbt.translation.strategy import EPHEMERAL, VIEW, LeftOutError, TranslatedSnapshot, history_of
from rivet_dagster.errors import RivetError
from rivet_dagster.project.text_file import TextError


@dataclass(frozen=True)
class DbtRelation:
    """A table or view of dbt, and the joints that its model, seed or snapshot has become.

    ``schema`` and ``table`` are empty where they are not known. ``reason`` says why nothing can be compared.
    ``history`` is that of a snapshot.
    """

    name: str
    kind: str
    joints: tuple[str, ...] = ()
    schema: str = ""
    table: str = ""
    reason: str | None = None
    history: TranslatedSnapshot | None = None

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}" if self.table else ""


def relations_of(project: DbtProject, report: Report, root: Path) -> tuple[DbtRelation, ...]:
    """Return what dbt has made of each model, seed and snapshot, but for ephemeral ones.

    ``report`` says what these have become. Schemas and names are those that dbt computes by itself. Where macros of the
    project compute them, they are read from the manifest of the last ``dbt compile`` or ``dbt build``.
    """
    entries = [entry for entry in (*report.models, *report.others) if entry.kind in (None, SEED, SNAPSHOT)]
    joints: dict[tuple[str, str, str], list[str]] = {}
    for entry in entries:
        if entry.status != LEFT_OUT and entry.joint is not None:
            joints.setdefault((entry.kind or MODEL, entry.name, entry.location.file), []).append(entry.joint)
    namer = _Namer(project, root)
    nodes = (node for package in project.packages for node in package.nodes)
    return tuple(
        _relation(node, tuple(joints.get((node.kind, node.versioned_name, node.location.file), ())), namer)
        for node in nodes
        if node.kind in (MODEL, SEED, SNAPSHOT) and node.config.is_enabled and not _is_ephemeral(node)
    )


def _is_ephemeral(node: DbtNode) -> bool:
    return node.kind == MODEL and str(node.config.get("materialized", VIEW)) == EPHEMERAL


def _relation(node: DbtNode, joints: tuple[str, ...], namer: _Namer) -> DbtRelation:
    name = node.versioned_name
    try:
        schema, table = namer.name(node)
    except LeftOutError as error:
        return DbtRelation(name, node.kind, joints, reason=str(error))
    if not joints:
        return DbtRelation(name, node.kind, joints, schema, table, "the import has left it out")
    history = history_of(node.config) if node.kind == SNAPSHOT else None
    return DbtRelation(name, node.kind, joints, schema, table, history=history)


_NAMING = ("generate_schema_name", "generate_alias_name")


class _Namer:
    """Names relations as dbt does."""

    def __init__(self, project: DbtProject, root: Path) -> None:
        self._schema = project.target.schema
        self._macros = [macro.name for macro in project.root.macros if macro.name in _NAMING]
        self._file = f"{project.target_path}/manifest.json"
        self._nodes = _manifest_nodes(root / self._file) if self._macros else {}

    def name(self, node: DbtNode) -> tuple[str, str]:
        """Return the schema and the name of a node's table or view. Raise LeftOutError where they are not known."""
        if self._macros:
            return self._name_in_manifest(node)
        unknown = next((key for key in ("schema", "alias", "target_schema") if key in node.config.unknown), None)
        if unknown is not None:
            raise LeftOutError(f"its {unknown} is not known: {node.config.unknown[unknown]}", unknown)
        table = str(node.config.get("alias") or node.versioned_name)
        whole = node.config.get("target_schema") if node.kind == SNAPSHOT else None
        custom = node.config.get("schema")
        if custom is None and whole is not None:
            return str(whole).strip(), table
        return (self._schema if custom is None else f"{self._schema}_{str(custom).strip()}"), table

    def _name_in_manifest(self, node: DbtNode) -> tuple[str, str]:
        version = () if node.version is None else (f"v{node.version}",)
        found = self._nodes.get(".".join((node.kind, node.package, node.name, *version)))
        if not isinstance(found, Mapping) or not found.get("schema") or not found.get("alias"):
            macros = " and ".join(self._macros)
            raise LeftOutError(f"macros of the project name its table ({macros}), and {self._file} does not have it")
        return str(found["schema"]), str(found["alias"])


def _manifest_nodes(path: Path) -> Mapping[str, Any]:
    try:
        manifest = json.loads(read_file(path))
    except (TextError, ValueError):
        return {}
    nodes = manifest.get("nodes") if isinstance(manifest, Mapping) else None
    return nodes if isinstance(nodes, Mapping) else {}


EMBEDDED = "metastore_db"
"""The folder of the metastore that Spark makes in the working directory of dbt, unless it is told of another one."""

_METASTORE = re.compile(r"(spark\.hadoop\.)?(hive\.metastore\.uris|javax\.jdo\.option\.ConnectionURL)")
_CATALOG = re.compile(r"spark\.sql\.catalog\.spark_catalog\.(uri|warehouse|catalog-impl)")
_DEFAULT_CATALOG = "spark.sql.defaultCatalog"
_WAREHOUSE = "spark.sql.warehouse.dir"
_CONFIGURATION = (("SPARK_CONF_DIR", ""), ("SPARK_HOME", "conf"), ("HIVE_CONF_DIR", ""), ("HADOOP_CONF_DIR", ""))


@dataclass(frozen=True)
class DbtMetastore:
    """The place where Spark finds dbt's tables: options of a catalog of the type ``spark``, and the catalog of names.

    ``embedded`` is the folder of a metastore that a single process can use at a time.
    """

    options: Mapping[str, Any]
    catalog: str | None = None
    embedded: Path | None = None


def find_metastore(target: DbtTarget, root: Path, environ: Mapping[str, str]) -> DbtMetastore:
    """Return the metastore of a target's tables; ``root`` is the folder of the dbt project.

    Raises RVT-146 for a target whose tables Spark cannot read.
    """
    if target.is_postgres:
        raise _unreadable(
            target,
            "it is a PostgreSQL database, to which the new project publishes itself",
            "Import without --verify, take dbt's tables over with `rivet-dagster adopt`, then compare: `run "
            "--environment try`, `diff --environment try`.",
        )
    if target.adapter != "spark":
        raise _unreadable(target, f"it is of the type {target.adapter}")
    given = target.values.get("server_side_parameters")
    settings = {str(key): str(value) for key, value in given.items()} if isinstance(given, Mapping) else {}
    catalog = settings.get(_DEFAULT_CATALOG)
    if catalog is not None and not any(_METASTORE.fullmatch(key) for key in settings):
        return DbtMetastore({"hive": False}, catalog)
    known = any(_METASTORE.fullmatch(key) or _CATALOG.fullmatch(key) for key in settings)
    if known or next(_configurations(environ), None) is not None:
        return DbtMetastore({}, catalog)
    embedded = root / EMBEDDED
    if target.method == "session" and embedded.is_dir():
        options = {} if _WAREHOUSE in settings else {"warehouse": str(root / "spark-warehouse")}
        return DbtMetastore(options, catalog, embedded)
    why = "neither its server_side_parameters nor a hive-site.xml of Spark say which metastore has its tables"
    if target.method == "session":
        raise _unreadable(target, f"{why}, and there is no {EMBEDDED} in {root}")
    host = f" on {target.values['host']}" if target.values.get("host") else ""
    raise _unreadable(target, f"it is a server ({target.method or 'no method'}{host}), and {why}")


def _configurations(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the files by which Spark itself is told of a metastore."""
    for variable, folder in _CONFIGURATION:
        path = os.path.join(environ.get(variable, ""), folder, "hive-site.xml")
        if environ.get(variable) and os.path.isfile(path):
            yield path


def _unreadable(target: DbtTarget, why: str, remedy: str | None = None) -> RivetError:
    location = target.location
    return RivetError(
        "RVT-146",
        f"Spark cannot read the tables of the target '{target.name}': {why}",
        file=location.file if location is not None else None,
        line=location.line if location is not None else None,
        remediation=remedy,
    )
