"""Small dbt projects, written to a folder for a test."""

from collections.abc import Mapping
from pathlib import Path

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
