"""Watching a project: which files change, and which tests a change touches."""

from __future__ import annotations

import os
import posixpath
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.errors import RivetError
from rivet_dagster.loading import compile_directory
from rivet_dagster.project.manifest import read_manifest
from rivet_dagster.project_tests.declared import GRAPH, ProjectTest
from rivet_dagster.project_tests.parsing import read_tests, select_tests
from rivet_dagster.project_tests.prepared import Prepared, prepare

POLLED_EVERY = 0.2
"""The seconds between two looks at the files."""

_EXTENSIONS = (".yaml", ".yml", ".sql", ".py", ".csv", ".parquet")
Stamp = tuple[int, int, int]


@dataclass(frozen=True)
class Watched:
    """A project's plan and its tests at one time; ``prepared`` has those without errors, by name, file and line."""

    root: Path
    assembly: CompiledAssembly
    tests: tuple[ProjectTest, ...]
    prepared: Mapping[tuple[str, str], Prepared]

    @classmethod
    def read(
        cls,
        root: Path,
        profile: str | None,
        paths: Sequence[str],
        text: str | None,
        variables: Mapping[str, Any] | None = None,
    ) -> Watched:
        """Read the files of a project. Raises the errors of a project that does not compile."""
        assembly = compile_directory(root, profile, variables=variables).raise_errors()
        tests = select_tests(read_tests(root), paths, text)
        prepared = {}
        for test in tests:
            try:
                prepared[_key(test)] = prepare(test, assembly, root)
            except RivetError:
                continue  # running the test reports it
        return cls(root, assembly, tests, prepared)

    @property
    def engines(self) -> tuple[object, ...]:
        """What the engine of the tests depends on."""
        return self.assembly.engines, self.assembly.default_engine

    @property
    def files(self) -> frozenset[str]:
        """The files of the tests' rows, some of which may lie outside of the watched folders."""
        return frozenset(file for test in self.tests for file in test.fixture_files)

    def touched(self, before: Watched | None, changed: Iterable[str] | None) -> tuple[ProjectTest, ...]:
        """Return the tests that have changed since ``before``, or read a file that has; all of them at first.

        A test reads its own file, those of its rows and of tests that it extends, and the files of its target and of
        the joints before it: of the direct upstream, or with ``scope: graph`` of all.
        """
        if before is None or changed is None:
            return self.tests
        names = set(changed)
        return tuple(test for test in self.tests if self._differs(test, before) or names & self._files_of(test))

    def _differs(self, test: ProjectTest, before: Watched) -> bool:
        now, then = self.prepared.get(_key(test)), before.prepared.get(_key(test))
        if now is None or then is None:
            return True
        return _comparable(now) != _comparable(then)

    def _files_of(self, test: ProjectTest) -> set[str]:
        files = {*test.files, *test.fixture_files}
        joints = {joint.name: joint for joint in self.assembly.joints}
        waiting, seen = [test.target], set[str]()
        while waiting:
            joint = joints.get(str(waiting.pop()))
            if joint is None or joint.name in seen:
                continue
            seen.add(joint.name)
            function = getattr(joint, "function_file", None)
            files |= {file for file in (joint.file, function) if file is not None}
            files |= {check.file for check in joint.checks if check.file is not None and joint.name == test.target}
            if test.scope == GRAPH or joint.name == test.target:
                waiting += joint.upstream
        if any(name.endswith(".py") for name in files):
            files |= _own_modules(self.root)
        return files


def changes(
    root: Path, others: frozenset[str], wait: Callable[[], None], before: Mapping[str, Stamp]
) -> frozenset[str]:
    """Wait until files of the project are saved, and return them, relative to it; a removed one counts.

    ``before`` are the stamps of the files when they were last read, ``others`` files that are looked at besides those
    of the project's folders; ``wait`` sleeps between two looks.
    """
    before = dict(before)
    for path in others - before.keys():
        before |= _stamp(root, path)
    while True:
        now = file_stamps(root, others)
        changed = frozenset(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
        if changed:
            _forget_modules(root, changed)
            return changed
        wait()


def file_stamps(root: Path, others: Iterable[str] = ()) -> dict[str, Stamp]:
    """Return a stamp, which changes when it is saved, of each file of the project's folders, and of ``others``."""
    stamps: dict[str, Stamp] = {}
    waiting = _folders(root)
    for path in (*others, *_own_modules(root), *_names(root, "", files=True)):
        stamps |= _stamp(root, path)
    while waiting:
        folder = waiting.pop()
        waiting += _names(root, folder, files=False)
        for path in _names(root, folder, files=True):
            stamps |= _stamp(root, path)
    return stamps


def _folders(root: Path) -> list[str]:
    """Return the folders of joints, checks, tests and macros."""
    try:
        manifest, _ = read_manifest(root)
    except RivetError:
        return []
    return [*{*manifest.joint_folders, manifest.quality, manifest.tests, manifest.macros} - {None}]  # type: ignore[list-item]


def _names(root: Path, folder: str, files: bool) -> list[str]:
    """Return the files that a project is made of, or the folders, in a folder."""
    try:
        with os.scandir(root / folder) as entries:
            return [
                posixpath.join(folder, entry.name)
                for entry in entries
                if not entry.name.startswith(".")
                and entry.name != "__pycache__"
                and entry.is_dir() != files
                and (not files or entry.name.lower().endswith(_EXTENSIONS))
            ]
    except OSError:
        return []  # removed meanwhile


def interval() -> None:
    """Sleep between two looks."""
    time.sleep(POLLED_EVERY)


def _stamp(root: Path, path: str) -> dict[str, Stamp]:
    try:
        status = os.stat(root / path)
    except OSError:
        return {}
    return {path: (status.st_mtime_ns, status.st_size, status.st_ino)}


def _forget_modules(root: Path, changed: Iterable[str]) -> None:
    """Have modules of the project that Python joints import be imported anew, if one of them was saved."""
    if any(name.endswith(".py") for name in changed):
        for name in _own_module_names(root):
            del sys.modules[name]


def _own_module_names(root: Path) -> dict[str, str]:
    """Return the files of the imported modules that lie in the project, relative to it, by name."""
    inside = os.path.join(os.path.realpath(root), "")
    names = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        real = os.path.realpath(file) if isinstance(file, str) else ""
        if real.startswith(inside) and "site-packages" not in real:
            names[name] = os.path.relpath(real, inside).replace(os.sep, "/")
    return names


def _own_modules(root: Path) -> set[str]:
    return set(_own_module_names(root).values())


def _key(test: ProjectTest) -> tuple[str, str]:
    return test.name, test.location.file


def _comparable(prepared: Prepared) -> Prepared:
    """Return what decides a test's result: not the lines on which its keys stand, nor the time of now."""
    test = replace(prepared.test, locations={}, files=frozenset())
    return replace(prepared, test=test, parameters={name: str(value) for name, value in prepared.parameters.items()})
