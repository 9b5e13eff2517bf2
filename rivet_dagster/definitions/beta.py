"""The use of parts of Dagster's public API that are marked as beta."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg


@contextmanager
def beta_accepted() -> Iterator[None]:
    """Silence Dagster's BetaWarning, which it repeats with each use, for thousands of joints."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        yield
