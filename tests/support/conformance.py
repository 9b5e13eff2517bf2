"""Conformance suites on a second catalog: each test, and of those with a table of cases some."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

import pytest

from support.torture import TORTURE, some

Suite = TypeVar("Suite", bound=type)
MOST = 8
"""As many cases of a test as are tried: what they mean is tried on another catalog."""


def with_some_cases(suite: Suite) -> Suite:
    """Leave a suite ``MOST`` cases of each test; ``make torture`` tries all."""
    for name in dir(suite):
        test: Any = getattr(suite, name)
        if not TORTURE and name.startswith("test_") and len(marks(test)) == 1:
            ((names, cases),) = [mark.args for mark in marks(test)]
            (options,) = [mark.kwargs for mark in marks(test)]
            limited = pytest.mark.parametrize(names, some(cases, MOST), **options)(copy_of(test))
            setattr(suite, name, limited)
    return suite


def marks(test: Any) -> list[pytest.Mark]:
    """Return the tables of cases of a test."""
    return [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]


def copy_of(test: FunctionType) -> Callable[..., None]:
    """Return the test without its marks, which the suite of the other catalog keeps."""
    copy = FunctionType(test.__code__, test.__globals__, test.__name__, test.__defaults__, test.__closure__)
    copy.__kwdefaults__ = test.__kwdefaults__
    return copy
