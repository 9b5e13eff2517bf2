"""The modules that plugins import: what the pages of the documentation say is all that a package needs."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PUBLIC = ("rivet_dagster.plugins.", "rivet_dagster.testing.")


def imports(page: str) -> list[tuple[str, str]]:
    """Return the modules of rivet_dagster that the Python blocks of a page import, with each name."""
    blocks = (DOCS / page).read_text().split("```python\n")[1:]
    nodes = [node for block in blocks for node in ast.walk(ast.parse(block.partition("```")[0]))]
    found = [
        (node.module or "", name.name) for node in nodes if isinstance(node, ast.ImportFrom) for name in node.names
    ]
    return [(module, name) for module, name in found if module.startswith("rivet_dagster")]


@pytest.mark.parametrize("page", ["catalogs.md", "engines.md", "check-kinds.md"])
def test_the_pages_for_authors_import_nothing_else(page):
    found = imports(page)
    assert found
    assert [module for module, _ in found if not module.startswith(PUBLIC)] == []
    assert all(hasattr(importlib.import_module(module), name) for module, name in found)


@pytest.mark.parametrize("module", ["catalogs", "engines", "checks"])
def test_each_name_is_exported_once_and_exists(module):
    plugin = importlib.import_module(f"rivet_dagster.plugins.{module}")
    assert len(plugin.__all__) == len({*plugin.__all__})
    assert {name for name in vars(plugin) if name.isidentifier() and name[0] != "_"} - {"annotations"} == {
        *plugin.__all__
    }


def test_importing_them_needs_neither_spark_nor_dagster():
    program = """
import sys
from rivet_dagster.plugins import catalogs, checks, engines
print(*(name for name in ("dagster", "pyspark", "py4j") if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("\n", 0), done.stderr
