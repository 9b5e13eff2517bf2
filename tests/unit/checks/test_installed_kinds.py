"""A kind of check from an installed package."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.folders import ProjectFolder, source

from rivet_dagster import compile_directory
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.entry_points import check_kind
from rivet_dagster.model.check_plan import InOnePass

PAGE = Path(__file__).parents[3] / "docs/check-kinds.md"


@pytest.fixture
def even(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install the package of the documentation and yield its module's file."""
    site = tmp_path / "site"
    entry_points, module = re.findall(r"```(?:toml|python)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    described = site / "our_checks-1.0.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: our-checks\nVersion: 1.0\n")
    named = entry_points.replace('project.entry-points."', "").replace('"]', "]").replace('"', "")
    (described / "entry_points.txt").write_text(named)
    (site / "our_checks.py").write_text(module)
    monkeypatch.syspath_prepend(str(site))
    check_kind.cache_clear()
    yield site / "our_checks.py"
    sys.modules.pop("our_checks", None)
    check_kind.cache_clear()


def compiled(folder: Path, *checks: str) -> CompiledAssembly:
    annotated = "".join(f"-- rivet:assert: {check}\n" for check in checks)
    files = {"sources/raw.yaml": source("raw", "id INT"), "joints/rows.sql": f"{annotated}SELECT id FROM raw\n"}
    return compile_directory(ProjectFolder(folder / "project", files).root)


def test_an_installed_kind_works_like_a_built_in_one(even: Path, tmp_path: Path) -> None:
    plan = compiled(tmp_path, "even(id)", "not_null(id)", "even(id, severity=warn)").raise_errors()
    first, _, last = plan.joint("rows").checks
    assert (first.kind, first.name, first.columns, first.blocking) == ("even", "even_id", ("id",), True)
    counting = first.queries.counting
    assert isinstance(counting, InOnePass)
    assert (counting.item, counting.name) == ("COUNT_IF(`id` % 2 <> 0) AS `check_0`", "check_0")
    assert counting.observable is not None
    assert counting.observable.sql.endswith("(`id` % 2 <> 0)")
    assert first.queries.samples is not None
    assert first.queries.samples.sql == "SELECT * FROM `rows` WHERE `id` % 2 <> 0 LIMIT 10"
    assert (last.name, last.blocking) == ("even_id_2", False)
    assert CompiledAssembly.from_json(plan.to_json()) == plan


def test_errors_of_an_installed_kind_are_reported_like_those_of_built_in_ones(even: Path, tmp_path: Path) -> None:
    plan = compiled(tmp_path, "even(idd)", "even(id, colour=red)", "even", "evn(id)")
    assert [(error.code, error.line) for error in plan.errors] == [
        ("RVT-203", 2), ("RVT-205", 3), ("RVT-209", 4),
    ]  # fmt: skip
    assert "did you mean 'even'" in plan.errors[2].message
    (unknown,) = compiled(tmp_path / "other", "even(idd)").errors
    assert unknown.code == "RVT-327"


def test_another_release_of_the_package_compiles_its_checks_again(even: Path, tmp_path: Path) -> None:
    shown = compiled(tmp_path, "even(id)").joint("rows").checks[0].queries.shown
    # Of another length too: Python takes a compiled module for current by the source's size and its time in seconds.
    even.write_text(even.read_text().replace("number(2)", "number( 3 )"))
    sys.modules.pop("our_checks")
    check_kind.cache_clear()
    again = compile_directory(tmp_path / "project").joint("rows").checks[0].queries.shown
    assert again == shown.replace("% 2", "% 3") != shown


def test_a_kind_that_cannot_be_imported_is_an_error_at_the_check(even: Path, tmp_path: Path) -> None:
    even.write_text("import no_such_module\n")
    (error,) = compiled(tmp_path, "even(id)").errors
    assert (error.code, error.file, error.line) == ("RVT-109", "joints/rows.sql", 1)
    assert "no_such_module" in error.message
