"""Running tests on an engine that was chosen for them, as far as it computes what the project's own engine does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.project_tests.prepared import Prepared
from rivet_dagster.project_tests.results import TestResult
from rivet_dagster.project_tests.running import Runner


class ChosenRunner:
    """Runs tests on the engine of ``chosen``; on that of ``other``, which starts with the first, what that refuses.

    ``refused`` are the joints that the chosen engine would compute otherwise.
    """

    def __init__(self, chosen: Runner, other: Callable[[], Runner], refused: frozenset[str]) -> None:
        self._chosen = chosen
        self._make_other = other
        self._other: Runner | None = None
        self.refused = refused

    def run(self, tests: Sequence[Prepared], assembly: CompiledAssembly) -> list[TestResult]:
        """Return the result of each test, in order. Raises what ``Runner.run`` does."""
        there = [number for number, test in enumerate(tests) if self._is_computed(test)]
        results = dict(zip(there, self._chosen.run([tests[n] for n in there], assembly), strict=True))
        others = [number for number in range(len(tests)) if number not in results]
        if others:
            if self._other is None:
                self._other = self._make_other()
            results |= dict(zip(others, self._other.run([tests[n] for n in others], assembly), strict=True))
        return [results[number] for number in range(len(tests))]

    def close(self) -> None:
        """End the sessions."""
        self._chosen.close()
        if self._other is not None:
            self._other.close()

    def _is_computed(self, test: Prepared) -> bool:
        """Return whether the chosen engine computes what the test compares; it separates no errors from rows."""
        return not (test.separates or test.errors is not None or self.refused & {*test.computed})
