"""The contenders of ``peers.py``: how each is written as a project, from the same queries, and how it is run."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from fusion_tpch import BY_HAND, GROUP, PROJECT, STEPS, TABLES
from peer_environments import MASTER, PEERS

HAND = "by-hand"


@dataclass(frozen=True)
class Contender:
    """One way to run the six steps: a project in a folder of ``peers``, and the command that runs it.

    ``lay_out`` adds to a copy of the folder what is generated, ``answer`` is where the rows stand afterwards, as a
    pattern. With ``metastore`` the sources are tables of one. ``before`` and ``after`` are commands around it that are
    not timed. ``variables`` are set for all of these; an empty one is unset.
    """

    title: str
    environment: str
    project: str
    command: Sequence[str]
    lay_out: Callable[[Path], None]
    answer: str
    metastore: bool = False
    before: Sequence[Sequence[str]] = ()
    after: Sequence[Sequence[str]] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


def step_queries(step: str = "{0}", table: str = "{0}") -> Mapping[str, str]:
    """Return the joints' own queries; ``step`` and ``table`` are how they write the name of another, or of a source."""

    def written(match: re.Match[str]) -> str:
        keyword, name = match.groups()
        return f"{keyword} {(table if name in TABLES else step).format(name)}"

    texts = {name: (PROJECT / "joints" / f"{name}.sql").read_text() for name in STEPS}
    without_annotations = {name: re.sub(r"^-- rivet:.*\n", "", text) for name, text in texts.items()}
    return {name: re.sub(r"\b(FROM|JOIN) (\w+)", written, text) for name, text in without_annotations.items()}


def write_steps(folder: Path) -> None:
    write_files(folder / "steps", step_queries())


def write_query(folder: Path) -> None:
    (folder / "query.sql").write_text(BY_HAND)


def write_joints(folder: Path) -> None:
    for name in ("sources", "joints", "sinks"):
        shutil.copytree(PROJECT / name, folder / name)
    shutil.copy(PROJECT / "rivet.yaml", folder)


def write_dbt_models(folder: Path, materialized: str) -> None:
    """All models but the last as ``materialized``, the last as a table."""
    queries = step_queries("{{{{ ref('{0}') }}}}", "{{{{ source('tpch', '{0}') }}}}")
    forms = dict.fromkeys(STEPS, materialized) | {STEPS[-1]: "table"}
    models = {name: f"{{{{ config(materialized='{forms[name]}') }}}}\n{query}" for name, query in queries.items()}
    write_files(folder / "models", models)


def write_sqlmesh_models(folder: Path) -> None:
    queries = step_queries("fusion.{0}", "tpch.{0}")
    models = {name: f"MODEL (name fusion.{name}, kind FULL);\n\n{query}" for name, query in queries.items()}
    write_files(folder / "models", models)


def write_transformations(folder: Path, view: str) -> None:
    """All datasets but the last as views of this kind, the last as a materialized view."""
    forms = dict.fromkeys(STEPS, view) | {STEPS[-1]: "MATERIALIZED"}
    queries = step_queries(table="parquet.`data/{0}.parquet`")
    views = {name: f"CREATE {forms[name]} VIEW {name} AS\n{query}" for name, query in queries.items()}
    write_files(folder / "transformations", views)
    specification = folder / "spark-pipeline.yml"
    specification.write_text(specification.read_text() + f"storage: file://{folder}/storage\n")  # absolute, it wants


def write_files(folder: Path, texts: Mapping[str, str]) -> None:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.sql").write_text(text)


DAGSTER = ("dagster", "asset", "materialize", "-f", "definitions.py", "--select", "*")
ARCHIVE = ("rivet-dagster", "spark", "archive")
# The settings are in its profile: Java archives no classes while a folder with files is on the class path.
ARCHIVED = {"SPARK_CONF_DIR": "", "RIVET_CLASS_ARCHIVE": str(PEERS / "environments" / "class-archives")}
FIRST = {"SPARK_CONF_DIR": "", "RIVET_CLASS_ARCHIVE": "none-yet", "CI": "true"}
DAGSTER_ON_SERVER = ("dagster", "asset", "materialize", "-f", "definitions_on_server.py", "--select", "*")
ON_SERVER = ("rivet-dagster", "--profile", "server")
START, RUN, STOP = (*ON_SERVER, "spark", "start"), (*ON_SERVER, "run"), (*ON_SERVER, "spark", "stop")
ARCHIVE_FOR_SERVER = (*ON_SERVER, "spark", "archive")
ON_SAIL = ("rivet-dagster", "--profile", "sail")
ON_DUCKDB = ("rivet-dagster", "--profile", "duckdb")
DBT_RUN = ("dbt", "run", "--quiet")
DBT_ANSWER = f"spark-warehouse/fusion.db/{STEPS[-1]}"
SPARK_PIPELINES = ("spark-pipelines", "--remote", MASTER, "run")  # it refuses a master
PIPELINES_ANSWER = f"spark-warehouse/{STEPS[-1]}"


def on_server(title: str, command: Sequence[str], runs: int) -> Contender:
    """Return a command on a Spark server of its own, which has run the joints so many times before."""
    return Contender(
        title,
        "rivet-connect",
        "rivet",
        command,
        write_joints,
        f"results/{GROUP}",
        before=(ARCHIVE_FOR_SERVER, START, *[RUN] * runs),
        after=(STOP,),
        variables=ARCHIVED,
    )


CONTENDERS = {
    HAND: Contender("query by hand", "pyspark", "by_hand", ("python", "run.py"), write_query, "answer"),
    "table-a-step": Contender(
        "script, a Parquet table a step",
        "pyspark",
        "table_a_step",
        ("python", "run.py"),
        write_steps,
        f"tables/{STEPS[-1]}",
    ),
    "rivet-run": Contender(
        "`rivet-dagster run`",
        "rivet",
        "rivet",
        ("rivet-dagster", "run"),
        write_joints,
        f"results/{GROUP}",
        before=(ARCHIVE,),
        variables=ARCHIVED,
    ),
    "rivet-first": Contender(
        "`rivet-dagster run`, the first: no archive of classes yet",
        "rivet",
        "rivet",
        ("rivet-dagster", "run"),
        write_joints,
        f"results/{GROUP}",
        variables=FIRST,
    ),
    "rivet-server": on_server("`rivet-dagster run` on a Spark server that has run it once", RUN, 1),
    "rivet-server-used": on_server("the same on a server that has run it five times", RUN, 5),
    "rivet-dagster-server": on_server(
        "`dagster asset materialize` on a server that has run it five times", DAGSTER_ON_SERVER, 5
    ),
    "rivet-sail": Contender(
        "`rivet-dagster run` on a Sail server that the run starts",
        "rivet-sail",
        "rivet",
        (*ON_SAIL, "run"),
        write_joints,
        f"results/{GROUP}",
        after=((*ON_SAIL, "spark", "stop"),),
        variables=FIRST,
    ),
    "rivet-duckdb": Contender(
        "`rivet-dagster run` on DuckDB",
        "rivet-duckdb",
        "rivet",
        (*ON_DUCKDB, "run"),
        write_joints,
        f"results/{GROUP}",
    ),
    "rivet-dagster": Contender(
        "rivet_dagster by `dagster asset materialize`",
        "rivet",
        "rivet",
        DAGSTER,
        write_joints,
        f"results/{GROUP}",
        before=(ARCHIVE,),
        variables=ARCHIVED,
    ),
    "dbt-tables": Contender(
        "dbt-spark, tables",
        "dbt",
        "dbt",
        DBT_RUN,
        partial(write_dbt_models, materialized="table"),
        DBT_ANSWER,
        metastore=True,
    ),
    "dbt-ephemeral": Contender(
        "dbt-spark, ephemeral models but the last",
        "dbt",
        "dbt",
        DBT_RUN,
        partial(write_dbt_models, materialized="ephemeral"),
        DBT_ANSWER,
        metastore=True,
    ),
    "sqlmesh": Contender(
        "SQLMesh, full models",
        "sqlmesh",
        "sqlmesh",
        ("sqlmesh", "plan", "--auto-apply", "--no-prompts"),
        write_sqlmesh_models,
        f"spark-warehouse/sqlmesh__fusion.db/fusion__{STEPS[-1]}__*",
        metastore=True,
    ),
    "pipelines-materialized": Contender(
        "Spark Declarative Pipelines, materialized views",
        "pipelines",
        "pipelines",
        SPARK_PIPELINES,
        partial(write_transformations, view="MATERIALIZED"),
        PIPELINES_ANSWER,
    ),
    "pipelines-temporary": Contender(
        "Spark Declarative Pipelines, temporary views but the last",
        "pipelines",
        "pipelines",
        SPARK_PIPELINES,
        partial(write_transformations, view="TEMPORARY"),
        PIPELINES_ANSWER,
    ),
    "dagster": Contender(
        "plain Dagster, assets of DataFrames", "dagster", "dagster", DAGSTER, write_steps, f"tables/{STEPS[-1]}"
    ),
}
"""By the names of ``--only``. The order is that of the table."""
