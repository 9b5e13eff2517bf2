"""Commands, pages, error codes and catalog types that errors and documentation mention exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rivet_dagster.catalogs.iceberg.settings.options import KINDS
from rivet_dagster.cli.main import main
from rivet_dagster.entry_points import CATALOGS, plugins
from rivet_dagster.errors import REMEDIATIONS

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SOURCES = sorted((ROOT / "rivet_dagster").rglob("*.py"))
CATALOG_NAMES = re.compile(r"\b(Iceberg|Nessie|Unity)\b")


@pytest.mark.parametrize("file", [ROOT / "rivet_dagster" / "errors.py", *PAGES], ids=lambda file: file.name)
def test_each_command_that_is_named_exists(file, capsys):
    for command in sorted(set(re.findall(r"`rivet-dagster ((?!-)\w+)", file.read_text()))):
        assert main([command, "--help"]) == 0, command
    capsys.readouterr()


def test_each_page_and_code_that_is_named_exists():
    for file in (*PAGES, *SOURCES):
        text = file.read_text()
        for page in re.findall(r"\bdocs/[\w./-]+\.(?:md|yaml|png)", text):
            assert (ROOT / page).exists(), f"{file.name} names {page}"
        for code in re.findall(r"RVT-\d{3}", text):
            assert code in REMEDIATIONS, f"{file.name} names {code}"


def test_no_remedy_names_a_catalog_that_is_not_installed():
    """Only README and docs mention what this release lacks; kinds of Iceberg's catalogs have no type of their own."""
    for file in SOURCES:
        for name in CATALOG_NAMES.findall(file.read_text()):
            assert name.lower() in {*plugins(CATALOGS), *KINDS}, f"{file.name} names {name}"
