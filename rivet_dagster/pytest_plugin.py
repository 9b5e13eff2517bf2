"""The plugin of pytest that collects the tests of a project: ``*.test.yaml`` below its folder of tests.

Nothing of rivet_dagster is imported before such a file is found in a project.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from rivet_dagster.project_tests.declared import ProjectTest
    from rivet_dagster.project_tests.results import TestResult

_EXTENSIONS = (".test.yaml", ".test.yml")
_MANIFEST = "rivet.yaml"
_PROJECTS: pytest.StashKey[dict[Path, _Project]] = pytest.StashKey()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a file of tests of a project."""
    if not file_path.name.endswith(_EXTENSIONS):
        return None
    root = next((folder for folder in file_path.parents if (folder / _MANIFEST).is_file()), None)
    if root is None:
        return None
    project = parent.config.stash.setdefault(_PROJECTS, {}).setdefault(root, _Project(root))
    relative = file_path.relative_to(root).as_posix()
    if relative not in project.files:
        return None
    return _TestFile.from_parent(parent, path=file_path, project=project, relative=relative)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Note which tests of projects are to be run: those of one project are run together."""
    for item in session.items:
        if isinstance(item, ProjectTestItem):
            item.project.wanted.append(item.declared)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the engines of projects whose tests were run."""
    for project in config.stash.get(_PROJECTS, {}).values():
        project.close()


class _Project:
    """A project, its tests and their results."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.wanted: list[ProjectTest] = []
        self._tests: tuple[ProjectTest, ...] | None = None
        self._results: dict[int, TestResult] = {}
        self._assembly: Any = None
        self._runner: Any = None

    @property
    def tests(self) -> tuple[ProjectTest, ...]:
        if self._tests is None:
            from rivet_dagster.project_tests.parsing import read_tests

            self._tests = read_tests(self.root)
        return self._tests

    @property
    def files(self) -> set[str]:
        return {test.location.file for test in self.tests}

    def result(self, test: ProjectTest, alone: bool) -> TestResult:
        """Return the test's result; unless ``alone``, those of all wanted tests are computed with the first one."""
        if id(test) not in self._results:
            tests = [test] if alone or test not in self.wanted else self.wanted
            self._results |= {id(t): result for t, result in zip(tests, self._run(tests), strict=True)}
        return self._results[id(test)]

    def close(self) -> None:
        if self._runner is not None:
            self._runner.close()

    def _run(self, tests: list[ProjectTest]) -> list[TestResult]:
        from rivet_dagster.loading import compile_directory
        from rivet_dagster.project_tests.running import Runner, offline_engine, run_tests

        if self._runner is None:
            self._assembly = compile_directory(self.root).raise_errors()
            self._runner = Runner(offline_engine(self._assembly, self.root), self.root)
        return run_tests(tests, self._assembly, self.root, self._runner)


class _TestFile(pytest.File):
    def __init__(self, *, project: _Project, relative: str, **others: Any) -> None:
        super().__init__(**others)
        self._project = project
        self._relative = relative

    def collect(self) -> Iterable[pytest.Item]:
        for test in self._project.tests:
            if test.location.file == self._relative:
                yield ProjectTestItem.from_parent(self, name=test.name, declared=test, project=self._project)


class ProjectTestItem(pytest.Item):
    """A test of a project."""

    def __init__(self, *, declared: ProjectTest, project: _Project, **others: Any) -> None:
        super().__init__(**others)
        self.declared = declared
        self.project = project

    def runtest(self) -> None:
        """Run the test, and with the first one all that were selected; on a worker of pytest-xdist, it alone."""
        result = self.project.result(self.declared, alone=hasattr(self.config, "workerinput"))
        if result.status != "passed":
            from rivet_dagster.project_tests.results import explanation

            raise _NotPassedError(explanation(result))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *args: Any, **others: Any) -> Any:
        """Show what differs, or the error of a project that cannot be run, without a traceback."""
        from rivet_dagster.errors import RivetError

        if isinstance(excinfo.value, _NotPassedError | RivetError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, *args, **others)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return where the test stands."""
        line = self.declared.location.line
        return self.path, None if line is None else line - 1, f"{self.path.name}: {self.name}"


class _NotPassedError(Exception):
    """A test that has failed, or that could not be run."""
