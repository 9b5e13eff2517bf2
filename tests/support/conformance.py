"""Parts of conformance suites: for an engine or a catalog beside one on which the whole suite is run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, TypeVar

import pytest

from rivet_dagster.testing.catalog import CatalogConformance
from support.torture import TORTURE, some

Suite = TypeVar("Suite", bound=type)

TESTS = tuple(name for name in dir(CatalogConformance) if name.startswith("test_"))
ROWS = (  # what engines make of plans
    "test_the_meaning_of_a_write_plan",
    "test_a_batch_that_does_not_fit_is_refused",
    "test_the_meaning_of_a_history",
    "test_a_full_refresh_of_partitions",
)
READ_BY_ENGINES = (  # states of a table that an engine writes and reads
    "test_a_staged_version_is_read_by_its_run_alone",
    "test_errors_are_seen_when_the_version_is_committed",
    "test_errors_are_staged_with_their_rows",
    "test_what_was_built_there_is_known",
    "test_the_base_it_was_built_upon_stays_readable",
    "test_what_is_written_is_seen_when_it_is_committed",
    "test_a_version_that_is_read_stays_as_it_is",
    "test_what_is_aborted_leaves_nothing",
    "test_columns_without_null_take_null_later",
    "test_the_batch_is_readable_by_itself",
    "test_a_full_refresh_is_a_version_like_others",
)
COMMITS = (  # what the metadata's keeper decides: who is first, what is there, and what is gone
    "test_nothing_is_published_at_first",
    "test_what_is_written_is_seen_when_it_is_committed",
    "test_another_process_sees_the_same",
    "test_who_is_overtaken_does_not_publish",
    "test_what_is_aborted_leaves_nothing",
    "test_a_published_table_is_described_without_an_engine",
    "test_the_table_that_is_evicted_is_gone",
    "test_a_withheld_version_is_published_later",
    "test_who_is_overtaken_publishes_no_errors",
    "test_a_staged_version_is_published_as_it_was_staged",
)

MOST = 8
"""As many cases of a test as are tried: what they mean is tried on another catalog."""
LONG = {"test_the_meaning_of_a_history": 1}
"""How many of the cases that take long."""


def with_some_cases(suite: Suite) -> Suite:
    """Leave a suite ``MOST`` cases of each test; ``make torture`` tries all."""
    return _limited(suite, lambda names, cases: some(cases, MOST))


def with_one_plan(suite: Suite) -> Suite:
    """Leave a suite the last plan, a merge, of each test of several plans; ``make torture`` tries all."""
    return _limited(suite, lambda names, cases: cases[-1:] if names == "plan" else cases)


def _limited(suite: Suite, choose: Callable[[str, Sequence[Any]], Sequence[Any]]) -> Suite:
    for name in dir(suite):
        test: Any = getattr(suite, name)
        if not TORTURE and name.startswith("test_") and len(marks(test)) == 1:
            ((names, cases),) = [mark.args for mark in marks(test)]
            (options,) = [mark.kwargs for mark in marks(test)]
            limited = pytest.mark.parametrize(names, choose(names, cases), **options)(copy_of(test))
            setattr(suite, name, limited)
    return suite


def with_few_cases_by_day(suite: Suite) -> Suite:
    """Mark all cases but ``MOST`` of each test as nightly: what they mean is tried on another catalog."""
    for name in dir(suite):
        test: Any = getattr(suite, name)
        if name.startswith("test_") and test is not None and len(marks(test)) == 1:
            (mark,) = marks(test)
            marked = pytest.mark.parametrize(*mark.args, **mark.kwargs)(copy_of(test))
            setattr(suite, name, pytest.mark.nightly(but=LONG.get(name, MOST))(marked))
    return suite


def by_day(*names: str) -> Callable[[Suite], Suite]:
    """Mark all tests of a suite but these as nightly: what they say is tried by day with another engine or keeper."""

    def marked(suite: Suite) -> Suite:
        for name in dir(suite):
            test: Any = getattr(suite, name)
            if name.startswith("test_") and test is not None and name not in names:
                copy = copy_of(test)
                for mark in marks(test):
                    copy = pytest.mark.parametrize(*mark.args, **mark.kwargs)(copy)
                setattr(suite, name, pytest.mark.nightly(copy))
        return suite

    return marked


def marks(test: Any) -> list[pytest.Mark]:
    """Return the tables of cases of a test."""
    return [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]


def copy_of(test: FunctionType) -> Callable[..., None]:
    """Return the test without its marks, which the suite of the other catalog keeps."""
    copy = FunctionType(test.__code__, test.__globals__, test.__name__, test.__defaults__, test.__closure__)
    copy.__kwdefaults__ = test.__kwdefaults__
    return copy


def only(names: Sequence[str], at_length: Sequence[str] = ()) -> Callable[[Suite], Suite]:
    """Leave a suite these of its tests, and those ``at_length`` in ``make torture``."""
    assert {*names, *at_length} <= {*TESTS}

    def limited(suite: Suite) -> Suite:
        for name in TESTS:
            if name not in names and not (TORTURE and name in at_length):
                setattr(suite, name, None)
        return suite

    return limited
