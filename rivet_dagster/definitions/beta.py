"""Parts of Dagster's public API that it still calls beta, used with open eyes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg


@contextmanager
def beta_accepted() -> Iterator[None]:
    """Silence the warning that Dagster gives at each single use: a project has thousands of joints."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        yield
