"""scd2 on random histories equals the Python model after each run, on an engine that needs no JVM."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.scd2_histories import KINDS, follow, histories
from support.scd2_runs import DuckDb
from support.torture import examples

KEYS = 12


@pytest.mark.slow
@settings(max_examples=examples(8, 40))
@given(st.integers(0, 2**32), st.sampled_from(KINDS))
def test_each_run_gives_the_rows_of_the_model(seed, kind):
    follow(DuckDb(), histories(Random(seed), kind, KEYS))
