"""The tests of a project: read from its files, and selected."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from pathlib import Path

from rivet_dagster.errors import RivetError
from rivet_dagster.project.manifest import read_manifest
from rivet_dagster.project_tests.declared import ProjectTest
from rivet_dagster.project_tests.documents import read_documents
from rivet_dagster.project_tests.extending import extended
from rivet_dagster.project_tests.parsing import parse_test


def read_tests(root: Path) -> tuple[ProjectTest, ...]:
    """Return all tests of the project in ``root``, in the order of their files; none is run or compiled.

    What is wrong in a document is in its test's ``errors``. Raises RVT-101, RVT-102, RVT-108.
    """
    manifest, errors = read_manifest(root)
    if any(error.code == "RVT-108" and "`tests`" in error.message for error in errors):
        raise RivetError.of(errors)
    if manifest.tests is None:
        return ()
    return tuple(map(parse_test, extended(read_documents(root, manifest.tests))))


def selected(tests: Sequence[ProjectTest], paths: Sequence[str], text: str | None) -> tuple[ProjectTest, ...]:
    """Return the tests below ``paths``, relative to the project, if there are any, whose name contains ``text``."""
    return tuple(
        test
        for test in tests
        if (text is None or text in test.name) and (not paths or any(_below(test.place.file, path) for path in paths))
    )


def _below(file: str, path: str) -> bool:
    return path == "." or posixpath.normpath(file) == path or file.startswith(f"{path}/")
