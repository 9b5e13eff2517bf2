"""``rivet-dagster test``: run the tests of a project once, or after each saved file, and show their results."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import click

from rivet_dagster.cli.compiled import command_variables, compile_for_command
from rivet_dagster.cli.console import reserve_stdout
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.project_tests.declared import ERROR, FAILED, PASSED
from rivet_dagster.project_tests.parsing import read_tests, select_tests
from rivet_dagster.project_tests.results import TestResult, explanation
from rivet_dagster.project_tests.running import ChosenRunner, Runner, offline_engine, run_tests
from rivet_dagster.project_tests.watching import Watched, changes, file_stamps, interval

TEST_FAILURE = 3
_OTHERWISE = frozenset({"RVT-204", "RVT-329"})
"""Errors of a joint whose SQL, or whose settings, an engine does not take as Spark does."""


def run_project_tests(
    root: Path, profile: str | None, paths: Sequence[str], text: str | None, engine: str | None, as_json: bool
) -> int:
    """Run tests and print their results. Return 3 where one has not passed, else 0. Raises RVT-110, RVT-1xx.

    With ``engine`` they run on that engine, but for those that it would compute otherwise than the project's own.
    """
    started = time.perf_counter()
    root = root.resolve()
    assembly = compile_for_command(root, profile).raise_errors()
    tests = select_tests(read_tests(root), _below(root, paths), text)
    if not tests and (paths or text):
        where = f" in {', '.join(paths)}" if paths else ""
        raise RivetError("RVT-110", f"no test{where}" + (f" has a name with '{text}' in it" if text else ""))
    with reserve_stdout(), closing(_runner(assembly, root, profile, engine)) as runner:
        results = run_tests(tests, assembly, root, runner)
    success = all(result.status == PASSED for result in results)
    if as_json:
        report = {"success": success, "tests": [result.to_dict() for result in results]}
        print(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        _show(results, time.perf_counter() - started)
    return 0 if success else TEST_FAILURE


def watch_project_tests(
    root: Path, profile: str | None, paths: Sequence[str], text: str | None, engine: str | None = None
) -> int:
    """Run tests, then, until an interrupt, those that a saved file touches; the engine stays. Raises RVT-110."""
    root = root.resolve()
    below = _below(root, paths)
    watched: Watched | None = None
    runner: Runner | ChosenRunner | None = None
    engines: tuple[object, ...] = ()
    changed: frozenset[str] | None = None
    try:
        while True:
            started = time.perf_counter()
            before, stamps = watched, file_stamps(root, watched.files if watched is not None else ())
            try:
                watched = Watched.read(root, profile, below, text, command_variables())
                if runner is None or engines != watched.engines:
                    if runner is not None:
                        runner.close()
                    engines, runner = watched.engines, _runner(watched.assembly, root, profile, engine)
                elif isinstance(runner, ChosenRunner):
                    runner.refused = _refused(root, profile, engine)
                tests = watched.touched(before, changed)
                with reserve_stdout():
                    results = run_tests(tests, watched.assembly, root, runner)
                _show(results, time.perf_counter() - started)
            except RivetError as error:
                click.echo(str(error), err=True)
            click.echo("watching for saved files, Ctrl-C ends", err=True)
            changed = changes(root, watched.files if watched is not None else frozenset(), interval, stamps)
    finally:
        if runner is not None:
            runner.close()


def _runner(assembly: CompiledAssembly, root: Path, profile: str | None, engine: str | None) -> Runner | ChosenRunner:
    """Return what runs the tests: on the engine of the plan or, as far as it can, on ``engine``."""
    if engine is None:
        return Runner(offline_engine(assembly, root), root)
    chosen = compile_for_command(root, profile, engine=engine, only=()).raise_errors()
    return ChosenRunner(
        Runner(offline_engine(chosen, root), root),
        lambda: Runner(offline_engine(assembly, root), root),
        _refused(root, profile, engine),
    )


def _refused(root: Path, profile: str | None, engine: str | None) -> frozenset[str]:
    """Return the joints that the engine would compute otherwise than the project's own engines."""
    diagnostics = compile_for_command(root, profile, engine=engine).errors
    return frozenset(error.joint for error in diagnostics if error.code in _OTHERWISE and error.joint is not None)


def _show(results: Sequence[TestResult], seconds: float) -> None:
    for block in results_text(results):
        click.echo(block)
    click.echo(summary(results, seconds), err=True)


def _below(root: Path, paths: Sequence[str]) -> list[str]:
    """Return the paths, given relative to the current directory or to the project, relative to the project.

    Raises RVT-110 for one that does not exist, or lies outside of the project.
    """
    folders = []
    for path in paths:
        candidates = [Path(path), root / path]
        existing = next((candidate.resolve() for candidate in candidates if candidate.exists()), None)
        if existing is None:
            known = sorted({test.location.file for test in read_tests(root)})
            raise RivetError("RVT-110", f"there is no {path}{nearest(path, known)}")
        if not existing.is_relative_to(root):
            raise RivetError("RVT-110", f"{path} is not in the project {root}")
        folders.append(existing.relative_to(root).as_posix())
    return folders


_COLORS = {PASSED: "green", FAILED: "red", ERROR: "red"}


def results_text(results: Sequence[TestResult]) -> Iterator[str]:
    """Yield a line for each test, and what is wrong with those that have not passed.

    >>> [*map(click.unstyle, results_text([TestResult("t", "tests/t.test.yaml", 1, "j", "error", message="wrong")]))]
    ['error   t  tests/t.test.yaml:1\\n        wrong']
    """
    width = max((len(result.name) for result in results), default=0)
    for result in results:
        status = click.style(result.status.ljust(6), fg=_COLORS[result.status], bold=result.status != PASSED)
        line = f"{status}  {result.name.ljust(width)}  {result.file}:{result.line or 1}"
        wrong = explanation(result).splitlines() if result.status != PASSED else []
        yield "\n".join([line, *(f"        {text}".rstrip() for text in wrong)])


def summary(results: Sequence[TestResult], seconds: float) -> str:
    """Return how many tests had which status.

    >>> summary([TestResult("t", "t.test.yaml", 1, "j", "passed")], 1.24)
    '1 passed in 1.2 s'
    """
    counts = Counter(result.status for result in results)
    words = {PASSED: "passed", FAILED: "failed", ERROR: "with errors"}
    parts = [f"{counts[status]} {word}" for status, word in words.items() if counts[status]]
    return f"{', '.join(parts) or 'no tests'} in {seconds:.1f} s"
