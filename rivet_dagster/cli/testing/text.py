"""The results of tests as text for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import click

from rivet_dagster.project_tests.declared import ERROR, FAILED, PASSED
from rivet_dagster.project_tests.rendering import explanation
from rivet_dagster.project_tests.results import TestResult

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
