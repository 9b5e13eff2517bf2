"""Files made in a project and in its catalogs are ignored by git."""

import subprocess
from pathlib import Path

from support.tables import catalog, publish

from rivet_dagster.paths import keep_out_of_git
from rivet_dagster.project.cache_file import read_cache, write_cache
from rivet_dagster.project.load import load_project

from .conftest import Write


def compile_once(root: Path) -> None:
    cache = read_cache(root)
    load_project(root, cache=cache)
    write_cache(root, cache)


def unignored(root: Path) -> list[str]:
    """Return the files in ``.rivet`` folders that git would add."""
    shown = subprocess.run(
        ["git", "-C", str(root), "status", "--porcelain", "--untracked-files=all"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [line for line in shown.stdout.splitlines() if ".rivet/" in line]


def test_git_ignores_the_cache_and_the_versions(write: Write) -> None:
    root = write({"joints/a.sql": "SELECT 1 AS a"})
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    compile_once(root)
    warehouse, workspace = catalog(root), catalog(root, path=".rivet/workspace")
    for one in (warehouse, workspace):
        publish(one, [1])
    for folder in (".rivet", "warehouse/.rivet"):
        assert (root / folder / ".gitignore").read_text() == "*\n"
        assert len(list((root / folder).iterdir())) > 1
    assert unignored(root) == []
    assert warehouse.sweep() == ()
    assert [finding.status for finding in warehouse.examine(True)] == ["ok"]


def test_folders_of_an_earlier_release_get_a_gitignore_with_the_next_write(write: Write) -> None:
    root = write({"joints/a.sql": "SELECT 1 AS a"})
    compile_once(root)
    publish(catalog(root), [1])
    for folder in (".rivet", "warehouse/.rivet"):
        (root / folder / ".gitignore").unlink()
    write({"joints/a.sql": "SELECT 2 AS a"})
    compile_once(root)
    publish(catalog(root), [2])
    for folder in (".rivet", "warehouse/.rivet"):
        assert (root / folder / ".gitignore").read_text() == "*\n"
        # A .gitignore of the user is not changed.
        (root / folder / ".gitignore").write_text("!*.json\n")
    write({"joints/a.sql": "SELECT 3 AS a"})
    compile_once(root)
    publish(catalog(root), [3])
    for folder in (".rivet", "warehouse/.rivet"):
        assert (root / folder / ".gitignore").read_text() == "!*.json\n"


def test_a_partial_gitignore_of_a_killed_process_is_rewritten(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").touch()
    keep_out_of_git(tmp_path)
    assert (tmp_path / ".gitignore").read_text() == "*\n"


def test_a_gitignore_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    keep_out_of_git(tmp_path / "gone")
    assert list(tmp_path.iterdir()) == []
