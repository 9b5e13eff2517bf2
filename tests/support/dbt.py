"""Small dbt projects, written to a folder for a test, and the rows of tables as they are compared with those of dbt."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rivet_dagster.dbt.reading.project import read_dbt_project
from rivet_dagster.dbt.report import ReportEntry, TranslatedProject
from rivet_dagster.dbt.translation.project import translate

PROJECT = "name: shop\nversion: '1'\nprofile: shop\n"


def write_dbt(folder: Path, files: Mapping[str, str], project: str = PROJECT) -> Path:
    """Write a project and return its folder."""
    for name, text in {"dbt_project.yml": project, **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def translated(folder: Path, files: Mapping[str, str], project: str = PROJECT) -> TranslatedProject:
    """Return the translation of a project of these files."""
    root = write_dbt(folder, files, project)
    return translate(read_dbt_project(root), root)


def model(result: TranslatedProject, name: str) -> ReportEntry:
    """Return what became of a model."""
    return next(entry for entry in result.report.models if entry.name == name)


def notes(result: TranslatedProject, kind: str) -> list[ReportEntry]:
    """Return what is told of other things of one kind."""
    return [entry for entry in result.report.others if entry.kind == kind]


ONLY_DBTS = {"dbt_scd_id", "dbt_updated_at"}
LAST_OF_THE_DATA = "2025"
"""Later times are those of a run."""


def compared(rows: Mapping[str, Any]) -> list[list[tuple[str, Any]]]:
    """Return the rows with the values that can be compared.

    A time of a run is its number among the runs. dbt's session mode writes a NULL of a seed as 'None'.
    """
    names = [name for name, _ in rows["columns"]]
    times = {position for position, (_, kind) in enumerate(rows["columns"]) if kind == "timestamp"}
    chosen = [position for position in names_at(names) if names[position] not in {*ONLY_DBTS, "dbt_is_current"}]
    of_runs = {row[n] for row in rows["rows"] for n in times if row[n] is not None and row[n] > LAST_OF_THE_DATA}
    numbers = {time: f"run {number}" for number, time in enumerate(sorted(of_runs))} | {"None": None}
    return sorted(([(names[n], numbers.get(row[n], row[n])) for n in chosen] for row in rows["rows"]), key=str)


def names_at(names: Sequence[str]) -> list[int]:
    """Return the positions of columns in the order of their names."""
    return sorted(range(len(names)), key=names.__getitem__)
